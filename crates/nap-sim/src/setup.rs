//! [`Setup`]: what a simulated world is made of.

use std::sync::Arc;

use super::crowd::Manners;
use super::server::{Curve, Law, Service};
use nap_core::bwshare::limits::Limits;
use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_core::room::children::Workers;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::sqs::page_scheduler::Pace;
use nap_rng::Rng;

/// When visitors come for the first time.
#[derive(Clone, PartialEq, Debug)]
pub enum Arrivals {
    /// All within this span: the paper's flash crowd.
    Within(Micros),
    /// This many a second, independently of each other.
    Rate(f64),
    /// Each as the script says; [`Setup::clients`] and [`Setup::posts`] do not count.
    Script(Arc<[Visit]>),
}

/// A visitor of a script.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Visit {
    /// When the visitor comes for the first time, since the beginning.
    pub at: Micros,
    /// Accesses the visitor wants.
    pub posts: u32,
    /// Processor seconds of work for each of them; None: as [`Setup::service`] says.
    pub work_s: Option<f64>,
}

/// Something that goes wrong at a given time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verb {
    /// A child is killed.
    Kill,
    /// All children end and start again over the kept state.
    Restart,
    /// The application runs at this speed, 1 = as at first; 0: it no longer answers.
    Speed(f64),
    /// The clock advances by this much and nothing runs meanwhile: the machine slept.
    Sleep(Micros),
}

/// Faults, as mean numbers a second.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Faults {
    /// Children killed.
    pub kills: f64,
    /// Full restarts over a kept state.
    pub restarts: f64,
    /// Changes of Run Ready's limit, between half and twice the configured one.
    pub limits: f64,
    /// The machine sleeps, up to 20 s.
    pub suspends: f64,
    /// Deaths under the lock.
    pub mends: f64,
    /// Changes of the server's speed, between a fifth and twice the first one.
    pub speeds: f64,
}

/// A world to be simulated.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed of everything random.
    pub seed: u64,
    /// The gate's settings; `parked` follows from the workers.
    pub terms: Terms,
    /// The laws' constants, which can be swept.
    pub laws: Laws,
    /// How Run Ready's limit is found.
    pub pace: Pace,
    /// The server's workers.
    pub workers: Workers,
    /// Processors available to the application.
    pub cores: f64,
    /// How much of their work they do when many jobs share them.
    pub curve: Curve,
    /// Work of an access.
    pub service: Service,
    /// From this time on the server runs at this speed (1 = as before).
    pub shift: Option<(Micros, f64)>,
    /// Visitors.
    pub clients: u32,
    /// Accesses that each of them wants.
    pub posts: u32,
    /// When they come.
    pub arrivals: Arrivals,
    /// How they behave.
    pub manners: Manners,
    /// Faults at random times,
    pub faults: Faults,
    /// and faults at given times since the beginning.
    pub verbs: Vec<(Micros, Verb)>,
    /// Figures start at this time since the beginning; visitors who came before it are left out.
    pub counted_from: Micros,
    /// A woken waiter takes up to this long to look.
    pub wake: Micros,
    /// What an address may owe; None: debts are not counted.
    pub debts: Option<Limits>,
    /// The greatest priority that visitors have.
    pub priorities: u32,
    /// Nobody is put off at the deadline: the paper's module had no such guard.
    pub unguarded: bool,
    /// The room is bypassed: every access runs at once (the uncontrolled server).
    pub uncontrolled: bool,
}

impl Default for Setup {
    /// The paper's experiment (chapter 6): 600 visitors, 50 posts each, limit 10, bound 4 s. Otherwise the
    /// settings a room has by default, with enough workers.
    fn default() -> Setup {
        let auto = Choice::default();
        Setup {
            seed: 1,
            terms: Terms {
                bound: Micros::from_secs(4),
                run_ready: 10,
                history: 100,
                wait_limit: auto,
                re_access: auto,
                slot_period: Micros::from_secs(10),
                slot_tickets: auto,
                lifetime: Micros::from_secs(300),
                prime: Micros::ZERO,
                horizon: Micros::from_secs(24 * 3600),
                poll: Micros::from_secs(3),
                share: auto,
                overbook: auto,
                per_client: auto,
                bind: 0,
                ..Terms::default()
            },
            laws: Laws::CHOSEN,
            pace: Pace::default(),
            workers: Workers {
                per_pool: 64,
                reserve: 7,
                threaded: 1,
                pools: 10,
                parked: 0,
                on_workers: 0,
            },
            cores: 1.0,
            curve: Curve::default(),
            service: Service {
                mean_s: 0.0148,
                law: Law::Lognormal(0.35),
            },
            shift: None,
            clients: 600,
            posts: 50,
            arrivals: Arrivals::Within(Micros::from_secs(1)),
            manners: Manners::default(),
            faults: Faults::default(),
            verbs: Vec::new(),
            counted_from: Micros::ZERO,
            wake: Micros(100),
            debts: None,
            priorities: 0,
            unguarded: false,
            uncontrolled: false,
        }
    }
}

impl Setup {
    /// Whether nothing goes wrong and no child is filled by running accesses alone: then every holder finds a
    /// worker to wait on.
    pub fn is_untroubled(&self) -> bool {
        self.shift.is_none()
            && self.faults == Faults::default()
            && self.verbs.is_empty()
            && self.terms.run_ready <= self.workers.per_pool / 2
    }

    /// Whether in addition every job is short compared with the bound and all laws are ours: then nobody may
    /// be put off twice.
    pub fn is_calm(&self) -> bool {
        let terms = &self.terms;
        let alike = match self.service.law {
            Law::Fixed => true,
            Law::Lognormal(cv) => cv <= 0.5,
            _ => false,
        };
        let slowest = f64::from(terms.run_ready).max(self.cores) / self.cores;
        let laws = [
            terms.wait_limit,
            terms.re_access,
            terms.slot_tickets,
            terms.share,
        ];
        alike
            && self.is_untroubled()
            && slowest * self.service.mean_s < terms.bound.as_secs_f64() / 8.0
            && laws.iter().all(|law| law.how == how::AUTO)
    }

    /// The priority of a visitor.
    pub(super) fn priority_of(&self, client: u32) -> u32 {
        match self.priorities {
            0 => 0,
            most => Rng::new(self.seed, u64::from(client)).below(u64::from(most) + 1) as u32,
        }
    }

    /// The paper's laws: its queue, its slots, no deadline guard.
    pub fn as_in_the_paper(mut self) -> Setup {
        let paper = Choice {
            how: how::PAPER,
            n: 0,
        };
        self.terms.wait_limit = paper;
        self.terms.slot_tickets = paper;
        self.unguarded = true;
        self
    }
}
