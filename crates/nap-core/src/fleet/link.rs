//! [`Link`]: the agent and the store, as this node sees them.

use std::sync::atomic::{
    AtomicI64, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};

use super::guests::Told;
use super::orders::Orders;
use super::trouble::Trouble;
use crate::micros::Micros;

/// Upper ends of the round trip's histogram, in microseconds; what is longer is in one cell more.
pub const TRIPS_UP_TO: [u64; 9] = [
    250, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 100_000, 1_000_000,
];

/// An agent that has not moved for so long is not there.
pub const AGENT_SILENT: Micros = Micros::from_secs(1);

/// How this node stands to its fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Standing {
    /// There is no agent, or it has not spoken yet.
    #[default]
    Starting = 0,
    /// It is a member, and the store answers.
    Joined = 1,
    /// It is a member, and the store is away.
    Away = 2,
    /// It runs alone, and [`Link::trouble`] says why.
    Alone = 3,
}

/// What became of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Heard {
    /// The ticket is this node's.
    Mine = 0,
    /// It was used elsewhere.
    Used = 1,
    /// Its access waits elsewhere.
    Waits = 2,
    /// There was no answer in time,
    Silent = 3,
    /// or nobody was asked: the store is away, or all letters are on their way.
    Away = 4,
}

impl Heard {
    /// What a request was told.
    pub fn of(told: Told) -> Heard {
        match told {
            Told::Mine => Heard::Mine,
            Told::Used => Heard::Used,
            Told::Waits => Heard::Waits,
            Told::Silent => Heard::Silent,
        }
    }

    /// All of them, in their order.
    pub const ALL: [Heard; 5] = [
        Heard::Mine,
        Heard::Used,
        Heard::Waits,
        Heard::Silent,
        Heard::Away,
    ];
}

/// After so many letters without an answer none is sent,
const SILENCES: u32 = 3;
/// for so long.
const SILENCE: Micros = Micros::from_secs(1);

impl Standing {
    fn of(number: u32) -> Standing {
        let all = [Standing::Joined, Standing::Away, Standing::Alone];
        let known = all.into_iter().find(|one| *one as u32 == number);
        known.unwrap_or_default()
    }
}

/// Written by the agent alone, but for `agent`, `starts`, which the parent counts, and how the node stands while no agent
/// can be started; read by all. All zero = there is no agent.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Link {
    /// Process id of the agent whose turn it is; one that finds another's number here leaves.
    pub agent: AtomicU32,
    /// [`Standing`].
    standing: AtomicU32,
    /// [`Trouble`]'s number; 0: none.
    trouble: AtomicU32,
    /// This node's number in the fleet, 1..=255; 0: it has none yet.
    pub node: AtomicU32,
    /// Inside time of the agent's last sign of life, microseconds.
    pub agent_seen: AtomicU64,
    /// Inside time of the store's last good answer, microseconds; 0: never.
    pub store_heard: AtomicU64,
    /// Inside time since when it stands as it does, microseconds.
    pub since: AtomicU64,
    /// Fleet time minus inside time, microseconds. It moves by 1 % at most.
    pub offset: AtomicI64,
    /// How far `offset` is from what was measured last, microseconds.
    pub offset_left: AtomicI64,
    /// The last beat's round trip, microseconds.
    pub round_trip: AtomicU64,
    /// Beats by their round trip: see [`TRIPS_UP_TO`].
    pub trips: [AtomicU64; TRIPS_UP_TO.len() + 1],
    /// All round trips together, microseconds.
    pub trips_sum: AtomicU64,
    /// For how long the store has been away in all, microseconds, without an outage that lasts.
    pub away: AtomicU64,
    /// Outages that have begun.
    pub outages: AtomicU64,
    /// Agents that were started.
    pub starts: AtomicU64,
    /// The fleet's epoch: the store makes it once, and anew if it has been emptied.
    pub epoch: AtomicU64,
    /// Rung by children when there is something for the agent to do at once; it sleeps on this.
    pub bell: AtomicU32,
    /// How often the store has told what requests may wait for: places that were leased, and what clients hold of the other
    /// nodes. They sleep on this.
    pub news: AtomicU32,
    _pad: u32,
    /// Letters in a row that had no answer in time.
    unanswered: AtomicU32,
    /// Inside time of the last of them, microseconds.
    unanswered_at: AtomicU64,
    /// Letters by what was heard: see [`Heard`].
    heard: [AtomicU64; Heard::ALL.len()],
    /// Tickets redeemed here that another node had redeemed, too.
    pub redeemed_twice: AtomicU64,
    /// What is ordered for all nodes; children write there, too.
    pub orders: Orders,
}

impl Link {
    /// How this node stands to its fleet, seen at `now`: whatever the agent said last, one that is silent for
    /// [`AGENT_SILENT`] has no store.
    pub fn standing(&self, now: Micros) -> Standing {
        let said = Standing::of(self.standing.load(Relaxed));
        let seen = Micros(self.agent_seen.load(Relaxed));
        match said {
            Standing::Joined if now - seen > AGENT_SILENT => Standing::Away,
            said => said,
        }
    }

    /// Fleet time minus inside time, microseconds; None: it is not known yet, and may soon be.
    pub fn offset(&self) -> Option<i64> {
        let starting = Standing::of(self.standing.load(Acquire)) == Standing::Starting;
        let offset = self.offset.load(Relaxed);
        (offset != 0 || !starting).then_some(offset)
    }

    /// Its server begins anew, over what another one left: nothing is known of the store, nor of its time, as the clock
    /// that inside time goes by may have been set.
    pub fn renew(&self) {
        for word in [&self.agent, &self.standing, &self.trouble, &self.unanswered] {
            word.store(0, Relaxed);
        }
        for word in [&self.agent_seen, &self.store_heard, &self.since] {
            word.store(0, Relaxed);
        }
        self.offset.store(0, Relaxed);
        self.offset_left.store(0, Relaxed);
    }

    /// Why it does not stand as it should.
    pub fn trouble(&self) -> Option<Trouble> {
        Trouble::of(self.trouble.load(Relaxed))
    }

    /// It stands so from `now` on.
    pub fn stand(&self, now: Micros, standing: Standing, trouble: Option<Trouble>) {
        let number = trouble.map_or(0, |trouble| trouble as u32);
        self.trouble.store(number, Relaxed);
        // Who sees it sees the offset that was known before.
        let before = Standing::of(self.standing.swap(standing as u32, AcqRel));
        if before == standing {
            return;
        }
        let since = Micros(self.since.swap(now.0, Relaxed));
        if before == Standing::Away {
            let lasted = now - since;
            self.away.fetch_add(lasted.0, Relaxed);
        }
        if standing == Standing::Away {
            self.outages.fetch_add(1, Relaxed);
        }
    }

    /// Is the store to be asked at `now`, and will a request soon have its answer?
    pub fn is_to_be_asked(&self, now: Micros) -> bool {
        let silent = self.unanswered.load(Relaxed) >= SILENCES;
        let at = Micros(self.unanswered_at.load(Relaxed));
        self.standing(now) == Standing::Joined && (!silent || now - at >= SILENCE)
    }

    /// This became of a letter at `now`.
    pub fn note_heard(&self, heard: Heard, now: Micros) {
        match heard {
            Heard::Silent => {
                self.unanswered.fetch_add(1, Relaxed);
                self.unanswered_at.store(now.0, Relaxed);
            }
            Heard::Away => {}
            Heard::Mine | Heard::Used | Heard::Waits => self.unanswered.store(0, Relaxed),
        }
        self.heard[heard as usize].fetch_add(1, Relaxed);
    }

    /// How many letters of which this became.
    pub fn heard(&self, heard: Heard) -> u64 {
        self.heard[heard as usize].load(Relaxed)
    }

    /// The store has answered at `now`, after `trip`.
    pub fn answered(&self, now: Micros, trip: Micros) {
        self.store_heard.store(now.0, Relaxed);
        self.round_trip.store(trip.0, Relaxed);
        self.trips_sum.fetch_add(trip.0, Relaxed);
        let cell = TRIPS_UP_TO.iter().position(|end| trip.0 <= *end);
        let cell = cell.unwrap_or(TRIPS_UP_TO.len());
        self.trips[cell].fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_has_stopped_moving_has_no_store() {
        let link = Link::default();
        let at = Micros::from_secs(10);
        assert_eq!(link.standing(at), Standing::Starting);
        link.agent_seen.store(at.0, Relaxed);
        link.stand(at, Standing::Joined, None);
        assert_eq!(link.standing(at + AGENT_SILENT), Standing::Joined);
        let later = at + AGENT_SILENT + Micros(1);
        assert_eq!(link.standing(later), Standing::Away);
    }

    #[test]
    fn the_offset_of_a_node_that_starts_is_not_known_until_the_store_has_answered_or_failed() {
        let link = Link::default();
        assert_eq!(link.offset(), None);
        link.offset.store(-7, Relaxed);
        assert_eq!(link.offset(), Some(-7), "heard, and not a member yet");
        let failed = Link::default();
        failed.stand(Micros::ZERO, Standing::Alone, Some(Trouble::Refused));
        assert_eq!(failed.offset(), Some(0), "its own clock is all it has");
    }

    #[test]
    fn a_server_that_begins_anew_keeps_no_time() {
        let link = Link::default();
        link.answered(Micros::from_secs(1), Micros(200));
        link.offset.store(3_600_000_000, Relaxed);
        link.stand(Micros::from_secs(1), Standing::Joined, None);
        link.renew();
        assert_eq!((link.offset(), link.store_heard.load(Relaxed)), (None, 0));
        assert_eq!(
            link.trips_sum.load(Relaxed),
            200,
            "what was counted is kept"
        );
    }

    #[test]
    fn an_outage_is_counted_once_and_its_length_when_it_ends() {
        let link = Link::default();
        let [gone, still, back] = [20, 30, 41].map(Micros::from_secs);
        link.stand(gone, Standing::Away, Some(Trouble::Refused));
        link.stand(still, Standing::Away, Some(Trouble::Silent));
        assert_eq!(link.trouble(), Some(Trouble::Silent));
        assert_eq!(link.away.load(Relaxed), 0);
        link.stand(back, Standing::Joined, None);
        assert_eq!(link.away.load(Relaxed), 21_000_000);
        assert_eq!(link.outages.load(Relaxed), 1);
        assert_eq!(link.trouble(), None);
    }

    #[test]
    fn a_round_trip_is_in_the_first_cell_that_reaches_so_far() {
        let link = Link::default();
        for trip in [0, 250, 251, 1_000_000, 1_000_001] {
            link.answered(Micros::from_secs(1), Micros(trip));
        }
        let counts = link.trips.each_ref().map(|cell| cell.load(Relaxed));
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(link.trips_sum.load(Relaxed), 2_000_502);
    }
}
