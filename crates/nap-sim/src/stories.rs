//! Stories: short scripts against one gate, most of them faults that a random world once found.

mod accesses;
mod calls;
mod caps;
mod restarts;
mod starts;
mod verbs;

use super::state::State;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::nap::wait_limit::Conformal;
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::children::Workers;
use nap_core::room::control::Order;
use nap_core::room::gate::{GateView, Leaving};
use nap_core::room::owner::{Life, Owner};
use nap_core::room::part::Part;
use nap_core::room::permits::FEW;
use nap_core::room::places::wake;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::{Reason, Refusal, Seat, Verdict};
use nap_core::sqs::page_scheduler::{Pace, law};

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
        ..Terms::EMPTY
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
            owner: Story::owner(visitor),
            parking,
            left: self.left,
            waited: self.waited,
            stood: self.stood,
            secondary: false,
            tickets,
            forged: false,
            of_visit: &[],
            part: Part::Call,
            client: [0; 16],
            client_hash: [visitor.into(), (net | 1 << 20).into()],
            method: b"GET",
            uri: b"/",
            kind: 0,
            priority: 0,
            secret: [0; 16],
            random: 0,
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

#[test]
fn a_ticket_put_off_by_the_guard_is_counted_once() {
    let mut story = Story::new(terms(fixed(5)));
    story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    let seat = story.waits(2, &[ticket]);
    story.now = seat.until;
    let refusal = story.put_off(2, &[ticket], &seat);
    assert_eq!(refusal.reason, Reason::Deferred);
    assert!(refusal.ticket.is_some_and(|t| t.has(Ticket::GUARD)));
    assert_eq!(story.state.permits().outstanding(), 1);
    story.pass(3_600_000);
    story.state.at_gate(story.now, |view| view.tick());
    assert_eq!(story.state.permits().outstanding(), 0);
    assert_eq!(story.state.gate().counts.expired, 1);
}

#[test]
fn who_leaves_the_queue_has_his_claim_again_however_full_the_ledger() {
    let mut story = Story::new(Terms {
        parked: 2,
        ..terms(fixed(2))
    });
    story.runs(1, &[]);
    let tickets = [story.ticket(2), story.ticket(3)];
    story.now = tickets[0].start;
    let seat = story.waits(2, &tickets[..1]);
    let cell = story.now + Micros::from_secs(2);
    // The visitor's own claim is free; the next ticket takes it.
    let before = story.claims(cell);
    while story.claims(cell) < 2 {
        story.state.at_gate(story.now, |view| {
            view.gate.ledger.claim(cell, cell + Micros(1))
        });
    }
    story
        .state
        .at_gate(story.now, |view| view.gone(seat.place, Story::owner(2)));
    assert_eq!((before, story.claims(cell)), (1, 3));
    story.waits(2, &tickets[..1]);
    assert_eq!(story.claims(cell), 2, "only the visitor's own goes away");
}

#[test]
fn a_holder_put_off_when_nothing_can_be_sold_keeps_his_ticket() {
    for newcomer in [false, true] {
        let mut story = Story::new(terms(fixed(5)));
        story.runs(1, &[]);
        let ticket = story.ticket(2);
        if !newcomer {
            story.now = ticket.start;
        }
        let seat = story.waits(2, &[ticket]);
        story.state.terms_mut().horizon = Micros(1);
        story.now = seat.until;
        let refusal = story.put_off(2, &[ticket], &seat);
        assert_eq!(
            refusal.ticket,
            Some(ticket),
            "newcomer {newcomer}: {refusal:?}"
        );
        assert!(refusal.retry_after > Micros::ZERO);
        story.now = story.now.max(ticket.start);
        assert_eq!(story.waits(2, &[ticket]).redeemed, Some(ticket));
    }
}

#[test]
fn a_promise_broken_when_nothing_can_be_sold_leaves_the_ticket_good() {
    let mut story = Story::new(terms(fixed(5)));
    story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    story.state.terms_mut().horizon = Micros(1);
    let verdict = story.ask(2, &[ticket], Parking::Nobody, |view, arrival| {
        view.enter(arrival)
    });
    let Verdict::Refuse(refusal) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        (refusal.reason, refusal.ticket),
        (Reason::Broken, Some(ticket))
    );
    assert_eq!(story.state.gate().counts.broken, 1);
    story.waits(2, &[ticket]);
}

#[test]
fn who_is_told_that_the_line_is_too_long_keeps_his_ticket() {
    let mut story = Story::new(terms(AUTO));
    let mut running = story.runs(0, &[]);
    let mut tickets = [50, 51, 52, 53].map(|visitor| story.ticket(visitor));
    tickets.swap(1, 3);
    for visitor in 1..=14 {
        story.waits(visitor, &[]);
    }
    // One holder in their prime window, one too early, both among the newest newcomers.
    story.now = tickets[0].start;
    let prime = story.waits(50, &tickets[..1]);
    let early = story.waits(51, &tickets[1..2]);
    assert!(
        story.now < tickets[1].start - Micros::from_secs(2) && !prime.re_access && !early.re_access
    );
    for visitor in 1..=10 {
        story.pass(1500);
        story.leaves(&running);
        running = Leaving {
            owner: Story::owner(visitor),
            granted: story.now,
            ..running
        };
    }
    story.pass(1500);
    story.leaves(&running);
    assert!(
        story.state.gate().counts.shed > 0,
        "{:?}",
        story.state.gate().counts
    );
    let refusal = story.put_off(51, &tickets[1..2], &early);
    assert_eq!(refusal.ticket, Some(tickets[1]));
    assert_ne!(story.state.wake_word(prime.place), wake::SHED);
}

/// A crowd comes before anything is known. Visitors who do not fit are told in the order of coming, some at
/// each departure; those who come meanwhile are behind them.
#[test]
fn those_beyond_the_first_limit_are_told_in_the_order_of_coming() {
    let many = 55;
    let mut story = Story::new(Terms {
        parked: 60,
        slot_tickets: AUTO,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    let mut running = story.runs(0, &[]);
    let mut seats: Vec<Seat> = (1..=many).map(|n| story.waits(n, &[])).collect();
    let shed = |story: &Story, seats: &[Seat]| -> Vec<usize> {
        let is_shed = |n: &usize| story.state.wake_word(seats[*n].place) == wake::SHED;
        (0..seats.len()).filter(is_shed).collect()
    };
    let mut served = 0;
    while shed(&story, &seats).is_empty() {
        story.pass(90);
        story.leaves(&running);
        served += 1;
        running = Leaving {
            owner: Story::owner(served),
            granted: story.now,
            ..running
        };
    }
    let first = shed(&story, &seats);
    let from = first[0];
    assert_eq!(first, (from..from + 16).collect::<Vec<_>>());
    assert!(from + 16 < seats.len(), "{from}: some are still to be told");
    let waits = story.waits(many + 1, &[]);
    assert_eq!(waits.predicted, Micros::ZERO, "nothing is expected of it");
    seats.push(waits);
    story.pass(90);
    story.leaves(&running);
    assert_eq!(
        shed(&story, &seats),
        (from..seats.len()).collect::<Vec<_>>()
    );
    let starts: Vec<Micros> = (from..seats.len())
        .map(|n| {
            let refusal = story.put_off(n as u32 + 1, &[], &seats[n]);
            refusal.ticket.expect("sold").start
        })
        .collect();
    assert!(starts.is_sorted(), "{starts:?}");
    // Everybody has been told: the next visitor is told at once.
    let ticket = story.refused(many + 2, &[]).ticket.expect("sold");
    assert!(
        Some(&ticket.start) >= starts.last(),
        "{ticket:?} {starts:?}"
    );
}

/// No worker was free to hear the visitor until their window was over.
#[test]
fn who_came_in_time_and_was_heard_later_is_in_time() {
    let mut story = Story::new(terms(fixed(5)));
    story.runs(1, &[]);
    let tickets = [2, 3].map(|visitor| story.ticket(visitor));
    let [mine, other] = tickets;
    story.now = other.prime_end + Micros::from_millis(10);
    for visitor in 10..15 {
        story.waits(visitor, &[]);
    }
    story.waited = story.now - mine.prime_end;
    let late = story.refused(2, &[mine]);
    assert_eq!(late.reason, Reason::Late, "{:?}", story.waited);
    story.waited = Micros::from_millis(20);
    assert!(story.waits(3, &[other]).re_access);
}

/// The last tickets of a crowd find an idle server, and the next crowd comes before anybody has looked. It is
/// sold tickets for the speed that was measured, not for what the empty permits said.
#[test]
fn the_next_crowd_begins_with_what_was_seen() {
    let mut story = Story::new(terms(AUTO));
    let from = story.now;
    let rate = |story: &mut Story| {
        let act = |view: &mut GateView<'_>| view.gate.rate(view.permits);
        story.state.at_gate(story.now, act).0
    };
    story.state.at_gate(from, |view| {
        let seen = &mut view.gate.sale_rate;
        let at = |ms| from + Micros::from_millis(ms);
        (0..=100).for_each(|n| seen.departed(at(10 * n), at(10 * n)));
        seen.idle();
        for n in 0..16 {
            seen.look(true, true, at(1000 + 250 * n));
        }
    });
    // Each takes a hundredth of what the permit could do.
    let leaving = story.runs(1, &[]);
    story.pass(1);
    story.leaves(&leaving);
    assert!(rate(&mut story) > 300.0, "the empty permits say so");
    story.runs(2, &[]);
    story.ticket(3);
    let rate = rate(&mut story);
    assert!((100.0..110.0).contains(&rate), "{rate}");
}

#[test]
fn a_ticket_of_another_epoch_does_not_use_up_one_of_this() {
    let mut story = Story::new(terms(fixed(5)));
    let running = story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.leaves(&running);
    let old = Ticket {
        epoch: 6,
        id: 99,
        ..ticket
    };
    let leaving = story.runs(3, &[old]);
    story.leaves(&leaving);
    story.runs(4, &[]);
    story.now = ticket.start;
    assert_eq!(story.waits(2, &[ticket]).redeemed, Some(ticket));
}

#[test]
fn who_takes_over_a_guard_place_waits_until_its_deadline() {
    let mut story = Story::new(terms(fixed(5)));
    story.runs(1, &[]);
    let seat = story.waits(2, &[]);
    story.now = seat.until;
    let guard = story.put_off(2, &[], &seat).ticket.expect("a guard ticket");
    story.now = guard.start;
    let first = story.waits(2, &[guard]);
    story.pass(10);
    let second = story.waits(3, &[guard]);
    assert_eq!(second.until, first.until);
}

#[test]
fn who_cannot_take_over_his_place_keeps_his_ticket() {
    for early in [false, true] {
        let mut story = Story::new(terms(fixed(5)));
        story.runs(1, &[]);
        let ticket = story.ticket(2);
        if !early {
            story.now = ticket.start;
        }
        let seat = story.waits(2, &[ticket]);
        let verdict = story.ask(3, &[ticket], Parking::Nobody, |view, arrival| {
            view.enter(arrival)
        });
        let Verdict::Refuse(refusal) = verdict else {
            panic!("early {early}: {verdict:?}")
        };
        let reason = if early { Reason::Early } else { Reason::Full };
        assert_eq!((refusal.reason, refusal.ticket), (reason, Some(ticket)));
        assert!(refusal.retry_after >= ticket.start - story.now);
        assert_eq!(story.state.permits().outstanding(), 0, "no other was sold");
        story
            .state
            .at_gate(story.now, |view| view.gone(seat.place, Story::owner(2)));
        story.now = ticket.start;
        assert_eq!(story.waits(3, &[ticket]).redeemed, Some(ticket));
    }
}

#[test]
fn who_sat_down_before_anything_was_known_gets_the_rest_of_his_time() {
    let mut story = Story::new(terms(AUTO));
    story.runs(1, &[]);
    let entered = story.now;
    let seat = story.waits(2, &[]);
    story.state.at_gate(story.now, |view| {
        (0..20).for_each(|_| view.permits.residence.record(Micros::from_millis(100)));
    });
    story.now = seat.until;
    let mut until = seat.until;
    let verdict = story.ask(2, &[], Parking::Nobody, |view, arrival| {
        view.look_up(seat.place, &mut until, arrival)
    });
    assert!(verdict.is_none(), "a response of 100 ms is still possible");
    let bound = story.state.gate().terms.bound;
    assert_eq!(until, entered + bound - Micros::from_millis(100));
    story.now = until;
    let seat = Seat { until, ..seat };
    assert!(story.put_off(2, &[], &seat).ticket.is_some());
}

#[test]
fn where_nobody_could_wait_within_the_bound_one_may_still_try() {
    let mut story = Story::new(terms(AUTO));
    story.runs(1, &[]);
    story.state.at_gate(story.now, |view| {
        view.permits.residence.record(Micros::from_secs(9));
        view.gate.departures.begin(Micros::from_secs(1), 0);
        (1..=20).for_each(|n| {
            view.gate.departures.record(Micros::from_secs(9 * n));
        });
    });
    story.waits(2, &[]);
    assert_eq!(story.state.gate().limit, 1);
    assert!(story.refused(3, &[]).ticket.is_some());
}

#[test]
fn the_static_re_access_moves_into_wait_before_any_newcomer() {
    let mut story = Story::new(Terms {
        re_access: fixed(5),
        ..terms(fixed(1))
    });
    let running = story.runs(1, &[]);
    let tickets = [story.ticket(2), story.ticket(3)];
    story.now = tickets[1].start;
    let wait = story.waits(5, &[]);
    let seats = [0, 1].map(|i| {
        story.pass(1);
        story.waits(2 + i as u32, &tickets[i..=i])
    });
    assert!(!wait.re_access && seats.iter().all(|seat| seat.re_access));
    story.state.terms_mut().wait_limit = fixed(2);
    story.refused(6, &[]);
    let granted = |story: &Story| {
        [&wait, &seats[0], &seats[1]].map(|seat| story.state.wake_word(seat.place) == wake::GRANTED)
    };
    story.leaves(&running);
    assert_eq!(granted(&story), [true, false, false]);
    story.leaves(&Leaving {
        owner: Story::owner(5),
        ..running
    });
    assert_eq!(granted(&story), [true, true, false]);
}

#[test]
fn a_permit_granted_to_one_who_has_gone_counts_as_no_kept_ticket() {
    let mut story = Story::new(terms(fixed(5)));
    let running = story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    let seat = story.waits(2, &[ticket]);
    story.leaves(&running);
    story
        .state
        .at_gate(story.now, |view| view.gone(seat.place, Story::owner(2)));
    let counts = story.state.gate().counts;
    assert_eq!((counts.presented, counts.kept), (0, 0));
    let leaving = story.runs(2, &[ticket]);
    story.leaves(&leaving);
    let counts = story.state.gate().counts;
    assert_eq!((counts.presented, counts.kept), (1, 1));
}

#[test]
fn a_permit_collected_for_one_who_has_gone_goes_to_the_next() {
    let mut story = Story::new(terms(fixed(5)));
    let running = story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    let seat = story.waits(2, &[ticket]);
    let next = story.waits(3, &[]);
    story.leaves(&running);
    let (owner, entered) = (Story::owner(2), story.now);
    story.state.at_gate(story.now, |view| {
        let permit = view.places.place(seat.place).expect("a place").permit;
        view.places.free(seat.place);
        view.gone_granted(permit, owner, entered, Some(ticket));
        assert!(view.permits.holds(permit, Story::owner(3)), "the next runs");
        // Twice is harmless.
        view.gone_granted(permit, owner, entered, Some(ticket));
    });
    let counts = story.state.gate().counts;
    assert_eq!((counts.gone, counts.presented, counts.kept), (1, 0, 0));
    story.state.at_gate(story.now, |view| {
        let permit = view.places.place(next.place).expect("a place").permit;
        view.places.free(next.place);
        view.permits.release(permit, Story::owner(3));
    });
    // And the visitor's ticket is good again.
    story.runs(2, &[ticket]);
    assert_eq!(story.state.gate().counts.presented, 1);
}

#[test]
fn who_cannot_go_on_steps_out_and_waits_for_his_turn_again() {
    let mut story = Story::new(terms(fixed(5)));
    let running = story.runs(1, &[]);
    let next = story.waits(2, &[]);
    let owners = [Story::owner(1), Story::owner(2)];
    let (permit, seat) = story
        .state
        .at_gate(story.now, |view| {
            view.step_out(running.permit, owners[0]);
            assert_eq!(view.permits.residence.mean_s(), None, "nothing is learnt");
            let permit = view.granted(next.place, owners[1]);
            assert_eq!(permit, Some(running.permit), "the next runs");
            let Some(Verdict::Wait(seat)) = view.step_in(owners[0], 0) else {
                panic!("there is one permit");
            };
            // The visitor has no permit: twice is harmless.
            view.step_out(running.permit, owners[0]);
            assert!(view.permits.holds(running.permit, owners[1]));
            (running.permit, seat)
        })
        .0;
    // The visitor has begun: no bound sends them away.
    story.pass(60_000);
    story.state.at_gate(story.now, |view| {
        view.tick();
        assert_eq!(view.places.wake_word(seat.place), wake::WAITING);
        assert_eq!(view.granted(seat.place, owners[0]), None);
        view.step_out(permit, owners[1]);
        assert_eq!(view.granted(seat.place, owners[1]), None, "another's place");
        assert_eq!(view.granted(seat.place, owners[0]), Some(permit));
        assert!(view.gate.queue.is_empty());
    });
}

/// Ten departures, 0.1 s apart, and residences of 0.1 s: X = 10, S = 0.1.
fn learn_the_speed(view: &mut GateView<'_>) {
    view.gate.departures.begin(Micros::from_millis(1), 0);
    for n in 1..=30 {
        view.permits.residence.record(Micros::from_millis(100));
        view.gate.departures.record(Micros::from_millis(100 * n));
    }
}

#[test]
fn answers_far_from_the_bound_do_not_shorten_the_line() {
    let mut story = Story::new(terms(AUTO));
    story.runs(1, &[]);
    story.state.at_gate(story.now, learn_the_speed);
    story.waits(2, &[]);
    story.state.at_gate(story.now, |view| {
        (0..2).for_each(|_| view.gate.conformal.observe(4.0, 0.1));
    });
    let before = story.state.gate().conformal.rho();
    // Twenty pages that took ten times what was predicted, and less than half of the bound.
    for visitor in 10..30 {
        let entered = story.now;
        story.pass(1500);
        let permits = story.state.permits();
        let owner = Story::owner(visitor);
        permits.free_all();
        let permit = permits.claim_in_turn(owner).expect("free");
        let predicted = Micros::from_millis(150);
        let waited = Leaving {
            permit,
            owner,
            entered,
            granted: entered,
            predicted,
            ..Leaving::default()
        };
        story.leaves(&Leaving {
            waited: true,
            ..waited
        });
    }
    let after = story.state.gate().conformal.rho();
    assert!(Conformal::START < after && after < before);
}

#[test]
fn as_many_tickets_are_sold_as_x_allows_however_few_workers_there_are() {
    let sold_within = |seconds: u64, parked: u32| {
        let mut story = Story::new(Terms {
            slot_tickets: AUTO,
            prime: Micros::ZERO,
            parked,
            ..terms(AUTO)
        });
        story.runs(1, &[]);
        story.state.at_gate(story.now, learn_the_speed);
        // rho at its worst: L is close to zero.
        story.state.at_gate(story.now, |view| {
            (0..200).for_each(|_| view.gate.conformal.observe(4.0, 0.1));
        });
        story.waits(2, &[]);
        let last = story.now + Micros::from_secs(seconds);
        (3..300)
            .map(|visitor| story.ticket(visitor))
            .filter(|t| t.start < last)
            .count()
    };
    // X = 10 a second for as long as asked, from half a second on, however few workers there are.
    for workers in [9, 500] {
        let sold = sold_within(20, workers);
        assert!((190..=200).contains(&sold), "{workers}: {sold}");
    }
}

#[test]
fn newcomers_leave_the_rest_of_a_child_to_those_who_hold_tickets() {
    for (parking, tickets, waits) in [
        (Parking::Sparing, false, true),
        (Parking::Sparing, true, false),
        (Parking::Anybody, true, true),
        (Parking::Holders, false, false),
    ] {
        let mut story = Story::new(terms(fixed(5)));
        story.runs(1, &[]);
        if tickets {
            story.now = story.ticket(2).start;
        }
        let verdict = story.ask(3, &[], parking, |view, arrival| view.enter(arrival));
        assert_eq!(
            matches!(verdict, Verdict::Wait(_)),
            waits,
            "{parking:?} {tickets}: {verdict:?}"
        );
    }
}

#[test]
fn a_little_early_is_in_time() {
    let mut story = Story::new(terms(fixed(9)));
    let ticket = story.full_house(1)[0];
    story.runs(1, &[]);
    let come = |story: &mut Story| {
        story.ask(2, &[ticket], Parking::Holders, |view, arrival| {
            view.enter(arrival)
        })
    };
    let early = Micros((ticket.prime_end - ticket.start).0 / 3);
    story.now = ticket.start - early - Micros(1);
    let Verdict::Refuse(refusal) = come(&mut story) else {
        panic!("too early")
    };
    assert_eq!(refusal.reason, Reason::Early);
    assert_eq!(story.claims(story.now + Micros(1)), 1);
    story.pass(1);
    let Verdict::Wait(seat) = come(&mut story) else {
        panic!("in time")
    };
    assert!(seat.re_access);
    assert_eq!(story.state.gate().counts.presented, 1);
    assert_eq!(story.claims(story.now), 0);
}

#[test]
fn when_a_ticket_is_good_outlives_a_change_of_the_bound() {
    let secs = Micros::from_secs;
    for bound in [1, 30] {
        let mut story = Story::new(Terms {
            prime: secs(6),
            ..terms(fixed(9))
        });
        let ticket = story.full_house(1)[0];
        story.runs(1, &[]);
        story.state.terms_mut().bound = secs(bound);
        let (from, last) = (ticket.start - secs(2), ticket.prime_end);
        let half = Micros::from_millis(500);
        let claimed = |story: &Story| {
            [from - half, from, last - Micros(1), last + half].map(|at| story.claims(at))
        };
        assert_eq!(claimed(&story), [0, 1, 1, 0], "{bound}");
        story.now = ticket.prime_end - Micros(1);
        let verdict = story.ask(2, &[ticket], Parking::Holders, |view, arrival| {
            view.enter(arrival)
        });
        let Verdict::Wait(seat) = verdict else {
            panic!("{bound}: {verdict:?}")
        };
        assert!(
            seat.until > story.now && seat.until <= last + secs(4),
            "{bound}: {seat:?}"
        );
        assert_eq!(story.claims(story.now), 0, "{bound}");
        story
            .state
            .at_gate(story.now, |view| view.gone(seat.place, Story::owner(2)));
        assert_eq!(story.claims(story.now), 1, "{bound}: good again");
    }
}

#[test]
fn a_limit_set_by_hand_leaves_behind_the_one_that_was_found() {
    let pace = Pace {
        law: law::AUTO,
        start: 5,
        lo: 1,
        hi: 75,
        ..Pace::default()
    };
    let mut story = Story::new(terms(AUTO));
    let now = story.now;
    story.state.pace(pace, Workers::default(), now);
    assert_ne!(story.state.gate().terms.run_ready, 5);
    let mut limited = |limit| {
        let order = Order::Limit(limit);
        (story.state).locked(|tables, wakes| tables.order(None, &order, now, wakes));
        story.state.permits().limit()
    };
    assert_eq!([Some(40), None].map(&mut limited), [40, 5]);
}

/// A default room on event: 150 workers, a tenth in reserve. A limit may find at most half of them; visitors
/// who could wait beside a fixed limit of ten must still be able to wait.
#[test]
fn a_limit_that_finds_itself_lets_nearly_as_many_wait_as_a_fixed_one() {
    let workers = Workers {
        per_pool: 150,
        reserve: 15,
        threaded: 0,
        pools: 1,
        parked: 0,
        on_workers: 0,
    };
    let pace = Pace {
        law: law::AUTO,
        start: 2,
        lo: 1,
        hi: 75,
        ..Pace::default()
    };
    let mut story = Story::new(terms(AUTO));
    story.state.pace(pace, workers, story.now);
    let mut parked = |limit: u32| {
        story.state.permits().set_limit(limit);
        story.pass(1000);
        let now = story.now;
        story.state.locked(|tables, wakes| tables.tick(now, wakes));
        story.state.gate().terms.parked
    };
    assert_eq!([4, 10, 60].map(&mut parked), [127, 115, 60]);
}

/// X = 10 a second, bound 4 s. The first visitor who is told may come after half a second, and their turn is
/// half a second later at most. Until then newcomers wait, with the last workers too; from then on they are
/// told to come later.
#[test]
fn newcomers_wait_until_the_first_who_holds_a_ticket_can_come() {
    let mut story = Story::new(Terms {
        slot_tickets: AUTO,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    story.runs(1, &[]);
    story.state.at_gate(story.now, learn_the_speed);
    let first = story.ticket(2);
    assert_eq!(first.start, story.now + Micros::from_millis(500));
    (3..100).for_each(|visitor| {
        story.ticket(visitor);
    });
    let comes = |story: &mut Story, visitor: u32| {
        story.ask(visitor, &[], Parking::Holders, |view, arrival| {
            view.enter(arrival)
        })
    };
    // Behind n others the visitor's turn is n tenths of a second from now.
    for visitor in 100..111 {
        let verdict = comes(&mut story, visitor);
        assert!(
            matches!(verdict, Verdict::Wait(_)),
            "{visitor}: {verdict:?}"
        );
    }
    let verdict = comes(&mut story, 111);
    assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
    // Accesses outside count like accesses in the queue.
    story.state.at_gate(story.now, |view| {
        view.gone(0, Story::owner(100));
        view.note_outside(FEW);
    });
    let verdict = comes(&mut story, 112);
    assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
    story.state.at_gate(story.now, |view| view.note_outside(0));
    let verdict = comes(&mut story, 113);
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    story.pass(1000);
    let verdict = comes(&mut story, 114);
    assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
}

/// Four of ten run, and some stand outside, as the other workers read bodies or are not started yet. That
/// says nothing about the server. Once the queue inside begins, X is that of all ten.
#[test]
fn what_few_workers_let_through_is_not_the_speed_of_the_server() {
    let mut story = Story::new(Terms {
        run_ready: 10,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    let mut running: Vec<_> = (1..=4).map(|visitor| story.runs(visitor, &[])).collect();
    let leaves = |story: &mut Story, running: &mut Vec<Leaving>, absent| {
        let leaving = running.remove(0);
        story.leaves(&Leaving { absent, ..leaving });
    };
    // One a second.
    for visitor in 5..30 {
        story
            .state
            .at_gate(story.now, |view| view.note_outside(300));
        story.pass(1000);
        leaves(&mut story, &mut running, 100);
        running.push(story.runs(visitor, &[]));
    }
    assert_eq!(story.state.gate().departures.throughput(), None);
    assert_eq!(story.state.gate().decided, 0, "nobody is told a time");
    // The workers are there: ten run, forty wait, and a hundred leave a second.
    running.extend((30..36).map(|visitor| story.runs(visitor, &[])));
    let seats: Vec<_> = (40..80).map(|visitor| story.waits(visitor, &[])).collect();
    for (visitor, seat) in (40..70).zip(seats) {
        story.pass(10);
        leaves(&mut story, &mut running, 0);
        let owner = Story::owner(visitor);
        let permit = story
            .state
            .at_gate(story.now, |view| view.granted(seat.place, owner));
        running.push(Leaving {
            permit: permit.0.expect("the waiter's turn"),
            owner,
            entered: story.now,
            granted: story.now,
            ..Leaving::default()
        });
    }
    let x = story.state.gate().departures.throughput().expect("known");
    assert!((99.0..101.0).contains(&x), "{x}");
}

/// Some stood outside a minute ago, and nobody has looked since: a visitor who waits now is the first of a
/// new queue.
#[test]
fn whom_nobody_has_seen_for_long_is_no_queue_that_lasts() {
    let mut story = Story::new(Terms {
        run_ready: 4,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    let mut running: Vec<_> = (1..5).map(|visitor| story.runs(visitor, &[])).collect();
    for visitor in 5..35 {
        story.state.at_gate(story.now, |view| view.note_outside(9));
        story.pass(100);
        story.leaves(&running.remove(0));
        running.push(story.runs(visitor, &[]));
    }
    let busy_for = |story: &Story| {
        let departures = &story.state.gate().departures;
        departures.busy_for(story.now).0 / 1000
    };
    assert_eq!(busy_for(&story), 3000);
    story.pass(500);
    let seat = story.waits(40, &[]);
    assert_eq!(busy_for(&story), 3500, "behind those outside");
    story.state.at_gate(story.now, |view| {
        view.gone(seat.place, Story::owner(40));
    });
    story.pass(60_000);
    story.waits(41, &[]);
    assert_eq!(busy_for(&story), 0);
}

/// One runs at a time, and three leave in a second: the speed is known when more than half of every waiter's
/// bound is over. A waiter that can still be served within it stays, and the permit does not stand empty.
#[test]
fn whom_a_cold_server_can_still_serve_is_not_told_to_go() {
    let mut story = Story::new(Terms {
        run_ready: 1,
        parked: 60,
        ..terms(AUTO)
    });
    let mut running = story.runs(1, &[]);
    let seats: Vec<_> = (2..27).map(|visitor| story.waits(visitor, &[])).collect();
    for (visitor, seat) in (2..).zip(seats) {
        story.pass(250);
        story.leaves(&running);
        if story.state.gate().decided != 0 {
            break;
        }
        let owner = Story::owner(visitor);
        let permit = story
            .state
            .at_gate(story.now, |view| view.granted(seat.place, owner));
        running = Leaving {
            permit: permit.0.expect("the waiter's turn"),
            owner,
            granted: story.now,
            entered: story.now,
            ..Leaving::default()
        };
    }
    assert_eq!(story.state.gate().decided, 1);
    let kept = story.state.gate().queue.len();
    println!("{kept} stay");
    assert!((2..=5).contains(&kept), "{kept}");
}

/// A visitor who stood in the kernel has less of their bound left, three quarters at least.
#[test]
fn his_bound_began_when_the_kernel_had_his_request() {
    let mut story = Story::new(Terms {
        run_ready: 1,
        prime: Micros::from_secs(60),
        ..terms(fixed(4))
    });
    let bound = story.state.gate().terms.bound;
    story.runs(1, &[]);
    let left = |story: &mut Story, visitor, tickets: &[Ticket]| {
        let place = story.waits(visitor, tickets).place;
        story
            .state
            .at_gate(story.now, |view| {
                view.places.place(place).map(|p| p.deadline)
            })
            .0
            .expect("there is a place")
            - story.now
    };
    let tenth = Micros(bound.0 / 10);
    story.stood = tenth;
    assert_eq!(left(&mut story, 2, &[]), bound - tenth);
    story.stood = bound + bound;
    assert_eq!(left(&mut story, 3, &[]), bound - Micros(bound.0 / 4));
    story.stood = Micros::ZERO;
    for visitor in [5, 6] {
        story.waits(visitor, &[]);
    }
    let ticket = story.refused(4, &[]).ticket.expect("sold");
    story.now = ticket.start;
    story.stood = tenth;
    assert_eq!(left(&mut story, 4, &[ticket]), bound - tenth);
}

/// Four workers for ten permits: nobody ever waits inside. Accesses outside are a queue all the same: X is
/// learnt from it, and newcomers are told to come later while more stand there than are served in a quarter
/// of the bound.
#[test]
fn whom_no_worker_has_taken_up_waits_as_well() {
    let mut story = Story::new(Terms {
        run_ready: 10,
        slot_tickets: AUTO,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    story.left = 4;
    let stand_outside = |story: &mut Story, n: u32| {
        story.state.at_gate(story.now, |view| view.note_outside(n));
    };
    let mut running: Vec<_> = (1..=4).map(|visitor| story.runs(visitor, &[])).collect();
    stand_outside(&mut story, FEW - 1);
    assert_eq!(story.state.permits().outside(), 0, "a few are none");
    // Twenty a second, and one comes for each that leaves.
    for visitor in 5..80 {
        stand_outside(&mut story, 300);
        story.pass(50);
        let leaving = running.remove(0);
        story.leaves(&leaving);
        running.push(match story.enters(visitor, &[]) {
            Verdict::Run(permit) => Leaving {
                permit,
                owner: Story::owner(visitor),
                entered: story.now,
                granted: story.now,
                ..Leaving::default()
            },
            verdict => {
                let Verdict::Refuse(refusal) = verdict else {
                    panic!("{verdict:?}")
                };
                assert!(visitor > 20, "{visitor}: X is not known yet");
                assert_eq!(refusal.reason, Reason::Full);
                // Of those outside, only as many as fit a quarter of the bound are served first.
                let told = refusal.ticket.expect("sold").start - story.now;
                let quarter = Micros::from_secs(1);
                let near = told >= quarter - Micros::from_millis(500) && told < quarter + quarter;
                assert!(near, "{told:?}");
                break;
            }
        });
    }
    let x = story.state.gate().departures.throughput().expect("known");
    assert!((19.0..21.0).contains(&x), "{x}");
    // Some go on meanwhile: three, a quarter of the permits and one.
    assert_eq!(story.state.permits().running(), 3);
    story.refused(90, &[]);
    story.leaves(&running[0]);
    running[0] = story.runs(91, &[]);
    // Twenty outside: they are answered in time.
    stand_outside(&mut story, 20);
    running.push(story.runs(92, &[]));
    stand_outside(&mut story, 0);
    assert_eq!(story.state.permits().outside(), 0);
    assert!(
        story.state.gate().departures.present().is_none(),
        "nobody waits"
    );
}
