//! Guests: a full gate lets in who brings a ticket of another node if the store says that it is good.

use super::*;
use nap_core::fleet::guests::{GuestSet, Name, Told};
use nap_core::fleet::stake::Stake;

/// A gate of a fleet, its only permit taken. A guest's tickets are in their prime window.
fn story(sets: usize) -> (Story, [Ticket; 2]) {
    let mut story = Story::new(Terms {
        parked: 2,
        ..terms(fixed(2))
    });
    story.runs(1, &[]);
    let sold = [story.ticket(2), story.ticket(3)];
    let stakes: &'static [Stake] = &[Stake::EMPTY];
    story.state.stakes = stakes.into();
    story.state.stakes[0].nodes = 2;
    story.state.guests = vec![GuestSet::default(); sets].into();
    story.now = sold[1].start;
    let foreign = |ticket: Ticket| Ticket {
        node: 2,
        epoch: 99,
        start: story.now,
        ..ticket
    };
    let tickets = sold.map(foreign);
    while let Verdict::Wait(_) = story.enters(10, &[]) {}
    (story, tickets)
}

/// The access comes with these tickets, and asks until it is told what to do; the store says this of each.
fn asks(
    story: &mut Story,
    tickets: &[Ticket],
    says: impl Fn(&Name) -> Told,
) -> (Verdict, Vec<Name>) {
    let (mut told, mut asked) = (None, Vec::new());
    loop {
        let verdict = story.ask(20, tickets, Parking::Anybody, |view, arrival| {
            view.told = told;
            let verdict = view.enter(arrival);
            view.note_unused(&verdict);
            verdict
        });
        let Verdict::Ask(Some(name)) = verdict else {
            return (verdict, asked);
        };
        assert!(asked.len() < 3, "it asks for ever: {asked:?}");
        asked.push(name);
        told = Some((name, says(&name)));
    }
}

#[test]
fn what_the_store_says_of_one_ticket_lets_nobody_in_with_another() {
    let (mut story, tickets) = story(16);
    let (verdict, asked) = asks(&mut story, &tickets, |_| Told::Used);
    assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
    assert!(asked.len() == 2 && asked[0] != asked[1], "{asked:?}");
}

#[test]
fn who_brings_a_used_ticket_too_is_let_in_by_the_good_one() {
    for good in [0, 1] {
        let (mut story, tickets) = story(16);
        let good = Name::of(&tickets[good]);
        let says = |name: &Name| match *name == good {
            true => Told::Mine,
            false => Told::Used,
        };
        let (verdict, asked) = asks(&mut story, &tickets, says);
        assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
        assert_eq!(asked.last(), Some(&good));
    }
}

#[test]
fn a_used_ticket_that_there_is_no_room_to_remember_lets_nobody_in() {
    let (mut story, tickets) = story(0);
    let (verdict, asked) = asks(&mut story, &tickets[..1], |_| Told::Used);
    assert_eq!(asked.len(), 1);
    assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
}
