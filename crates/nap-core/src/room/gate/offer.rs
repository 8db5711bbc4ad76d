//! [`Offer`] and [`Empty`]: how tickets are sold, and which permits the sale has left empty.

use super::calling::STEPS;
use super::selling::all_permits_do;
use super::{Gate, SESSION};
use crate::micros::Micros;
use crate::nap::laws::Laws;
use crate::nap::ledger::prime_borne;
use crate::nap::ticket_states::State;
use crate::room::permits::Permits;
use crate::room::starts::Starts;

/// How tickets are sold now.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The X that tickets are sold for.
    pub rate: f64,
    /// What all permits would do at the residence seen.
    pub most: Option<f64>,
    /// Tickets a second.
    pub sold: f64,
    /// The L that windows rest on.
    pub depth: u32,
    /// g.
    pub prime: Micros,
    /// g as it would be if it were not configured.
    pub prime_by_law: Micros,
}

/// Permits that stand empty while tickets are out that start later.
#[derive(Clone, Copy, Debug)]
pub struct Empty {
    /// Since when they have been empty.
    pub since: Micros,
    /// How many they are (at a session gate none: a turn is due).
    pub permits: u32,
    /// When the next ticket starts.
    pub next: Micros,
    /// Tickets that have started since then.
    pub due: u32,
    /// How many of those nobody has presented.
    pub absent: u32,
}

impl Gate {
    /// How tickets are sold now.
    pub fn offer(&self, now: Micros, permits: &Permits, laws: &Laws) -> Offer {
        let (rate, terms) = (self.rate(permits), &self.terms);
        let depth = self.depth(rate);
        let issue = self.issue_terms(now, rate, permits, laws);
        let by_law = prime_borne(depth, rate, terms.bound, laws.sale.window_min);
        Offer {
            rate,
            most: all_permits_do(permits).filter(|_| self.kind != SESSION),
            sold: f64::from(issue.capacity) / issue.period.as_secs_f64().max(1e-6),
            depth,
            prime: issue.prime,
            prime_by_law: by_law.min(terms.lifetime),
        }
    }

    /// Nobody waits, a visitor who came now would be let in, and tickets that start later are out.
    /// `starts`: of a session gate.
    pub(super) fn stands_empty(
        &self,
        permits: &Permits,
        starts: Option<&Starts>,
        now: Micros,
    ) -> bool {
        let free = match starts {
            Some(starts) => starts.due <= now,
            None => permits.running() < permits.limit(),
        };
        free && self.queue.is_empty() && self.booked_until > now
    }

    /// Do permits stand empty while tickets are out, for too long to be chance?
    pub fn empty_now(
        &self,
        permits: &Permits,
        starts: Option<&Starts>,
        now: Micros,
    ) -> Option<Empty> {
        let starts = starts.filter(|_| self.kind == SESSION);
        let since = self.sale_rate.empty_since(now)?;
        if permits.outstanding() == 0 || !self.stands_empty(permits, starts, now) {
            return None;
        }
        let sold = self.slots.sold_after(now).take(STEPS);
        let mut waiting = sold.filter(|(_, at)| self.states.state(*at) == State::Sold);
        let (next, _) = waiting.next()?;
        let slots = self
            .slots
            .open_slots()
            .skip_while(|slot| slot.start < since);
        let begun = slots.take_while(|slot| slot.end() <= now);
        let (due, absent) = begun.fold((0_u32, 0_u32), |(due, absent), slot| {
            let sold = slot.sold_in_all();
            let left = sold.saturating_sub(slot.presented());
            (due.saturating_add(sold), absent.saturating_add(left))
        });
        Some(Empty {
            since,
            permits: match starts {
                Some(_) => 0,
                None => permits.limit().saturating_sub(permits.running()),
            },
            next,
            due,
            absent,
        })
    }
}
