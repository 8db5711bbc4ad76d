//! Selling a ticket: from a slot, under the ledger, with its record in the issue history.
//!
//! How many a slot sells follows from X (`Gate::rate`), and is never more than L (`Gate::depth`) bears
//! of their windows: docs/promise.md, docs/dev/algorithms.md 2.9.

use super::{Gate, GateView, SESSION};
use crate::fleet::stake::OfAll;
use crate::micros::Micros;
use crate::nap::laws::{LateLaw, Laws, SaleLaw};
use crate::nap::ledger::{claimed, prime_borne, sellable, window_of};
use crate::nap::slot::Slot;
use crate::nap::slot_shares::{Lot, Prefix};
use crate::nap::slots::{self, Booking, SlotTerms};
use crate::nap::ticket::{Ticket, ticket_id};
use crate::nap::ticket_states::State;
use crate::nap::wait_limit::Conformal;
use crate::nap::{returns, whole};
use crate::room::arrival::Arrival;
use crate::room::history::Record;
use crate::room::permits::Permits;
use crate::room::places::Line;
use crate::room::terms::how;
use crate::room::verdict::Reason;

/// The most `NapOverbook` can ask for.
const OVERBOOK_MAX: f64 = 2.0;

/// If this many of an address's tickets have lapsed, more than were used, nobody comes back with
/// them.
const LAPSED: u32 = 16;

/// L for the sale is no less than what is served in this share of the bound.
const DEPTH_MIN: f64 = 0.75;

/// The kind of visitor a ticket is sold to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sale {
    Newcomer,
    Rebooked,
    Guard,
}

/// What is looked for in the slots.
struct Wish {
    sale: Sale,
    /// No start before this.
    first: Micros,
    /// The paper's form: no window before this, whatever the ledger says.
    free: Option<Micros>,
    depth: u32,
    /// The address or net that is sold only a few of each slot.
    flood: Option<u64>,
}

impl GateView<'_> {
    /// Sells the next ticket; None when nothing can be promised.
    pub(super) fn sell(&mut self, sale: Sale, arrival: &Arrival<'_>) -> Option<Ticket> {
        self.refresh_limit();
        let queue = self.queue_ahead();
        let free = self.free_from();
        let now = self.now;
        let law = self.laws.sale;
        let gate = &mut *self.gate;
        let terms = gate.terms;
        if gate.booked_until <= now {
            gate.sale_rate.sold_out();
        }
        let rate = gate.rate(self.permits);
        let depth = gate.depth(rate);
        let issue = gate.issue_terms(now, rate, self.permits, self.laws);
        let served = served_after(queue, rate);
        let lead = gate.lead(rate, &law);
        let first = match (free, sale) {
            (Some(free), _) => self.first_when_free(free, issue.prime, queue),
            (None, Sale::Newcomer) => now + (served - lead).max(law.soon),
            (None, Sale::Rebooked | Sale::Guard) => now + served.max(law.soon),
        };
        // An address or net whose tickets lapse is sold only a few of each slot, unless the
        // administrator has said what is fair, or nobody else is there.
        let [narrow, wide] = arrival.client_hash;
        let shares = &self.gate.slot_shares;
        let flood = [
            (narrow, LAPSED, Prefix::Address),
            (wide, 8 * LAPSED, Prefix::Net),
        ]
        .into_iter()
        .filter(|_| terms.per_client.how == how::AUTO)
        .find(|&(hash, least, of)| {
            self.clients.lapses(hash, least, now) && !shares.alone(of, terms.lifetime, now)
        })
        .map(|(hash, ..)| hash);
        let wish = Wish {
            sale,
            first,
            free,
            depth,
            flood,
        };
        let mut leased = self.is_leased();
        let booking = loop {
            match self.book(&wish, &issue, leased) {
                Some(booking) => break booking,
                None if leased => {
                    // More places would not help an address that has its share of each slot.
                    if flood.is_none() {
                        self.is_starved();
                        if arrival.patient && sale != Sale::Guard {
                            return None;
                        }
                    }
                    // It is sold one of this node's own places.
                    leased = false;
                }
                None => return None,
            }
        };
        let gate = &mut *self.gate;
        let prime = gate.slots.slot(booking.seq).map(Slot::prime);
        let prime_end = booking.start + prime.unwrap_or(issue.prime);
        let end = booking.start + terms.lifetime.max(issue.prime);
        let (from, to) = gate.window_of(booking.seq, booking.start, prime_end);
        let first = sale == Sale::Newcomer && gate.booked_until <= now;
        gate.booked_from = match first {
            true if gate.ledger.max_claims(now, booking.start + law.order) == 0 => booking.start,
            true => Micros::ZERO,
            false => gate.booked_from.min(booking.start),
        };
        gate.ledger.claim(from, to);
        gate.states.set(booking.position, State::Sold);
        let bound = gate.bound_of(booking.seq);
        if let Some((slot, hash)) = gate.slots.slot(booking.seq).zip(flood) {
            let lot = lot_of(slot, terms.slot_period, &issue);
            gate.slot_shares.sold(lot, hash, now);
        }
        // A buyer with their full share of the nearer slots is behind others that come later, too.
        if sale == Sale::Newcomer && !booking.skipped {
            gate.booked_until = gate.booked_until.max(booking.start);
        }
        gate.counts.sold += 1;
        if let Some(recent) = self.recent {
            recent.sold.count(now);
        }
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_add(1));
        let serial = self.history.next_serial();
        self.note_sold(&booking, serial, (from, to));
        self.clients
            .sold(serial, arrival.client_hash, prime_end, end, now);
        self.note_held(Some(arrival.client_hash));
        let id = ticket_id(
            &arrival.secret,
            now,
            &arrival.client,
            booking.seq,
            booking.index,
        );
        let record = Record {
            id,
            serial,
            gate: self.at,
            issued: now,
            start: booking.start,
            prime_end,
            end,
            ..Record::default()
        };
        self.history.issue(record, arrival.method, arrival.uri);
        let flags = match sale {
            Sale::Newcomer => 0,
            Sale::Rebooked => Ticket::REBOOKED,
            Sale::Guard => Ticket::GUARD,
        };
        Some(Ticket {
            flags: flags | arrival.part.flag(),
            node: self.node,
            lease: match self.abroad {
                // The bound at its sale, for the other nodes.
                Some(_) => (bound.0 / 10_000).try_into().unwrap_or(u16::MAX),
                None => 0,
            },
            epoch: self.epoch,
            room: self.gate.room_hash,
            gate: self.gate.gate_hash,
            slot: booking.seq,
            index: booking.index,
            serial,
            start: booking.start,
            prime_end,
            end,
            bind: if terms.bind != 0 { arrival.bind() } else { 0 },
            id,
        })
    }

    /// How many are served before somebody who is sold a ticket now.
    fn queue_ahead(&self) -> u32 {
        // Accesses still to be told that they are beyond what fits will wait no longer.
        let queue = self.met(0).saturating_sub(self.gate.beyond);
        // Of those outside, only those that will not be told to come later count.
        match self.permits.outside() {
            0 => queue,
            outside => queue.max(queue.saturating_add(outside).min(self.few_enough())),
        }
    }

    /// How long it takes to serve those, at `rate` accesses a second.
    pub(super) fn served_now(&self, rate: f64) -> Micros {
        served_after(self.queue_ahead(), rate)
    }

    /// Books a place, of those that were `leased` or of this node's own slots.
    fn book(&mut self, wish: &Wish, issue: &SlotTerms, leased: bool) -> Option<Booking> {
        let (now, first, depth) = (self.now, wish.first, wish.depth);
        let gate = &mut *self.gate;
        if !leased {
            gate.begin_again(now, first, issue);
        }
        let abroad = self.abroad.as_ref().map(|abroad| &*abroad.stake);
        let most = match (wish.sale, abroad) {
            (sale, Some(stake)) if leased => {
                let answered = depth.min(gate.places_abroad(depth));
                match sale {
                    Sale::Newcomer => stake.sellable_of_all(answered),
                    Sale::Rebooked | Sale::Guard => answered,
                }
            }
            (_, Some(stake)) => {
                stake.sellable_here(gate.borne_abroad(depth, stake.nodes, stake.spare != 0))
            }
            (Sale::Newcomer, _) => sellable(depth),
            (Sale::Rebooked | Sale::Guard, _) => depth,
        };
        let (ledger, slots, shares) = (&gate.ledger, &mut gate.slots, &gate.slot_shares);
        let (period, own) = (gate.terms.slot_period, issue);
        let has_place = |hash, slot: &Slot| shares.has_place(lot_of(slot, period, own), hash, now);
        let mut open = |slot: &Slot| wish.flood.is_none_or(|hash| has_place(hash, slot));
        let of_fleet;
        let issue = match abroad {
            None => issue,
            Some(_) => {
                of_fleet = issue.abroad(leased, most);
                &of_fleet
            }
        };
        let mut may = |slot: &Slot, start: Micros| {
            // A slot keeps the windows it was opened with, however long the bound is by now.
            let (from, to) = window_of(start, start + slot.prime(), slot.bound());
            match (wish.free, abroad) {
                (Some(free), _) => from >= free,
                (None, None) => ledger.fits(from.max(now), to, most),
                (None, Some(stake)) if leased => {
                    ledger.fits_beside(from.max(now), to, most, &OfAll(stake))
                }
                (None, Some(stake)) => ledger.fits_beside(from.max(now), to, most, stake),
            }
        };
        match wish.sale {
            Sale::Newcomer => slots.book_open(now, first, issue, &mut open, &mut may),
            _ => slots.rebook(now, first, issue, &mut may),
        }
    }

    /// A slot is over, grace included: the tickets nobody presented are counted.
    pub(super) fn close_slot(&mut self, closed: slots::Closed) {
        self.gate.returns.record_slot(closed.sold, closed.expired);
        if self.permits.calls.counts().called != 0 {
            self.permits.calls.note_silent(self.never_came(closed.seq));
        }
        self.gate.counts.expired += u64::from(closed.expired);
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_sub(closed.expired));
    }

    /// May a newcomer wait behind `queue` others, as far as the order goes? Not while others hold
    /// tickets later than the newcomer's turn would be, unless fewer wait than should.
    pub(super) fn is_his_turn(&self, queue: u32) -> bool {
        let (gate, law) = (&*self.gate, &self.laws.sale);
        if gate.booked_until <= self.now || !gate.has_order() {
            return true;
        }
        let rate = gate.rate(self.permits);
        let served = served_after(queue, rate);
        let low = gate.lead(rate, law).as_secs_f64() * law.low;
        gate.booked_until <= self.now + served + law.order || served.as_secs_f64() < low
    }

    /// Is an access behind `queue` others served before the first holder can come, or only a little
    /// later?
    pub(super) fn is_before_all(&self, queue: u32) -> bool {
        let gate = &*self.gate;
        let order = self.laws.sale.order.min(Micros(gate.terms.bound.0 / 8));
        let last = gate.booked_from + order;
        let served = || served_after(queue, gate.rate(self.permits));
        let open = gate.kind != SESSION && gate.has_order() && self.now < last;
        open && self.now + served() < last
    }
}

/// Accesses a second that all permits would do at the residence seen.
pub(super) fn all_permits_do(permits: &Permits) -> Option<f64> {
    let mean_s = permits.residence.mean_s()?;
    Some(f64::from(permits.limit()) / mean_s.max(1e-6))
}

/// What a flood has a share of in this slot. Slots last for `period`, if they are not short ones; `issue`: of this node's own.
fn lot_of(slot: &Slot, period: Micros, issue: &SlotTerms) -> Lot {
    match slot.is_leased() {
        false => Lot::own(slot),
        true => {
            let slots = period.as_secs_f64() / issue.period.as_secs_f64().max(1e-6);
            Lot::leased(slot, period, whole(f64::from(issue.capacity) * slots))
        }
    }
}

fn served_after(queue: u32, rate: f64) -> Micros {
    Micros::from_secs_f64(f64::from(queue) / rate)
}

impl Gate {
    /// X, the accesses a second that tickets are sold for: what was seen while somebody waited,
    /// else what all permits do at the residence seen, else a guess.
    pub fn rate(&self, permits: &Permits) -> f64 {
        if self.kind == SESSION {
            return self.throughput().unwrap_or(1.0).clamp(1e-3, 1e6);
        }
        let c = f64::from(permits.limit());
        let by_residence = || all_permits_do(permits);
        // No access has finished: most sites serve a page in an eighth of the bound.
        let guess = || c / (self.terms.bound.as_secs_f64() / 8.0).max(1e-3);
        let seen = self.sale_rate.rate(by_residence).or(self.throughput());
        seen.or_else(by_residence)
            .unwrap_or_else(guess)
            .clamp(1e-3, 1e6)
    }

    /// L as the sale counts on it: accesses answered one after the other within the bound. Workers
    /// do not matter: a holder who comes has one.
    pub fn depth(&self, rate: f64) -> u32 {
        let places = rate * self.terms.bound.as_secs_f64();
        match (self.is_by_law(), self.decided) {
            (false, _) => self.limit,
            (true, 0) => whole(places / Conformal::START).max(1),
            // However much single responses spread, accesses that come one by one are answered.
            (true, _) => self.wanted.max(whole(places * DEPTH_MIN)).max(1),
        }
    }

    /// How long before the server has time for them holders are told to come.
    pub fn lead(&self, rate: f64, law: &SaleLaw) -> Micros {
        let of_bound = self.terms.bound.as_secs_f64() * law.lead;
        let of_workers = f64::from(self.terms.parked) * law.workers / rate;
        Micros::from_secs_f64(of_bound.min(of_workers))
    }

    /// phi, the share of X that is sold as tickets: all of it, unless the administrator keeps a
    /// part for newcomers.
    pub fn phi(&self) -> f64 {
        match self.terms.share.how {
            how::FIXED => f64::from(self.terms.share.n) / 1e6,
            _ => 1.0,
        }
    }

    /// All holders of tickets for later have come before their time: nobody who comes now is behind
    /// them.
    fn begin_again(&mut self, now: Micros, first: Micros, issue: &SlotTerms) {
        // Less is not worth a slot; and most of the time the next ticket is near.
        let near = now + Micros(4 * self.terms.bound.0);
        let is_out = |until| self.ledger.max_claims(now, until) != 0;
        if self.booked_until <= first + self.terms.bound
            || is_out(near.min(self.booked_until))
            || is_out(self.booked_until)
        {
            return;
        }
        (self.booked_until, self.booked_from) = (Micros::ZERO, Micros::ZERO);
        self.slots.begin_again(now, first, issue);
    }

    /// Do newcomers wait in the order of the tickets that are out? Not where the administrator has
    /// set how many are sold or wait.
    fn has_order(&self) -> bool {
        let terms = &self.terms;
        let by_hand = [terms.share.how, terms.slot_tickets.how, terms.re_access.how];
        by_hand == [how::AUTO; 3] && self.is_by_law()
    }

    /// g of the tickets sold now: as configured, or as long as L bears it at full rate, early time
    /// included.
    pub fn prime(&self, rate: f64, depth: u32, law: &SaleLaw) -> Micros {
        let terms = &self.terms;
        match (terms.prime, terms.re_access.how) {
            (Micros::ZERO, how::FIXED) => terms.bound.max(Micros::from_secs(5)).min(terms.lifetime),
            (Micros::ZERO, _) => {
                let depth = self.depth_abroad(depth);
                prime_borne(depth, rate, terms.bound, law.window_min).min(terms.lifetime)
            }
            (told, _) => told,
        }
    }

    /// What is sold beyond X, as a share of it. X is always a few per cent wrong: a queue of a
    /// moment after ten seconds does no harm, but a permit that stands empty all that time does.
    /// The waits of holders who come tell how far it was wrong: where they were longer than meant,
    /// less is sold.
    fn surplus(&self, now: Micros, rate: f64, law: &SaleLaw) -> f64 {
        if self.kind == SESSION || !self.is_by_law() {
            return 0.0;
        }
        let bound_s = self.terms.bound.as_secs_f64();
        let too_short_s = self.lead(rate, law).as_secs_f64() - self.holder_waits.mean_s();
        let by_waits = law.gain * too_short_s / bound_s;
        let holders = f64::from(self.queue.line_len(Line::ReAccess));
        // However far ahead tickets are sold, the surplus makes the last holder wait no longer.
        let soon_s = bound_s * law.surplus_for;
        let ahead_s = (self.booked_until - now).as_secs_f64();
        let most = match holders < law.surplus_queue * bound_s * rate {
            true => law.surplus * soon_s / ahead_s.max(soon_s),
            false => 0.0,
        };
        // Where newcomers go ahead of holders, these wait for another reason.
        let least = match self.has_order() {
            true => -law.held_back,
            false => 0.0,
        };
        by_waits.clamp(least, most)
    }

    /// C, A(C), late share, windows and horizon for the next ticket, at this X
    /// (docs/dev/algorithms.md 2.1, 2.4, 2.9).
    pub(super) fn issue_terms(
        &self,
        now: Micros,
        rate: f64,
        permits: &Permits,
        laws: &Laws,
    ) -> SlotTerms {
        let terms = &self.terms;
        let by_law = terms.slot_tickets.how == how::AUTO;
        let depth = self.depth(rate);
        let prime = self.prime(rate, depth, &laws.sale);
        // What a slot was opened with is frozen, and the guess may be wrong; but it needs some
        // tickets.
        let period = match by_law {
            true => {
                let short = Micros(terms.slot_period.0 / laws.short_slots.max(1));
                let of = |n: f64| Micros::from_secs_f64(n / rate);
                short.max(terms.slot_period.min(of(10.0))).max(of(1.0))
            }
            false => terms.slot_period,
        };
        let period_s = period.as_secs_f64();
        let phi = self.phi();
        let capacity = match terms.slot_tickets.how {
            how::FIXED => terms.slot_tickets.n.max(1),
            how::PAPER => {
                let service = permits.residence.mean_s().unwrap_or(1.0);
                slots::capacity(period_s, service, 1, 1.0, 1.0)
            }
            _ => {
                let surplus = self.surplus(now, rate, &laws.sale);
                let margin = laws.eta * (1.0 + surplus.max(0.0));
                let full = slots::capacity_from_rate(period_s, rate, margin, phi);
                // Slots of a slow server have ten tickets: one of them would be ten per cent.
                let held_back = f64::from(full) * -surplus.min(0.0);
                full - whole(held_back.round()).min(full)
            }
        };
        // More tickets than the ledger has windows for would only leave gaps.
        let capacity = match terms.re_access.how {
            how::FIXED => capacity,
            _ if by_law => {
                let window = claimed(prime, terms.bound).as_secs_f64();
                let borne = f64::from(sellable(depth)) * period_s / window;
                capacity.min(whole(borne)).max(1)
            }
            _ => capacity,
        };
        let factor = match terms.overbook.how {
            how::FIXED => (f64::from(terms.overbook.n) / 1e6).min(OVERBOOK_MAX),
            _ => 1.0,
        };
        let issue_limit = if factor > 1.0 {
            returns::issue_limit(capacity, self.returns.upper(100), 0.001, factor)
        } else {
            capacity
        };
        SlotTerms {
            period,
            capacity,
            issue_limit,
            late_share_ppm: if terms.slot_tickets.how == how::PAPER {
                0
            } else {
                self.late_ppm(&laws.late)
            },
            horizon: terms.horizon,
            bound: terms.bound,
            prime,
            lifetime: terms.lifetime.max(prime),
        }
    }

    /// Share of a slot kept for re-bookings: what late holders need who found no place.
    pub(super) fn late_ppm(&self, law: &LateLaw) -> u32 {
        let late = self.counts.refused[Reason::Late as usize];
        let all = self.counts.late.saturating_add(self.counts.presented);
        if all < 100 {
            return law.first_ppm;
        }
        (late.saturating_mul(1_000_000) / all).clamp(law.min_ppm.into(), law.max_ppm.into()) as u32
    }
}
