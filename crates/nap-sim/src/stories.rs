//! Stories: short scripts against one gate, most of them faults that a random world once found.

mod accesses;
mod calls;
mod caps;
mod fleet;
mod guests;
mod limits;
mod outside;
mod restarts;
mod starts;
mod tickets;
mod verbs;
mod waiting;

use super::house;
use super::state::State;
use nap_core::fleet::guests::GuestSet;
use nap_core::fleet::stake::Stake;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::gate::{GateView, Leaving};
use nap_core::room::owner::{Life, Owner};
use nap_core::room::permits::FEW;
use nap_core::room::places::wake;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::{Reason, Refusal, Seat, Verdict};

const AUTO: Choice = Choice {
    how: how::AUTO,
    n: 0,
};

/// One run slot, a bound of 4 s, prime windows of 5 s; L as given.
fn terms(wait_limit: Choice) -> Terms {
    let secs = Micros::from_secs;
    Terms {
        bound: secs(4),
        run_ready: 1,
        history: 100,
        wait_limit,
        slot_period: secs(10),
        slot_tickets: fixed(10),
        lifetime: secs(60),
        prime: secs(5),
        horizon: secs(3600),
        poll: secs(10),
        parked: 20,
        ..Terms::default()
    }
}

const fn fixed(n: u32) -> Choice {
    Choice { how: how::FIXED, n }
}

/// Visitors of the same thousand share a /24, from the second thousand on; before that each has their own.
const NEIGHBOURS: u32 = 1000;

/// One gate and a clock. Visitors are numbers.
struct Story {
    state: State,
    now: Micros,
    /// Workers to wait on in all children.
    left: u32,
    /// How long each arriving access had been in the kernel.
    waited: Micros,
    /// How much of that counts towards its bound.
    stood: Micros,
}

impl Story {
    fn new(terms: Terms) -> Story {
        let now = Micros::from_secs(1000);
        Story {
            state: State::new(terms, 64, 4, 7),
            now,
            left: u32::MAX,
            waited: Micros::ZERO,
            stood: Micros::ZERO,
        }
    }

    /// It is one of two nodes, and remembers guests in so many sets.
    fn joins_a_fleet(&mut self, sets: usize) {
        self.state.guests = vec![GuestSet::default(); sets].into();
        self.state.stakes = Box::new([Stake::EMPTY]);
        self.state.stakes[0].nodes = 2;
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now + Micros::from_millis(ms);
    }

    fn owner(visitor: u32) -> Owner {
        let child = (visitor % 2) as u16;
        Owner::new(Life { child, epoch: 1 }, visitor)
    }

    fn ask<R>(
        &mut self,
        visitor: u32,
        tickets: &[Ticket],
        parking: Parking,
        act: impl FnOnce(&mut GateView<'_>, &Arrival<'_>) -> R,
    ) -> R {
        let net = match visitor / NEIGHBOURS {
            0 => visitor,
            thousands => thousands * NEIGHBOURS,
        };
        let arrival = Arrival {
            parking,
            left: self.left,
            waited: self.waited,
            stood: self.stood,
            client_hash: [visitor.into(), (net | 1 << 20).into()],
            ..house::arrival(Story::owner(visitor), tickets)
        };
        self.state.at_gate(self.now, |view| act(view, &arrival)).0
    }

    /// For every newcomer it can be told beforehand whether they will be refused.
    fn enters(&mut self, visitor: u32, tickets: &[Ticket]) -> Verdict {
        self.ask(visitor, tickets, Parking::Anybody, |view, arrival| {
            let told = view.would_refuse(arrival);
            let verdict = view.enter(arrival);
            let refused = matches!(verdict, Verdict::Refuse(_));
            assert!(
                !tickets.is_empty() || told == refused,
                "{visitor}: {verdict:?}"
            );
            verdict
        })
    }

    /// The visitor enters and runs.
    fn runs(&mut self, visitor: u32, tickets: &[Ticket]) -> Leaving {
        let now = self.now;
        let (verdict, redeemed) = self.ask(visitor, tickets, Parking::Anybody, |view, arrival| {
            (view.enter(arrival), view.redeemed)
        });
        let Verdict::Run(permit) = verdict else {
            panic!("{visitor} should run: {verdict:?}")
        };
        Leaving {
            permit,
            owner: Story::owner(visitor),
            entered: now,
            granted: now,
            slot: redeemed.map_or(0, |t| t.slot),
            index: redeemed.map_or(0, |t| t.index),
            ..Leaving::default()
        }
    }

    fn leaves(&mut self, leaving: &Leaving) {
        self.state.at_gate(self.now, |view| view.leave(leaving));
    }

    /// So much later the access that runs is over, and that of this visitor runs.
    fn runs_next(&mut self, running: &mut Leaving, ms: u64, visitor: u32) {
        self.pass(ms);
        self.leaves(running);
        *running = Leaving {
            owner: Story::owner(visitor),
            granted: self.now,
            ..*running
        };
    }

    /// It is the turn of this visitor, who waits there: the access runs from now on.
    fn has_turn(&mut self, visitor: u32, seat: &Seat) -> Leaving {
        let owner = Story::owner(visitor);
        let permit = (self.state).at_gate(self.now, |view| view.granted(seat.place, owner));
        Leaving {
            permit: permit.0.expect("the waiter's turn"),
            owner,
            entered: self.now,
            granted: self.now,
            ..Leaving::default()
        }
    }

    fn waits(&mut self, visitor: u32, tickets: &[Ticket]) -> Seat {
        let verdict = self.enters(visitor, tickets);
        let Verdict::Wait(seat) = verdict else {
            panic!("{visitor} should wait: {verdict:?}")
        };
        seat
    }

    fn refused(&mut self, visitor: u32, tickets: &[Ticket]) -> Refusal {
        let verdict = self.enters(visitor, tickets);
        let Verdict::Refuse(refusal) = verdict else {
            panic!("{visitor}: {verdict:?}")
        };
        *refusal
    }

    /// The waiter looks up, at the deadline or not, and is refused.
    fn put_off(&mut self, visitor: u32, tickets: &[Ticket], seat: &Seat) -> Refusal {
        let (place, mut until) = (seat.place, seat.until);
        let verdict = self.ask(visitor, tickets, Parking::Nobody, |view, arrival| {
            view.look_up(place, &mut until, arrival)
        });
        let Some(Verdict::Refuse(refusal)) = verdict else {
            panic!("{visitor}: {verdict:?}")
        };
        *refusal
    }

    /// A newcomer's ticket; moves the clock to the start of its prime window.
    fn ticket(&mut self, visitor: u32) -> Ticket {
        let verdict = self.ask(visitor, &[], Parking::Nobody, |view, arrival| {
            view.enter(arrival)
        });
        let Verdict::Refuse(refusal) = verdict else {
            panic!("{visitor}: {verdict:?}")
        };
        refusal.ticket.expect("sold")
    }

    fn claims(&self, at: Micros) -> u32 {
        self.state.gate().ledger.max_claims(at, at)
    }
}

/// Ten departures, 0.1 s apart, and residences of 0.1 s: X = 10, S = 0.1.
fn learn_the_speed(view: &mut GateView<'_>) {
    view.gate.departures.begin(Micros::from_millis(1), 0);
    for n in 1..=30 {
        view.permits.residence.record(Micros::from_millis(100));
        view.gate.departures.record(Micros::from_millis(100 * n));
    }
}
