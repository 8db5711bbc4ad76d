//! Caps: how many tickets one client, one address or one net may hold.

use super::*;
use crate::crowd::Manners;
use crate::setup::Setup;
use crate::world::World;

/// Places enough for any ticket, ten tickets a slot.
fn roomy() -> Terms {
    Terms {
        parked: 200,
        ..terms(fixed(100))
    }
}

/// Slots of the tickets that these visitors buy, one after the other.
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
    // The visitor comes from the address of another who holds a ticket too.
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
    story.now = own.end + Micros::from_secs(2);
    assert_eq!(live(&mut story, 3), 0, "the visitor's has ended unused");
}

/// One address buys from a slot that sells 250 tickets, and nobody comes.
fn flooded() -> Story {
    let mut story = Story::new(Terms {
        wait_limit: fixed(1000),
        slot_tickets: fixed(250),
        per_client: AUTO,
        parked: 2000,
        ..terms(AUTO)
    });
    story.runs(1, &[]);
    for _ in 0..40 {
        story.ticket(1000);
    }
    story.pass(15_000);
    story
}

#[test]
fn who_asks_alone_is_sold_whatever_there_is() {
    let mut story = flooded();
    let slots = slots_of(&mut story, [1000; 13]);
    assert_eq!(slots, [slots[0]; 13]);
}

#[test]
fn an_address_behind_which_people_come_back_is_sold_whatever_there_is() {
    let mut story = flooded();
    let slot = slots_of(&mut story, [2])[0];
    // A school: the next forty come, while others ask.
    for _ in 0..50 {
        let ticket = story.ticket(1000);
        story.state.at_gate(story.now, |view| {
            view.clients.used(ticket.serial, ticket.end, [0; 2]);
        });
    }
    assert_eq!(slots_of(&mut story, [1000; 8]), [slot; 8]);
}

#[test]
fn a_flood_that_never_comes_back_is_sold_a_few_of_each_slot_and_the_rest_is_everybodys() {
    let mut story = flooded();
    let first = slots_of(&mut story, [2])[0];
    let flood = slots_of(&mut story, [1000; 15]);
    let share: Vec<u32> = (0..3).flat_map(|n| [first + n; 5]).collect();
    assert_eq!(flood, share, "one in fifty, rounded up, of each slot");
    assert_eq!(
        slots_of(&mut story, 3..16),
        [first; 13],
        "others are none the later"
    );
}

/// A lease has five places, and fifty of them begin in ten seconds.
#[test]
fn a_flood_is_sold_no_more_of_a_fleets_places_as_they_come_in_small_leases() {
    let mut story = flooded();
    story.joins_a_fleet(4);
    (story.state.stakes[0].leased, story.state.stakes[0].heard) = (1, story.now);
    let secs = Micros::from_secs;
    let begins = secs((story.now.secs_ceil() / 10 + 30) * 10);
    for nth in 0..100 {
        let start = begins + Micros::from_millis(200 * nth);
        let opened = story.state.at_gate(story.now, |view| {
            view.open_leased(start, Micros::from_millis(200), 5)
        });
        assert!(opened.0, "there is room");
    }
    let mut sold = |visitor| {
        story.state.stakes[0].heard = story.now;
        let start = story.ticket(visitor).start;
        (start >= begins).then(|| (start - begins).secs_floor() / 10)
    };
    assert_eq!(sold(2), Some(0), "from a lease");
    let flood: Vec<_> = (0..12).map(|_| sold(1000)).collect();
    let all = |of: Option<u64>| flood.iter().filter(|one| **one == of).count();
    assert_eq!([all(Some(0)), all(Some(1))], [5, 5], "{flood:?}");
    let others: Vec<_> = (3..40).map(sold).collect();
    assert_eq!(others, [Some(0); 37], "others are none the later");
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

/// A client who may hold five tickets asks a node of two; it may wait for the store, or not.
#[test]
fn tickets_of_the_other_nodes_count_and_are_asked_about_unless_that_was_just_done() {
    let mut story = Story::new(Terms {
        per_client: fixed(5),
        ..roomy()
    });
    story.joins_a_fleet(4);
    story.runs(1, &[]);
    let asks = |story: &mut Story, visitor: u32, patient| {
        story.state.stakes[0].heard = story.now;
        let verdict = story.ask(visitor, &[], Parking::Nobody, |view, arrival| {
            view.enter(&Arrival {
                patient,
                ..arrival.clone()
            })
        });
        match verdict {
            Verdict::Refuse(refusal) => (refusal.ticket.is_some(), Some(refusal.reason)),
            Verdict::Ask(None) => (false, None),
            verdict => panic!("{verdict:?}"),
        }
    };
    let heard = |story: &mut Story, hash: u64, elsewhere| {
        let now = story.now;
        let told = |view: &mut GateView<'_>| view.clients.holdings.heard(hash, elsewhere, now);
        story.state.at_gate(now, told);
    };
    let (capped, waits) = ((false, Some(Reason::Cap)), (false, None));
    for _ in 0..2 {
        assert!(
            asks(&mut story, 2, true).0,
            "nothing was heard of the others"
        );
    }
    heard(&mut story, 2, 2);
    assert!(asks(&mut story, 2, true).0, "its fifth");
    heard(&mut story, 2, 3);
    assert_eq!(
        [true, false].map(|patient| asks(&mut story, 2, patient)),
        [capped; 2]
    );
    // Two seconds later the others may have been used; a minute later, while the store is away, nobody knows.
    story.pass(2_100);
    assert_eq!(
        [true, false].map(|patient| asks(&mut story, 2, patient)),
        [waits, capped]
    );
    heard(&mut story, 2, 1);
    assert!(asks(&mut story, 2, true).0, "two were");
    story.pass(61_000);
    heard(&mut story, 3, 5);
    story.pass(61_000);
    assert_eq!(asks(&mut story, 3, true), waits);
    assert!(asks(&mut story, 3, false).0);
    // The net of the second thousand may hold forty.
    heard(&mut story, 2000 | 1 << 20, 40);
    assert_eq!(asks(&mut story, 2001, true), capped);
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
