//! What the pages read of a [`Till`]: what one client owes ([`Owing`]), what each of the trace does ([`DebtRow`]), and
//! all together ([`Totals`]). And what the administrator forgives.

use std::collections::HashMap;

use super::limit::Limit;
use super::{Books, Till};
use crate::bwshare::limits::DebtAnswer;
use crate::bwshare::service::Service;
use crate::bwshare::table::{DebtCounts, Stripe};
use crate::bwshare::trace::TraceRow;

/// What a client owes now.
#[derive(Clone, Copy, Debug)]
pub struct Owing {
    /// Its file debt.
    pub files: f64,
    /// Its byte debt.
    pub bytes: f64,
    /// What it would be told if it asked now.
    pub answer: DebtAnswer,
}

/// A client of the trace, and what it owes now.
#[derive(Clone, Copy, Debug)]
pub struct DebtRow {
    /// What it has done.
    pub row: TraceRow,
    /// What it owes.
    pub owing: Owing,
    /// The maxima of both debts.
    pub max: [f64; 2],
    /// Now.
    pub now_ns: u64,
}

/// What has happened in all stripes together.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    /// Counted.
    pub counts: DebtCounts,
    /// Clients and networks in debt.
    pub in_debt: usize,
    /// Clients in debt there is room for.
    pub clients: usize,
    /// Rows of the trace.
    pub rows: usize,
    /// ... and what did not find one.
    pub hidden: u64,
}

impl Owing {
    fn of(stripe: &mut Stripe, key: u64, limit: &Limit, network: DebtAnswer, now_ns: u64) -> Owing {
        let limits = &limit.limits[0];
        let own = stripe.answer(key, limits, now_ns);
        let (now, account) = (stripe.time(now_ns), stripe.account(key));
        Owing {
            files: limits.files.units(account.files_ns(now)),
            bytes: limits.bytes.units(account.bytes_ns(now)),
            answer: own.or_longer(network),
        }
    }
}

impl<B: Books> Till<B> {
    /// What the client of this address owes by these limits. None: no lock.
    pub fn owing(&self, limit: &Limit, address: [u8; 16], now_ns: u64) -> Option<Owing> {
        let client = self.client(limit, address);
        let network = self.network(limit, client.wide, now_ns);
        self.books.of(client.key, |stripe, _| {
            Owing::of(stripe, client.key, limit, network, now_ns)
        })
    }

    /// How well the horizons of these limits are served, and by which line; None: they are not steered.
    pub fn served(&self, limit: &Limit, now_ns: u64) -> Option<(f64, Service)> {
        let (service, terms) = (limit.service?, limit.terms()?);
        // It may be that nobody has come since a test ended.
        let seen = self.books.service(service, |service| {
            service.advance(&terms, now_ns);
            *service
        });
        Some((terms.link, seen.unwrap_or_default()))
    }

    /// What has happened in all stripes together.
    pub fn totals(&self, now_ns: u64) -> Totals {
        let mut totals = Totals {
            clients: self.clients(),
            rows: self.books.rows(),
            ..Totals::default()
        };
        for at in 0..self.books.stripes() {
            self.books.at(at, |stripe, trace| {
                totals.counts.add(&stripe.counts);
                let now = stripe.time(now_ns);
                totals.in_debt += stripe.clients_in_debt(now);
                totals.hidden += trace.iter().map(|set| set.hidden).sum::<u64>();
            });
        }
        totals
    }

    /// All rows with what each client owes now; under a stripe's lock, they are only copied.
    pub fn rows(&self, now_ns: u64) -> Vec<DebtRow> {
        let limit_of = |row: &TraceRow| self.limits.iter().find(|limit| limit.scope == row.scope);
        let mut all: Vec<DebtRow> = Vec::with_capacity(self.books.rows());
        for at in 0..self.books.stripes() {
            self.books.at(at, |stripe, trace| {
                for (key, row) in trace.iter().flat_map(|set| set.rows()) {
                    let Some(limit) = limit_of(row) else { continue };
                    let limits = &limit.limits[0];
                    all.push(DebtRow {
                        row: *row,
                        owing: Owing::of(stripe, key, limit, DebtAnswer::Pass, now_ns),
                        max: [limits.files.max(), limits.bytes.max()],
                        now_ns,
                    });
                }
            });
        }
        // Networks have stripes of their own: never two locks at once.
        let mut networks = HashMap::new();
        for one in &mut all {
            if let Some(limit) = limit_of(&one.row) {
                let wide = self.client(limit, one.row.address).wide;
                let answer = networks.entry(wide);
                let answer = answer.or_insert_with(|| self.network(limit, wide, now_ns));
                one.owing.answer = one.owing.answer.or_longer(*answer);
            }
        }
        all
    }

    /// Forgives all debts of a client and its network, by any limits; false: they owed nothing.
    pub fn forgive(&self, address: [u8; 16], now_ns: u64) -> bool {
        let mut owed = false;
        for limit in &self.limits {
            let client = self.client(limit, address);
            let both = [client.key, client.wide].into_iter().zip(&limit.limits);
            for (key, limits) in both.filter(|(key, _)| *key != 0) {
                let forgiven =
                    (self.books).visit_told(key, limits, now_ns, |visit| visit.forgive());
                owed |= forgiven == Some(true);
            }
        }
        owed
    }
}
