//! [`Site`]: what a simulated site is made of; [`ShopSetup`]: the paper's shop as a site; [`ShopOutcome`]: the
//! results.

use super::ShopFaults;
use crate::server::{Curve, Law, Service};
use nap_core::bwshare::limits::Limits;
use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_core::room::children::Workers;
use nap_core::room::starts::StartTerms;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::sqs::page_scheduler::{Pace, law};

/// Pages of a session, and which of them is heavy.
pub const PAGES: usize = 7;
/// The search.
pub const HEAVY: usize = 4;

/// How a shop is kept from being overrun.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Keeping {
    /// Not at all: every access runs at once.
    Open,
    /// At most this many sessions at once; one more visitor is refused, and tries again.
    SessionLimit(u32),
    /// By the room.
    Room {
        /// As the paper's server: a visitor who breaks off is not noticed, and their place and page stay. A
        /// refusal says nothing, and the visitor tries again.
        deaf: bool,
    },
}

/// How long visitors think between two pages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Think {
    /// This many seconds each time.
    Fixed(f64),
    /// Exponential with this mean, seconds.
    Exponential(f64),
}

/// A kind of page.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kind {
    /// Its gate, an index into [`Site::gates`].
    pub gate: u32,
    /// Work of one page.
    pub service: Service,
    /// Pages of this kind that are under way slow each other down, see [`Site::contention`].
    pub heavy: bool,
}

/// Which pages a visit has.
#[derive(Clone, PartialEq, Debug)]
pub enum Order {
    /// Each of [`Site::kinds`], one after the other.
    Listed,
    /// This many, each of a kind drawn by these shares, which add up to 1.
    Drawn(u32, Vec<f64>),
}

/// When visitors come for the first time.
#[derive(Clone, PartialEq, Debug)]
pub enum Coming {
    /// This many within this span.
    Within(usize, Micros),
    /// At these times, since the beginning; each with this many pages of [`Order::Drawn`].
    At(Vec<(Micros, u32)>),
}

/// How long visitors wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Patience {
    /// For each answer one of the two, by a coin; a visitor who breaks off begins again at the second page.
    Returns([Micros; 2]),
    /// For each page, tickets included, exponential with this mean ([`Micros::MAX`]: as long as it takes). A
    /// visitor who loses patience goes for good.
    Goes(Micros),
}

/// The sessions of a site's room.
#[derive(Clone, Copy, Debug)]
pub struct SessionTerms {
    /// Settings of the session gate.
    pub lobby: Terms,
    /// How sessions start.
    pub starts: StartTerms,
    /// Any page starts a session; otherwise only the first.
    pub anywhere: bool,
    /// The last page ends the session; otherwise only idle time does.
    pub ends: bool,
    /// Room in the table for this many.
    pub most: u64,
}

/// mod_bwshare in front of a site. Each visitor has their own address.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Debts {
    /// What an address may owe.
    pub limits: Limits,
    /// Files that are asked for as soon as a page arrives; they belong to no room.
    pub parts: u32,
    /// Bytes of a page, and of each of its parts.
    pub bytes: u64,
    /// This many robots ask for the first page,
    pub robots: usize,
    /// each again after this long, whatever it has been told.
    pub every: Micros,
}

/// What a site is made of.
#[derive(Clone, Debug)]
pub struct Site {
    /// The seed of everything random.
    pub seed: u64,
    /// When visitors come.
    pub coming: Coming,
    /// Each visitor has one visit, and the run ends with the last; otherwise visitors begin another visit
    /// when they have finished one.
    pub once: bool,
    /// Time to think.
    pub think: Think,
    /// When visitors break off.
    pub patience: Patience,
    /// How the site is kept from being overrun.
    pub way: Keeping,
    /// The laws' constants, to be swept.
    pub laws: Laws,
    /// The pages' gates and how their permits are found.
    pub gates: Vec<(Terms, Pace)>,
    /// None: each page gate sells its own tickets.
    pub sessions: Option<SessionTerms>,
    /// None: nobody is charged.
    pub debts: Option<Debts>,
    /// The server's workers; None: there are always enough.
    pub workers: Option<Workers>,
    /// Pages.
    pub kinds: Vec<Kind>,
    /// Which pages a visit has.
    pub order: Order,
    /// Processors that share the work.
    pub processors: f64,
    /// How much of it they do when many share them.
    pub curve: Curve,
    /// What each heavy page beyond the second takes of the others' speed.
    pub contention: f64,
    /// Share of ticket holders whose page asks whether they may come earlier.
    pub asks: f64,
    /// Visitors come up to this many seconds after the time they were told.
    pub reaction_s: f64,
    /// Maximum length of the run; it also ends when no visit has ended for `silence`.
    pub length: Micros,
    /// See `length`.
    pub silence: Micros,
    /// What goes wrong.
    pub faults: ShopFaults,
}

/// What a shop is made of.
#[derive(Clone, Copy, Debug)]
pub struct ShopSetup {
    /// The seed of everything random.
    pub seed: u64,
    /// Visitors.
    pub clients: usize,
    /// Each visitor has one session, and the run ends with the last; otherwise visitors begin another session
    /// when they have finished one.
    pub once: bool,
    /// They come for the first time within this span.
    pub within: Micros,
    /// Time to think.
    pub think: Think,
    /// A visitor breaks off after this long: one of the two by a coin.
    pub timeouts: [Micros; 2],
    /// How the shop is kept from being overrun.
    pub way: Keeping,
    /// How sessions start.
    pub starts: StartTerms,
    /// The bound at the session gate.
    pub bound: Micros,
    /// Permits of light pages and of the heavy one.
    pub pace: [Pace; 2],
    /// Work of a light page and of the heavy one, seconds,
    pub work_s: [f64; 2],
    /// each varied uniformly by up to this share.
    pub spread: [f64; 2],
    /// Processors that share the work.
    pub processors: f64,
    /// What each search beyond the second takes of the others' speed.
    pub contention: f64,
    /// Whether ticket holders' pages ask whether they may come earlier.
    pub asks: bool,
    /// Visitors come up to this many seconds after the time they were told.
    pub reaction_s: f64,
    /// Whether the session nearest its end is served first.
    pub progress: bool,
    /// Whether the light pages use the heavy one's gate.
    pub one_gate: bool,
    /// Maximum length of the run; it also ends when no session has ended for `silence`.
    pub length: Micros,
    /// See `length`.
    pub silence: Micros,
}

/// Gates of a shop: light pages, the heavy one.
const LIGHT_GATE: u32 = 0;
const HEAVY_GATE: u32 = 1;
/// Sessions for which a shop's table has room.
const MOST: u64 = 3072;

impl ShopSetup {
    /// The shop as a site: log in, browse three pages, search, buy, log out.
    pub fn site(&self) -> Site {
        let kind = |page: usize| {
            let heavy = usize::from(page == HEAVY);
            Kind {
                gate: match heavy == 1 || self.one_gate {
                    true => HEAVY_GATE,
                    false => LIGHT_GATE,
                },
                service: Service {
                    mean_s: self.work_s[heavy],
                    law: Law::Uniform(self.spread[heavy]),
                },
                heavy: heavy == 1,
            }
        };
        Site {
            seed: self.seed,
            coming: Coming::Within(self.clients, self.within),
            once: self.once,
            think: self.think,
            patience: Patience::Returns(self.timeouts),
            way: self.way,
            laws: Laws::CHOSEN,
            gates: self
                .pace
                .map(|pace| (self.terms(pace.start), pace))
                .to_vec(),
            sessions: Some(SessionTerms {
                lobby: self.terms(8),
                starts: self.starts,
                anywhere: false,
                ends: true,
                most: MOST,
            }),
            debts: None,
            workers: None,
            kinds: (0..PAGES).map(kind).collect(),
            order: Order::Listed,
            processors: self.processors,
            curve: Curve::default(),
            contention: self.contention,
            asks: f64::from(u8::from(self.asks)),
            reaction_s: self.reaction_s,
            length: self.length,
            silence: self.silence,
            faults: ShopFaults::default(),
        }
    }

    fn terms(&self, run_ready: u32) -> Terms {
        let auto = Choice::default();
        Terms {
            bound: self.bound,
            run_ready,
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
            per_client: Choice {
                how: how::FIXED,
                n: u32::MAX,
            },
            bind: 0,
            parked: 2000,
            progress: u32::from(self.progress),
            ..Terms::default()
        }
    }
}

/// A fixed limit.
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
        start: 2,
        lo: 1,
        hi: 256,
        history: 0,
    }
}

/// The results of a run.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct ShopOutcome {
    /// Sessions finished.
    pub sessions: u64,
    /// When the last visitor was done, since the first came; None: some never were.
    pub done_s: Option<f64>,
    /// From a visitor's first request to the end of their session, seconds, in the order they ended.
    pub took_s: Vec<f64>,
    /// From request to page, seconds, by kind of page, in the order they came.
    pub response_s: Vec<Vec<f64>>,
    /// The same from the first request for the page, tickets included.
    pub total_s: Vec<Vec<f64>>,
    /// Times that a visitor broke off, by kind of page.
    pub broken_off: Vec<u64>,
    /// Pages after the first at which a visitor broke off or, if there are sessions, was refused.
    pub mid_session: u64,
    /// Visitors who went for good, before or after their first page.
    pub gone: u64,
    /// Refused members: there must be none.
    pub members_refused: u64,
    /// Refused as strangers though they had a session: there must be none.
    pub forgotten: u64,
    /// Refused at the gate in their ticket's prime window: there must be none.
    pub turned_away: u64,
    /// Refused with a ticket where one is sold (with sessions: at the first page),
    pub tickets: u64,
    /// or without one.
    pub untold: u64,
    /// Time from these refusals to the ticket's time, seconds.
    pub told_s: Vec<f64>,
    /// Pages asked for.
    pub requests: u64,
    /// Refused because of what was owed: requests of visitors, and of robots.
    pub slowed: [u64; 2],
    /// Let in although too much was owed: with a ticket in its prime window, or as members.
    pub excused: u64,
    /// Slowed members who owed no more than members may: there must be none.
    pub members_slowed: u64,
    /// Tickets presented in their prime window and not let in, or put off twice.
    pub broken: u64,
    /// The schedulers' state, second by second.
    pub course: Vec<Second>,
}

/// A second of a shop's course.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Second {
    /// Since the beginning, seconds.
    pub at: f64,
    /// Mean length of the page queues.
    pub queue: f64,
    /// The session interval, seconds.
    pub interval: f64,
    /// Visitors who wait where tickets are sold, and tickets that are out.
    pub waiting: [u32; 2],
    /// Limits of the pages.
    pub limits: Vec<u32>,
}

impl ShopOutcome {
    /// Sessions a second over the whole run; None: it never ended.
    pub fn sessions_per_s(&self) -> Option<f64> {
        Some(self.sessions as f64 / self.done_s?)
    }
}
