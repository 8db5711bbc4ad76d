//! [`Laws`]: the constants of our laws that no paper gives and no directive sets.
//!
//! httpd runs with [`Laws::CHOSEN`]. That they are values, not constants at the place where they are
//! used, is for `nap-sim tune`, which sweeps each with the very code (docs/tuning.md). They are in no
//! shared memory: all children of a server have the same.

use crate::micros::Micros;

/// The deadline guard (ALGORITHMS.md 1.3): how long before the bound a wait ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardLaw {
    /// So many times the p95 of residence,
    pub residences: f64,
    /// but at most this share of the bound.
    pub most: f64,
}

/// phi, the share that is sold as tickets (2.5); parts per million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareLaw {
    /// It begins here,
    pub start_ppm: u32,
    /// and moves so far a slot,
    pub step_ppm: u32,
    /// no lower than this
    pub min_ppm: u32,
    /// and no higher than that,
    pub max_ppm: u32,
    /// towards a median wait for tickets of so many bounds.
    pub goal: u32,
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
    /// phi.
    pub share: ShareLaw,
    /// The late pool.
    pub late: LateLaw,
    /// The early call.
    pub call: CallLaw,
    /// Session starts.
    pub step: StepLaw,
    /// Margin on slot capacity, "with ample margin" (eta, 2.1).
    pub eta: f64,
    /// A slot period has so many slots before anything is known.
    pub cold_slots: u64,
}

impl Laws {
    /// What httpd runs with.
    pub const CHOSEN: Laws = Laws {
        guard: GuardLaw {
            residences: 1.0,
            most: 0.5,
        },
        share: ShareLaw {
            start_ppm: 700_000,
            step_ppm: 50_000,
            min_ppm: 100_000,
            max_ppm: 900_000,
            goal: 3,
        },
        late: LateLaw {
            first_ppm: 100_000,
            min_ppm: 50_000,
            max_ppm: 500_000,
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
        eta: 0.9,
        cold_slots: 8,
    };
}
