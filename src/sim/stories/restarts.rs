//! Stories of restarts: what a full one finds, and what a graceful one leaves for some seconds.

use super::*;

#[test]
fn a_permit_not_collected_when_the_server_was_killed_leaves_the_ticket_good() {
    let mut story = Story::new(terms(fixed(5)));
    let running = story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    let seat = story.waits(2, &[ticket]);
    story.leaves(&running);
    assert_eq!(story.state.wake_word(seat.place), wake::GRANTED);
    let now = story.now;
    story
        .state
        .locked(|tables, wakes| tables.begin_anew(now, wakes));
    let counts = story.state.gate().counts;
    assert_eq!((counts.presented, counts.kept), (0, 0));
    assert_eq!(story.state.permits().outstanding(), 1);
    assert_eq!(story.claims(ticket.start), 1);
    let leaving = story.runs(2, &[ticket]);
    story.leaves(&leaving);
    let counts = story.state.gate().counts;
    assert_eq!((counts.presented, counts.kept), (1, 1));
}

#[test]
fn newcomers_take_no_worker_that_a_holder_will_want_while_few_children_are_there() {
    for (left, waits) in [(2, false), (3, true)] {
        let mut story = Story::new(terms(fixed(9)));
        story.runs(1, &[]);
        let tickets = [story.ticket(2), story.ticket(3)];
        story.now = tickets[1].start;
        story.left = left;
        let verdict = story.enters(4, &[]);
        assert_eq!(
            matches!(verdict, Verdict::Wait(_)),
            waits,
            "{left}: {verdict:?}"
        );
        for (visitor, ticket) in (2..).zip(tickets) {
            assert!(story.waits(visitor, &[ticket]).redeemed == Some(ticket));
        }
    }
}
