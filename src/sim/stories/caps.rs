//! Caps: what one client, one address, one net may hold of the tickets.

use super::*;
use crate::sim::crowd::Manners;
use crate::sim::setup::Setup;
use crate::sim::world::World;

/// Places enough for any ticket, ten tickets a slot.
fn roomy() -> Terms {
    Terms {
        parked: 200,
        ..terms(fixed(100))
    }
}

/// Slots of the tickets that these visitors are sold, one after the other.
fn slots_of(story: &mut Story, visitors: impl IntoIterator<Item = u32>) -> Vec<u32> {
    visitors
        .into_iter()
        .map(|visitor| story.ticket(visitor).slot)
        .collect()
}

#[test]
fn a_used_ticket_makes_room_under_the_cap_of_its_buyer() {
    let live = |story: &mut Story, visitor: u32| {
        let now = story.now;
        let hash = u64::from(visitor);
        story
            .state
            .at_gate(now, |view| view.clients.live(hash, now))
            .0
    };
    let mut story = Story::new(terms(fixed(5)));
    let running = story.runs(1, &[]);
    let (ticket, own) = (story.ticket(2), story.ticket(3));
    story.now = ticket.start;
    // He comes from the address of another who holds a ticket too.
    let seat = story.waits(3, &[ticket]);
    assert_eq!((live(&mut story, 2), live(&mut story, 3)), (0, 1));
    let now = story.now;
    story
        .state
        .at_gate(now, |view| view.gone(seat.place, Story::owner(3)));
    assert_eq!((live(&mut story, 2), live(&mut story, 3)), (1, 1));
    story.leaves(&running);
    story.runs(9, &[ticket]);
    assert_eq!((live(&mut story, 2), live(&mut story, 3)), (0, 1));
    story.now = own.end;
    assert_eq!(live(&mut story, 3), 0, "his has ended unused");
}

#[test]
fn a_net_alone_in_the_room_buys_whole_slots() {
    let mut story = Story::new(roomy());
    story.runs(1, &[]);
    let slots = slots_of(&mut story, 1000..1013);
    assert_eq!(slots, [[1; 9].as_slice(), &[2; 4]].concat());
}

#[test]
fn a_net_buys_a_tenth_of_a_slot_while_others_ask_and_its_rest_is_theirs() {
    let mut story = Story::new(roomy());
    story.runs(1, &[]);
    assert_eq!(slots_of(&mut story, [1000, 1001, 1002, 2]), [1; 4]);
    let phi = story.state.gate().share.phi_ppm();
    assert_eq!(slots_of(&mut story, 1003..1008), [2, 3, 4, 5, 6]);
    assert_eq!(
        story.state.gate().share.phi_ppm(),
        phi,
        "they are no measure"
    );
    // Each of a net of his own.
    let others = slots_of(&mut story, 3..16);
    assert_eq!(others, [[1; 5].as_slice(), &[2; 8]].concat());
    // Its share of the next slot is free again.
    story.pass(20_000);
    assert_eq!(slots_of(&mut story, [1009, 2000]), [7, 3]);
    // The last of them has long been told, and none came since.
    story.pass(60_000);
    let alone = slots_of(&mut story, 1010..1013);
    assert_eq!(alone, [alone[0]; 3]);
}

#[test]
fn a_number_of_tickets_a_client_that_is_set_is_all_that_counts() {
    let mut story = Story::new(Terms {
        per_client: fixed(50),
        ..roomy()
    });
    story.runs(1, &[]);
    assert_eq!(slots_of(&mut story, [2, 1000, 1001, 1002]), [1; 4]);
}

#[test]
fn a_crowd_behind_few_addresses_is_served_and_no_ticket_of_its_broken() {
    for addresses in [1, 7] {
        let mut world = World::new(
            Setup {
                clients: 400,
                posts: 6,
                manners: Manners {
                    addresses,
                    ..Manners::default()
                },
                ..Setup::default()
            },
            true,
        );
        while world.step() {}
        let f = &world.figures;
        assert_eq!(world.failure(), None);
        assert_eq!((f.total.n(), f.broken), (2400, 0), "{addresses}: {f:?}");
        assert!(
            f.presented > 16 && f.kept == f.presented,
            "{addresses}: {f:?}"
        );
    }
}
