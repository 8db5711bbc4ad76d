//! [`Trouble`]: why the store or a node is not what it should be.

/// Why this node has no store, or runs alone. The log has the system's or the store's own words besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Trouble {
    /// Nobody listens there.
    Refused = 1,
    /// It does not answer in time.
    Silent = 2,
    /// Its name or address leads nowhere.
    NoRoute = 3,
    /// It closed the connection.
    Closed = 4,
    /// It wants a password, or another one.
    Password = 5,
    /// The account may not do what we ask.
    Rights = 6,
    /// It is a replica, or lacks its own: nothing can be written there.
    ReadOnly = 7,
    /// It loads its data, or waits for its primary.
    Loading = 8,
    /// It has no memory left, or its disk fails.
    Full = 9,
    /// It is older than [`OLDEST`].
    TooOld = 10,
    /// Our keys hold things of another kind.
    OtherKeys = 11,
    /// What answers there is no store.
    Garbage = 12,
    /// TLS did not come about.
    Tls = 13,
    /// No Sentinel names a primary.
    NoPrimary = 14,
    /// Another living node has this name.
    NameTaken = 15,
    /// All 255 numbers are given out to nodes that were there within a day.
    FleetFull = 16,
    /// The agent and the module are of two versions.
    OtherLayout = 17,
    /// The agent cannot be started.
    NoAgent = 18,
}

/// The oldest store that will do, of Redis's version numbers (Valkey counts from 7.2 on).
pub const OLDEST: [u32; 2] = [6, 2];

impl Trouble {
    const ALL: [Trouble; 18] = [
        Trouble::Refused,
        Trouble::Silent,
        Trouble::NoRoute,
        Trouble::Closed,
        Trouble::Password,
        Trouble::Rights,
        Trouble::ReadOnly,
        Trouble::Loading,
        Trouble::Full,
        Trouble::TooOld,
        Trouble::OtherKeys,
        Trouble::Garbage,
        Trouble::Tls,
        Trouble::NoPrimary,
        Trouble::NameTaken,
        Trouble::FleetFull,
        Trouble::OtherLayout,
        Trouble::NoAgent,
    ];

    /// Is it just not there? Else somebody has to do something about it.
    pub fn is_absence(self) -> bool {
        use Trouble::{Closed, Loading, NoPrimary, NoRoute, Refused, Silent};
        matches!(
            self,
            Refused | Silent | NoRoute | Closed | Loading | NoPrimary
        )
    }

    /// The one with this number.
    pub fn of(number: u32) -> Option<Trouble> {
        Trouble::ALL.into_iter().find(|one| *one as u32 == number)
    }

    /// In words, to follow "the store is away" or "this server runs alone".
    pub fn words(self) -> &'static str {
        match self {
            Trouble::Refused => "nobody listens at its address",
            Trouble::Silent => "it does not answer in time",
            Trouble::NoRoute => "its address leads nowhere",
            Trouble::Closed => "it closed the connection",
            Trouble::Password => "it wants a password, or another one (NapStoreAuth)",
            Trouble::Rights => {
                "its account may not do what is needed (docs/fleet.md, \"The store\")"
            }
            Trouble::ReadOnly => {
                "it takes no writes: it is a replica, or its own replicas are missing"
            }
            Trouble::Loading => "it still loads its data, or waits for its primary",
            Trouble::Full => "it has no memory left, or cannot save to its disk",
            Trouble::TooOld => "it is too old: Redis 6.2, Valkey 7.2 or newer is wanted",
            Trouble::OtherKeys => "keys that begin with nap: hold data of something else",
            Trouble::Garbage => "what answers there is neither Redis nor Valkey",
            Trouble::Tls => "TLS with it does not come about",
            Trouble::NoPrimary => "no Sentinel names a primary",
            Trouble::NameTaken => "another server that is alive has this name (NapNode)",
            Trouble::FleetFull => "the fleet has 255 nodes, and no number is left",
            Trouble::OtherLayout => "nap-agent is of another version than the module",
            Trouble::NoAgent => "nap-agent cannot be started",
        }
    }

    /// Does it end by itself, so that trying again is of use? Else somebody has to change something.
    pub fn passes(self) -> bool {
        !matches!(
            self,
            Trouble::FleetFull | Trouble::OtherLayout | Trouble::NoAgent
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_number_and_has_words_of_its_own() {
        for (at, one) in Trouble::ALL.into_iter().enumerate() {
            assert_eq!(one as usize, at + 1);
            assert_eq!(Trouble::of(one as u32), Some(one));
            let same = Trouble::ALL
                .into_iter()
                .filter(|other| other.words() == one.words());
            assert_eq!(same.count(), 1);
        }
        assert_eq!(Trouble::of(0), None);
        assert_eq!(Trouble::of(99), None);
    }
}
