//! [`Charging`]: a request that is charged, in its client's stripe and in that of the client's network.

use super::limit::Limit;
use super::{Books, Charge, Reservation, Till, flag};
use crate::bwshare::client::{Client, tag};
use crate::bwshare::horizons::HORIZONS;
use crate::bwshare::limits::{DebtAnswer, Limits};
use crate::bwshare::service::Service;
use crate::bwshare::visit::Visit;

/// A request that is charged, and the limits it is charged by.
pub(super) struct Charging<'a, B> {
    till: &'a Till<B>,
    limit: &'a Limit,
    charge: &'a Charge,
    now_ns: u64,
    /// The limits with steered horizons; None: as configured.
    steered: Option<Box<[Limits; 2]>>,
}

impl<'a, B: Books> Charging<'a, B> {
    #[inline]
    pub(super) fn by(
        till: &'a Till<B>,
        limit: &'a Limit,
        charge: &'a Charge,
        now_ns: u64,
    ) -> Charging<'a, B> {
        Charging {
            till,
            limit,
            charge,
            now_ns,
            steered: limit.service.map(|_| steered(limit, charge.lowered)),
        }
    }

    #[inline]
    fn limits(&self) -> &[Limits; 2] {
        self.steered.as_deref().unwrap_or(&self.limit.limits)
    }

    /// Acts in the client's own stripe; None: its lock cannot be taken.
    #[inline]
    pub(super) fn own<R>(&self, act: impl FnOnce(&mut Visit<'_>) -> R) -> Option<R> {
        let limits = &self.limits()[0];
        (self.till.books).visit_told(self.charge.key, limits, self.now_ns, act)
    }

    /// Acts in the stripe of the client's network, if the client has one.
    fn network<R>(&self, act: impl FnOnce(&mut Visit<'_>) -> R) -> Option<R> {
        if self.charge.wide == 0 {
            return None;
        }
        let limits = &self.limits()[1];
        (self.till.books).visit_told(self.charge.wide, limits, self.now_ns, act)
    }

    /// Charges the client, then its network, unless either owes too much.
    #[inline]
    pub(super) fn enter(&self, client: Client) -> Option<DebtAnswer> {
        let excused = self.charge.has(flag::EXCUSED);
        if self.limit.service.is_some() {
            self.begin_test();
        }
        let whose = || (client, self.limit.scope);
        let answer = self.own(|visit| visit.enter(whose, excused))?;
        if answer != DebtAnswer::Pass {
            let network = (self.till).network(self.limit, self.charge.wide, self.now_ns);
            return Some(answer.or_longer(network));
        }
        Some(match self.charge.wide {
            0 => DebtAnswer::Pass,
            _ => self.enter_network(excused),
        })
    }

    /// The same for the network; the client itself has been charged.
    #[inline(never)]
    fn enter_network(&self, excused: bool) -> DebtAnswer {
        let network = self.network(|visit| {
            let answer = visit.ask(false);
            if excused && answer != DebtAnswer::Pass {
                visit.charge_file();
                return DebtAnswer::Pass;
            }
            answer
        });
        let answer = network.map_or(DebtAnswer::Pass, DebtAnswer::of_network);
        if answer != DebtAnswer::Pass {
            self.own(|visit| visit.take_back());
        }
        answer
    }

    /// Counts the client once in each test of the line.
    #[inline(never)]
    fn begin_test(&self) {
        let begun = self.own(|visit| visit.begin_test());
        let (service, terms) = (self.limit.service, self.limit.terms());
        if let (Some(first), Some(service), Some(terms)) = (begun.flatten(), service, terms) {
            let books = &self.till.books;
            books.service(service, |service| service.note(first, &terms, self.now_ns));
        }
    }

    /// What a member of a session would be told, by what client and network owe. None: no lock.
    pub(super) fn as_member(&self) -> Option<DebtAnswer> {
        let own = self.own(|visit| visit.as_member())?;
        let network = self.network(|visit| visit.as_member());
        Some(own.or_longer(network.unwrap_or(DebtAnswer::Pass)))
    }

    /// It was not let in, but now is.
    pub(super) fn excuse(&self) {
        self.own(|visit| visit.excuse());
        self.network(|visit| visit.charge_file());
    }

    /// Charges bytes to the client, and to its network if it has one.
    #[inline(never)]
    pub(super) fn bytes(&self, bytes: u64) {
        self.own(|visit| visit.bytes(bytes));
        self.network(|visit| visit.charge_bytes(bytes));
    }

    /// The same for bytes not sent yet.
    pub(super) fn reserve(&self, bytes: u64) -> Reservation {
        let byte_unit = self.byte_unit();
        let own = self.own(|visit| visit.reserve(bytes));
        let network = self.network(|visit| {
            let reserved = visit.ahead(bytes);
            visit.charge_bytes(bytes);
            reserved
        });
        Reservation {
            bytes,
            byte_unit,
            both: [own, network].map(Option::unwrap_or_default),
        }
    }

    pub(super) fn byte_unit(&self) -> f64 {
        self.till.books.byte_unit(tag(self.limit.scope))
    }

    /// Gives back the reserved bytes that were not sent. A graceful restart may have changed the rate since they
    /// were reserved: the debt for these bytes then stands for another time.
    pub(super) fn give_back(&mut self, reserved: &Reservation, unsent: u64) {
        let ratio = self.byte_unit() / reserved.byte_unit;
        if self.limit.alone && ratio.is_normal() && ratio > 0.0 && ratio != 1.0 {
            let limits = self.limits().map(|limits| Limits {
                bytes: limits.bytes.times(1.0 / ratio),
                ..limits
            });
            self.steered = Some(Box::new(limits));
        }
        let [own, network] = reserved.both;
        self.own(|visit| visit.return_bytes(unsent, &own));
        self.network(|visit| visit.give_back(unsent, &network));
    }
}

/// The limits as they were when the request began: it gives bytes back at the price it took them.
#[inline(never)]
fn steered(limit: &Limit, lowered: [u32; HORIZONS]) -> Box<[Limits; 2]> {
    let factors = lowered.map(|lowered| Service::factor(lowered.into()));
    Box::new(limit.limits.map(|limits| Limits {
        horizons: limits.horizons.steered(factors),
        ..limits
    }))
}
