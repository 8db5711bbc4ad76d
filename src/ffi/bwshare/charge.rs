//! A request's charge: its entry, its excuse, its bytes.

use std::ffi::c_int;

use super::{BwShare, Limit, in_force, now_ns};
use crate::ffi::arrival::until_prime;
use crate::ffi::contract::{
    NAP_BW_DRY, NAP_BW_EXCUSED, NAP_NONE, nap_client, nap_request, nap_reserved, nap_visit,
};
use crate::ffi::guard::guard;
use crate::ffi::process::{self, RoomSetup};
use crate::ffi::session::is_member;
use crate::shm::debts::nanoseconds;
use nap_core::bwshare::account::Reserved;
use nap_core::bwshare::client::{Client, tag};
use nap_core::bwshare::horizons::HORIZONS;
use nap_core::bwshare::limits::{Answer, Limits};
use nap_core::bwshare::service::Service;
use nap_core::bwshare::visit::{Reason, Visit, is_excused};
use nap_core::micros::Micros;

/// A request that is charged, and the limits it is charged by.
pub(super) struct Charged<'a> {
    bw: &'static BwShare,
    limit: &'static Limit,
    v: &'a nap_visit,
    now_ns: u64,
    /// The limits with steered horizons; None: as configured.
    steered: Option<Box<[Limits; 2]>>,
}

impl Charged<'_> {
    #[inline]
    pub(super) fn of(v: &nap_visit) -> Option<Charged<'_>> {
        let bw = in_force()?;
        let limit = bw.limits.get(v.limits as usize)?;
        (v.key != 0).then(|| Charged::by(bw, limit, v, now_ns()))
    }

    #[inline]
    fn by<'a>(
        bw: &'static BwShare,
        limit: &'static Limit,
        v: &'a nap_visit,
        now_ns: u64,
    ) -> Charged<'a> {
        Charged {
            bw,
            limit,
            v,
            now_ns,
            steered: limit.service.map(|_| steered(limit, v.lowered)),
        }
    }

    #[inline]
    fn limits(&self) -> &[Limits; 2] {
        self.steered.as_deref().unwrap_or(&self.limit.limits)
    }

    /// Acts in the client's own stripe; None: its lock cannot be taken.
    #[inline]
    pub(super) fn own<R>(&self, act: impl FnOnce(&mut Visit<'_>) -> R) -> Option<R> {
        self.bw.debts.of(self.v.key, |stripe, trace| {
            act(&mut Visit {
                stripe,
                trace,
                limits: &self.limits()[0],
                now_ns: self.now_ns,
            })
        })
    }

    /// Acts in the stripe of the client's network, if the client has one.
    fn network<R>(&self, act: impl FnOnce(&mut Visit<'_>) -> R) -> Option<R> {
        if self.v.wide == 0 {
            return None;
        }
        self.bw.debts.of(self.v.wide, |stripe, _| {
            act(&mut Visit {
                stripe,
                trace: None,
                limits: &self.limits()[1],
                now_ns: self.now_ns,
            })
        })
    }

    /// Charges the client, then its network, unless either owes too much.
    #[inline]
    fn enter(&self, client: &nap_client) -> Option<(Answer, Option<Reason>)> {
        let excused = self.v.flags & NAP_BW_EXCUSED != 0;
        if self.limit.service.is_some() {
            self.begin_test();
        }
        let whose = || (known(client), self.limit.scope);
        let answer = self.own(|visit| visit.enter(self.v.key, whose, excused))?;
        if answer != Answer::Pass {
            let network = self.bw.network(self.limit, self.v.wide, self.now_ns);
            return Some(Reason::of_both(answer, network));
        }
        Some(match self.v.wide {
            0 => (Answer::Pass, None),
            _ => self.enter_network(excused),
        })
    }

    /// The same for the network; the client itself has been charged.
    #[inline(never)]
    fn enter_network(&self, excused: bool) -> (Answer, Option<Reason>) {
        let network = self.network(|visit| {
            let answer = visit.stripe.enter(self.v.wide, visit.limits, visit.now_ns);
            if excused && answer != Answer::Pass {
                visit
                    .stripe
                    .charge_file(self.v.wide, visit.limits, visit.now_ns);
                return Answer::Pass;
            }
            answer
        });
        match network {
            Some(answer @ Answer::Refuse { .. }) => {
                self.own(|visit| visit.take_back(self.v.key));
                (answer, Some(Reason::Network))
            }
            _ => (Answer::Pass, None),
        }
    }

    /// Charges bytes to the client, and to its network if it has one.
    #[inline(never)]
    fn bytes(&self, bytes: u64) {
        self.own(|visit| visit.bytes(self.v.key, bytes));
        self.network(|visit| {
            let (key, now_ns) = (self.v.wide, visit.now_ns);
            visit.stripe.charge_bytes(key, visit.limits, bytes, now_ns);
        });
    }

    /// The same for bytes not sent yet: the reservations of the client and of its network.
    fn reserve(&self, bytes: u64) -> [Reserved; 2] {
        let own = self.own(|visit| visit.reserve(self.v.key, bytes));
        let network = self.network(|visit| {
            let (key, now_ns) = (self.v.wide, visit.now_ns);
            let reserved = visit.stripe.reserve(key, bytes, now_ns);
            visit.stripe.charge_bytes(key, visit.limits, bytes, now_ns);
            reserved
        });
        [own, network].map(Option::unwrap_or_default)
    }

    /// How long a byte takes by the limits in force, nanoseconds; 0: not known.
    fn byte_unit(&self) -> f64 {
        self.bw.debts.byte_unit(tag(self.limit.scope))
    }

    /// Gives back the reserved bytes that were not sent. A graceful restart may have changed the rate since
    /// they were reserved: the debt for these bytes then stands for another time.
    fn give_back(&mut self, reserved: &nap_reserved, unsent: u64) {
        let ratio = self.byte_unit() / reserved.byte_unit;
        if self.limit.alone && ratio.is_normal() && ratio > 0.0 && ratio != 1.0 {
            let limits = self.limits().map(|limits| Limits {
                bytes: limits.bytes.times(1.0 / ratio),
                ..limits
            });
            self.steered = Some(Box::new(limits));
        }
        let [own, network] = [0, 1].map(|i: usize| Reserved {
            bytes: reserved.bytes,
            at_ns: reserved.at_ns,
            returned: reserved.returned[i],
            from_ns: reserved.from_ns[i],
        });
        self.own(|visit| visit.return_bytes(self.v.key, unsent, &own));
        self.network(|visit| {
            let (key, now_ns) = (self.v.wide, visit.now_ns);
            let part = (unsent, &network);
            visit.stripe.return_bytes(key, visit.limits, part, now_ns);
        });
    }
}

impl Charged<'_> {
    /// What a member of a session would be told, by what client and network owe. None: no lock.
    fn as_member(&self) -> Option<Answer> {
        let own = self.own(|visit| visit.as_member(self.v.key))?;
        let network = self.network(|visit| visit.as_member(self.v.wide));
        Some(own.or_longer(network.unwrap_or(Answer::Pass)))
    }

    /// Counts the client once in each test of the line.
    #[inline(never)]
    fn begin_test(&self) {
        let begun = self.own(|visit| {
            let (key, now_ns) = (self.v.key, visit.now_ns);
            visit.stripe.begin_test(key, visit.limits, now_ns)
        });
        let (service, terms) = (self.limit.service, self.limit.terms());
        if let (Some(first), Some(service), Some(terms)) = (begun.flatten(), service, terms) {
            let debts = &self.bw.debts;
            debts.begin_test(service, first, &terms, self.now_ns);
        }
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

/// Makes `last`, which asked on this connection before, the client of this address.
#[inline]
fn look_at(last: &mut nap_client, address: [u8; 16], limits: u32, by: impl FnOnce() -> Client) {
    let is_known = last.limits == limits.wrapping_add(1) && last.address == address;
    if !is_known {
        meet(last, address, limits, by());
    }
}

fn known(last: &nap_client) -> Client {
    Client {
        address: last.prefix,
        bits: last.bits as u8,
        key: last.key,
        wide: (last.wide != 0).then_some(last.wide),
    }
}

#[inline(never)]
fn meet(last: &mut nap_client, address: [u8; 16], limits: u32, client: Client) {
    *last = nap_client {
        address,
        prefix: client.address,
        bits: client.bits.into(),
        limits: limits.wrapping_add(1),
        key: client.key,
        wide: client.wide.unwrap_or(0),
    };
}

pub unsafe extern "C" fn bw_enter(
    v: *mut nap_visit,
    last: *mut nap_client,
    address: *const u8,
) -> c_int {
    guard(0, || {
        // SAFETY: nap.h: a live visit, the connection's client, and the 16 bytes of an address.
        let given = unsafe {
            (
                v.as_mut(),
                last.as_mut(),
                address.cast::<[u8; 16]>().as_ref(),
            )
        };
        let (Some(v), Some(last), Some(address)) = given else {
            return 0;
        };
        // A process that is not in the children table would hold its latches for ever if it died.
        let (Some(bw), Some(_)) = (in_force(), process::alive()) else {
            return 0;
        };
        let Some(limit) = bw.limits.get(v.limits as usize) else {
            return 0;
        };
        look_at(last, *address, v.limits, || {
            Client::of(*address, limit.prefixes, limit.scope, &bw.secret)
        });
        (v.key, v.wide) = (last.key, last.wide);
        let now_ns = now_ns();
        if bw.quickly(limit, v, now_ns, |visit| visit.enters_quickly(last.key)) {
            return 0;
        }
        enter(bw, limit, v, last, now_ns)
    })
}

/// Out of line: a client that owes little needs none of this.
#[inline(never)]
fn enter(
    bw: &'static BwShare,
    limit: &'static Limit,
    v: &mut nap_visit,
    client: &nap_client,
    now_ns: u64,
) -> c_int {
    if let Some(service) = limit.service {
        v.lowered = bw.debts.lowered(service);
    }
    let answered = Charged::by(bw, limit, v, now_ns).enter(client);
    let Some((answer, reason)) = answered else {
        v.key = 0; // the lock cannot be taken: it passes, and nobody is charged
        return 0;
    };
    let Some(reason) = reason else { return 0 };
    v.wait_us = answer.wait_ns().div_ceil(1000);
    v.debt = reason.number();
    1
}

pub unsafe extern "C" fn bw_excuse(
    v: *mut nap_visit,
    q: *const nap_request,
    room: u32,
    owner: u32,
) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promises.
        let (Some(v), Some(q)) = (unsafe { v.as_mut() }, unsafe { q.as_ref() }) else {
            return 0;
        };
        // SAFETY: the caller's promise.
        if unsafe { excuse(v, q, [room, owner]) } {
            return 1;
        }
        if v.flags & NAP_BW_DRY == 0 {
            return 0;
        }
        let reason = Reason::of(v.debt);
        Charged::of(v).map(|charged| charged.own(|visit| visit.refused(v.key, reason, true)));
        v.key = 0; // as after a refusal: nobody is charged for it
        1
    })
}

/// Is it let in all the same? If not, `v.wait_us` is how long it takes until it is.
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
unsafe fn excuse(v: &mut nap_visit, q: &nap_request, asked: [u32; 2]) -> bool {
    let (Some(process), Some(setup)) = (process::process(), process::setup()) else {
        return false;
    };
    let Some(charged) = Charged::of(v) else {
        return false;
    };
    let nowhere = asked[0] == NAP_NONE;
    let in_room = |own: &&RoomSetup| nowhere || asked.iter().any(|room| own.room == *room as usize);
    let rooms = || setup.rooms.iter().filter(in_room);
    // A ticket is a promise, whatever its holder owes; but outside rooms nothing redeems it.
    // SAFETY: nap.h: q's strings are live for the call.
    let held = |own| unsafe { until_prime(q, process, setup, own) };
    let ticket = || rooms().filter(|_| !nowhere).filter_map(held).min();
    // SAFETY: as above.
    let member = |own| unsafe { is_member(q, process, own) };
    let always = v.flags & NAP_BW_EXCUSED != 0;
    let (ticket, as_member) = match always {
        true => (None, None),
        false => (ticket(), charged.as_member()),
    };
    let excused = always
        || is_excused(
            || ticket == Some(Micros::ZERO),
            || as_member == Some(Answer::Pass),
            || rooms().any(member),
        );
    if excused {
        charged.own(|visit| visit.excuse(v.key));
        charged.network(|visit| {
            visit.stripe.charge_file(v.wide, visit.limits, visit.now_ns);
        });
        return true;
    }
    let mut wait_us = v.wait_us;
    if let Some(Answer::Refuse { wait_ns, .. }) = as_member
        && rooms().any(member)
    {
        wait_us = wait_us.min(wait_ns.div_ceil(1000));
    }
    if let Some(left) = ticket {
        wait_us = wait_us.min(left.0);
    }
    v.wait_us = wait_us;
    false
}

pub unsafe extern "C" fn bw_bytes(v: *const nap_visit, bytes: u64, now_us: u64) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let (Some(v), Some(bw)) = (unsafe { v.as_ref() }, in_force()) else {
            return;
        };
        let Some(limit) = bw.limits.get(v.limits as usize) else {
            return;
        };
        if v.key == 0 {
            return;
        }
        let now_ns = at(now_us);
        if !bw.quickly(limit, v, now_ns, |visit| visit.bytes_quickly(v.key, bytes)) {
            Charged::by(bw, limit, v, now_ns).bytes(bytes);
        }
    });
}

/// The time that `leave` returned, or now.
#[inline]
fn at(now_us: u64) -> u64 {
    match now_us {
        0 => now_ns(),
        now_us => nanoseconds(Micros(now_us)),
    }
}

pub unsafe extern "C" fn bw_reserve(
    v: *const nap_visit,
    reserved: *mut nap_reserved,
    bytes: u64,
    now_us: u64,
) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (v, reserved) = unsafe { (v.as_ref(), reserved.as_mut()) };
        let (Some(charged), Some(reserved)) = (v.and_then(Charged::of), reserved) else {
            return;
        };
        let now_ns = at(now_us);
        let byte_unit = charged.byte_unit();
        let both = Charged { now_ns, ..charged }.reserve(bytes);
        *reserved = nap_reserved {
            bytes,
            at_ns: both[0].at_ns,
            from_ns: both.map(|reserved| reserved.from_ns),
            returned: both.map(|reserved| reserved.returned),
            byte_unit,
        };
    });
}

pub unsafe extern "C" fn bw_return(
    v: *const nap_visit,
    reserved: *const nap_reserved,
    unsent: u64,
) {
    guard((), || {
        // SAFETY: nap.h's promises; the shim asks only where bw_reserve has written.
        let (v, reserved) = unsafe { (v.as_ref(), reserved.as_ref()) };
        if let (Some(mut charged), Some(reserved)) = (v.and_then(Charged::of), reserved) {
            charged.give_back(reserved, unsent);
        }
    });
}
