//! [`Till`]: where requests are charged, from their entry to their last byte.
//!
//! ```text
//!   enter ─────► let in ─────► bytes
//!    │             ▲  └──────► reserve ─► give_back
//!    ▼             │
//!   owes too much ─┴─ excuse, or DryRun
//!    └───────► refused
//! ```
//!
//! This is the one driver. httpd (through `ffi`) and the simulators call it, each with [`Books`] of their own: where
//! the debts are kept. A client that owes little comes first, and is charged under one lock. If no lock is to be
//! had, the request passes and nobody is charged: a site keeps serving.

pub mod charge;
mod charging;
pub mod last_client;
pub mod limit;
pub mod reading;

use super::client::Client;
use super::horizons::HORIZONS;
use super::limits::{DebtAnswer, Limits};
use super::service::Service;
use super::table::{CLIENTS, Stripe, stripe_of};
use super::trace::{TraceSet, set_of};
use super::untold::Untold;
use super::visit::Visit;
use crate::micros::Micros;
use charge::{Charge, Reservation, flag};
use charging::Charging;
use last_client::LastClient;
use limit::{Limit, entries_of, more};

/// Where debts are kept: a table in stripes, each with a lock of its own and its part of the trace.
pub trait Books {
    /// The number of stripes.
    fn stripes(&self) -> usize;

    /// The number of trace rows.
    fn rows(&self) -> usize;

    /// Acts on the stripe of this number and on its trace sets. None: its lock cannot be taken.
    fn at<R>(&self, at: usize, act: impl FnOnce(&mut Stripe, &mut [TraceSet]) -> R) -> Option<R>;

    /// The same, with what the fleet has not been told of this stripe; None: there is no fleet. If something is due
    /// afterwards, it sees to it that the fleet is told.
    fn at_told<R>(
        &self,
        at: usize,
        act: impl FnOnce(&mut Stripe, &mut [TraceSet], Option<&mut Untold>) -> R,
    ) -> Option<R> {
        self.at(at, |stripe, trace| act(stripe, trace, None))
    }

    /// By how much the rates of a service are lowered, in millionths.
    fn lowered(&self, service: usize) -> [u32; HORIZONS];

    /// Acts on a service, then puts its rates in force. None: no such service, or no lock.
    fn service<R>(&self, service: usize, act: impl FnOnce(&mut Service) -> R) -> Option<R>;

    /// How long a byte takes by the limits in force whose keys have this tag, nanoseconds; 0: not known.
    fn byte_unit(&self, tag: u8) -> f64;

    /// Acts on the stripe of this key and on its trace set. None: its lock cannot be taken.
    #[inline]
    fn of<R>(
        &self,
        key: u64,
        act: impl FnOnce(&mut Stripe, Option<&mut TraceSet>) -> R,
    ) -> Option<R> {
        self.at(stripe_of(key, self.stripes()), |stripe, trace| {
            let set = set_of(key, trace.len());
            act(stripe, trace.get_mut(set))
        })
    }

    /// Acts on what this key may owe by these limits; the fleet is not told. None: its lock cannot be taken.
    #[inline]
    fn visit<R>(
        &self,
        key: u64,
        limits: &Limits,
        now_ns: u64,
        act: impl FnOnce(&mut Visit<'_>) -> R,
    ) -> Option<R> {
        self.of(key, |stripe, trace| {
            act(&mut Visit {
                key,
                stripe,
                trace,
                untold: None,
                limits,
                now_ns,
            })
        })
    }

    /// The same, and the fleet is told when it is due.
    #[inline]
    fn visit_told<R>(
        &self,
        key: u64,
        limits: &Limits,
        now_ns: u64,
        act: impl FnOnce(&mut Visit<'_>) -> R,
    ) -> Option<R> {
        self.at_told(stripe_of(key, self.stripes()), |stripe, trace, untold| {
            let set = set_of(key, trace.len());
            act(&mut Visit {
                key,
                stripe,
                trace: trace.get_mut(set),
                untold,
                limits,
                now_ns,
            })
        })
    }
}

/// Everything in force.
pub struct Till<B> {
    /// Where the debts are kept.
    pub books: B,
    /// The limits, by [`Charge::limits`].
    pub limits: Vec<Limit>,
    /// What the clients' keys are hashed with.
    pub secret: [u8; 16],
}

impl<B: Books> Till<B> {
    /// The client of this address asks for one more file. True: it owes too much, and `charge` says why and how
    /// long it has to wait. `last`: who asked on this connection before.
    #[inline(always)]
    pub fn enter(
        &self,
        charge: &mut Charge,
        last: &mut LastClient,
        address: &[u8; 16],
        now: impl FnOnce() -> u64,
    ) -> bool {
        let Some(limit) = self.limits.get(charge.limits as usize) else {
            return false;
        };
        last.look_at(*address, charge.limits, || self.client(limit, *address));
        (charge.key, charge.wide) = (last.client.key, last.client.wide);
        let now_ns = now();
        let quickly = self.quickly(limit, charge, now_ns, |visit| visit.enters_quickly());
        !quickly && self.enter_slowly(limit, charge, last.client, now_ns)
    }

    /// Out of line: a client that owes little needs none of this.
    #[inline(never)]
    fn enter_slowly(
        &self,
        limit: &Limit,
        charge: &mut Charge,
        client: Client,
        now_ns: u64,
    ) -> bool {
        if self.untold(limit, charge, now_ns, |visit| visit.enters_untold()) {
            return false;
        }
        if let Some(service) = limit.service {
            charge.lowered = self.books.lowered(service);
        }
        let answered = Charging::by(self, limit, charge, now_ns).enter(client);
        let Some(answer) = answered else {
            charge.key = 0; // the lock cannot be taken: it passes, and nobody is charged
            return false;
        };
        let Some(debt) = answer.debt() else {
            return false;
        };
        charge.wait_us = answer.wait().0;
        charge.debt = debt as u32;
        true
    }

    /// Is a request that owes too much let in all the same? `ticket`: how long until the prime window of a ticket
    /// that it brought, where one redeems it; `member`: is it a session's? Neither is asked where it need not be.
    /// With a ticket in its prime window it is excused, whatever it owes; a member where it is moderate
    /// ([`Visit::as_member`]). In DryRun it passes, and nobody is charged. If it is not let in, it waits no longer
    /// than for the first of these.
    pub fn excuse(
        &self,
        charge: &mut Charge,
        now_ns: u64,
        ticket: impl FnOnce() -> Option<Micros>,
        member: impl FnOnce() -> bool,
    ) -> bool {
        let excused = self.is_excused(charge, now_ns, ticket, member);
        if excused || !charge.has(flag::DRY_RUN) {
            return excused;
        }
        self.refused(charge, now_ns);
        charge.key = 0; // as after a refusal: nobody is charged for it
        true
    }

    fn is_excused(
        &self,
        charge: &mut Charge,
        now_ns: u64,
        ticket: impl FnOnce() -> Option<Micros>,
        member: impl FnOnce() -> bool,
    ) -> bool {
        let Some(charging) = self.charging(charge, now_ns) else {
            return false;
        };
        let least = match charge.has(flag::EXCUSED) {
            true => Some(Micros::ZERO),
            false => match ticket() {
                Some(Micros::ZERO) => Some(Micros::ZERO),
                ticket => {
                    let as_member = charging.as_member().filter(|_| member());
                    let both = [ticket, as_member.as_ref().map(DebtAnswer::wait)];
                    both.into_iter().flatten().min()
                }
            },
        };
        match least {
            None => false,
            Some(Micros::ZERO) => {
                charging.excuse();
                true
            }
            Some(least) => {
                charge.wait_us = charge.wait_us.min(least.0);
                false
            }
        }
    }

    /// The request is refused; in DryRun: would be.
    pub fn refused(&self, charge: &Charge, now_ns: u64) {
        let (reason, dry) = (charge.reason(), charge.has(flag::DRY_RUN));
        if let Some(charging) = self.charging(charge, now_ns) {
            charging.own(|visit| visit.refused(reason, dry));
        }
    }

    /// The request is sent `bytes` bytes.
    #[inline(always)]
    pub fn bytes(&self, charge: &Charge, bytes: u64, now: impl FnOnce() -> u64) {
        let Some(limit) = self.limits.get(charge.limits as usize) else {
            return;
        };
        if charge.key == 0 {
            return;
        }
        let now_ns = now();
        let quickly = |visit: &mut Visit<'_>| visit.bytes_quickly(bytes);
        if !self.quickly(limit, charge, now_ns, quickly) {
            self.bytes_slowly(limit, charge, bytes, now_ns);
        }
    }

    #[inline(never)]
    fn bytes_slowly(&self, limit: &Limit, charge: &Charge, bytes: u64, now_ns: u64) {
        if !self.untold(limit, charge, now_ns, |visit| visit.bytes_untold(bytes)) {
            Charging::by(self, limit, charge, now_ns).bytes(bytes);
        }
    }

    /// The request is charged for bytes that are yet to be sent. None: nobody is charged.
    pub fn reserve(&self, charge: &Charge, bytes: u64, now_ns: u64) -> Option<Reservation> {
        Some(self.charging(charge, now_ns)?.reserve(bytes))
    }

    /// `unsent` of the reserved bytes were not sent.
    pub fn give_back(&self, charge: &Charge, reserved: &Reservation, unsent: u64, now_ns: u64) {
        if let Some(mut charging) = self.charging(charge, now_ns) {
            charging.give_back(reserved, unsent);
        }
    }

    /// So many clients in debt there is room for.
    pub fn clients(&self) -> usize {
        self.books.stripes() * CLIENTS / entries_of(&self.limits)
    }

    fn client(&self, limit: &Limit, address: [u8; 16]) -> Client {
        Client::of(address, limit.prefixes, limit.scope, &self.secret)
    }

    #[inline]
    fn charging<'a>(&'a self, charge: &'a Charge, now_ns: u64) -> Option<Charging<'a, B>> {
        let limit = self.limits.get(charge.limits as usize)?;
        (charge.key != 0).then(|| Charging::by(self, limit, charge, now_ns))
    }

    /// Acts in the client's own stripe if there is nothing else to do: no steered horizons, no fleet to be told, and no
    /// network beyond the client itself. True: it is done.
    #[inline(always)]
    fn quickly(
        &self,
        limit: &Limit,
        charge: &Charge,
        now_ns: u64,
        act: impl FnOnce(&mut Visit<'_>) -> bool,
    ) -> bool {
        if charge.wide != 0 || limit.more != 0 {
            return false;
        }
        let done = (self.books).visit(charge.key, &limit.limits[0], now_ns, act);
        done == Some(true)
    }

    /// The same where there is a fleet, but nothing to tell it yet.
    #[inline(always)]
    fn untold(
        &self,
        limit: &Limit,
        charge: &Charge,
        now_ns: u64,
        act: impl FnOnce(&mut Visit<'_>) -> bool,
    ) -> bool {
        if charge.wide != 0 || limit.more != more::TOLD {
            return false;
        }
        let done = (self.books).visit_told(charge.key, &limit.limits[0], now_ns, act);
        done == Some(true)
    }

    /// What this network (0: there is none) would be told if a client of it asked now.
    #[inline(never)]
    fn network(&self, limit: &Limit, wide: u64, now_ns: u64) -> DebtAnswer {
        if wide == 0 {
            return DebtAnswer::Pass;
        }
        let answer = (self.books).of(wide, |stripe, _| {
            stripe.answer(wide, &limit.limits[1], now_ns)
        });
        answer.map_or(DebtAnswer::Pass, DebtAnswer::of_network)
    }
}

#[cfg(test)]
mod tests;
