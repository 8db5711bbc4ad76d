//! Tickets: put off, kept, taken over, presented early or late, and whose claim they are.

use super::*;

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
