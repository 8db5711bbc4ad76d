//! Limits: how long the line may be, how many tickets are sold, and how many may run.

use super::*;
use nap_core::nap::wait_limit::Conformal;
use nap_core::room::children::Workers;
use nap_core::room::control::Order;
use nap_core::room::places::wake;
use nap_core::sqs::page_scheduler::{Pace, law};

#[test]
fn who_is_told_that_the_line_is_too_long_keeps_his_ticket() {
    let mut story = Story::new(terms(AUTO));
    let mut running = story.runs(0, &[]);
    let mut tickets = [50, 51, 52, 53].map(|visitor| story.ticket(visitor));
    tickets.swap(1, 3);
    for visitor in 1..=14 {
        story.waits(visitor, &[]);
    }
    // One holder in their prime window, one too early, both among the newest newcomers.
    story.now = tickets[0].start;
    let prime = story.waits(50, &tickets[..1]);
    let early = story.waits(51, &tickets[1..2]);
    assert!(
        story.now < tickets[1].start - Micros::from_secs(2) && !prime.re_access && !early.re_access
    );
    for visitor in 1..=10 {
        story.runs_next(&mut running, 1500, visitor);
    }
    story.pass(1500);
    story.leaves(&running);
    assert!(
        story.state.gate().counts.shed > 0,
        "{:?}",
        story.state.gate().counts
    );
    let refusal = story.put_off(51, &tickets[1..2], &early);
    assert_eq!(refusal.ticket, Some(tickets[1]));
    assert_ne!(story.state.wake_word(prime.place), wake::SHED);
}

/// A crowd comes before anything is known. Visitors who do not fit are told in the order of coming, some at
/// each departure; those who come meanwhile are behind them.
#[test]
fn those_beyond_the_first_limit_are_told_in_the_order_of_coming() {
    let many = 55;
    let mut story = Story::new(Terms {
        parked: 60,
        slot_tickets: AUTO,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    let mut running = story.runs(0, &[]);
    let mut seats: Vec<Seat> = (1..=many).map(|n| story.waits(n, &[])).collect();
    let shed = |story: &Story, seats: &[Seat]| -> Vec<usize> {
        let is_shed = |n: &usize| story.state.wake_word(seats[*n].place) == wake::SHED;
        (0..seats.len()).filter(is_shed).collect()
    };
    let mut served = 0;
    while shed(&story, &seats).is_empty() {
        served += 1;
        story.runs_next(&mut running, 90, served);
    }
    let first = shed(&story, &seats);
    let from = first[0];
    assert_eq!(first, (from..from + 16).collect::<Vec<_>>());
    assert!(from + 16 < seats.len(), "{from}: some are still to be told");
    let waits = story.waits(many + 1, &[]);
    assert_eq!(waits.predicted, Micros::ZERO, "nothing is expected of it");
    seats.push(waits);
    story.pass(90);
    story.leaves(&running);
    assert_eq!(
        shed(&story, &seats),
        (from..seats.len()).collect::<Vec<_>>()
    );
    let starts: Vec<Micros> = (from..seats.len())
        .map(|n| {
            let refusal = story.put_off(n as u32 + 1, &[], &seats[n]);
            refusal.ticket.expect("sold").start
        })
        .collect();
    assert!(starts.is_sorted(), "{starts:?}");
    // Everybody has been told: the next visitor is told at once.
    let ticket = story.refused(many + 2, &[]).ticket.expect("sold");
    assert!(
        Some(&ticket.start) >= starts.last(),
        "{ticket:?} {starts:?}"
    );
}

/// The last tickets of a crowd find an idle server, and the next crowd comes before anybody has looked. It is
/// sold tickets for the speed that was measured, not for what the empty permits said.
#[test]
fn the_next_crowd_begins_with_what_was_seen() {
    let mut story = Story::new(terms(AUTO));
    let from = story.now;
    let rate = |story: &mut Story| {
        let act = |view: &mut GateView<'_>| view.gate.rate(view.permits);
        story.state.at_gate(story.now, act).0
    };
    story.state.at_gate(from, |view| {
        let seen = &mut view.gate.sale_rate;
        let at = |ms| from + Micros::from_millis(ms);
        (0..=100).for_each(|n| seen.departed(at(10 * n), at(10 * n)));
        seen.idle();
        for n in 0..16 {
            seen.look(true, true, at(1000 + 250 * n));
        }
    });
    // Each takes a hundredth of what the permit could do.
    let leaving = story.runs(1, &[]);
    story.pass(1);
    story.leaves(&leaving);
    assert!(rate(&mut story) > 300.0, "the empty permits say so");
    story.runs(2, &[]);
    story.ticket(3);
    let rate = rate(&mut story);
    assert!((100.0..110.0).contains(&rate), "{rate}");
}

#[test]
fn who_sat_down_before_anything_was_known_gets_the_rest_of_his_time() {
    let mut story = Story::new(terms(AUTO));
    story.runs(1, &[]);
    let entered = story.now;
    let seat = story.waits(2, &[]);
    story.state.at_gate(story.now, |view| {
        (0..20).for_each(|_| view.permits.residence.record(Micros::from_millis(100)));
    });
    story.now = seat.until;
    let mut until = seat.until;
    let verdict = story.ask(2, &[], Parking::Nobody, |view, arrival| {
        view.look_up(seat.place, &mut until, arrival)
    });
    assert!(verdict.is_none(), "a response of 100 ms is still possible");
    let bound = story.state.gate().terms.bound;
    assert_eq!(until, entered + bound - Micros::from_millis(100));
    story.now = until;
    let seat = Seat { until, ..seat };
    assert!(story.put_off(2, &[], &seat).ticket.is_some());
}

#[test]
fn where_nobody_could_wait_within_the_bound_one_may_still_try() {
    let mut story = Story::new(terms(AUTO));
    story.runs(1, &[]);
    story.state.at_gate(story.now, |view| {
        view.permits.residence.record(Micros::from_secs(9));
        view.gate.departures.begin(Micros::from_secs(1), 0);
        (1..=20).for_each(|n| {
            view.gate.departures.record(Micros::from_secs(9 * n));
        });
    });
    story.waits(2, &[]);
    assert_eq!(story.state.gate().limit, 1);
    assert!(story.refused(3, &[]).ticket.is_some());
}

#[test]
fn answers_far_from_the_bound_do_not_shorten_the_line() {
    let mut story = Story::new(terms(AUTO));
    story.runs(1, &[]);
    story.state.at_gate(story.now, learn_the_speed);
    story.waits(2, &[]);
    story.state.at_gate(story.now, |view| {
        (0..2).for_each(|_| view.gate.conformal.observe(4.0, 0.1));
    });
    let before = story.state.gate().conformal.rho();
    // Twenty pages that took ten times what was predicted, and less than half of the bound.
    for visitor in 10..30 {
        let entered = story.now;
        story.pass(1500);
        let permits = story.state.permits();
        let owner = Story::owner(visitor);
        permits.free_all();
        let permit = permits.claim_in_turn(owner).expect("free");
        let predicted = Micros::from_millis(150);
        let waited = Leaving {
            permit,
            owner,
            entered,
            granted: entered,
            predicted,
            ..Leaving::default()
        };
        story.leaves(&Leaving {
            waited: true,
            ..waited
        });
    }
    let after = story.state.gate().conformal.rho();
    assert!(Conformal::START < after && after < before);
}

#[test]
fn as_many_tickets_are_sold_as_x_allows_however_few_workers_there_are() {
    let sold_within = |seconds: u64, parked: u32| {
        let mut story = Story::new(Terms {
            slot_tickets: AUTO,
            prime: Micros::ZERO,
            parked,
            ..terms(AUTO)
        });
        story.runs(1, &[]);
        story.state.at_gate(story.now, learn_the_speed);
        // rho at its worst: L is close to zero.
        story.state.at_gate(story.now, |view| {
            (0..200).for_each(|_| view.gate.conformal.observe(4.0, 0.1));
        });
        story.waits(2, &[]);
        let last = story.now + Micros::from_secs(seconds);
        (3..300)
            .map(|visitor| story.ticket(visitor))
            .filter(|t| t.start < last)
            .count()
    };
    // X = 10 a second for as long as asked, from half a second on, however few workers there are.
    for workers in [9, 500] {
        let sold = sold_within(20, workers);
        assert!((190..=200).contains(&sold), "{workers}: {sold}");
    }
}

#[test]
fn a_limit_set_by_hand_leaves_behind_the_one_that_was_found() {
    let pace = Pace {
        law: law::AUTO,
        start: 5,
        lo: 1,
        hi: 75,
        ..Pace::default()
    };
    let mut story = Story::new(terms(AUTO));
    let now = story.now;
    story.state.pace(pace, Workers::default(), now);
    assert_ne!(story.state.gate().terms.run_ready, 5);
    let mut limited = |limit| {
        let order = Order::Limit(limit);
        (story.state).locked(now, |tables| tables.order(None, &order));
        story.state.permits().limit()
    };
    assert_eq!([Some(40), None].map(&mut limited), [40, 5]);
}

/// A default room on event: 150 workers, a tenth in reserve. A limit may find at most half of them; visitors
/// who could wait beside a fixed limit of ten must still be able to wait.
#[test]
fn a_limit_that_finds_itself_lets_nearly_as_many_wait_as_a_fixed_one() {
    let workers = Workers {
        per_pool: 150,
        reserve: 15,
        threaded: 0,
        pools: 1,
        parked: 0,
        on_workers: 0,
    };
    let pace = Pace {
        law: law::AUTO,
        start: 2,
        lo: 1,
        hi: 75,
        ..Pace::default()
    };
    let mut story = Story::new(terms(AUTO));
    story.state.pace(pace, workers, story.now);
    let mut parked = |limit: u32| {
        story.state.permits().set_limit(limit);
        story.pass(1000);
        let now = story.now;
        story
            .state
            .locked(now, |tables| tables.tick_since(now - Micros::from_secs(1)));
        story.state.gate().terms.parked
    };
    assert_eq!([4, 10, 60].map(&mut parked), [127, 115, 60]);
}

/// Where no fleet shares it, a limit of none is a stray write: it is as configured again within a second.
#[test]
fn a_limit_that_a_stray_write_has_taken_away_comes_back() {
    let mut story = Story::new(Terms {
        run_ready: 2,
        ..terms(AUTO)
    });
    story.state.child_starts();
    story.state.permits().set_rights(0);
    let waits = story.waits(2, &[]);
    story.pass(1000);
    let now = story.now;
    story
        .state
        .locked(now, |tables| tables.tick_since(now - Micros::from_secs(1)));
    assert_eq!(story.state.permits().limit(), 2);
    assert_eq!(story.state.wake_word(waits.place), wake::GRANTED);
}

/// One runs at a time, and three leave in a second: the speed is known when more than half of every waiter's
/// bound is over. A waiter that can still be served within it stays, and the permit does not stand empty.
#[test]
fn whom_a_cold_server_can_still_serve_is_not_told_to_go() {
    let mut story = Story::new(Terms {
        run_ready: 1,
        parked: 60,
        ..terms(AUTO)
    });
    let mut running = story.runs(1, &[]);
    let seats: Vec<_> = (2..27).map(|visitor| story.waits(visitor, &[])).collect();
    for (visitor, seat) in (2..).zip(seats) {
        story.pass(250);
        story.leaves(&running);
        if story.state.gate().decided != 0 {
            break;
        }
        running = story.has_turn(visitor, &seat);
    }
    assert_eq!(story.state.gate().decided, 1);
    let kept = story.state.gate().queue.len();
    println!("{kept} stay");
    assert!((2..=5).contains(&kept), "{kept}");
}
