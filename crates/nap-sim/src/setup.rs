//! [`Setup`]: what a simulated world is made of.

use std::sync::Arc;

use super::crowd::Manners;
use super::server::{Curve, Law, Service};
use nap_core::bwshare::limits::Limits;
use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_core::rng::Rng;
use nap_core::room::children::Workers;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::sqs::page_scheduler::Pace;

/// When visitors come for the first time.
#[derive(Clone, PartialEq, Debug)]
pub enum Arrivals {
    /// All within this span: the flash crowd of the paper.
    Within(Micros),
    /// So many a second, independently of each other.
    Rate(f64),
    /// Each as it is written, whatever [`Setup::clients`] and [`Setup::posts`] say.
    Script(Arc<[Visit]>),
}

/// A visitor of a script.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Visit {
    /// When he comes for the first time, since the beginning.
    pub at: Micros,
    /// Accesses he wants.
    pub posts: u32,
    /// Work of each of them in seconds of one processor; none: as [`Setup::service`] says.
    pub work_s: Option<f64>,
}

/// Something that goes wrong at a time of its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verb {
    /// A child is killed.
    Kill,
    /// All children end and begin anew over the kept state.
    Restart,
    /// The application runs at this speed, 1 = as at first; 0: it answers nothing any more.
    Speed(f64),
    /// The clock goes on by so much, and nobody runs meanwhile: the machine slept.
    Sleep(Micros),
}

/// What goes wrong, each so many times a second on average.
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
    /// Everything random comes from it.
    pub seed: u64,
    /// The gate's settings; `parked` follows from the workers.
    pub terms: Terms,
    /// The laws' constants, to be swept.
    pub laws: Laws,
    /// How Run Ready's limit is found.
    pub pace: Pace,
    /// The server's workers.
    pub workers: Workers,
    /// Processors the application has.
    pub cores: f64,
    /// What they do when many share them.
    pub curve: Curve,
    /// Work of an access.
    pub service: Service,
    /// From this time on the server runs at this speed (1 = as before).
    pub shift: Option<(Micros, f64)>,
    /// Visitors.
    pub clients: u32,
    /// Accesses each of them wants.
    pub posts: u32,
    /// When they come.
    pub arrivals: Arrivals,
    /// How they behave.
    pub manners: Manners,
    /// What goes wrong, by chance,
    pub faults: Faults,
    /// and what goes wrong when, since the beginning.
    pub verbs: Vec<(Micros, Verb)>,
    /// Who came before this time, since the beginning, is in no figure; they begin here.
    pub counted_from: Micros,
    /// A woken waiter takes up to this long to look.
    pub wake: Micros,
    /// What an address may owe; None: no debts.
    pub debts: Option<Limits>,
    /// Each visitor has a priority up to this one.
    pub priorities: u32,
    /// Nobody is put off at his deadline: the paper's module had no such guard.
    pub unguarded: bool,
    /// The room is bypassed: whoever comes runs at once (the uncontrolled server).
    pub uncontrolled: bool,
}

impl Default for Setup {
    /// The paper's experiment (chapter 6): 600 visitors, 50 posts each, limit 10, bound 4 s, and
    /// the settings a room has by default, with workers enough.
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
                ..Terms::EMPTY
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
    /// Nothing goes wrong, and those who run fill no child alone: here every holder finds a worker
    /// to wait on.
    pub fn is_untroubled(&self) -> bool {
        self.shift.is_none()
            && self.faults == Faults::default()
            && self.verbs.is_empty()
            && self.terms.run_ready <= self.workers.per_pool / 2
    }

    /// Besides, every job is short against the bound and all laws are ours: here nobody may be put
    /// off twice.
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

    /// The laws of the paper: its line, its slots, no deadline guard.
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
