//! Each rule finds what breaks it, and excuses what it has to. Whole worlds with a flaw: `fleet::check`.

use super::*;
use crate::fleet::check::random;
use nap_core::fleet::lease::FleetSlot;

const T: Name = Name {
    epoch: 7,
    node: 1,
    gate: 5,
    slot: 3,
    index: 9,
};

fn at(s: f64) -> Micros {
    Micros::from_secs_f64(s)
}

/// Over five nodes, from zero on.
fn oracle() -> Oracle {
    let setup = FleetSetup {
        nodes: 5,
        ..random(1, 5)
    };
    Oracle::new(&setup, Micros::ZERO)
}

/// After these faults the ticket counts at node 1, runs there as late as said or never, and counts at node 2. Does it hold?
fn holds(faults: &[(f64, Fault)], counted: f64, ran: Option<f64>, again: f64) -> bool {
    let mut oracle = oracle();
    let mut acts: Vec<(f64, u8)> = vec![(counted, 0), (again, 2)];
    acts.extend(ran.map(|ran| (ran, 1)));
    let mut all: Vec<(f64, Result<Fault, u8>)> =
        faults.iter().map(|(s, fault)| (*s, Ok(*fault))).collect();
    all.extend(acts.into_iter().map(|(s, act)| (s, Err(act))));
    all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    for (s, act) in all {
        match act {
            Ok(fault) => oracle.went_wrong(fault, at(s)),
            Err(0) => oracle.counted(T, 1, false, false, at(s)),
            Err(1) => oracle.ran(&T, 1, at(s)),
            Err(_) => oracle.counted(T, 2, false, false, at(s)),
        }
    }
    assert!(oracle.failure.is_some() || oracle.doubles == 1);
    oracle.failure.is_none()
}

#[test]
fn a_ticket_counts_once_while_the_store_can_know() {
    assert!(!holds(&[], 10.0, None, 11.0), "it waits there");
    assert!(!holds(&[], 10.0, Some(10.1), 11.0));
    assert!(holds(&[], 10.0, None, 10.3), "the store could not know yet");
}

#[test]
fn what_a_node_that_is_cut_off_could_not_say_is_excused_and_nothing_else() {
    let cut = [(20.0, Fault::Cut(1, true))];
    assert!(!holds(&cut, 10.0, Some(11.0), 30.0), "it had said so");
    assert!(holds(&cut, 19.9, Some(19.9), 30.0));
    assert!(holds(&cut, 10.0, None, 30.0), "it waits at a silent node");
    assert!(!holds(&cut, 10.0, None, 22.0), "which is not silent yet");
    let back = [(20.0, Fault::Cut(1, true)), (25.0, Fault::Cut(1, false))];
    assert!(holds(&back, 22.0, Some(22.0), 26.0));
    assert!(!holds(&back, 22.0, Some(22.0), 28.0), "it is told again");
    let back = |dies| {
        [
            (20.0, Fault::Cut(1, true)),
            (25.0, Fault::Cut(1, false)),
            (dies, Fault::Dies(1)),
        ]
    };
    assert!(
        holds(&back(25.6), 10.0, Some(24.9), 27.0),
        "it did not try again"
    );
    assert!(
        !holds(&back(27.6), 10.0, Some(24.9), 29.0),
        "it was heard again"
    );
}

#[test]
fn what_the_store_forgets_is_told_again_by_those_who_live() {
    let forgets = [(20.0, Fault::Forgets)];
    assert!(holds(&forgets, 10.0, Some(10.0), 21.0));
    assert!(!holds(&forgets, 10.0, Some(10.0), 23.0));
    let dies = [(15.0, Fault::Dies(1)), (20.0, Fault::Forgets)];
    assert!(holds(&dies, 10.0, Some(10.0), 60.0), "nobody knows");
    assert!(!holds(&dies[..1], 10.0, Some(10.0), 60.0), "the store does");
    let loses = [(15.0, Fault::Dies(1)), (20.0, Fault::Loses)];
    assert!(!holds(&loses, 10.0, Some(10.0), 60.0), "it lost less");
    let dies = [(15.0, Fault::Loses), (16.0, Fault::Dies(1))];
    assert!(!holds(&dies, 10.0, None, 17.4), "it had beaten again");
}

#[test]
fn a_store_that_has_lost_the_last_beats_takes_a_dead_node_for_silent_that_much_earlier() {
    let dies = [(15.0, Fault::Dies(1)), (15.2, Fault::Loses)];
    assert!(holds(&dies, 13.0, Some(14.9), 17.3), "that it ran is lost");
    assert!(!holds(&dies, 13.0, Some(13.5), 17.3), "that it ran is not");
    assert!(!holds(&dies, 13.0, Some(14.9), 16.5), "nobody is silent");
    assert!(
        !holds(&dies[..1], 13.0, Some(14.9), 17.3),
        "nothing is lost"
    );
    let before = [(15.0, Fault::Loses), (15.1, Fault::Dies(1))];
    assert!(holds(&before, 13.0, Some(14.9), 17.3), "no beat came since");
}

#[test]
fn a_ticket_counts_once_in_a_life_of_a_node_whatever_the_store_says() {
    let mut oracle = oracle();
    oracle.counted(T, 3, true, false, at(1.0));
    oracle.counted(T, 3, true, false, at(2.0));
    assert_eq!(oracle.failure, None, "the place is taken over");
    oracle.good_again(&T, 3);
    oracle.counted(T, 3, true, true, at(3.0));
    oracle.counted(T, 4, true, true, at(9.0));
    assert_eq!((oracle.failure.take(), oracle.doubles), (None, 1));
    oracle.counted(T, 3, true, true, at(10.0));
    assert!(oracle.failure.is_some());
}

#[test]
fn another_access_at_the_same_node_takes_the_place_of_one_that_waits_and_asks_nobody() {
    let mut oracle = oracle();
    oracle.counted(T, 1, false, false, at(10.0));
    oracle.counted(T, 2, true, false, at(11.0));
    oracle.counted(T, 2, false, false, at(14.0));
    assert_eq!((oracle.failure.take(), oracle.doubles), (None, 1));
    oracle.counted(T, 3, false, false, at(15.0));
    assert!(oracle.failure.is_some(), "a third node has to ask");
}

#[test]
fn places_are_leased_once_and_none_beyond_the_slot() {
    let slot = |next| FleetSlot {
        next,
        ..FleetSlot::new(4, at(10.0), 100, false)
    };
    let lease = |first, places| Lease {
        slot: slot(first + places),
        first,
        places,
    };
    let mut one = oracle();
    one.leased(Some(&lease(0, 60)), 1, at(9.0));
    one.leased(Some(&lease(60, 40)), 2, at(9.0));
    assert_eq!(one.failure, None);
    one.leased(Some(&lease(90, 20)), 3, at(9.0));
    assert!(one.failure.is_some_and(|why| why.contains("oversold")));
    for (fault, is_excused) in [
        (Fault::Dies(1), true),
        (Fault::Cut(1, true), true),
        (Fault::Loses, false),
    ] {
        let mut twice = oracle();
        twice.leased(Some(&lease(0, 60)), 1, at(9.0));
        twice.went_wrong(fault, at(8.0));
        twice.leased(Some(&lease(50, 10)), 2, at(8.1));
        assert_eq!(twice.failure.is_none(), is_excused, "{fault:?}");
    }
    // An answer was lost, and a store that has forgotten that leases the same places again: once.
    let mut lost = oracle();
    lost.leased(Some(&lease(0, 60)), 1, at(9.0));
    lost.is_nobodys(&lease(0, 60));
    lost.leased(Some(&lease(0, 60)), 1, at(19.0));
    assert_eq!(lost.failure, None);
    lost.leased(Some(&lease(50, 10)), 2, at(29.0));
    assert!(lost.failure.is_some_and(|why| why.contains("leased twice")));
}

#[test]
fn only_rights_that_the_store_cannot_know_of_are_too_many() {
    let mut oracle = oracle();
    let eleven = || [(1, 4), (2, 7)].into_iter();
    oracle.went_wrong(Fault::Cut(1, true), at(10.0));
    oracle.rights(eleven(), 11, at(39.0));
    assert_eq!(oracle.failure, None);
    oracle.rights(eleven(), 10, at(41.0));
    assert_eq!(oracle.failure, None, "silent for too long");
    oracle.rights([(1, 4), (2, 11)].into_iter(), 10, at(41.0));
    assert!(
        oracle.failure.take().is_some(),
        "more than the silent one's"
    );
    oracle.went_wrong(Fault::Cut(1, false), at(50.0));
    oracle.rights(eleven(), 10, at(51.0));
    assert_eq!(oracle.failure, None);
    oracle.rights(eleven(), 10, at(52.0));
    assert!(oracle.failure.is_some(), "it has been in contact");
}

#[test]
fn nobody_hangs_and_no_holder_is_refused_while_newcomers_wait() {
    let mut one = oracle();
    let bound = one.bound;
    one.answered(1, bound + SLACK);
    one.refused(2, 1, 0);
    assert_eq!(one.failure, None);
    one.asked(1, ASKS);
    assert_eq!(one.failure, None);
    one.asked(1, ASKS + Micros(1));
    assert!(one.failure.take().is_some());
    one.answered(3, bound + SLACK + Micros(1));
    assert!(one.failure.take().is_some());
    one.refused(4, 1, 1);
    assert!(one.failure.is_some());
}
