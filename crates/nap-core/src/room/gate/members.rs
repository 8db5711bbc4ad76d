//! The two kinds of gates of a room with sessions (docs/dev/design.md, "Sessions and the ledger").
//!
//! The *session gate* gives out turns instead of permits ([`Starts`](crate::room::starts::Starts));
//! it has all else, the ledger, tickets, bound and guard, like any gate. The *page gates* hold
//! members, whom nothing refuses, and accesses without a session that fit beside them.

use std::sync::atomic::Ordering::Relaxed;

use super::standing::Standing;
use super::{Gate, GateView};
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::room::arrival::Arrival;
use crate::room::owner::Owner;
use crate::room::place::Place;
use crate::room::places::wake;
use crate::room::terms::how;
use crate::room::verdict::{Reason, Seat, Verdict};
use crate::sqs::interval::{PATIENCE, queue_bound};

/// What a turn is called in a verdict: a session gate has no permits.
pub const TURN: u32 = u32::MAX;
/// A member has no deadline; this one is far away.
const FOR_EVER: Micros = Micros::from_secs(365 * 24 * 3600);

impl GateView<'_> {
    /// A permit, or at a session gate the turn that is due.
    pub(super) fn claim(&mut self, owner: Owner) -> Option<u32> {
        match &mut self.starts {
            Some(starts) => {
                if !starts.take(self.now) {
                    return None;
                }
                if let Some(recent) = self.recent {
                    recent.finished.count(self.now);
                }
                Some(TURN)
            }
            None => self.permits.claim_in_turn(owner),
        }
    }

    /// Granted, but the access left before it began: the permit or turn goes to the next.
    pub(super) fn give_back(&mut self, permit: u32, owner: Owner) {
        match &mut self.starts {
            Some(starts) => starts.give_back(),
            None => {
                self.permits.release(permit, owner);
            }
        }
    }

    /// Sets the session queue's limit: what the interval serves within patience and the bound.
    pub(super) fn refresh_starts(&mut self) -> bool {
        let Some(starts) = &self.starts else {
            return false;
        };
        let terms = self.gate.terms;
        let interval_s = starts.interval.seconds();
        self.gate.wanted = match terms.wait_limit.how {
            how::FIXED => terms.wait_limit.n,
            _ => queue_bound(PATIENCE.min(terms.bound), interval_s),
        };
        self.gate.limit = self.gate.wanted.min(terms.parked);
        // The last of q waits q intervals, and one more that its turn takes.
        (self.gate.slope, self.gate.intercept) = (interval_s.to_bits(), interval_s.to_bits());
        self.gate.decided = 1;
        true
    }

    /// The next waiter sleeps until its turn is due; the others need not look before they are told.
    pub(super) fn tell_next(&mut self) {
        let Some(next) = self.next() else { return };
        let Some(starts) = &mut self.starts else {
            return;
        };
        if starts.told != next.saturating_add(1) {
            starts.told = next.saturating_add(1);
            self.wakes.push(next);
        }
    }

    /// When the waiter on `place` must look again even if not woken; None: only when it is woken.
    pub fn alarm(&self, place: u32) -> Option<Micros> {
        let starts = self.starts.as_ref()?;
        (self.next() == Some(place)).then_some(starts.due)
    }

    /// A member comes to a page with this priority. `start`: if their session begins, the room's
    /// session gate and their place there. None: no place is left to wait on; the member passes.
    pub fn enter_member(
        &mut self,
        access: (Owner, u32),
        session: u32,
        priority: u32,
        start: Option<(u32, &Place)>,
    ) -> Option<Verdict> {
        let place = Place {
            entered: self.now,
            deadline: self.now + FOR_EVER,
            session: match session {
                0 => u32::MAX,
                session => session,
            },
            ..Place::default()
        };
        let place = match start {
            Some((lobby, start)) => place.beginning(lobby, start),
            None => place,
        };
        self.enter_unbounded(access, priority, place)
    }

    /// Nothing refuses a member; the deadline of their place only sets the order.
    fn enter_unbounded(
        &mut self,
        (owner, kind): (Owner, u32),
        priority: u32,
        place: Place,
    ) -> Option<Verdict> {
        self.tick();
        if self.gate.queue.is_empty()
            && let Some(permit) = self.permits.claim_in_turn(owner)
        {
            self.permits.passed.fetch_add(1, Relaxed);
            return Some(Verdict::Run(permit));
        }
        self.refresh_limit();
        let queue = self.met(kind);
        // The member's turn is that of any access that came at the same time.
        let turn = self.now + self.gate.terms.bound;
        let place = Place {
            owner,
            queue,
            predicted: match self.gate.decided {
                0 => Micros::ZERO,
                _ => self.predict(queue),
            },
            due: match self.due(turn, priority) {
                Micros::ZERO => turn,
                due => due,
            },
            work: self.work_of(kind),
            ..place
        };
        let at = self.line_up(place)?;
        self.serve();
        Some(match self.granted(at, owner) {
            Some(permit) => Verdict::Run(permit),
            None => Verdict::Wait(Seat::of(at, &place, place.deadline, None)),
        })
    }

    /// A running access cannot go on: its permit goes to the next. Its residence teaches nothing.
    pub fn step_out(&mut self, permit: u32, owner: Owner) {
        if self.permits.release(permit, owner) {
            self.serve();
        }
    }

    /// It can go on, and waits for its turn behind those that have come meanwhile, in the order of
    /// all; what has begun is not refused. None: no place is left to wait on; it passes.
    pub fn step_in(&mut self, owner: Owner, kind: u32) -> Option<Verdict> {
        let place = Place {
            entered: self.now,
            deadline: self.now + self.gate.terms.bound,
            session: u32::MAX,
            ..Place::default()
        };
        self.enter_unbounded((owner, kind), 0, place)
    }

    /// The permit of the access that waits at `place` without a bound, if it has been granted one.
    pub fn granted(&mut self, place: u32, owner: Owner) -> Option<u32> {
        let entry = self.places.place(place);
        let permit = entry.filter(|entry| entry.owner == owner)?.permit;
        let granted = self.places.wake_word(place) == wake::GRANTED;
        granted.then(|| {
            self.places.free(place);
            permit
        })
    }

    /// The turn that `start` had goes to another: nothing has run, and the ticket is good again.
    pub fn undo_start(&mut self, start: &Place) {
        self.give_back(TURN, start.owner);
        self.take_back(start);
        self.serve();
    }

    /// The server goes down while a session begins: the visitor gets a ticket to come back with.
    pub fn put_off_start(&mut self, start: &Place, arrival: &Arrival<'_>) -> Verdict {
        self.give_back(TURN, start.owner);
        self.not_kept(start);
        self.put_off(start, Reason::Stopping, arrival)
    }

    /// The ticket that the access brings, if that ticket is used.
    pub fn used_ticket(&self, arrival: &Arrival<'_>) -> Option<Ticket> {
        let (standing, ticket) = self.best_ticket(arrival);
        ticket.filter(|ticket| standing == Standing::Used && ticket.epoch == self.epoch)
    }

    /// Does the access bring a ticket of this gate whose time has come, or one that already waits
    /// here, whose place it takes over? Before that time its holder is no better and no worse off
    /// than a visitor without a ticket.
    pub fn is_expected(&self, arrival: &Arrival<'_>) -> bool {
        let standing = self.best_ticket(arrival).0;
        matches!(
            standing,
            Standing::Abroad
                | Standing::Unknown
                | Standing::Tail
                | Standing::Prime
                | Standing::Waits(_)
        )
    }

    /// The page gate of a room with sessions has no place for an access without one: this gate, the
    /// session gate, tells it when it may start one. A visitor told before is told the same again.
    pub fn refuse_for_page(&mut self, arrival: &Arrival<'_>) -> Verdict {
        self.tick();
        self.refresh_limit();
        match self.best_ticket(arrival) {
            (Standing::Early, own) => self.refuse_with(Reason::Early, own, arrival),
            // Its time has come while the access waited at the page: it is as good as before.
            (Standing::Prime | Standing::Tail, own) => {
                self.refuse(Reason::Full, own, Micros::from_secs(1))
            }
            (Standing::Waits(_) | Standing::Abroad | Standing::Unknown, own) => {
                self.refuse_with_own(own, Reason::Full, arrival)
            }
            _ => self.refuse_newcomer(Reason::Full, arrival),
        }
    }
}

impl Gate {
    /// Are tickets sold, and bounds kept, at this gate? Not at the pages of a room with sessions.
    pub(super) fn sells(&self) -> bool {
        self.kind == SESSION || self.lobby == 0
    }
}

/// [`Gate::kind`] of a page gate.
pub const PAGE: u32 = 1;
/// [`Gate::kind`] of a session gate.
pub const SESSION: u32 = 2;
