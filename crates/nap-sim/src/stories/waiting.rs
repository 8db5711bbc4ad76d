//! Waiting: who may, for how long, and in which order they are let in.

use super::*;

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
