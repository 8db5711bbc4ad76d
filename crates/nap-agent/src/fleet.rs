//! [`Fleet`]: what this node knows of all, itself among them, and what is news in it.

use std::collections::{BTreeMap, VecDeque};

use nap_core::fleet::member::{Differs, Member, Presence, SILENT};
use nap_core::micros::Micros;

use crate::card::{Beat, Card};

/// Shares are of the accesses of so long.
const SHARES: Micros = Micros::from_secs(10);
/// A node that has not been heard for so long, or has left so long ago, is not shown any more, and its number may be another's.
pub(crate) const FORGET: Micros = Micros::from_secs(24 * 3600);

/// After an outage others are back so late at most: an agent tries again every 30 s where the store was silent.
const BACK: Micros = Micros::from_secs(33);
/// Who has heard nothing for so long, where a second is usual, finds beats that nobody could renew meanwhile. Two seconds later
/// a node that lives might seem silent.
const OUTAGE: Micros = Micros::from_millis(1500);

/// Several outages are one after the other within so long; on a slow machine, where each look is late, who is dead is silent by
/// then all the same.
const OUTAGES: Micros = Micros::from_secs(66);

/// A node was not heard since an outage that ended at `from`; until then it may be on its way back. Inside time; zero: there was
/// none.
#[derive(Clone, Copy, Debug, Default)]
struct Spared {
    from: Micros,
    until: Micros,
}

impl Spared {
    /// The same after a look at `now`, `gap` after the one before it. Of a node that was heard meanwhile there is none before.
    fn after(self, gap: Micros, now: Micros) -> Spared {
        if gap < OUTAGE {
            return self;
        }
        let begins = self.from == Micros::ZERO || gap >= BACK;
        let from = if begins { now } else { self.from };
        let back = now + if gap >= SILENT { BACK } else { SILENT };
        Spared {
            from,
            until: back.min(from + OUTAGES),
        }
    }
}

/// A node as it was heard last.
#[derive(Clone, Debug)]
struct Node {
    beat: Beat,
    card: Card,
    differs: Option<Differs>,
    presence: Presence,
    /// Inside time.
    heard: Micros,
    /// When it becomes silent at the earliest.
    spared: Spared,
    /// When, and how many accesses had come: of the last [`SHARES`], the latest last.
    arrivals: VecDeque<(Micros, u64)>,
}

impl Node {
    fn lives(&self) -> bool {
        self.presence == Presence::Alive
    }
}

/// All nodes by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    nodes: BTreeMap<u8, Node>,
    /// When it was heard last, inside time; zero: never. What is there at first is no news.
    last: Micros,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A node has joined, or is back.
    Alive,
    /// It is not heard any more.
    Silent {
        /// Inside time of its last beat.
        since: Micros,
    },
    /// It has said goodbye.
    Left,
    /// Something is not there as it is here, and that was not so before.
    Differs(Differs),
}

impl Fleet {
    /// The nodes whose cards have to be read.
    pub fn wanted(&self, beats: &[(u8, Beat)]) -> Vec<u8> {
        let known = |node: &u8, beat: &Beat| {
            let known = self.nodes.get(node);
            known.is_some_and(|known| known.beat.card == beat.card)
        };
        let unknown = beats.iter().filter(|(node, beat)| !known(node, beat));
        unknown.map(|(node, _)| *node).collect()
    }

    /// All beats as they lay in the store when its clock showed `time`, which was `now` here, and the cards that
    /// were wanted. Returns what is new, with the node's name.
    pub fn heard(
        &mut self,
        (time, now): (Micros, Micros),
        beats: Vec<(u8, Beat)>,
        mut cards: BTreeMap<u8, Card>,
        ours: &Card,
    ) -> Vec<(String, News)> {
        let gap = match self.last {
            Micros::ZERO => Micros::ZERO,
            last => now - last,
        };
        let mut before = std::mem::take(&mut self.nodes);
        let mut news = Vec::new();
        for (number, beat) in beats {
            let old = before.remove(&number);
            let known = || old.as_ref().map(|old| old.card.clone());
            let Some(card) = cards.remove(&number).or_else(known) else {
                continue;
            };
            let age = time - Micros(beat.at);
            let heard = match &old {
                // The store's clock may have jumped: who has moved since the last time has lived since then.
                Some(old) if old.beat.at != beat.at => now - age.min(now - self.last),
                Some(old) => old.heard,
                None => now - age,
            };
            if now - heard > FORGET {
                continue;
            }
            let same = old
                .as_ref()
                .filter(|old| old.beat.instance == beat.instance);
            let arrivals = same.map_or_else(VecDeque::new, |old| old.arrivals.clone());
            let unmoved = old.as_ref().filter(|old| old.beat.at == beat.at);
            let spared = unmoved.map_or_else(Spared::default, |old| old.spared);
            let spared = spared.after(gap, now);
            let lived = old.as_ref().is_some_and(Node::lives);
            let node = Node {
                differs: card.differs_from(ours),
                card,
                presence: match (beat.left, now - heard >= SILENT) {
                    (true, _) => Presence::Left,
                    (false, true) if now < spared.until && lived => Presence::Alive,
                    (false, true) => Presence::Silent,
                    (false, false) => Presence::Alive,
                },
                heard,
                spared,
                arrivals: counted(arrivals, now, beat.figures.arrivals),
                beat,
            };
            let name = || node.card.name.clone();
            news.extend(self.news(old.as_ref(), &node).map(|one| (name(), one)));
            self.nodes.insert(number, node);
        }
        // If the store was emptied they come back at once, or after an outage a little later, or have died in it; else they
        // were taken out by hand.
        before.retain(|_, old| {
            old.spared = old.spared.after(gap, now);
            let stays = now - old.heard < SILENT || now < old.spared.until && old.lives();
            if !stays && old.lives() && old.spared.from != Micros::ZERO {
                let since = old.heard;
                news.push((old.card.name.clone(), News::Silent { since }));
            }
            stays
        });
        self.nodes.append(&mut before);
        self.last = now;
        news
    }

    fn news(&self, old: Option<&Node>, node: &Node) -> impl Iterator<Item = News> + use<> {
        let is_first = self.last == Micros::ZERO;
        let was = old.map(|old| old.presence);
        let moved = !is_first && was != Some(node.presence);
        // What had left before anybody looked is nobody's news.
        let moved = moved && (was.is_some() || node.presence == Presence::Alive);
        let moved = moved.then_some(match node.presence {
            Presence::Alive => News::Alive,
            Presence::Silent => News::Silent { since: node.heard },
            Presence::Left => News::Left,
        });
        let odd = node.differs.filter(|odd| {
            let known = old.and_then(|old| old.differs) == Some(*odd);
            !known && node.presence == Presence::Alive
        });
        moved.into_iter().chain(odd.map(News::Differs))
    }

    /// How many live.
    pub fn alive(&self) -> usize {
        self.nodes.values().filter(|node| node.lives()).count()
    }

    /// Writes them into the segment's table, each at its number.
    pub fn show(&self, members: &mut [Member]) {
        let shares = self.shares();
        for (at, member) in members.iter_mut().enumerate() {
            let found = u8::try_from(at)
                .ok()
                .and_then(|at| Some((at, self.nodes.get(&at)?)));
            let Some((number, node)) = found else {
                *member = Member::default();
                continue;
            };
            member.presence = node.presence as u32;
            member.share = shares.get(&number).copied().unwrap_or(0);
            member.heard = node.heard.0;
            member.figures = node.beat.figures;
            member.differs = node.differs.unwrap_or_default();
            member.call(&node.card.name, &node.card.host);
        }
    }

    /// Of the accesses of the last seconds, in parts of a million; who does not live has none.
    fn shares(&self) -> BTreeMap<u8, u32> {
        let came = |node: &Node| match (node.arrivals.front(), node.arrivals.back()) {
            (Some((_, first)), Some((_, last))) if node.presence == Presence::Alive => {
                last.saturating_sub(*first)
            }
            _ => 0,
        };
        let each = self
            .nodes
            .iter()
            .map(|(number, node)| (*number, came(node)));
        let each: Vec<(u8, u64)> = each.collect();
        let all: u128 = each.iter().map(|(_, n)| u128::from(*n)).sum();
        let share = |n: u64| (u128::from(n) * 1_000_000).checked_div(all).unwrap_or(0) as u32;
        each.into_iter()
            .map(|(number, n)| (number, share(n)))
            .collect()
    }
}

/// One more count; those are kept that are needed for the last [`SHARES`]. A count that has gone back is of
/// another's: it begins anew.
fn counted(mut all: VecDeque<(Micros, u64)>, now: Micros, n: u64) -> VecDeque<(Micros, u64)> {
    if all.back().is_some_and(|(_, last)| *last > n) {
        all.clear();
    }
    all.push_back((now, n));
    while all.len() > 2 && now - all[1].0 >= SHARES {
        all.pop_front();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use mod_nap::agent::KeyMark;
    use nap_core::fleet::member::{Figures, Setting};

    const DAY: Micros = FORGET;

    /// A world with a store whose clock is an hour ahead.
    struct World {
        fleet: Fleet,
        now: Micros,
        ahead: u64,
        beats: BTreeMap<u8, Beat>,
    }

    fn card(node: u8) -> Card {
        Card {
            name: format!("web{node}"),
            ..Card::default()
        }
    }

    impl World {
        fn new() -> World {
            World {
                fleet: Fleet::default(),
                now: Micros::from_secs(1_000_000),
                ahead: 3_600_000_000,
                beats: BTreeMap::new(),
            }
        }

        fn time(&self) -> Micros {
            self.now + Micros(self.ahead)
        }

        /// These beat.
        fn beat(&mut self, nodes: &[u8]) {
            for node in nodes {
                let beat = self.beats.entry(*node).or_default();
                (beat.at, beat.left) = (self.now.0 + self.ahead, false);
                beat.card = "1".into();
                beat.figures.arrivals += 100 * u64::from(*node);
            }
        }

        /// One second later these have beaten, and node 1 looks.
        fn second(&mut self, nodes: &[u8]) -> Vec<(String, News)> {
            self.now = self.now + Micros::from_secs(1);
            self.beat(nodes);
            self.look()
        }

        fn look(&mut self) -> Vec<(String, News)> {
            let time = self.time();
            let beats: Vec<(u8, Beat)> = self.beats.clone().into_iter().collect();
            let wanted = self.fleet.wanted(&beats).into_iter();
            let cards = wanted.map(|node| (node, card(node))).collect();
            self.fleet.heard((time, self.now), beats, cards, &card(1))
        }

        fn shown(&self) -> Vec<Member> {
            let mut members = vec![Member::default(); 256];
            self.fleet.show(&mut members);
            members
        }
    }

    fn of(node: u8, news: News) -> (String, News) {
        (format!("web{node}"), news)
    }

    #[test]
    fn who_is_there_at_first_is_no_news_and_who_joins_goes_silent_and_is_back_is() {
        let mut world = World::new();
        assert_eq!(world.second(&[1, 2]), []);
        assert_eq!(world.second(&[1, 2, 3]), [of(3, News::Alive)]);
        let since = world.now;
        assert_eq!(world.second(&[1, 2]), []);
        assert_eq!(world.second(&[1, 2]), []);
        assert_eq!(world.second(&[1, 2]), [of(3, News::Silent { since })]);
        assert_eq!(world.second(&[1, 2]), []);
        let members = world.shown();
        assert_eq!(members[3].presence(), Some(Presence::Silent));
        assert_eq!((members[3].heard, members[3].share), (since.0, 0));
        assert_eq!(members[3].name(), "web3");
        assert_eq!(members[4], Member::default());
        assert_eq!(world.second(&[1, 2, 3]), [of(3, News::Alive)]);
        assert_eq!(world.fleet.alive(), 3);
        world.beats.get_mut(&2).expect("it is there").left = true;
        assert_eq!(world.second(&[1, 3]), [of(2, News::Left)]);
    }

    #[test]
    fn a_clock_that_jumps_silences_nobody() {
        for jump in [3_600_000_000_i64, -3_600_000_000] {
            let mut world = World::new();
            world.second(&[1, 2]);
            world.beat(&[1, 2]);
            world.ahead = world.ahead.strict_add_signed(jump);
            assert_eq!(world.look(), [], "the beats are from before");
            assert_eq!(world.second(&[1, 2]), []);
            let since = world.now;
            for _ in 0..2 {
                assert_eq!(world.second(&[1]), []);
            }
            assert_eq!(world.second(&[1]), [of(2, News::Silent { since })]);
        }
    }

    /// Web2 is back a second later than the others; web3 has died meanwhile.
    #[test]
    fn a_short_outage_silences_nobody_who_is_back_soon() {
        let mut world = World::new();
        world.second(&[1, 2, 3]);
        let since = world.now;
        world.now = world.now + Micros::from_millis(2_500);
        world.beat(&[1]);
        assert_eq!(world.look(), []);
        assert_eq!(world.second(&[1]), [], "their beats are 3.5 s old");
        assert_eq!(world.second(&[1, 2]), []);
        assert_eq!(world.second(&[1, 2]), [of(3, News::Silent { since })]);
    }

    #[test]
    fn a_store_that_was_emptied_silences_nobody_and_one_taken_out_is_gone() {
        let mut world = World::new();
        world.second(&[1, 2, 3]);
        world.beats.clear();
        assert_eq!(world.second(&[1]), []);
        assert_eq!(world.second(&[1, 2, 3]), []);
        world.beats.remove(&3);
        for _ in 0..4 {
            assert_eq!(world.second(&[1, 2]), []);
        }
        assert_eq!(world.shown()[3], Member::default());
    }

    /// It is back empty after ten seconds, and web2 is back a second later.
    #[test]
    fn a_store_that_was_away_and_is_empty_silences_nobody() {
        let mut world = World::new();
        world.second(&[1, 2]);
        world.beats.clear();
        world.now = world.now + Micros::from_secs(10);
        assert_eq!(world.second(&[1]), []);
        assert_eq!(world.fleet.alive(), 2);
        assert_eq!(world.second(&[1, 2]), []);
    }

    /// Web2 pauses for half a minute after the first, and so it does after the second.
    #[test]
    fn two_long_outages_silence_nobody_who_is_back_soon() {
        let mut world = World::new();
        world.second(&[1, 2]);
        for gap in [60, 100] {
            world.now = world.now + Micros::from_secs(gap);
            assert_eq!(world.second(&[1]), []);
        }
        assert_eq!(world.second(&[1, 2]), []);
        assert_eq!(world.fleet.alive(), 2);
    }

    /// It is away again and again, and web2 is back after all that.
    #[test]
    fn several_short_outages_silence_nobody_who_is_back_then() {
        let mut world = World::new();
        world.second(&[1, 2]);
        for gap in [1_500, 500, 1_000] {
            world.now = world.now + Micros::from_millis(gap);
            assert_eq!(world.second(&[1]), []);
            assert_eq!(world.second(&[1]), []);
        }
        assert_eq!(world.second(&[1, 2]), []);
        assert_eq!(world.fleet.alive(), 2);
    }

    /// Web2 has died in the outage, and the store knows nothing of it.
    #[test]
    fn who_does_not_come_back_to_a_store_that_was_away_and_is_empty_is_silent() {
        let mut world = World::new();
        world.second(&[1, 2]);
        let since = world.now;
        world.beats.clear();
        world.now = world.now + Micros::from_secs(10);
        let mut news = Vec::new();
        for _ in 0..40 {
            news.extend(world.second(&[1]));
        }
        assert_eq!(news, [of(2, News::Silent { since })]);
        assert_eq!(world.fleet.alive(), 1);
    }

    /// Each look is late, and web2 is dead.
    #[test]
    fn a_slow_machine_sees_who_is_silent_too() {
        let mut world = World::new();
        world.second(&[1, 2]);
        let since = world.now;
        let mut news = Vec::new();
        for _ in 0..40 {
            world.now = world.now + Micros::from_secs(1);
            news.extend(world.second(&[1]));
        }
        assert_eq!(news, [of(2, News::Silent { since })]);
    }

    #[test]
    fn who_has_been_away_for_a_day_is_not_shown() {
        let mut world = World::new();
        world.second(&[1, 2]);
        world.now = world.now + DAY;
        world.second(&[1]);
        assert_eq!(world.shown()[2], Member::default());
    }

    #[test]
    fn shares_are_of_the_last_ten_seconds_of_those_who_live() {
        let mut world = World::new();
        for _ in 0..30 {
            world.second(&[1, 3]);
        }
        let share = |world: &World| [1, 2, 3].map(|node| world.shown()[node].share);
        assert_eq!(share(&world), [250_000, 0, 750_000]);
        let first = world.beats.get_mut(&1).expect("it is there");
        (first.instance, first.figures) = ("anew".into(), Figures::default());
        for _ in 0..11 {
            world.second(&[1, 3]);
        }
        assert_eq!(share(&world), [250_000, 0, 750_000]);
        for _ in 0..5 {
            world.second(&[1]);
        }
        assert_eq!(share(&world), [1_000_000, 0, 0]);
    }

    #[test]
    fn what_differs_is_told_once() {
        let mut world = World::new();
        let mut ours = card(1);
        ours.keys = vec![KeyMark { id: 3, mark: 33 }];
        let mut theirs = ours.clone();
        theirs.name = "web2".into();
        theirs.keys[0] = KeyMark { id: 7, mark: 77 };
        world.beat(&[2]);
        let at = (world.time(), world.now);
        let beats = vec![(2, world.beats[&2].clone())];
        let cards = BTreeMap::from([(2, theirs)]);
        let news = world.fleet.heard(at, beats.clone(), cards, &ours);
        let differs = Differs::new(Setting::Key, "", 7, 3);
        assert_eq!(news, [of(2, News::Differs(differs))]);
        assert_eq!(world.fleet.heard(at, beats, BTreeMap::new(), &ours), []);
        assert_eq!(world.shown()[2].differs, differs);
    }
}
