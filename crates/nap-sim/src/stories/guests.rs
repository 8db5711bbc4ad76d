//! Guests: a full gate lets in who brings a ticket of another node if the store says that it is good.

use super::*;
use crate::fleet::oracle::Life;
use crate::fleet::store::Store;
use nap_core::fleet::exchange::{Answer, Batch, Notice, Tale};
use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::notes::Event;
use nap_core::room::gate_agent::{GateAgent, Sharing};

/// Two lives of two nodes.
const HERE: Life = Life { node: 1, life: 1 };
const THERE: Life = Life { node: 2, life: 1 };

/// A gate of a fleet, its only permit taken, and two tickets that it has sold, in their prime windows.
fn seller(sets: usize) -> (Story, Leaving, [Ticket; 2]) {
    let mut story = Story::new(Terms {
        parked: 2,
        ..terms(fixed(2))
    });
    story.state.node = HERE.node;
    let running = story.runs(1, &[]);
    let sold = [story.ticket(2), story.ticket(3)];
    story.joins_a_fleet(sets);
    story.now = sold[1].start;
    (story, running, sold)
}

/// The same with tickets of another node.
fn story(sets: usize) -> (Story, [Ticket; 2]) {
    let (mut story, _, sold) = seller(sets);
    let foreign = |ticket: Ticket| Ticket {
        node: THERE.node,
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
            let arrival = Arrival {
                told,
                ..arrival.clone()
            };
            let verdict = view.enter(&arrival);
            view.note_unused(&verdict, &arrival);
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

/// A gate of a fleet at which three newcomers may wait, and another node's ticket in its prime window. No place is sold here.
fn waited_at() -> (Story, Ticket) {
    let mut story = Story::new(terms(fixed(3)));
    story.state.node = HERE.node;
    story.runs(1, &[]);
    story.joins_a_fleet(16);
    let ticket = Ticket {
        node: THERE.node,
        epoch: 99,
        start: story.now,
        ..seller(16).2[0]
    };
    (story, ticket)
}

#[test]
fn a_ticket_that_waits_elsewhere_is_not_lost_among_newcomers_who_wait() {
    let (mut story, ticket) = waited_at();
    let seats = [10, 11, 12].map(|visitor| match story.enters(visitor, &[]) {
        Verdict::Wait(seat) => seat,
        verdict => panic!("{verdict:?}"),
    });
    let asks = |story: &mut Story, told| {
        story.ask(40, &[ticket], Parking::Anybody, |view, arrival| {
            let told: Option<(Name, Told)> = told;
            view.enter(&Arrival {
                told,
                ..arrival.clone()
            })
        })
    };
    let asked = asks(&mut story, None);
    let name = Name::of(&ticket);
    assert!(
        matches!(asked, Verdict::Ask(Some(asked)) if asked == name),
        "{asked:?}"
    );
    // Before it answers there is room for newcomers.
    let gone = |view: &mut GateView<'_>| view.gone(seats[2].place, Story::owner(12));
    story.state.at_gate(story.now, gone);
    match asks(&mut story, Some((name, Told::Waits))) {
        Verdict::Refuse(refusal) => assert_eq!(refusal.ticket, Some(ticket)),
        verdict => panic!("{verdict:?}"),
    }
    let newcomer = story.enters(50, &[]);
    assert!(matches!(newcomer, Verdict::Wait(_)), "there was room");
}

/// A gate of a fleet that has room for newcomers to wait, and a ticket that it has sold, in its prime window: the store has
/// told it that another node has the ticket.
fn recalled() -> (Story, Ticket) {
    let mut story = Story::new(terms(fixed(3)));
    story.state.node = HERE.node;
    story.joins_a_fleet(16);
    story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    let elsewhere = |view: &mut GateView<'_>| view.redeemed_elsewhere(ticket.slot, ticket.index);
    assert!(story.state.at_gate(story.now, elsewhere).0);
    (story, ticket)
}

#[test]
fn a_ticket_that_waited_elsewhere_in_a_child_that_died_is_not_lost_at_home() {
    let (mut story, ticket) = recalled();
    let (verdict, asked) = asks(&mut story, &[ticket], |_| Told::Waits);
    assert_eq!(asked, [Name::of(&ticket)]);
    match verdict {
        Verdict::Refuse(refusal) => {
            assert_eq!(refusal.ticket, Some(ticket));
            assert_eq!(refusal.retry_after, Micros::from_secs(1));
        }
        verdict => panic!("{verdict:?}"),
    }
    // The store has heard that its node is gone, before this one hears of it.
    let (verdict, asked) = asks(&mut story, &[ticket], |_| Told::Mine);
    assert_eq!(asked, [Name::of(&ticket)]);
    assert!(
        matches!(&verdict, Verdict::Wait(seat) if seat.redeemed == Some(ticket)),
        "{verdict:?}"
    );
    assert_eq!(story.state.gate().counts.presented, 1);
    assert_eq!(story.state.permits().outstanding(), 0);
}

/// Its access waited there before its time, or its prime window ended meanwhile.
#[test]
fn a_ticket_that_waited_elsewhere_is_not_lost_at_home_before_or_after_its_prime_window() {
    for early in [true, false] {
        let (mut story, ticket) = recalled();
        story.now = match early {
            true => ticket.start - story.state.terms_mut().bound,
            false => ticket.prime_end,
        };
        let (verdict, _) = asks(&mut story, &[ticket], |_| Told::Waits);
        assert!(
            matches!(&verdict, Verdict::Refuse(refusal) if refusal.ticket == Some(ticket)),
            "{verdict:?}"
        );
        let (verdict, _) = asks(&mut story, &[ticket], |_| Told::Mine);
        assert!(
            matches!(&verdict, Verdict::Wait(seat) if seat.redeemed == Some(ticket)),
            "{verdict:?}"
        );
    }
}

#[test]
fn an_agent_that_begins_says_nothing_of_an_own_ticket_that_another_node_has() {
    for elsewhere in [true, false] {
        let (mut story, ticket) = recalled();
        if !elsewhere {
            asks(&mut story, &[ticket], |_| Told::Used);
        }
        let (mut agent, sharing) = (GateAgent::default(), Sharing::default());
        story.state.at_gate(story.now, |view| agent.begins(view));
        let next = |view: &mut GateView<'_>| agent.next(view, &sharing, 0);
        let batch: Batch = story.state.at_gate(story.now, next).0;
        let of_it = |tale: &&Tale| tale.name == Name::of(&ticket);
        let told = batch
            .tales
            .iter()
            .filter(of_it)
            .filter_map(|tale| tale.event);
        let told = told.filter(|event| *event != Event::Sold);
        assert_eq!(
            told.collect::<Vec<_>>(),
            Vec::from_iter((!elsewhere).then_some(Event::Runs))
        );
    }
}

/// Two requests of this node have asked about a ticket, and the store has given it to both. One has used it.
#[test]
fn a_ticket_that_another_request_has_used_is_not_given_back() {
    let (mut story, [ticket, _]) = story(16);
    let name = Name::of(&ticket);
    story.state.terms_mut().run_ready = 9;
    story.state.at_gate(story.now, |view| {
        view.permits.set_limit(9);
        view.serve();
    });
    let redeemed = [20, 21].map(|visitor| {
        story.ask(visitor, &[ticket], Parking::Anybody, |view, arrival| {
            let arrival = Arrival {
                told: Some((name, Told::Mine)),
                again: true,
                ..arrival.clone()
            };
            let verdict = view.enter(&arrival);
            view.note_unused(&verdict, &arrival);
            assert!(matches!(verdict, Verdict::Run(_)), "{verdict:?}");
            view.redeemed.is_some()
        })
    });
    assert_eq!(redeemed, [true, false]);
    let notes = &mut story.state.stakes[0].notes;
    let told = std::iter::from_fn(|| notes.take());
    let of_it = told.filter(|note| note.name() == name);
    let events: Vec<_> = of_it.filter_map(|note| note.event()).collect();
    assert_eq!(events, [Event::Runs]);
}

#[test]
fn a_ticket_that_was_used_elsewhere_is_asked_about_once_and_its_visitor_is_a_newcomer() {
    for told in [Told::Used, Told::Silent] {
        let (mut story, ticket) = recalled();
        let (verdict, asked) = asks(&mut story, &[ticket], |_| told);
        assert_eq!(asked, [Name::of(&ticket)]);
        assert!(
            matches!(&verdict, Verdict::Wait(seat) if seat.redeemed.is_none()),
            "{verdict:?}"
        );
        let (verdict, asked) = asks(&mut story, &[ticket], |_| told);
        assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
        assert_eq!(asked.len(), usize::from(told == Told::Silent));
    }
}

/// A request asks the store in the last moment of its ticket's prime window.
#[test]
fn a_holder_is_not_late_because_the_store_was_asked() {
    for told in [Told::Mine, Told::Waits] {
        let (mut story, ticket) = waited_at();
        let seats = [10, 11, 12].map(|visitor| story.waits(visitor, &[]));
        story.now = ticket.prime_end - Micros(1);
        let enters = |story: &mut Story, told| {
            story.ask(40, &[ticket], Parking::Anybody, |view, arrival| {
                view.enter(&Arrival {
                    told,
                    ..arrival.clone()
                })
            })
        };
        let Verdict::Ask(Some(name)) = enters(&mut story, None) else {
            panic!("a full gate asks");
        };
        let gone = |view: &mut GateView<'_>| view.gone(seats[2].place, Story::owner(12));
        story.state.at_gate(story.now, gone);
        (story.now, story.waited) = (story.now + Micros(9), Micros(9));
        match (told, enters(&mut story, Some((name, told)))) {
            (Told::Mine, Verdict::Wait(seat)) => assert!(seat.redeemed.is_some()),
            (Told::Waits, Verdict::Refuse(refusal)) => assert_eq!(refusal.ticket, Some(ticket)),
            (_, verdict) => panic!("{told:?}: {verdict:?}"),
        }
        assert_eq!(story.state.gate().counts.late, 0);
        // One who comes late does not lose a ticket that waits elsewhere, either.
        story.waited = Micros::ZERO;
        if told == Told::Waits {
            match enters(&mut story, Some((name, told))) {
                Verdict::Refuse(refusal) => assert_eq!(refusal.ticket, Some(ticket)),
                verdict => panic!("{verdict:?}"),
            }
        }
    }
}

/// The agent says what there is to say, and hears the store.
fn speaks(story: &mut Story, agent: &mut GateAgent, store: &mut Store) {
    let (now, sharing) = (story.now, Sharing::default());
    let batch: Batch = story
        .state
        .at_gate(now, |view| agent.next(view, &sharing, 0))
        .0;
    let answer = store.carry_out(HERE, &batch, now, Micros::from_secs(30));
    story
        .state
        .at_gate(now, |view| agent.hears(view, &answer, &sharing, false));
}

#[test]
fn a_ticket_that_was_given_back_is_good_elsewhere_though_the_store_has_lost_that() {
    // Its access waited and left, or the answer came too late for that.
    for waits in [true, false] {
        let (mut story, tickets) = story(16);
        let (mut agent, mut store) = (GateAgent::default(), Store::new(0, None));
        store.keeps = true;
        speaks(&mut story, &mut agent, &mut store);
        let name = Name::of(&tickets[0]);
        assert_eq!(store.redeem(&name, HERE, story.now), Told::Mine);
        let seat = waits.then(|| {
            agent.is_given(&name, story.now + Micros::from_secs(60));
            match asks(&mut story, &tickets[..1], |_| Told::Mine).0 {
                Verdict::Wait(seat) => seat,
                verdict => panic!("{verdict:?}"),
            }
        });
        story.pass(300);
        speaks(&mut story, &mut agent, &mut store);
        story.pass(300);
        match seat {
            Some(seat) => {
                let gone = |view: &mut GateView<'_>| view.gone(seat.place, Story::owner(20));
                story.state.at_gate(story.now, gone);
            }
            None => agent.gives_back(&name),
        }
        speaks(&mut story, &mut agent, &mut store);
        story.pass(700);
        store.loses(story.now);
        speaks(&mut story, &mut agent, &mut store);
        assert_eq!(
            store.redeem(&name, THERE, story.now),
            Told::Waits,
            "it is lost: {waits}"
        );
        speaks(&mut story, &mut agent, &mut store);
        assert_eq!(store.redeem(&name, THERE, story.now), Told::Mine, "{waits}");
    }
}

#[test]
fn a_ticket_used_at_home_is_not_good_again_when_the_store_repeats_that_a_guest_left() {
    let (mut story, running, [own, _]) = seller(16);
    let (mut agent, sharing) = (GateAgent::default(), Sharing::default());
    let hears = |story: &mut Story, agent: &mut GateAgent, redeemed| {
        let notice = Notice {
            name: Name::of(&own),
            redeemed,
        };
        let answer = Answer {
            notices: vec![notice],
            ..nothing(story.now)
        };
        let hears = |view: &mut GateView<'_>| agent.hears(view, &answer, &sharing, false);
        story.state.at_gate(story.now, hears);
        story.state.permits().outstanding()
    };
    assert_eq!(hears(&mut story, &mut agent, true), 1, "used elsewhere");
    assert_eq!(hears(&mut story, &mut agent, false), 2, "its access left");
    story.leaves(&running);
    story.runs(20, &[own]);
    assert_eq!(story.state.permits().outstanding(), 1);
    assert_eq!(hears(&mut story, &mut agent, false), 1, "it says so again");
}

#[test]
fn a_ticket_that_was_used_is_nobodys_though_an_access_waited_with_it_at_a_node_that_is_gone() {
    let mut store = Store::new(0, None);
    let name = Name::of(&seller(1).2[0]);
    let forget = Micros::from_secs(30);
    let says = |event| Batch {
        seq: 1,
        tales: vec![Tale {
            name,
            event: Some(event),
            window: None,
            more: false,
        }],
        ..Batch::default()
    };
    let now = Micros::from_secs(1000);
    store.carry_out(THERE, &says(Event::Waits), now, forget);
    // It was silent when this node asked.
    store.carry_out(HERE, &says(Event::Runs), now, forget);
    assert_eq!(store.twice, 1);
    let third = Life { node: 3, life: 1 };
    let gone = now + Micros::from_secs(5);
    assert_eq!(store.redeem(&name, third, gone), Told::Used);
}

/// X = 10 a second, bound 4 s, thirty holders wait: the next one is served after some three seconds. Where workers are
/// short the holder is told at once that this is too late; in any case within the bound.
#[test]
fn a_holder_who_has_stood_in_the_kernel_has_less_of_the_bound_left() {
    for (parking, waited_ms, is_put_off) in [
        (Parking::Sparing, 0, false),
        (Parking::Sparing, 2000, true),
        (Parking::Anybody, 2000, false),
    ] {
        let (mut story, tickets) = story(16);
        story.state.at_gate(story.now, learn_the_speed);
        story.state.terms_mut().wait_limit = AUTO;
        story.state.at_gate(story.now, |view| view.gate.decided = 1);
        let comes = |story: &mut Story, n: u32, parking| {
            let ticket = Ticket {
                index: 100 + n,
                id: 1000 + u64::from(n),
                ..tickets[0]
            };
            story.ask(100 + n, &[ticket], parking, |view, arrival| {
                view.enter(&Arrival {
                    told: Some((Name::of(&ticket), Told::Mine)),
                    ..arrival.clone()
                })
            })
        };
        let mut n = 0;
        while story.state.gate().queue.len() < 30 {
            comes(&mut story, n, Parking::Anybody);
            n += 1;
            assert!(n < 40, "they wait");
        }
        story.waited = Micros::from_millis(waited_ms);
        let verdict = comes(&mut story, 50, parking);
        match verdict {
            Verdict::Wait(seat) => {
                let place = story.state.places()[seat.place as usize];
                let left = story.state.terms_mut().bound - story.waited;
                assert!(!is_put_off && place.deadline <= story.now + left);
            }
            Verdict::Refuse(refusal) => {
                assert!(is_put_off, "{waited_ms}");
                assert!(matches!(refusal.reason, Reason::Deferred | Reason::SoldOut));
            }
            verdict => panic!("{waited_ms}: {verdict:?}"),
        }
    }
}

#[test]
fn a_store_that_was_emptied_twice_is_told_once_of_all_tickets_however_many() {
    const MANY: u32 = 150_000;
    let (mut story, tickets) = story(16);
    let (mut agent, sharing) = (GateAgent::default(), Sharing::default());
    let hears = |story: &mut Story, agent: &mut GateAgent, epoch| {
        let answer = Answer {
            epoch,
            ..nothing(story.now)
        };
        let hears = |view: &mut GateView<'_>| agent.hears(view, &answer, &sharing, false);
        story.state.at_gate(story.now, hears);
    };
    hears(&mut story, &mut agent, 1);
    for index in 0..MANY {
        let name = Name {
            index,
            ..Name::of(&tickets[0])
        };
        agent.is_given(&name, story.now + Micros::from_secs(60));
    }
    let mut told = 0;
    (2..=3).for_each(|epoch| hears(&mut story, &mut agent, epoch));
    while agent.is_urgent() {
        let next = |view: &mut GateView<'_>| agent.next(view, &sharing, 0);
        let batch: Batch = story.state.at_gate(story.now, next).0;
        let marks = batch.tales.iter().filter(|tale| tale.event.is_some());
        told += marks.count() as u32;
        hears(&mut story, &mut agent, 3);
    }
    assert_eq!(told, MANY);
}

/// An answer that says nothing.
pub fn nothing(at: Micros) -> Answer {
    Answer {
        seq: 0,
        epoch: 1,
        run: 1,
        at,
        notices: Vec::new(),
        members: None,
        lease: None,
        granted: 0,
        over: 0,
        fair: 0,
        presses: false,
    }
}

/// A permit has become free while the store was asked: the access runs as any newcomer does.
#[test]
fn a_ticket_that_waits_elsewhere_is_not_used_here_by_who_finds_room() {
    let (mut story, tickets) = story(16);
    let enters = |story: &mut Story, told| {
        story.ask(20, &tickets[..1], Parking::Anybody, |view, arrival| {
            let arrival = Arrival {
                told,
                ..arrival.clone()
            };
            (view.enter(&arrival), view.redeemed)
        })
    };
    let (verdict, _) = enters(&mut story, None);
    let Verdict::Ask(Some(name)) = verdict else {
        panic!("{verdict:?}")
    };
    story.state.terms_mut().run_ready = 9;
    story.state.at_gate(story.now, |view| {
        view.permits.set_limit(9);
        view.serve();
    });
    let (verdict, redeemed) = enters(&mut story, Some((name, Told::Waits)));
    assert!(matches!(verdict, Verdict::Run(_)), "{verdict:?}");
    assert_eq!(redeemed, None);
    let (verdict, redeemed) = enters(&mut story, Some((name, Told::Mine)));
    assert!(matches!(verdict, Verdict::Run(_)), "{verdict:?}");
    assert!(redeemed.is_some());
}
