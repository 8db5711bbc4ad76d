//! [`ShopSetup`]: what a simulated shop is made of, and [`Outcome`]: what it came to.

use crate::micros::Micros;
use crate::room::starts::StartTerms;
use crate::sqs::page_scheduler::{Pace, law};

/// Pages of a session, and which of them is heavy.
pub const PAGES: usize = 7;
/// The search.
pub const HEAVY: usize = 4;

/// How a shop is kept from being overrun.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    /// Not at all: whoever asks runs.
    Open,
    /// So many sessions at once; who would be one more is refused, and tries again.
    SessionLimit(u32),
    /// By the room.
    Room {
        /// As the paper's server: who has broken off is not noticed, his place and page stay; a
        /// refusal says nothing, and he tries again.
        deaf: bool,
    },
}

/// How long visitors think between two pages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Think {
    /// All so many seconds.
    Fixed(f64),
    /// Exponential with this mean, seconds.
    Exponential(f64),
}

/// What a shop is made of.
#[derive(Clone, Copy, Debug)]
pub struct ShopSetup {
    /// Everything random comes from it.
    pub seed: u64,
    /// Visitors.
    pub clients: usize,
    /// Each has one session, and the run ends with the last; else he begins another when he has
    /// finished one.
    pub once: bool,
    /// They come for the first time within this span.
    pub within: Micros,
    /// Time to think.
    pub think: Think,
    /// A visitor breaks off after so long: one of the two by a coin.
    pub timeouts: [Micros; 2],
    /// What keeps order.
    pub way: Way,
    /// How sessions start.
    pub starts: StartTerms,
    /// The bound at the session gate.
    pub bound: Micros,
    /// Permits of light pages and of the heavy one.
    pub pace: [Pace; 2],
    /// Work of a light page and of the heavy one, seconds,
    pub work_s: [f64; 2],
    /// each time up to this share more or less, all of it alike likely.
    pub spread: [f64; 2],
    /// Processors that share it.
    pub processors: f64,
    /// What each search beyond the second takes of the others' speed.
    pub contention: f64,
    /// The pages of those who hold tickets ask whether they may come earlier.
    pub asks: bool,
    /// They come up to so many seconds after the time they were told.
    pub reaction_s: f64,
    /// The session nearest its end is served first.
    pub progress: bool,
    /// The light pages have the heavy one's gate.
    pub one_gate: bool,
    /// It goes on no longer; a run in which no session has ended for `silence` neither.
    pub length: Micros,
    /// See `length`.
    pub silence: Micros,
}

/// A limit that stays.
pub fn fixed(limit: u32) -> Pace {
    Pace {
        law: law::FIXED,
        start: limit,
        lo: limit,
        hi: limit,
        ..Pace::default()
    }
}

/// A limit that finds itself by this law, as in httpd on two processors.
pub fn found(law: u32) -> Pace {
    Pace {
        law,
        own: 0,
        start: 4,
        lo: 1,
        hi: 256,
        history: 0,
    }
}

/// What it came to.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Outcome {
    /// Sessions finished.
    pub sessions: u64,
    /// When the last visitor was done, since the first came; none: some never were.
    pub done_s: Option<f64>,
    /// From a visitor's first request to the end of his session, seconds, as they ended.
    pub took_s: Vec<f64>,
    /// From request to page, seconds, by page, as they came.
    pub response_s: [Vec<f64>; PAGES],
    /// Times that a visitor broke off, by page.
    pub broken_off: [u64; PAGES],
    /// Pages after the first that a visitor broke off or was refused.
    pub mid_session: u64,
    /// Refused members: there must be none.
    pub members_refused: u64,
    /// Refused at the first page with a ticket,
    pub tickets: u64,
    /// or with none.
    pub untold: u64,
    /// Tickets presented in their prime window and not let in.
    pub broken: u64,
    /// The schedulers, second by second.
    pub course: Vec<Second>,
}

/// A second of a shop's course.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Second {
    /// Since the beginning, seconds.
    pub at: f64,
    /// Mean length of the page queues.
    pub queue: f64,
    /// The session interval, seconds.
    pub interval: f64,
    /// Visitors who wait to start, and tickets that are out.
    pub waiting: [u32; 2],
    /// Limits of the light pages and of the heavy one.
    pub limits: [u32; 2],
}

impl Outcome {
    /// Sessions a second over the whole run; none: it never ended.
    pub fn sessions_per_s(&self) -> Option<f64> {
        Some(self.sessions as f64 / self.done_s?)
    }
}
