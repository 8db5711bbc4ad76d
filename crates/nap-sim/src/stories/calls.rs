//! Stories of the early call: who is called, that it costs nobody anything, and what follows silence.

use super::*;
use nap_core::micros::Micros;
use nap_core::room::verdict::Turn;

/// Eight places; one slot sells a ticket a second.
fn quiet() -> Terms {
    terms(fixed(8))
}

impl Story {
    fn asks(&mut self, visitor: u32, ticket: &Ticket) -> Turn {
        self.ask(visitor, &[], Parking::Nobody, |view, arrival| {
            view.asked(ticket, arrival.bind())
        })
    }

    /// Nothing happens but looks, every quarter of a second.
    fn idles(&mut self, ms: u64) {
        for _ in 0..ms / 250 {
            self.pass(250);
            self.state.at_gate(self.now, |view| view.look_round());
        }
    }

    /// Tickets of `n` visitors from number 2 on, sold while one runs and others wait; then all of those
    /// leave.
    pub(super) fn full_house(&mut self, n: u32) -> Vec<Ticket> {
        let running = self.runs(1, &[]);
        let waiting = 50..50 + self.state.gate().terms.wait_limit.n;
        let places: Vec<(u32, u32)> = (waiting)
            .map(|visitor| (visitor, self.waits(visitor, &[]).place))
            .collect();
        let tickets = (2..2 + n).map(|visitor| self.ticket(visitor)).collect();
        for (visitor, place) in places {
            self.state
                .at_gate(self.now, |view| view.gone(place, Story::owner(visitor)));
        }
        self.leaves(&running);
        tickets
    }
}

#[test]
fn when_the_server_has_room_the_first_is_called_and_let_in_before_his_time() {
    let mut story = Story::new(quiet());
    let tickets = story.full_house(5);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Wait, "room must last");
    story.idles(750);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Now);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Now, "and stays called");
    assert!(story.now < tickets[0].start - Micros::from_secs(2));
    // Another visitor is faster: the called one waits for their turn, and nobody can turn them away.
    let other = story.runs(90, &[]);
    let seat = story.waits(2, &tickets[..1]);
    assert!(seat.redeemed.is_some_and(|t| t.has(Ticket::CALLED)));
    story.leaves(&other);
    let told = story.ask(2, &tickets[..1], Parking::Nobody, |view, arrival| {
        view.collect(seat.place, arrival)
    });
    assert!(matches!(told, Some(Verdict::Run(_))), "{told:?}");
    let (calls, counts) = (
        story.state.permits().calls.counts(),
        story.state.gate().counts,
    );
    assert_eq!((calls.called, calls.came, calls.silent), (1, 1, 0));
    assert_eq!((counts.presented, counts.broken), (1, 0));
    assert_eq!(story.asks(2, &tickets[0]), Turn::Used);
}

/// The paper's own form: nobody waits without a ticket, and holders have places of their own.
#[test]
fn in_the_static_form_holders_are_called_into_places_of_their_own() {
    let mut story = Story::new(Terms {
        re_access: fixed(1),
        wait_limit: fixed(0),
        ..quiet()
    });
    let tickets = story.full_house(2);
    story.idles(750);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Now);
    assert!(story.now + Micros::from_secs(2) < tickets[0].start);
    let other = story.runs(90, &[]);
    story.waits(2, &tickets[..1]);
    assert_eq!(story.state.gate().counts.broken, 0);
    story.leaves(&other);
}

#[test]
fn a_called_ticket_is_a_claim_until_it_is_used() {
    let mut story = Story::new(quiet());
    let tickets = story.full_house(2);
    story.idles(750);
    let before = story.claims(story.now);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Now);
    assert_eq!(story.claims(story.now), before + 1);
    story.pass(1300);
    let leaving = story.runs(2, &tickets[..1]);
    for ms in [0, 1000, 2000, 3000, 5000, 9000] {
        let at = story.now + Micros::from_millis(ms);
        assert!(story.claims(at) <= 1, "the other's alone, at {ms} ms");
    }
    story.leaves(&leaving);
    story.now = tickets[1].start + Micros::from_secs(60);
    assert_eq!(story.claims(story.now), 0);
}

/// All holders of tickets up to a minute ahead have come before their time.
#[test]
fn who_comes_after_all_were_called_is_behind_nobody() {
    let mut story = Story::new(quiet());
    let tickets = story.full_house(40);
    story.idles(750);
    for (visitor, ticket) in (2..).zip(&tickets) {
        while story.asks(visitor, ticket) == Turn::Wait {
            story.idles(250);
        }
        let leaving = story.runs(visitor, std::slice::from_ref(ticket));
        story.leaves(&leaving);
    }
    let last = tickets.last().expect("forty").start;
    assert!(story.now + Micros::from_secs(15) < last, "{last:?}");
    let again = story.full_house(3);
    assert!(again[0].start < story.now + Micros::from_secs(10));
    assert!(again[0].start < again[1].start && again[1].start < again[2].start);
    // These tickets are as good as any: good in their time, once.
    story.now = again[1].start;
    let leaving = story.runs(3, &again[1..2]);
    story.leaves(&leaving);
    assert_eq!(story.asks(3, &again[1]), Turn::Used);
    assert_eq!(story.state.gate().counts.broken, 0);
}

#[test]
fn who_does_not_react_loses_nothing() {
    let mut story = Story::new(quiet());
    let tickets = story.full_house(3);
    story.idles(750);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Now);
    // A rush of newcomers: all places but the holder's are taken, and more come.
    story.runs(80, &[]);
    for visitor in 81..100 {
        story.enters(visitor, &[]);
    }
    story.now = tickets[0].start;
    let seat = story.waits(2, &tickets[..1]);
    assert_eq!(
        seat.redeemed,
        Some(tickets[0]),
        "in time, as if never called"
    );
    let calls = story.state.permits().calls.counts();
    assert_eq!((calls.called, calls.came), (1, 1));
}

#[test]
fn the_called_who_never_come_are_counted_when_their_slot_closes() {
    let mut story = Story::new(quiet());
    let tickets = story.full_house(3);
    story.idles(750);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Now);
    story.pass(3_600_000);
    story.state.at_gate(story.now, |view| view.tick());
    let calls = story.state.permits().calls.counts();
    assert_eq!((calls.called, calls.came, calls.silent), (1, 0, 1));
    assert_eq!(story.state.permits().outstanding(), 0);
}

#[test]
fn one_who_was_called_and_leaves_the_queue_stays_called() {
    let mut story = Story::new(quiet());
    let tickets = story.full_house(2);
    story.idles(750);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Now);
    story.runs(90, &[]);
    let seat = story.waits(2, &tickets[..1]);
    story
        .state
        .at_gate(story.now, |view| view.gone(seat.place, Story::owner(2)));
    assert_eq!(story.asks(2, &tickets[0]), Turn::Now);
    let seat = story.waits(2, &tickets[..1]);
    assert_eq!(story.state.permits().calls.counts().came, 1);
    // Put off by the guard, the holder gets their own ticket again: no other could be better.
    story.now = seat.until;
    let refusal = story.put_off(2, &tickets[..1], &seat);
    assert_eq!(refusal.ticket, Some(tickets[0]));
    assert_eq!(story.state.gate().counts.deferred, 0);
}

#[test]
fn nobody_is_called_while_all_permits_are_held() {
    let mut story = Story::new(quiet());
    let tickets = story.full_house(1);
    let running = story.runs(1, &[]);
    story.idles(1000);
    assert_eq!(story.asks(2, &tickets[0]), Turn::Wait);
    assert_eq!(story.state.permits().calls.counts().called, 0);
    story.leaves(&running);
}

/// On a loaded machine L once fell to 1 with 109 tickets out: nobody waited, nobody ran, and all held tickets
/// for later.
#[test]
fn a_limit_that_fell_to_one_does_not_leave_the_server_idle_before_its_tickets() {
    let mut story = Story::new(Terms {
        run_ready: 4,
        parked: 200,
        slot_tickets: AUTO,
        ..terms(AUTO)
    });
    let first: Vec<Leaving> = (1..5).map(|visitor| story.runs(visitor, &[])).collect();
    // Two a second.
    story.state.at_gate(story.now, |view| {
        view.permits.residence.record(Micros::from_secs(2));
    });
    let tickets: Vec<Ticket> = (10..119).map(|visitor| story.ticket(visitor)).collect();
    for leaving in &first {
        story.leaves(leaving);
    }
    let gate = story.state.at_gate(story.now, |view| {
        (view.gate.decided, view.gate.wanted, view.gate.limit) = (1, 1, 1);
    });
    let _ = gate;
    let last = tickets.last().expect("109").start;
    let mut waiting: Vec<(u32, Ticket)> = (10..).zip(tickets).collect();
    let begun = story.now;
    let mut turns = 0;
    while !waiting.is_empty() && story.now < last {
        story.idles(1000);
        turns += 1;
        // Each asks every ten seconds.
        let (asking, silent): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(n, _)| n % 10 == turns % 10);
        waiting = silent;
        for (visitor, ticket) in asking {
            // The first may have come late by then.
            if story.asks(visitor, &ticket) != Turn::Wait {
                let leaving = story.runs(visitor, &[ticket]);
                story.pass(10);
                story.leaves(&leaving);
            } else {
                waiting.push((visitor, ticket));
            }
        }
    }
    let (took, would) = (story.now - begun, last - begun);
    assert!(waiting.is_empty(), "{} still wait", waiting.len());
    assert!(took.0 * 2 < would.0, "{took:?} of {would:?}");
    assert_eq!(story.state.gate().counts.broken, 0);
}
