//! [`Laws`]: the constants of our laws that no paper gives and no directive sets.
//!
//! httpd runs with [`Laws::CHOSEN`]. They are values, not constants where they are used, so that
//! `nap-sim tune` can sweep each of them with this very code (docs/tuning.md). They are not in
//! shared memory: all children of a server have the same.

use crate::micros::Micros;

/// The deadline guard (docs/dev/algorithms.md 1.3): how long before the bound a wait ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardLaw {
    /// How many times the p95 of residence,
    pub residences: f64,
    /// but at most this share of the bound.
    pub most: f64,
}

/// The late pool's share of a slot's places (2.2); parts per million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LateLaw {
    /// The share until a hundred tickets have been presented.
    pub first_ppm: u32,
    /// Then the share of late ones among those presented, but no less than this
    pub min_ppm: u32,
    /// and no more than that.
    pub max_ppm: u32,
}

/// The sale of tickets at the speed of the server (docs/promise.md).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SaleLaw {
    /// Holders come this share of the bound before the server is expected to have time for them, so
    /// that a rate taken a little too low leaves no permit empty,
    pub lead: f64,
    /// but no more than this share of the workers shall wait for it.
    pub workers: f64,
    /// The most that is sold beyond X, as a share of X, while fewer holders wait than `surplus_queue`
    /// of the bound serves: too much waits for a moment, too little is lost. It is less, the more
    /// tickets are out beyond `surplus_for`.
    pub surplus: f64,
    /// The most that is held back, as a share of X, where holders had to wait longer than they should.
    pub held_back: f64,
    /// How much more or less is sold for each bound that holders wait less or longer than `lead`.
    pub gain: f64,
    /// How far ahead tickets may be out before the surplus shrinks, in bounds.
    pub surplus_for: f64,
    /// The queue of holders below which there is a surplus, as a share of the bound.
    pub surplus_queue: f64,
    /// While others hold tickets a newcomer waits only behind a queue shorter than this share of the
    /// lead: this is what no holder came for.
    pub low: f64,
    /// No ticket starts sooner than this. Until the first of them can come newcomers wait.
    pub soon: Micros,
    /// An access that would be served no more than this before the last ticket's start may still wait.
    pub order: Micros,
    /// While the speed is unknown nobody is told anything for this share of the bound, ...
    pub hold: f64,
    /// ... and for this share where too few accesses have finished by then to tell it.
    pub hold_most: f64,
    /// A cold server becomes faster, but those told first are told by its first speed: this much more
    /// of the first X is sold, at most, ...
    pub warming: f64,
    /// ... and no more than makes the last of them wait this share of the bound longer if it does not.
    pub warming_wait: f64,
    /// Early time and prime window together are no shorter than this: clients count in whole seconds.
    pub window_min: Micros,
}

/// The early call (2.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallLaw {
    /// Run Ready must have had room for this long before the first call.
    pub room: Micros,
    /// Calls end when there has been no room for this long.
    pub lapse: Micros,
    /// Places left to visitors who come uncalled.
    pub reserve: u32,
    /// Calls are made at this many times X: some come late, and a short queue does no harm.
    pub pace: f64,
    /// How many seconds of work may wait while others are called.
    pub backlog_s: f64,
    /// X is multiplied by up to 2 to this power.
    pub eager_max: u32,
}

/// How the rate of session starts moves while the pages' limits are not known (3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLaw {
    /// What a step adds at least, as a share of the rate that was fed forward,
    pub step: f64,
    /// and what it adds as long as no queue has ever said that there are too many.
    pub first: f64,
}

/// All of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Laws {
    /// The deadline guard.
    pub guard: GuardLaw,
    /// The late pool.
    pub late: LateLaw,
    /// The sale.
    pub sale: SaleLaw,
    /// The early call.
    pub call: CallLaw,
    /// Session starts.
    pub step: StepLaw,
    /// Margin on slot capacity, "with ample margin" (eta, 2.1).
    pub eta: f64,
    /// Slots per slot period where our law fills them: what a slot was opened with is frozen.
    pub short_slots: u64,
}

impl Laws {
    /// What httpd runs with.
    pub const CHOSEN: Laws = Laws {
        guard: GuardLaw {
            residences: 1.0,
            most: 0.5,
        },
        late: LateLaw {
            first_ppm: 0,
            min_ppm: 0,
            max_ppm: 500_000,
        },
        sale: SaleLaw {
            lead: 1.0 / 8.0,
            workers: 0.5,
            surplus: 0.01,
            held_back: 0.02,
            gain: 0.16,
            surplus_for: 5.0,
            surplus_queue: 0.1,
            low: 0.25,
            soon: Micros::from_millis(500),
            order: Micros::from_millis(500),
            hold: 0.25,
            hold_most: 0.5,
            warming: 0.06,
            warming_wait: 0.25,
            window_min: Micros::from_millis(1200),
        },
        call: CallLaw {
            room: Micros::from_millis(500),
            lapse: Micros::from_secs(1),
            reserve: 2,
            pace: 1.25,
            backlog_s: 0.5,
            eager_max: 4,
        },
        step: StepLaw {
            step: 0.05,
            first: 0.1,
        },
        eta: 1.0,
        short_slots: 4,
    };
}
