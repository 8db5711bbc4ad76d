//! [`Laws`]: the constants of our laws that no paper gives and no directive sets.
//!
//! httpd runs with [`Laws::CHOSEN`]. That they are values, not constants at the place where they are
//! used, is for `nap-sim tune`, which sweeps each with the very code (docs/tuning.md). They are in no
//! shared memory: all children of a server have the same.

use crate::micros::Micros;

/// The deadline guard (docs/dev/algorithms.md 1.3): how long before the bound a wait ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardLaw {
    /// So many times the p95 of residence,
    pub residences: f64,
    /// but at most this share of the bound.
    pub most: f64,
}

/// The late pool's share of a slot's places (2.2); parts per million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LateLaw {
    /// Until a hundred have been presented.
    pub first_ppm: u32,
    /// Then what the late are of all, but no less than this
    pub min_ppm: u32,
    /// and no more than that.
    pub max_ppm: u32,
}

/// The sale of tickets at the speed of the server (docs/promise.md).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SaleLaw {
    /// Holders come so much of the bound before the server is expected to have time for them: a rate that
    /// was taken a little too low then leaves no permit empty,
    pub lead: f64,
    /// but no more than this share of the workers shall wait for it.
    pub workers: f64,
    /// Of X, what is sold beyond it, at most, while fewer holders wait than `surplus_queue` of the bound serves:
    /// what is too much waits for a moment, and what is too little is lost. Less, the more tickets are out
    /// beyond `surplus_for`.
    pub surplus: f64,
    /// Of X, what is held back, at most, where holders have had to wait for longer than they should.
    pub held_back: f64,
    /// By so much more or less is sold for each bound that holders wait less or longer than `lead`.
    pub gain: f64,
    /// In bounds.
    pub surplus_for: f64,
    /// Of the bound.
    pub surplus_queue: f64,
    /// While others hold tickets a newcomer waits only behind a queue shorter than this share of the
    /// lead: what nobody came for.
    pub low: f64,
    /// No ticket starts sooner than this. Until the first of them can come newcomers wait.
    pub soon: Micros,
    /// Who would be served so little before the last ticket that is out comes in his turn all the same.
    pub order: Micros,
    /// Before the speed is known nobody is told anything for this share of the bound.
    pub hold: f64,
    /// A cold server becomes faster, and those who are told first are told by what it was: of the first X so
    /// much more is sold, at most, ...
    pub warming: f64,
    /// ... and no more than makes the last of them wait for this share of the bound longer where it does not.
    pub warming_wait: f64,
    /// Both windows together are no shorter than this: clients count in whole seconds.
    pub window_min: Micros,
}

/// The early call (2.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallLaw {
    /// Run Ready has had room for so long before the first call.
    pub room: Micros,
    /// Without room for so long: nobody is called any more.
    pub lapse: Micros,
    /// Places left to whoever comes uncalled.
    pub reserve: u32,
    /// Calls are made at so many times X: some come late, and a short queue is no harm.
    pub pace: f64,
    /// So many seconds of work may wait while others are called.
    pub backlog_s: f64,
    /// X is taken for up to 2 to this power times what it was measured.
    pub eager_max: u32,
}

/// How the rate of session starts moves while the pages' limits are not known (3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLaw {
    /// Of the rate that was fed forward, what a step adds at least,
    pub step: f64,
    /// and as long as no queue has ever said that there are too many.
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
    /// A slot period has so many slots where our law fills them: what a slot was opened with is frozen.
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
