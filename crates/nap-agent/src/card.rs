//! [`Card`] and [`Beat`]: what a node leaves in the store for the others.
//!
//! Both are JSON. What is missing in one is zero or empty, so that nodes of two versions understand each other; what
//! is not understood at all is passed over.

use std::hash::{Hash as _, Hasher as _};

use mod_nap::agent::{Brief, KeyMark, RoomMark};
use nap_core::fleet::member::{Differs, Figures, Setting};
use nap_core::micros::Micros;
use serde::{Deserialize, Serialize};

/// The module's version, with which the agent's is built.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What seldom changes: who a node is, and what it should agree about with the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Card {
    /// `NapNode`.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Of the module.
    pub version: String,
    /// Keys of tickets, the first signs.
    pub keys: Vec<KeyMark>,
    /// Its rooms.
    pub rooms: Vec<RoomMark>,
}

impl Card {
    /// This node's.
    pub fn of(brief: &Brief) -> Card {
        Card {
            name: brief.node.clone(),
            host: brief.host.clone(),
            version: VERSION.into(),
            keys: brief.keys.clone(),
            rooms: brief.rooms.clone(),
        }
    }

    /// As it lies in the store, and what a beat calls it there: another card has another mark.
    pub fn written(&self) -> (String, String) {
        let text = serde_json::to_string(self).expect("texts and numbers");
        let mut hasher = std::hash::DefaultHasher::new();
        text.hash(&mut hasher);
        (text, format!("{:016x}", hasher.finish()))
    }

    /// The first thing in which this card, another's, is not as `ours`, the gravest first.
    pub fn differs_from(&self, ours: &Card) -> Option<Differs> {
        let of_keys = || {
            let other = self.keys.iter().find(|theirs| {
                let same = ours.keys.iter().find(|key| key.id == theirs.id);
                same.is_some_and(|same| same.mark != theirs.mark)
            });
            if let Some(key) = other {
                let id = key.id.into();
                return Some(Differs::new(Setting::OtherKey, "", id, id));
            }
            let signs = self.keys.first()?;
            let known = ours.keys.iter().any(|key| key.id == signs.id);
            let first = ours.keys.first().map_or(0, |key| key.id.into());
            (!known).then(|| Differs::new(Setting::Key, "", signs.id.into(), first))
        };
        let of_rooms = || ours.rooms.iter().find_map(|room| self.differs_in(room));
        let of_version = || {
            let [theirs, ours] = [&self.version, &ours.version].map(|text| number_of(text));
            (theirs != ours).then(|| Differs::new(Setting::Version, "", theirs, ours))
        };
        of_keys().or_else(of_rooms).or_else(of_version)
    }

    fn differs_in(&self, ours: &RoomMark) -> Option<Differs> {
        let Some(theirs) = self.rooms.iter().find(|room| room.name == ours.name) else {
            return Some(Differs::new(Setting::Room, &ours.name, 0, 1));
        };
        let pairs = [
            (Setting::WaitMax, theirs.wait_max, ours.wait_max),
            (Setting::Prime, theirs.prime, ours.prime),
            (Setting::Horizon, theirs.horizon, ours.horizon),
            (Setting::Limit, theirs.limit, ours.limit),
        ];
        let mut odd = pairs.into_iter().filter(|(_, theirs, ours)| theirs != ours);
        let (setting, theirs, here) = odd.next()?;
        Some(Differs::new(setting, &ours.name, theirs, here))
    }
}

/// A version as one number, `1.2.3` as 1,002,003: so [`Differs`] has it.
fn number_of(version: &str) -> u64 {
    let parts = version.split(['.', '-', '+']).take(3);
    parts.fold(0, |all: u64, part| {
        let part: u64 = part.parse().unwrap_or(0);
        all * 1000 + part.min(999)
    })
}

/// A version from such a number.
pub fn version_of(number: u64) -> String {
    let [major, minor, patch] = [number / 1_000_000, number / 1000 % 1000, number % 1000];
    format!("{major}.{minor}.{patch}")
}

/// Twice the time between two beats: what is older was not said just now.
const FRESH: Micros = Micros::from_millis(500);

/// A sign of life. The store's script puts its own time in front.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beat {
    /// When, microseconds since 1970 by the store's clock; a script writes it.
    #[serde(skip_serializing)]
    pub at: u64,
    /// Whose: a node that begins anew is another one, an agent that does is not.
    pub instance: String,
    /// Which card of its own lies there ([`Card::written`]).
    pub card: String,
    /// It says goodbye.
    pub left: bool,
    /// The fleet's time as the node has it, microseconds since 1970; 0: it has none yet. The store's clock may have been set,
    /// and nodes follow slowly.
    pub time: u64,
    /// How it does.
    #[serde(with = "FiguresThere")]
    pub figures: Figures,
}

impl Beat {
    /// As the script takes it.
    pub fn written(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers")
    }

    /// How far the fleet's time, as this node has it, is ahead of the store's clock, which shows `now`, microseconds. None: it
    /// has not beaten just now, or not since that clock was set.
    pub fn ahead_at(&self, now: Micros) -> Option<i64> {
        let beats = !self.left && self.time != 0 && self.at.abs_diff(now.0) < FRESH.0;
        beats.then(|| self.time.wrapping_sub(self.at).cast_signed())
    }

    /// From the store; None: it is none.
    pub fn read(text: &[u8]) -> Option<Beat> {
        serde_json::from_slice(text).ok()
    }
}

/// [`Figures`] as they lie in the store.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Figures", default)]
struct FiguresThere {
    running: u32,
    limit: u32,
    waiting: u32,
    places: u32,
    arrivals: u64,
    served: u64,
    sold: u64,
    redeemed: u64,
    broken: u64,
}

impl Default for FiguresThere {
    fn default() -> FiguresThere {
        Figures::default().into()
    }
}

impl From<Figures> for FiguresThere {
    fn from(of: Figures) -> FiguresThere {
        FiguresThere {
            running: of.running,
            limit: of.limit,
            waiting: of.waiting,
            places: of.places,
            arrivals: of.arrivals,
            served: of.served,
            sold: of.sold,
            redeemed: of.redeemed,
            broken: of.broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card() -> Card {
        let key = |id, mark| KeyMark { id, mark };
        let room = |name: &str| RoomMark {
            name: name.into(),
            wait_max: 4_000,
            prime: 60_000,
            horizon: 3_600_000,
            limit: 6,
        };
        Card {
            name: "web1".into(),
            host: "10.0.0.11".into(),
            version: "0.1.0".into(),
            keys: vec![key(3, 33), key(2, 22)],
            rooms: vec![room("shop"), room("forum")],
        }
    }

    /// What differs, and the two values.
    fn found(theirs: &Card) -> Option<(Setting, String, u64, u64)> {
        let differs = theirs.differs_from(&card())?;
        Some((
            differs.setting()?,
            differs.room(),
            differs.theirs,
            differs.ours,
        ))
    }

    #[test]
    fn what_differs_is_found_the_gravest_first() {
        assert_eq!(found(&card()), None);
        let mut theirs = card();
        theirs.version = "0.2.0".into();
        let expected = (Setting::Version, String::new(), 2_000, 1_000);
        assert_eq!(found(&theirs), Some(expected));
        theirs.rooms.remove(1);
        assert_eq!(found(&theirs), Some((Setting::Room, "forum".into(), 0, 1)));
        theirs.rooms[0].limit = 0;
        let expected = (Setting::Limit, "shop".into(), 0, 6);
        assert_eq!(found(&theirs), Some(expected));
        theirs.rooms[0].horizon = 1;
        let expected = (Setting::Horizon, "shop".into(), 1, 3_600_000);
        assert_eq!(found(&theirs), Some(expected));
        theirs.rooms[0].wait_max = 5_000;
        let expected = (Setting::WaitMax, "shop".into(), 5_000, 4_000);
        assert_eq!(found(&theirs), Some(expected));
        theirs.keys.insert(0, KeyMark { id: 7, mark: 77 });
        assert_eq!(found(&theirs), Some((Setting::Key, String::new(), 7, 3)));
        theirs.keys[1].mark = 34;
        assert_eq!(
            found(&theirs),
            Some((Setting::OtherKey, String::new(), 3, 3))
        );
    }

    #[test]
    fn a_key_that_does_not_sign_and_a_room_of_theirs_alone_are_their_own_affair() {
        let mut theirs = card();
        theirs.keys.push(KeyMark { id: 9, mark: 99 });
        theirs.keys.swap(0, 1);
        let mut more = theirs.rooms[0].clone();
        more.name = "blog".into();
        theirs.rooms.push(more);
        assert_eq!(found(&theirs), None);
    }

    #[test]
    fn a_version_is_a_number_and_back() {
        for text in ["0.1.0", "1.22.333"] {
            assert_eq!(version_of(number_of(text)), text);
        }
        assert_eq!(number_of("2"), 2);
        assert_eq!(version_of(number_of("1.2.3-rc1")), "1.2.3");
    }

    #[test]
    fn another_card_has_another_mark() {
        let mut other = card();
        other.host.push('x');
        assert_eq!(card().written(), card().written());
        assert_ne!(card().written().1, other.written().1);
    }

    #[test]
    fn a_beat_of_another_version_is_understood_as_far_as_it_goes() {
        let text = br#"{"at":5,"instance":"a","new":[1],"figures":{"running":3,"new":1}}"#;
        let beat = Beat::read(text).expect("a beat");
        assert_eq!((beat.at, beat.left, beat.figures.running), (5, false, 3));
        assert_eq!(beat.figures.limit, 0);
    }

    #[test]
    fn the_card_of_an_older_version_is_read() {
        let (written, _) = card().written();
        let older = written.replace(r#","limit":6"#, "");
        assert_ne!(older, written);
        let older: Card = serde_json::from_str(&older).expect("a card");
        assert_eq!(found(&older), Some((Setting::Limit, "shop".into(), 0, 6)));
    }

    #[test]
    fn only_a_node_that_lives_tells_how_far_fleet_time_is_ahead() {
        let beat = Beat {
            at: 10_000_000,
            time: 8_000_000,
            ..Beat::default()
        };
        let at = |ms| beat.ahead_at(Micros::from_millis(ms));
        assert_eq!([9_501, 10_000, 10_499].map(at), [Some(-2_000_000); 3]);
        // The store's clock was set since.
        assert_eq!([8_000, 12_000].map(at), [None; 2]);
        let left = Beat {
            left: true,
            ..beat.clone()
        };
        assert_eq!(left.ahead_at(Micros::from_secs(10)), None);
        let older = Beat::read(br#"{"at":10000000,"instance":"8f"}"#).expect("a beat");
        assert_eq!(older.ahead_at(Micros::from_secs(10)), None);
    }

    proptest! {
        #[test]
        fn a_beat_is_read_as_it_was_written(
            numbers in any::<[u32; 4]>(), sums in any::<[u64; 5]>(), left in any::<bool>(), time in any::<u64>()
        ) {
            let [running, limit, waiting, places] = numbers;
            let [arrivals, served, sold, redeemed, broken] = sums;
            let figures = Figures {
                running, limit, waiting, places, arrivals, served, sold, redeemed, broken,
            };
            let beat = Beat { at: 0, instance: "8f".into(), card: "1".into(), left, time, figures };
            prop_assert_eq!(Beat::read(beat.written().as_bytes()), Some(beat));
        }

        #[test]
        fn anything_at_all_may_lie_in_the_store(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Beat::read(&text);
        }
    }
}
