//! [`Brief`]: what the parent tells its agent when it starts one.
//!
//! It goes through a pipe, the agent's standard input, as one JSON document with a line's end behind it: secrets
//! are neither on a command line nor in an environment. The pipe stays open as long as the parent lives, so its
//! end tells the agent that the parent is gone. Descriptor [`SEGMENT`] is the segment.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// The descriptor by which an agent finds the segment.
pub const SEGMENT: i32 = 3;

/// How an agent ends that is of another version than the module: another start would end likewise.
/// The parent does not start one again then; it is no signal's number, as APR tells not which it is.
pub const OTHER_LAYOUT: u8 = 90;

/// All that an agent has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    /// Bytes of the segment.
    pub segment: u64,
    /// `NapStore`'s address, as it was written.
    pub store: String,
    /// `fleet=`: what the keys in the store begin with.
    pub fleet: String,
    /// `timeout=`: how long a request may wait for the store, milliseconds.
    pub timeout: u32,
    /// `sticky`: each node sells its own slots.
    #[serde(default)]
    pub sticky: bool,
    /// `spare=`: room is kept for the holders of one node that is lost.
    #[serde(default)]
    pub spare: bool,
    /// `forget=`: who was silent for so long has no part in a shared limit, milliseconds.
    #[serde(default)]
    pub forget: u64,
    /// `NapStoreAuth`.
    pub auth: Auth,
    /// `NapNode`, or the host's name.
    pub node: String,
    /// The host's name.
    pub host: String,
    /// Keys of ticket signatures, the first signs.
    pub keys: Vec<KeyMark>,
    /// What the rooms of a fleet should agree about.
    pub rooms: Vec<RoomMark>,
    /// It waits so long before it begins, milliseconds: the one before it has died.
    pub pause: u32,
}

/// How the store knows who we are, and we it. What is empty is not used.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auth {
    /// The account; empty: the store's default one.
    pub user: String,
    /// Its password.
    pub password: String,
    /// TLS: certificates of authorities, PEM; empty: those of the system.
    pub ca: String,
    /// Our own certificate, PEM.
    pub certificate: String,
    /// Its key, PEM.
    pub key: String,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A key of ticket signatures, told apart without being shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyMark {
    /// Its number in the key file.
    pub id: u8,
    /// A hash under the key itself, of a text that is the same everywhere.
    pub mark: u64,
}

/// What the nodes of a fleet should agree about in a room; times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomMark {
    /// Its name.
    pub name: String,
    /// `NapWaitMax`.
    pub wait_max: u64,
    /// The prime window.
    pub prime: u64,
    /// `NapTicketHorizon`.
    pub horizon: u64,
    /// `NapRunReady n shared`; 0: the limit is each node's own. A server of an older version does not say.
    #[serde(default)]
    pub limit: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown_in_messages() {
        let auth = Auth {
            user: "nap".into(),
            password: "secret".into(),
            ..Auth::default()
        };
        assert_eq!(format!("{auth:?}"), "Auth { user: \"nap\", .. }");
    }
}
