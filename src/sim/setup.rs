//! [`Setup`]: what a simulated world is made of.

use super::crowd::Manners;
use super::server::{Law, Service};
use crate::micros::Micros;
use crate::room::children::Workers;
use crate::room::terms::{Choice, Terms, how};

/// When visitors come for the first time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// All within this span: the flash crowd of the paper.
    Within(Micros),
    /// So many a second, independently of each other.
    Rate(f64),
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
    /// The server's workers.
    pub workers: Workers,
    /// Processors the application has.
    pub cores: f64,
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
    /// What goes wrong.
    pub faults: Faults,
    /// A woken waiter takes up to this long to look.
    pub wake: Micros,
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
                prime: Micros::from_secs(5),
                horizon: Micros::from_secs(24 * 3600),
                share: auto,
                overbook: auto,
                per_client: auto,
                bind: 0,
                parked: 0,
            },
            workers: Workers {
                per_pool: 64,
                reserve: 7,
                threaded: 1,
                pools: 10,
            },
            cores: 1.0,
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
            wake: Micros(100),
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

    /// The laws of the paper: its line, a static Re Access as long as Wait, its slots.
    pub fn as_in_the_paper(mut self) -> Setup {
        let paper = Choice {
            how: how::PAPER,
            n: 0,
        };
        self.terms.wait_limit = paper;
        self.terms.slot_tickets = paper;
        self
    }
}
