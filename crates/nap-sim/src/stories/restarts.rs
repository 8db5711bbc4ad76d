//! Stories of restarts: what a full restart finds, and what a graceful one leaves for some seconds.

use super::*;
use nap_core::room::children::Workers;
use nap_core::sqs::page_scheduler::{Pace, law};

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
    story.state.locked(now, |tables| tables.begin_anew());
    let counts = story.state.gate().counts;
    assert_eq!((counts.presented, counts.kept), (0, 0));
    assert_eq!(story.state.permits().outstanding(), 1);
    assert_eq!(story.claims(ticket.start), 1);
    let leaving = story.runs(2, &[ticket]);
    story.leaves(&leaving);
    let counts = story.state.gate().counts;
    assert_eq!((counts.presented, counts.kept), (1, 1));
}

/// A crowd buys ten-minute tickets; then the directive is removed, and five minutes are the default.
#[test]
fn a_shorter_lifetime_leaves_tickets_already_sold_as_they_are() {
    let secs = Micros::from_secs;
    for (prime, presented, prime_now) in [(600, 420, true), (5, 420, false), (5, 620, false)] {
        let mut story = Story::new(Terms {
            lifetime: secs(600),
            prime: secs(prime),
            ..terms(fixed(5))
        });
        let running = story.runs(1, &[]);
        let ticket = story.ticket(2);
        story.leaves(&running);
        (
            story.state.terms_mut().lifetime,
            story.state.terms_mut().prime,
        ) = (secs(300), secs(5));
        story.now = ticket.start + secs(presented);
        story.state.at_gate(story.now, |view| view.tick());
        story.runs(3, &[]);
        // All places are taken: a late holder is re-booked.
        for visitor in 4..9 {
            story.enters(visitor, &[]);
        }
        match prime_now {
            true => assert_eq!(story.waits(2, &[ticket]).redeemed, Some(ticket)),
            false => {
                let verdict = story.ask(2, &[ticket], Parking::Holders, |view, arrival| {
                    view.enter(arrival)
                });
                let Verdict::Refuse(refusal) = verdict else {
                    panic!("{presented}: {verdict:?}")
                };
                assert_eq!(refusal.reason, Reason::Late, "{presented}");
                assert!(refusal.ticket.is_some_and(|t| t.has(Ticket::REBOOKED)));
            }
        }
    }
}

/// A waiting ticket loses its place: by a death under the lock, or a power cut that has kept one page of the
/// state file and not the other.
#[test]
fn a_ticket_whose_place_is_lost_is_good_again() {
    for power_cut in [false, true] {
        let mut story = Story::new(terms(fixed(5)));
        story.runs(1, &[]);
        let [ticket, other] = [2, 3].map(|visitor| story.ticket(visitor));
        let claims = |story: &Story| [ticket, other].map(|t| story.claims(t.start));
        let sold = claims(&story);
        story.now = ticket.start;
        let seat = story.waits(2, &[ticket]);
        let now = story.now;
        story.state.locked(now, |tables| {
            tables.places.free(seat.place);
            match power_cut {
                true => tables.begin_anew(),
                false => tables.mend(),
            }
        });
        assert_eq!(claims(&story), sold);
        assert_eq!(story.state.permits().outstanding(), 2);
        let verdict = story.enters(2, &[ticket]);
        assert!(
            !matches!(verdict, Verdict::Refuse(_)),
            "power cut {power_cut}: {verdict:?}"
        );
        assert_eq!(story.state.gate().counts.presented, 1);
    }
}

/// What they hold may have changed, and the fleet has not been told.
#[test]
fn after_a_death_under_the_lock_all_clients_are_told_of_again() {
    let mut story = Story::new(terms(fixed(5)));
    let now = story.now;
    let mut lost = |mends| {
        story.state.locked(now, |tables| {
            if mends {
                tables.mend();
            }
            tables.clients.holdings.has_lost()
        })
    };
    assert_eq!(
        [false, true, false].map(|mends| lost(mends).0),
        [false, true, false]
    );
}

#[test]
fn who_waits_again_after_a_death_in_serve_can_reload() {
    let mut story = Story::new(terms(fixed(5)));
    story.runs(1, &[]);
    let ticket = story.ticket(2);
    story.now = ticket.start;
    let first = story.waits(2, &[ticket]);
    let now = story.now;
    story.state.locked(now, |tables| {
        // Marked as used, and not told yet.
        let at = tables.gates[0].slots.position(ticket.slot, ticket.index);
        let states = &mut tables.gates[0].states;
        states.set(at.expect("sold"), nap_core::nap::ticket_states::State::Used);
        tables.mend();
    });
    let second = story.waits(3, &[ticket]);
    assert_eq!(story.state.wake_word(first.place), wake::TAKEN_OVER);
    assert_eq!(second.until, first.until);
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

/// A renamed room starts afresh; the old one's gate stays, with everything it had found.
#[test]
fn a_gate_that_is_configured_no_more_takes_no_worker_from_those_that_are() {
    let workers = Workers {
        per_pool: 256,
        reserve: 26,
        threaded: 1,
        pools: 1,
        parked: 0,
        on_workers: 0,
    };
    let pace = |start| Pace {
        law: law::AUTO,
        start,
        lo: 1,
        ..Pace::default()
    };
    let parked = |stale: bool| {
        let terms = terms(AUTO);
        let starts = nap_core::room::starts::StartTerms::default();
        let mut state = State::with_pages(&[terms, terms], Some((terms, starts, 12)), 64, 7);
        state.workers = workers;
        state.pace_pages(&[pace(4), pace(4)], Micros::ZERO);
        let now = Micros::from_secs(1000);
        state
            .locked(now, |tables| {
                tables.permits[0].set_limit(120);
                tables.rooms[0].generation = 2;
                for page in tables.pages.iter_mut() {
                    page.generation = 2;
                }
                if stale {
                    tables.pages[0].generation = 1;
                }
                tables.share_places();
                tables.pace_if_due();
                (
                    tables.gates[1].terms.parked,
                    tables.pacer.as_ref().map(|pacer| pacer.budget),
                )
            })
            .0
    };
    assert_eq!(parked(false), ((230 - 128) / 4 / 2, Some(128)));
    // Of the others two may run, and four are kept free; a quarter of the rest is the gate's own.
    assert_eq!(parked(true), ((230 - 2 - 4) / 4, Some(128)));
}
