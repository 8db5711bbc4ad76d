//! [`Capacity`]: how many sessions a second the pages of a room can pass, and how many more than
//! that are on their way to them (docs/dev/sqs-laws.md 6.1 to 6.4).
//!
//! A page at which a queue has stood passes X accesses a second, and a session asks for it v times,
//! so it passes X/v sessions a second. The lowest of the pages is the bottleneck. Those under way to
//! it are counted with those who wait there (O. J. M. Smith's predictor, 1957):
//!
//! ```text
//!   excess = q + v starts in the last `age` - age X        when they have all come
//! ```
//! Of a page that several rooms use, each counts its share of X and of q ([`Users::share`]).

use super::demand::sound;
use crate::micros::Micros;

/// Pages of a room that are told apart; accesses to others do not count here.
pub const PAGES: usize = 12;
/// Weight of the latest session in the mean visits, once there are many.
const ALPHA: f64 = 0.05;
/// Weight of the latest access in the mean age.
const ALPHA_AGE: f64 = 0.1;
/// Weight of the latest second in what a page passes, once there are many. An error in this counts
/// once for each second that sessions are under way, so the weight must be small: three departures
/// a second are 60 in the time over which it is the mean.
const ALPHA_RATE: f64 = 0.05;
/// A page that sessions ask for more rarely than this is never a bottleneck.
const RARE: f64 = 0.05;
/// How much more, each second, a page that is not full though all turns were taken is said to pass.
const PROBE: f64 = 1.02;
/// The same for a page most of whose permits stand empty, for whatever is started.
const PROBE_IDLE: f64 = 1.1;
/// "Most" is this share of them, in the mean of the last while.
const IDLE: f64 = 0.5;
/// Weight of the latest second in that mean.
const ALPHA_EMPTY: f64 = 0.2;
/// While permits stand empty, at most this many times what is really started is tried.
pub const UNTRIED: f64 = 2.0;
/// This share of what the bottleneck passes must have been started for the turns to count as used.
const USED: f64 = 0.9;
/// This is judged over so many seconds at least; otherwise there would be no starts to count where
/// sessions begin at their bottleneck.
const JUDGED_S: f64 = 5.0;
/// The longest age that is looked back over.
const LONGEST_S: f64 = 240.0;
/// Weight of the latest second in how often a room's sessions come to a page.
const ALPHA_FLOW: f64 = 0.05;
/// The part of a page that is shared out equally.
const EQUAL: f64 = 0.2;

/// What is known of one page. All zero = nothing. Numbers are bits of an f64.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Passage {
    /// Mean number of accesses to it of a session that is over.
    visits: u64,
    /// Mean age of a session when it asks for the page, in seconds.
    age: u64,
    /// Sessions a second that it passes, of all rooms; 0 = no queue has stood here.
    rate: u64,
    /// Accesses a second of the room's sessions.
    flow: u64,
    /// Sum of the sessions' ages, in microseconds, over all accesses since the last second.
    ages: u64,
    /// How many accesses these are.
    came: u32,
    /// Seconds that a queue has stood; saturates.
    stood: u32,
    /// The share of its permits that has stood empty lately.
    empty: u64,
}

/// What the pages that a room's sessions visit can pass, its own and other rooms'. All zero =
/// nothing known. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The pages' gates, one-based, in the order in which sessions came; 0 = none.
    gates: [u32; PAGES],
    pages: [Passage; PAGES],
    /// How many sessions the mean visits cover; saturates.
    sessions: u32,
    _pad: u32,
}

/// A page now.
#[derive(Clone, Copy, Debug)]
pub struct PageNow {
    /// Accesses that wait.
    pub queue: u32,
    /// Departures a second, where its queue has stood long enough to tell and still stands.
    pub passes: Option<f64>,
    /// The room's share of these, 0 to 1.
    pub share: f64,
    /// The share of its permits that is held, 0 to 1.
    pub busy: f64,
}

impl PageNow {
    /// No page.
    pub const NONE: PageNow = PageNow {
        queue: 0,
        passes: None,
        share: 0.0,
        busy: 1.0,
    };
}

/// The rooms whose sessions come to a page, together. All zero = none.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Users {
    /// Accesses a second of their sessions; bits of an f64.
    flow: u64,
    /// How many they are.
    rooms: u32,
    /// In how many somebody wants to start a session.
    wanting: u32,
}

impl Users {
    /// Nobody.
    pub const NONE: Users = Users {
        flow: 0,
        rooms: 0,
        wanting: 0,
    };

    /// Adds a room whose sessions come `flow` times a second.
    pub fn add(&mut self, flow: f64, wants: bool) {
        self.flow = (sound(self.flow) + flow).to_bits();
        self.rooms = self.rooms.saturating_add(1);
        self.wanting = self.wanting.saturating_add(wants.into());
    }

    /// The share of the page of a room whose sessions come `flow` times a second, 0 to 1. For a
    /// room in which nobody wants to start: what it would be if somebody did.
    pub fn share(&self, flow: f64, wants: bool) -> f64 {
        let (all, wanting) = (sound(self.flow), f64::from(self.wanting));
        let by_flow = match all > 0.0 {
            true => (flow / all).min(1.0),
            false => 1.0 / f64::from(self.rooms.max(1)),
        };
        let wanting = wanting + f64::from(u8::from(!wants));
        by_flow + EQUAL * (1.0 / wanting.max(1.0) - by_flow)
    }
}

/// The page that passes the fewest sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// The page's number.
    page: usize,
    /// Sessions a second.
    pub rate: f64,
    /// Accesses that will wait there when all sessions under way have come; below 0: it will idle.
    pub excess: f64,
    /// Accesses of a session to it.
    pub visits: f64,
    /// Accesses that wait there now.
    pub queue: f64,
    /// The room's share of it, 0 to 1.
    pub share: f64,
    /// The turns of the last while were taken.
    pub used: bool,
    /// Sessions really started a second, in that while.
    pub started: f64,
    /// Most of its permits stand empty.
    pub idle: bool,
}

impl Bottleneck {
    /// Nobody waits there, and somebody would start: may more be started than it is known to pass,
    /// and by what factor in a second? 1: no. `bears`: sessions a second that the processors surely
    /// bear.
    ///
    /// If all turns are taken, a little more may be. If permits are empty too, also where ticket
    /// holders leave turns untaken: these tickets were sold at the rate in question. What is
    /// started now has not come there yet, so the rate rises only to twice what is really started,
    /// and to what the processors bear.
    pub fn more(&self, bears: f64) -> f64 {
        let most = bears.min(UNTRIED * self.started);
        match (self.idle && self.rate < most, self.used) {
            (true, _) => PROBE_IDLE,
            (false, true) => PROBE,
            (false, false) => 1.0,
        }
    }
}

impl Capacity {
    /// Which of its pages this gate belongs to, if it is known.
    #[inline]
    pub fn known(&self, gate: u32) -> Option<usize> {
        let link = gate.saturating_add(1);
        self.gates.iter().position(|known| *known == link)
    }

    /// The same; the gate is noted if it is not known yet and there is room.
    pub fn number(&mut self, gate: u32) -> Option<usize> {
        let known = self.known(gate);
        known.or_else(|| {
            let free = self.gates.iter().position(|known| *known == 0)?;
            self.gates[free] = gate.saturating_add(1);
            Some(free)
        })
    }

    /// Its pages by number: the gate of each, and accesses a second of the room's sessions to it.
    pub fn gates(&self) -> impl Iterator<Item = Option<(u32, f64)>> + '_ {
        let pages = self.gates.iter().zip(&self.pages);
        pages.map(|(link, page)| Some((link.checked_sub(1)?, sound(page.flow))))
    }

    /// Pages not `kept` are dropped; the others keep their numbers. Returns which numbers are free
    /// now: what sessions have visited under these must be forgotten.
    #[must_use]
    pub fn retain(&mut self, kept: impl Fn(u32) -> bool) -> [bool; PAGES] {
        let mut freed = [false; PAGES];
        let known = self.gates.iter_mut().zip(&mut self.pages);
        for ((link, page), freed) in known.zip(&mut freed) {
            if link.checked_sub(1).is_some_and(|gate| !kept(gate)) {
                (*link, *page, *freed) = (0, Passage::default(), true);
            }
        }
        freed
    }

    /// A second has passed.
    pub fn second(&mut self) {
        for page in &mut self.pages {
            let (flow, mean) = (sound(page.flow), sound(page.age));
            let came = f64::from(std::mem::take(&mut page.came));
            let ages = Micros(std::mem::take(&mut page.ages));
            page.flow = (flow + ALPHA_FLOW * (came - flow)).to_bits();
            if came > 0.0 {
                let age = (ages.as_secs_f64() / came).min(LONGEST_S);
                // As if each access had been weighed as it came.
                let weight = match mean > 0.0 {
                    true => 1.0 - (1.0 - ALPHA_AGE).powf(came),
                    false => 1.0,
                };
                page.age = (mean + weight * (age - mean)).to_bits();
            }
        }
    }

    /// A session is over that has asked this many times for each page.
    pub fn learn(&mut self, visits: &[f64; PAGES]) {
        self.sessions = self.sessions.saturating_add(1);
        let weight = ALPHA.max(1.0 / f64::from(self.sessions));
        for (passage, visits) in self.pages.iter_mut().zip(visits) {
            let mean = sound(passage.visits);
            passage.visits = (mean + weight * (visits - mean)).to_bits();
        }
    }

    /// Sessions that are not over have asked this many times for each page, on average. It counts
    /// until one is over.
    pub fn suppose(&mut self, visits: &[f64; PAGES]) {
        if self.sessions == 0 {
            for (passage, visits) in self.pages.iter_mut().zip(visits) {
                passage.visits = visits.to_bits();
            }
        }
    }

    /// A session of this age asks for the `page`th.
    #[inline]
    pub fn came(&mut self, page: usize, age: Micros) {
        if let Some(passage) = self.pages.get_mut(page) {
            passage.ages = passage.ages.saturating_add(age.0);
            passage.came = passage.came.saturating_add(1);
        }
    }

    /// The bottleneck, by the pages as they are now. `begun`: how many sessions were started in the
    /// last so many seconds. None: no queue has stood at a page, or no session is over.
    pub fn look(
        &mut self,
        pages: impl Iterator<Item = PageNow>,
        begun: impl Fn(f64) -> f64,
    ) -> Option<Bottleneck> {
        let mut least: Option<Bottleneck> = None;
        for (at, (passage, now)) in self.pages.iter_mut().zip(pages).enumerate() {
            let (empty, mean) = (
                1.0 - now.busy.clamp(0.0, 1.0),
                sound(passage.empty).min(1.0),
            );
            passage.empty = (mean + ALPHA_EMPTY * (empty - mean)).to_bits();
            let visits = sound(passage.visits);
            if visits < RARE {
                continue;
            }
            if let Some(passes) = now.passes {
                passage.stood = passage.stood.saturating_add(1);
                let weight = ALPHA_RATE.max(1.0 / f64::from(passage.stood));
                let known = sound(passage.rate);
                passage.rate = (known + weight * (passes / visits - known)).to_bits();
            }
            let rate = sound(passage.rate) * now.share;
            if rate == 0.0 || least.is_some_and(|least| least.rate <= rate) {
                continue;
            }
            let age = sound(passage.age).min(LONGEST_S);
            let judged = age.max(JUDGED_S);
            let started = begun(judged) / judged;
            let (begun, passed) = (begun(age), rate * age);
            least = Some(Bottleneck {
                page: at,
                rate,
                excess: f64::from(now.queue) * now.share + visits * (begun - passed),
                visits,
                queue: now.queue.into(),
                share: now.share,
                used: started >= USED * rate,
                started,
                idle: sound(passage.empty) >= IDLE,
            });
        }
        least
    }

    /// Raises what it may pass by the factor `more` ([`Bottleneck::more`]).
    pub fn probe(&mut self, bottleneck: &Bottleneck, more: f64) {
        if let Some(passage) = self.pages.get_mut(bottleneck.page) {
            passage.rate = (sound(passage.rate) * more).to_bits();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: usize = 1;

    /// Sessions that ask for a light page six times and for the search once, 12 s after their start.
    fn shop() -> Capacity {
        let mut capacity = Capacity::default();
        let mut visits = [0.0; PAGES];
        (visits[0], visits[SEARCH]) = (6.0, 1.0);
        for _ in 0..10 {
            capacity.learn(&visits);
            capacity.came(0, Micros::from_secs(8));
            capacity.came(SEARCH, Micros::from_secs(12));
        }
        capacity.second();
        capacity
    }

    fn pages(light: (u32, Option<f64>), search: (u32, Option<f64>)) -> [PageNow; 2] {
        [light, search].map(|(queue, passes)| PageNow {
            queue,
            passes,
            share: 1.0,
            busy: 1.0,
        })
    }

    #[test]
    fn the_bottleneck_is_the_page_that_passes_the_fewest_sessions() {
        let mut capacity = shop();
        let quiet = pages((0, None), (0, None));
        assert_eq!(
            capacity.look(quiet.into_iter(), |_| 0.0),
            None,
            "no queue yet"
        );
        let both = pages((4, Some(120.0)), (9, Some(3.0)));
        let least = capacity.look(both.into_iter(), |age| 4.0 * age);
        let least = least.expect("queues stand");
        assert_eq!((least.page, least.rate), (SEARCH, 3.0));
        // 9 wait, 48 are under way, 36 pass meanwhile.
        assert!(
            (least.excess - 21.0).abs() < 1e-9 && least.used,
            "{least:?}"
        );
        // What it passes is remembered.
        let later = capacity
            .look(quiet.into_iter(), |_| 0.0)
            .expect("it is known");
        assert_eq!((later.rate, later.excess, later.used), (3.0, -36.0, false));
        assert_eq!(later.more(9.0), 1.0, "its permits are held");
        capacity.probe(&later, least.more(9.0));
        let probed = capacity
            .look(quiet.into_iter(), |_| 0.0)
            .expect("it is known");
        assert!((probed.rate - 3.06).abs() < 1e-9);
    }

    #[test]
    fn where_permits_stand_empty_more_is_tried_whoever_takes_the_turns() {
        let mut capacity = shop();
        let standing = pages((0, None), (9, Some(3.0)));
        let known = capacity.look(standing.into_iter(), |age| 3.0 * age);
        assert!(known.is_some_and(|known| !known.idle), "{known:?}");
        let empty = PageNow {
            busy: 0.25,
            ..pages((0, None), (0, None))[SEARCH]
        };
        let page = [PageNow::NONE, empty];
        let mut rates = Vec::new();
        for _ in 0..40 {
            // Two a second are started, all by ticket holders; the processors would bear nine.
            let least = capacity.look(page.into_iter(), |age| 2.0 * age);
            let least = least.expect("it is known");
            capacity.probe(&least, least.more(9.0));
            rates.push(least.rate);
        }
        assert_eq!(rates[..3], [3.0; 3], "not at once");
        let most = rates.last().copied().unwrap_or(0.0);
        assert!((4.0..4.4).contains(&most), "twice what is started: {most}");
        for _ in 0..40 {
            let least = capacity.look(page.into_iter(), |age| 8.0 * age);
            let least = least.expect("it is known");
            capacity.probe(&least, least.more(9.0));
            rates.push(least.rate);
        }
        let most = rates.last().copied().unwrap_or(0.0);
        assert!((9.0..9.9).contains(&most), "what processors bear: {most}");
        let [before, after] = [rates[45], rates[46]];
        assert!((after / before - PROBE_IDLE).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn a_page_is_shared_by_what_rooms_bring_and_a_little_equally() {
        let share_of = |at: usize, rooms: &[(f64, bool)]| {
            let mut users = Users::NONE;
            rooms
                .iter()
                .for_each(|(flow, wants)| users.add(*flow, *wants));
            users.share(rooms[at].0, rooms[at].1)
        };
        let alone = [(2.0, true)];
        assert_eq!(share_of(0, &alone), 1.0);
        assert_eq!(share_of(0, &[(0.0, true); 2]), 0.5, "nobody has come yet");
        // A room that has all of it gives some away as soon as another wants any, not before.
        let others = |wants| [(3.0, true), (0.0, wants), (1.0, false)];
        let shares = |wants| [0, 1, 2].map(|at| share_of(at, &others(wants)));
        let near = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(near(shares(false), [0.8, 0.1, 0.3]), "{:?}", shares(false));
        assert!(
            near(shares(true), [0.7, 0.1, 0.25 + 0.2 / 12.0]),
            "{:?}",
            shares(true)
        );
    }

    #[test]
    fn a_page_keeps_its_number_when_others_are_let_go() {
        let mut capacity = Capacity::default();
        let numbers = [7, 3, 9].map(|gate| capacity.number(gate));
        assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
        for _ in 0..3 {
            capacity.came(2, Micros::from_secs(5));
        }
        capacity.second();
        let freed = capacity.retain(|gate| gate != 3);
        assert_eq!(freed[..4], [false, true, false, false]);
        let known: Vec<_> = capacity.gates().take(4).collect();
        assert_eq!(known[..2], [Some((7, 0.0)), None]);
        assert!(matches!(known[2], Some((9, flow)) if (flow - 0.15).abs() < 1e-12));
        assert_eq!(known[3], None);
        // The next page takes the free place, and inherits nothing from the one before.
        assert_eq!([9, 4].map(|gate| capacity.number(gate)), [Some(2), Some(1)]);
        let more = 20..20 + PAGES as u32;
        assert_eq!(
            more.filter_map(|gate| capacity.number(gate)).count(),
            PAGES - 3
        );
    }

    #[test]
    fn a_page_that_hardly_any_session_asks_for_is_nobodys_bottleneck() {
        let mut capacity = Capacity::default();
        (0..30).for_each(|_| capacity.learn(&[0.0; PAGES]));
        let queue = pages((50, Some(0.1)), (0, None));
        assert_eq!(capacity.look(queue.into_iter(), |_| 0.0), None);
    }

    #[test]
    fn any_bits_are_survived() {
        for bits in [
            1,
            u64::MAX,
            f64::NAN.to_bits(),
            (-1.0f64).to_bits(),
            1 << 62,
        ] {
            let passage = Passage {
                visits: bits,
                age: bits,
                rate: bits,
                flow: bits,
                ages: bits,
                came: bits as u32,
                stood: bits as u32,
                empty: bits,
            };
            let mut capacity = Capacity {
                gates: [bits as u32; PAGES],
                pages: [passage; PAGES],
                sessions: u32::MAX,
                _pad: 0,
            };
            let now = pages((u32::MAX, None), (u32::MAX, Some(1.0)));
            if let Some(least) = capacity.look(now.into_iter(), |age| age) {
                assert!(least.rate > 0.0 && !least.excess.is_nan(), "{least:?}");
                capacity.probe(&least, least.more(f64::INFINITY));
            }
            let mut users = Users {
                flow: bits,
                rooms: bits as u32,
                wanting: bits as u32,
            };
            users.add(1.0, true);
            assert!((0.0..=1.0).contains(&users.share(1.0, true)), "{users:?}");
            capacity.second();
            capacity.learn(&[255.0; PAGES]);
            capacity.came(0, Micros::MAX);
            capacity.came(PAGES, Micros::ZERO);
        }
    }
}
