//! Fleets: holders whom this node has not promised anything may come, too.

use super::guests::nothing;
use super::*;
use nap_core::fleet::exchange::{Answer, Cells};
use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::stake::{AHEAD, Ahead};
use nap_core::room::gate_agent::{GateAgent, Sharing};
use nap_core::room::places::wake;
use nap_core::room::wakes::AGENT;

/// A gate of a fleet which sells from leases, and has none.
fn leasing(terms: Terms) -> Story {
    let mut story = Story::new(terms);
    story.joins_a_fleet(4);
    story.state.stakes[0].leased = 1;
    story.state.stakes[0].heard = story.now;
    story
}

/// A full gate, in a `fleet` or alone, and a holder whose prime window begins.
fn full(fleet: bool) -> (Story, Ticket) {
    let mut story = Story::new(terms(fixed(5)));
    if fleet {
        story.joins_a_fleet(4);
    }
    story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    (story, ticket)
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
        let (mut story, ticket) = full(fleet);
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

/// Workers are short, and another node's holder comes in time. One of those who wait and were promised nothing gives way; one
/// who is late by the server's clock only where the other one would be put off otherwise.
#[test]
fn a_newcomer_gives_way_to_a_holder_before_one_who_is_late() {
    for (newcomer, parking) in [
        (true, Parking::Nobody),
        (false, Parking::Nobody),
        (false, Parking::Last),
        (false, Parking::Holders),
    ] {
        let (mut story, own) = full(true);
        story.state.terms_mut().wait_limit = fixed(1 + u32::from(newcomer));
        story.now = own.prime_end;
        let first = newcomer.then(|| story.waits(10, &[]));
        let late = story.waits(2, &[own]);
        let theirs = Ticket {
            node: 2,
            epoch: 99,
            start: story.now,
            prime_end: story.now + Micros::from_secs(5),
            ..own
        };
        let verdict = presents(&mut story, 3, theirs, parking);
        assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
        let mut waits = |visitor, seat: Seat| {
            story.ask(visitor, &[], Parking::Anybody, |view, arrival| {
                view.collect(seat.place, arrival).is_none()
            })
        };
        assert_eq!(waits(2, late), newcomer || parking == Parking::Holders);
        assert!(first.is_none_or(|first| !waits(10, first)));
    }
}

/// As long as it may wait: a gate whose speed nobody knows leases, too.
#[test]
fn a_lease_is_waited_for() {
    for wait_limit in [AUTO, fixed(5)] {
        let mut story = leasing(terms(wait_limit));
        story.runs(1, &[]);
        let mut comes = |visitor, patient| {
            story.ask(visitor, &[], Parking::Nobody, |view, arrival| {
                view.enter(&Arrival {
                    patient,
                    ..arrival.clone()
                })
            })
        };
        let verdict = comes(2, true);
        assert!(matches!(verdict, Verdict::Ask(None)), "{verdict:?}");
        let Verdict::Refuse(refusal) = comes(3, false) else {
            panic!("nobody may wait")
        };
        assert!(refusal.ticket.is_some(), "an own place");
    }
}

/// Five are answered within the bound, and one window is promised: two may be open, of all that are expected here.
#[test]
fn no_leased_place_is_sold_where_nodes_have_sold_their_own_at_the_same_time() {
    for (of_all, sold) in [(2, true), (4, false)] {
        let mut story = leasing(terms(fixed(5)));
        story.runs(1, &[]);
        let start = story.now + Micros::from_secs(30);
        let opened = story.state.at_gate(story.now, |view| {
            view.open_leased(start, Micros::from_secs(1), 4)
        });
        assert!(opened.0);
        let stake = &mut story.state.stakes[0];
        (stake.share_ppm, stake.own_most) = (500_000, 1);
        stake.all = Ahead::told(story.now, [of_all; AHEAD], [0; AHEAD]);
        let verdict = story.ask(2, &[], Parking::Nobody, |view, arrival| {
            view.enter(&Arrival {
                patient: true,
                ..arrival.clone()
            })
        });
        match (&verdict, sold) {
            (Verdict::Refuse(refusal), true) => {
                let begins = refusal.ticket.map(|ticket| ticket.start);
                assert_eq!(begins, Some(start));
            }
            (Verdict::Ask(None), false) => {}
            _ => panic!("{verdict:?}"),
        }
    }
}

#[test]
fn a_lease_is_asked_for_by_a_guess_only_by_a_node_that_knows_no_better() {
    let mut story = leasing(Terms {
        slot_tickets: AUTO,
        ..terms(AUTO)
    });
    let mut agent = GateAgent::default();
    let sharing = Sharing {
        leased: true,
        ..Sharing::default()
    };
    // What it asks for when a visitor finds no place, and whether it asks for the others.
    let mut starves = |story: &mut Story| {
        story.state.stakes[0].starved = 1;
        let next = |view: &mut GateView<'_>| agent.next(view, &sharing, 0);
        let batch = story.state.at_gate(story.now, next).0;
        let cells = Cells {
            base: 0,
            open: [0; AHEAD],
            begins: [0; AHEAD],
        };
        let answer = Answer {
            members: (batch.exchanges).then(|| (vec![(story.state.node, batch.beat)], cells)),
            ..nothing(story.now)
        };
        let hears = |view: &mut GateView<'_>| agent.hears(view, &answer, &sharing, false);
        story.state.at_gate(story.now, hears);
        let asked = batch.lease.map(|ask| (ask.guessed, ask.capacity));
        (batch.exchanges, asked)
    };
    assert_eq!(starves(&mut story), (true, None), "nothing is known");
    let (exchanges, asked) = starves(&mut story);
    let (guessed, guess) = asked.expect("it is asked for");
    assert!(guessed && !exchanges);
    story.state.at_gate(story.now, learn_the_speed);
    story.state.at_gate(story.now, |view| view.gate.decided = 1);
    assert_eq!(starves(&mut story), (true, None), "the others may know");
    assert_eq!(story.state.stakes[0].starved, 1, "somebody waits");
    let (exchanges, asked) = starves(&mut story);
    let (guessed, known) = asked.expect("it is asked for");
    assert!(!guessed && !exchanges && known != guess, "{guess}, {known}");
}

/// A crowd comes to a gate that does not know its speed. When it does, those who do not fit its bound are told as places are
/// leased for them; but not much later if there are none, or nobody leases any more.
#[test]
fn those_who_were_held_are_told_of_leased_places() {
    for leases_end in [false, true] {
        let mut story = leasing(Terms {
            parked: 60,
            slot_tickets: AUTO,
            ..terms(AUTO)
        });
        let mut running = story.runs(0, &[]);
        let seats: Vec<Seat> = (1..=55).map(|n| story.waits(n, &[])).collect();
        let mut served = 0;
        let mut departs = |story: &mut Story| {
            story.state.stakes[0].heard = story.now;
            served += 1;
            story.runs_next(&mut running, 90, served);
        };
        let told = |story: &Story| {
            let is_told = |seat: &&Seat| story.state.wake_word(seat.place) == wake::SHED;
            seats.iter().filter(is_told).count() as u32
        };
        while story.state.stakes[0].held.left == 0 {
            departs(&mut story);
        }
        let held = story.state.stakes[0].held.left;
        assert!(held > 20 && told(&story) == 0, "{held}");
        // It hears of more places than are told of at a time.
        for (leased, all) in [(5, 5), (17, 21)] {
            let from = story.now + Micros::from_secs(9);
            let opens =
                |view: &mut GateView<'_>| view.open_leased(from, Micros::from_secs(1), leased);
            assert!(story.state.at_gate(story.now, opens).0);
            assert_eq!(told(&story), all);
        }
        let until = story.state.stakes[0].held.until;
        let soon = Micros(story.state.terms_mut().bound.0 / 16);
        assert_eq!(until, story.now + soon);
        departs(&mut story);
        assert_eq!(told(&story), 22, "no more places are leased");
        let newcomer = house::arrival(Story::owner(56), &[]);
        let (verdict, wakes) = (story.state).at_gate(story.now, |view| view.enter(&newcomer));
        let rings = wakes.listed().is_some_and(|all| all.contains(&AGENT));
        assert!(matches!(verdict, Verdict::Wait(_)) && rings, "{verdict:?}");
        assert_eq!(story.state.stakes[0].held.left, held - 22 + 1);
        match leases_end {
            true => story.state.stakes[0].leased = 0,
            false => story.now = until,
        }
        let left = |story: &Story| story.state.stakes[0].held.left;
        while left(&story) != 0 {
            let before = left(&story);
            departs(&mut story);
            assert!(left(&story) < before, "{before}");
        }
        assert_eq!(told(&story), held);
    }
}

#[test]
fn a_holder_who_is_put_off_waits_for_no_lease() {
    let mut story = leasing(terms(fixed(5)));
    story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    story.state.stakes[0].heard = story.now;
    let verdict = story.ask(2, &[ticket], Parking::Last, |view, arrival| {
        view.enter(&Arrival {
            told: Some((Name::of(&ticket), Told::Mine)),
            again: true,
            patient: true,
            ..arrival.clone()
        })
    });
    let Verdict::Refuse(refusal) = verdict else {
        panic!("{verdict:?}")
    };
    let again = refusal.ticket.map(|again| again.id != ticket.id);
    assert_eq!((refusal.reason, again), (Reason::Deferred, Some(true)));
}

/// Where newcomers are sold none: nodes have sold their own slots at the same time.
#[test]
fn a_holder_who_is_put_off_is_given_any_leased_place() {
    let mut story = leasing(terms(fixed(5)));
    story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    let start = story.now + Micros::from_secs(30);
    let opened = story.state.at_gate(story.now, |view| {
        view.open_leased(start, Micros::from_secs(1), 4)
    });
    assert!(opened.0);
    let stake = &mut story.state.stakes[0];
    (stake.heard, stake.share_ppm, stake.own_most) = (story.now, 500_000, 1);
    stake.all = Ahead::told(story.now, [4; AHEAD], [0; AHEAD]);
    let verdict = presents(&mut story, 2, ticket, Parking::Last);
    let Verdict::Refuse(refusal) = verdict else {
        panic!("{verdict:?}")
    };
    let begins = refusal.ticket.map(|again| again.start);
    assert_eq!((refusal.reason, begins), (Reason::Deferred, Some(start)));
}

/// Workers may be short in a fleet, and then the kernel holds requests: that is part of their bound.
#[test]
fn what_a_holder_stood_in_the_kernel_is_part_of_the_bound_in_a_fleet() {
    for (fleet, left) in [(true, 1), (false, 4)] {
        let (mut story, ticket) = full(fleet);
        story.waited = Micros::from_secs(3);
        let verdict = presents(&mut story, 2, ticket, Parking::Holders);
        let Verdict::Wait(seat) = verdict else {
            panic!("{verdict:?}")
        };
        let until = story.state.places()[seat.place as usize].deadline;
        assert_eq!(until, story.now + Micros::from_secs(left), "fleet {fleet}");
    }
}
