//! [`Member`]: what is known of a node of the fleet, this one among them.

use crate::micros::Micros;

/// Bytes of a node's name, at most.
pub const NAME: usize = 63;

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Presence {
    /// It beats.
    Alive = 1,
    /// It has not been heard for [`SILENT`].
    Silent = 2,
    /// It said that it leaves.
    Left = 3,
}

/// Who has not been heard for so long is silent: nobody counts on that node.
pub const SILENT: Micros = Micros::from_secs(3);

/// What a node says of itself with each beat. Sums are since its state's life began.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Permits in use, and Run Ready, of all gates.
    pub running: u32,
    /// Likewise.
    pub limit: u32,
    /// Accesses that wait, and places to wait.
    pub waiting: u32,
    /// Likewise.
    pub places: u32,
    /// Accesses that have come.
    pub arrivals: u64,
    /// Accesses served.
    pub served: u64,
    /// Tickets sold.
    pub sold: u64,
    /// Tickets redeemed.
    pub redeemed: u64,
    /// Promises broken.
    pub broken: u64,
}

/// A setting that differs from node to node, though it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Setting {
    /// `NapWaitMax`, milliseconds.
    WaitMax = 1,
    /// The prime window, milliseconds (`NapTicketPrime`).
    Prime = 2,
    /// `NapTicketHorizon`, milliseconds.
    Horizon = 3,
    /// The room is not there.
    Room = 4,
    /// It signs with a key that this node lacks; [`Differs::theirs`] is the key's id.
    Key = 5,
    /// A key of one id is another key there.
    OtherKey = 6,
    /// The module's version.
    Version = 7,
    /// `NapRunReady n shared`; 0: it is not shared.
    Limit = 8,
}

/// What differs between a member and this node: the first that was found.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differs {
    /// [`Setting`]; 0: nothing does.
    pub setting: u32,
    _pad: u32,
    /// The value there.
    pub theirs: u64,
    /// The value here.
    pub ours: u64,
    /// The room, ended by zeros; empty: the setting is none of a room's.
    pub room: [u8; 64],
}

impl Default for Differs {
    fn default() -> Differs {
        Differs {
            setting: 0,
            _pad: 0,
            theirs: 0,
            ours: 0,
            room: [0; 64],
        }
    }
}

impl Differs {
    /// This setting of this room.
    pub fn new(setting: Setting, room: &str, theirs: u64, ours: u64) -> Differs {
        Differs {
            setting: setting as u32,
            theirs,
            ours,
            room: bytes(room),
            ..Differs::default()
        }
    }

    /// Which setting; None: nothing differs.
    pub fn setting(&self) -> Option<Setting> {
        let all = [
            Setting::WaitMax,
            Setting::Prime,
            Setting::Horizon,
            Setting::Room,
            Setting::Key,
            Setting::OtherKey,
            Setting::Version,
            Setting::Limit,
        ];
        all.into_iter().find(|one| *one as u32 == self.setting)
    }

    /// The room's name.
    pub fn room(&self) -> String {
        text(&self.room)
    }
}

/// A limit that all nodes share, as `NapRunReady` has it; 0: it is not shared.
pub fn shared_limit(n: u64) -> String {
    match n {
        0 => "not shared".into(),
        n => format!("{n} shared"),
    }
}

/// Milliseconds as in a directive; 0: auto.
pub fn span(ms: u64) -> String {
    let units = [(3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let unit = units.iter().find(|(size, _)| ms.is_multiple_of(*size));
    match unit.filter(|_| ms != 0) {
        Some((size, name)) => format!("{}{name}", ms / size),
        None => "auto".into(),
    }
}

/// A node of the fleet. All zero = nobody has this number. At the index of its number, 0 unused.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// [`Presence`]; 0: nobody has this number.
    pub presence: u32,
    /// Its accesses of the last ten seconds, in parts of a million of the fleet's.
    pub share: u32,
    /// Inside time of this node when it was heard last, microseconds.
    pub heard: u64,
    /// What it says of itself.
    pub figures: Figures,
    /// What differs from this node.
    pub differs: Differs,
    /// Its name, ended by zeros.
    pub name: [u8; NAME + 1],
    /// The host it runs on, as it says itself; likewise.
    pub host: [u8; NAME + 1],
}

impl Default for Member {
    fn default() -> Member {
        Member {
            presence: 0,
            share: 0,
            heard: 0,
            figures: Figures::default(),
            differs: Differs::default(),
            name: [0; NAME + 1],
            host: [0; NAME + 1],
        }
    }
}

impl Member {
    /// How it is; None: nobody has this number.
    pub fn presence(&self) -> Option<Presence> {
        let all = [Presence::Alive, Presence::Silent, Presence::Left];
        all.into_iter().find(|one| *one as u32 == self.presence)
    }

    /// Its name.
    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// The host it runs on.
    pub fn host(&self) -> String {
        text(&self.host)
    }

    /// Another name, and another host.
    pub fn call(&mut self, name: &str, host: &str) {
        (self.name, self.host) = (bytes(name), bytes(host));
    }
}

/// The front of a text, as far as there is space, ended by a zero; it is cut between two characters.
fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut all = [0; N];
    let fits = |at: &usize| *at < N && text.is_char_boundary(*at);
    let end = (0..=text.len()).rev().find(fits).unwrap_or(0);
    all[..end].copy_from_slice(&text.as_bytes()[..end]);
    all
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let known = &bytes[..end.unwrap_or(bytes.len())];
    String::from_utf8_lossy(known).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_as_far_as_there_is_space() {
        let mut member = Member::default();
        assert_eq!((member.name(), member.presence()), (String::new(), None));
        member.call("web2", &"ä".repeat(40));
        assert_eq!(member.name(), "web2");
        assert_eq!(member.host(), "ä".repeat(31));
    }

    #[test]
    fn what_differs_is_named_with_its_room() {
        let differs = Differs::new(Setting::WaitMax, "shop", 5_000, 4_000);
        assert_eq!(differs.setting(), Some(Setting::WaitMax));
        assert_eq!(differs.room(), "shop");
        assert_eq!(Differs::default().setting(), None);
    }
}
