//! Fleets: holders whom this node has not promised anything may come, too.

use super::*;
use nap_core::fleet::guests::{GuestSet, Name, Told};
use nap_core::fleet::stake::Stake;

/// A gate of one of two nodes.
fn of_two(terms: Terms) -> Story {
    let mut story = Story::new(terms);
    story.state.guests = vec![GuestSet::default(); 4].into();
    story.state.stakes = Box::new([Stake::EMPTY]);
    story.state.stakes[0].nodes = 2;
    story
}

/// The holder comes with a ticket that nobody has used, as far as the store knows.
fn presents(story: &mut Story, visitor: u32, ticket: Ticket, parking: Parking) -> Verdict {
    story.ask(visitor, &[ticket], parking, |view, arrival| {
        view.enter(&Arrival {
            told: Some((Name::of(&ticket), Told::Mine)),
            ..arrival.clone()
        })
    })
}

/// One node of two is gone, and its holders come to this one: if all workers wait, nobody is answered.
#[test]
fn the_last_workers_of_a_fleet_put_holders_off_and_do_not_wait() {
    for (fleet, parking, waits) in [
        (true, Parking::Holders, true),
        (true, Parking::Last, false),
        (false, Parking::Last, true),
    ] {
        let mut story = match fleet {
            true => of_two(terms(fixed(5))),
            false => Story::new(terms(fixed(5))),
        };
        story.runs(1, &[]);
        let ticket = story.ticket(2);
        story.now = ticket.start;
        let verdict = presents(&mut story, 2, ticket, parking);
        let told = match &verdict {
            Verdict::Refuse(refusal) => Some((refusal.reason, refusal.ticket.is_some())),
            _ => None,
        };
        let put_off = (!waits).then_some((Reason::Deferred, true));
        assert_eq!(told, put_off, "fleet {fleet}, {parking:?}: {verdict:?}");
        let counts = story.state.gate().counts;
        assert_eq!((counts.deferred, counts.broken), ((!waits).into(), 0));
    }
}

/// Workers may be short in a fleet, and then the kernel holds requests: that is part of their bound.
#[test]
fn what_a_holder_stood_in_the_kernel_is_part_of_the_bound_in_a_fleet() {
    for (fleet, left) in [(true, 1), (false, 4)] {
        let mut story = match fleet {
            true => of_two(terms(fixed(5))),
            false => Story::new(terms(fixed(5))),
        };
        story.runs(1, &[]);
        let ticket = story.ticket(2);
        story.now = ticket.start;
        story.waited = Micros::from_secs(3);
        let verdict = presents(&mut story, 2, ticket, Parking::Holders);
        let Verdict::Wait(seat) = verdict else {
            panic!("{verdict:?}")
        };
        let until = story.state.places()[seat.place as usize].deadline;
        assert_eq!(until, story.now + Micros::from_secs(left), "fleet {fleet}");
    }
}
