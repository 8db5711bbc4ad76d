//! Selling a ticket: from a slot, under the ledger, with its record in the issue history.
//!
//! How many a slot sells follows from X, S and phi (ALGORITHMS.md 2.1, 2.4, 2.5), and is never more
//! than the ledger has places for.

use super::{Gate, GateView};
use crate::micros::Micros;
use crate::nap::laws::{LateLaw, Laws};
use crate::nap::ledger::{claim_of, early};
use crate::nap::ticket::{Ticket, ticket_id};
use crate::nap::ticket_states::State;
use crate::nap::{returns, slots};
use crate::room::arrival::Arrival;
use crate::room::history::Record;
use crate::room::permits::Permits;
use crate::room::terms::how;

/// Share of the places that claims of newcomers' tickets may take (psi); re-bookings may take all.
const PSI_PPM: u64 = 900_000;
/// The most `NapOverbook` can ask for.
const OVERBOOK_MAX: f64 = 2.0;

/// For whom a ticket is sold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sale {
    Newcomer,
    Rebooked,
    Guard,
}

impl GateView<'_> {
    /// Sell the next ticket; None when nothing can be promised.
    pub(super) fn sell(&mut self, sale: Sale, arrival: &Arrival<'_>) -> Option<Ticket> {
        self.refresh_limit();
        let predicted = self.predict(self.met(0));
        let now = self.now;
        let gate = &mut *self.gate;
        let terms = gate.terms;
        // Its claim begins when nobody now queued is left; some of them may have come under a
        // longer bound.
        let free = gate.queued_until.max(now + terms.bound);
        let first = (now + predicted).max(free + early(terms.bound));
        let issue = gate.issue_terms(self.permits, self.laws);
        let most = match sale {
            Sale::Newcomer => gate.sellable(),
            Sale::Rebooked | Sale::Guard => gate.places(),
        };
        let unlimited = terms.re_access.how == how::FIXED;
        let (ledger, slots, shares) = (&gate.ledger, &mut gate.slots, &gate.slot_shares);
        let [_, prefix] = arrival.client_hash;
        // A prefix has its share of each slot, unless the administrator has said what is fair, or
        // nobody else is there.
        let shared = terms.per_client.how == how::AUTO && !shares.alone(terms.lifetime, now);
        let mut open = |slot: &slots::Slot| !shared || shares.has_place(slot, prefix, now);
        let mut may = |slot: &slots::Slot, start: Micros| {
            let (from, to) = claim_of(start, start + terms.prime, slot.bound());
            unlimited || (from >= free && ledger.fits(from, to, most))
        };
        let booking = match sale {
            Sale::Newcomer => slots.book_open(now, first, &issue, &mut open, &mut may),
            _ => slots.rebook(now, first, &issue, &mut may),
        }?;
        let prime_end = booking.start + terms.prime;
        let end = booking.start + terms.lifetime;
        let (from, to) = gate.claim_of(booking.seq, booking.start, prime_end);
        gate.ledger.claim(from, to);
        gate.states.set(booking.position, State::Sold);
        if let Some(slot) = gate.slots.slot(booking.seq) {
            gate.slot_shares.sold(slot, prefix, now);
        }
        // How long those wait who have bought their share of the nearer slots is no measure of phi.
        if sale == Sale::Newcomer && !booking.skipped {
            if booking.seq > gate.share_slot {
                gate.share_slot = booking.seq;
                gate.share.turn(&self.laws.share);
            }
            gate.share
                .vote(booking.start - now, terms.bound, &self.laws.share);
        }
        gate.counts.sold += 1;
        if let Some(recent) = self.recent {
            recent.note_sale(now);
        }
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_add(1));
        let serial = self.history.next_serial();
        self.clients.sold(serial, arrival.client_hash, end, now);
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
            flags,
            node: self.node,
            lease: 0,
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

    /// A slot is over, grace included: who has not come is counted.
    pub(super) fn close_slot(&mut self, closed: slots::Closed) {
        self.gate.returns.record_slot(closed.sold, closed.expired);
        if self.permits.calls.counts().called != 0 {
            self.permits.calls.note_silent(self.never_came(closed.seq));
        }
        self.gate.counts.expired += u64::from(closed.expired);
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_sub(closed.expired));
    }
}

impl Gate {
    /// Places that may be promised in all (ALGORITHMS.md 2.3): a holder needs a place to be let in,
    /// and how many of those there are is a matter of workers. That he is served within the bound
    /// follows from the rate of sale, which X and phi set; L, which sees the spread of response
    /// times too, is for newcomers.
    pub(super) fn places(&self) -> u32 {
        match self.is_by_law() {
            true => self.terms.parked.max(self.limit),
            false => self.limit,
        }
    }

    /// The share of them (psi) that tickets of newcomers may take.
    pub(super) fn sellable(&self) -> u32 {
        (u64::from(self.places()) * PSI_PPM).div_ceil(1_000_000) as u32
    }

    /// C, A(C), late share and horizon for the next ticket (ALGORITHMS.md 2.1, 2.4, 2.5).
    pub fn issue_terms(&self, permits: &Permits, laws: &Laws) -> slots::Terms {
        let terms = &self.terms;
        let by_law = terms.slot_tickets.how == how::AUTO;
        // What is sold before the server's speed is known is sold in short slots: a wrong guess
        // is frozen with its slot.
        let period = match self.decided {
            0 if by_law => Micros((terms.slot_period.0 / laws.cold_slots.max(1)).max(1)),
            _ => terms.slot_period,
        };
        let period_s = period.as_secs_f64();
        let phi = match terms.share.how {
            how::FIXED => f64::from(terms.share.n) / 1e6,
            _ => self.share.phi_by(&laws.share),
        };
        let c = permits.limit();
        let service = permits.residence.mean_s();
        let capacity = match terms.slot_tickets.how {
            how::FIXED => terms.slot_tickets.n.max(1),
            how::PAPER => slots::capacity(period_s, service.unwrap_or(1.0), 1, 1.0, 1.0),
            _ => match (self.throughput(), service) {
                (Some(x), _) => slots::capacity_from_rate(period_s, x, laws.eta, phi),
                (None, Some(s)) => slots::capacity(period_s, s, c, laws.eta, phi),
                // Not one access has finished: most sites serve a page in an eighth of the bound.
                (None, None) => {
                    let guess = terms.bound.as_secs_f64() / 8.0;
                    slots::capacity(period_s, guess, c, laws.eta, phi)
                }
            },
        };
        // More than the ledger can claim places for would only leave gaps (2.2: the rate of
        // tickets is at most psi L over a claim's length).
        let capacity = match terms.re_access.how {
            how::FIXED => capacity,
            _ if by_law => {
                let claim = terms.prime + terms.bound + early(terms.bound);
                let claim_s = claim.as_secs_f64().max(1.0);
                let places = f64::from(self.sellable());
                capacity.min((places * period_s / claim_s) as u32).max(1)
            }
            _ => capacity,
        };
        let factor = match terms.overbook.how {
            how::FIXED => (f64::from(terms.overbook.n) / 1e6).min(OVERBOOK_MAX),
            how::AUTO if phi >= 1.0 => 1.25,
            _ => 1.0,
        };
        let issue_limit = if factor > 1.0 {
            returns::issue_limit(capacity, self.returns.upper(100), 0.001, factor)
        } else {
            capacity
        };
        slots::Terms {
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
            lifetime: terms.lifetime,
        }
    }

    /// Share of a slot kept for re-bookings: what the late ones need, 5..50 %, 10 % at first.
    pub(super) fn late_ppm(&self, law: &LateLaw) -> u32 {
        let late = self.counts.late;
        let all = late.saturating_add(self.counts.presented);
        if all < 100 {
            return law.first_ppm;
        }
        (late.saturating_mul(1_000_000) / all).clamp(law.min_ppm.into(), law.max_ppm.into()) as u32
    }
}
