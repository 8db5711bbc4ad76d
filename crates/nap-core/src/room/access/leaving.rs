//! An access's way out: its answer begins, its permit goes back, it is over.

use std::sync::atomic::Ordering::Relaxed;

use super::{Access, AccessState, House, at_gate, flag, group};
use crate::micros::Micros;
use crate::room::gate::Leaving;
use crate::room::recent::{Answer, How};

impl Access {
    /// Its answer has begun.
    pub fn first_byte(&mut self, house: &impl House) {
        if self.state == AccessState::Running {
            self.first_byte = house.now();
            house
                .permits()
                .first_byte(self.permit, self.owner, self.first_byte);
        }
    }

    /// Its worker begins to write to the client, who may not take it, or has done so.
    pub fn writes(&self, house: &impl House, begins: bool) {
        if self.state == AccessState::Running {
            match begins {
                true => house.permits().writes(self.permit, self.owner, house.now()),
                false => house
                    .permits()
                    .first_byte(self.permit, self.owner, self.first_byte),
            }
        }
    }

    /// Its permit goes back, and its worker stays busy with its answer. Its session has it in hand until that has
    /// gone: it is not idle meanwhile, and a cookie that many share has no more streams than one session.
    pub fn detach(&mut self, house: &mut impl House) {
        if self.state == AccessState::Running {
            let now = self.give_back(house);
            self.pay_session(house, now);
            self.state = AccessState::Detached;
        }
    }

    /// The lock-free way out: of an access that runs, got in at once and has nothing to tell. When it was; none: it
    /// has not left, and [`Access::leave`] does.
    #[inline(always)]
    pub fn leave_at_once(&mut self, house: &mut impl House) -> Option<Micros> {
        if self.state != AccessState::Running {
            return None;
        }
        let now = self.give_back_at_once(house)?;
        if self.session != 0 {
            self.leave_session(house, now);
        }
        house.child().running.fetch_sub(1, Relaxed);
        self.state = AccessState::Left;
        Some(now)
    }

    /// It is over, whatever it stands at. When it was; zero: nobody here has looked.
    pub fn leave(&mut self, house: &mut impl House) -> Micros {
        let mut now = Micros::ZERO;
        match self.state {
            AccessState::Running => {
                now = self.give_back(house);
                self.leave_session(house, now);
                house.child().running.fetch_sub(1, Relaxed);
            }
            AccessState::Detached => {
                self.leave_session(house, now);
                house.child().running.fetch_sub(1, Relaxed);
            }
            AccessState::Passed => self.leave_session(house, now),
            // The request ended under its wait (a panic, a killed thread): nobody else would.
            AccessState::Waiting => self.leave_place(house),
            AccessState::Returning => {
                self.stay_out(house);
                self.leave_session(house, now);
                house.child().running.fetch_sub(1, Relaxed);
            }
            AccessState::New | AccessState::Refused | AccessState::Left => {}
        }
        self.state = AccessState::Left;
        now
    }

    /// The permit goes to the head of the queue, without the lock where there is none and it has nothing to tell.
    #[inline(always)]
    fn give_back_at_once(&self, house: &mut impl House) -> Option<Micros> {
        if !self.is_plain() {
            return None;
        }
        let way_out = house.permits().way_out()?;
        let now = house.now();
        let residence = now - self.granted;
        note_answer(house, residence, now);
        if way_out.leave(self.permit, self.owner, residence) {
            // Somebody waits by now.
            at_gate(house, self.gate, |view| view.serve());
        }
        Some(now)
    }

    fn give_back(&self, house: &mut impl House) -> Micros {
        match self.give_back_at_once(house) {
            Some(now) => now,
            None => {
                self.give_back_locked(house);
                Micros::ZERO
            }
        }
    }

    #[cold]
    fn give_back_locked(&self, house: &mut impl House) {
        // What was sent meanwhile is neither a response nor a holder's wait; and a ticket of the session gate is
        // none of the page's.
        let again = self.has(flag::AGAIN);
        let ticket = self.ticket().filter(|_| self.home == 0 && !again);
        let (absent, outside) = match house.permits().outside() {
            0 => (0, None),
            _ => (house.absent(), house.outside_now(house.now())),
        };
        let leaving = Leaving {
            permit: self.permit,
            owner: self.owner,
            entered: self.entered,
            granted: self.granted,
            waited: self.group != group::RUN && !again,
            kind: self.kind,
            queue: self.queue,
            predicted: self.predicted,
            slot: ticket.map_or(0, |t| t.slot),
            index: ticket.map_or(0, |t| t.index),
            absent,
        };
        let left = at_gate(house, self.gate, |view| {
            if let Some(outside) = outside.filter(|_| view.permits.outside() != 0) {
                view.note_outside(outside);
            }
            view.leave(&leaving);
        });
        if left.is_none() {
            // No lock: the permit at least, and those who wait are served at the next tick.
            let permits = house.permits();
            if permits.release(leaving.permit, leaving.owner) {
                permits.residence.record(house.now() - leaving.granted);
            }
        }
    }
}

/// One that got in at once is over, for the charts: it ran from the moment it came.
#[inline(always)]
fn note_answer(house: &impl House, residence: Micros, now: Micros) {
    let Some(recent) = house.recent() else {
        return;
    };
    let first = recent.note_answer(&Answer {
        finished: now,
        response: residence,
        queue: 0,
        how: How::Passed,
    });
    if first {
        recent.note_running(now, house.permits().running());
    }
}
