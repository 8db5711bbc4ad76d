//! Outside: accesses that no worker has taken up yet.

use super::*;

/// Four of ten run, and some stand outside, as the other workers read bodies or are not started yet. That
/// says nothing about the server. Once the queue inside begins, X is that of all ten.
#[test]
fn what_few_workers_let_through_is_not_the_speed_of_the_server() {
    let mut story = Story::new(Terms {
        run_ready: 10,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    let mut running: Vec<_> = (1..=4).map(|visitor| story.runs(visitor, &[])).collect();
    let leaves = |story: &mut Story, running: &mut Vec<Leaving>, absent| {
        let leaving = running.remove(0);
        story.leaves(&Leaving { absent, ..leaving });
    };
    // One a second.
    for visitor in 5..30 {
        story
            .state
            .at_gate(story.now, |view| view.note_outside(300));
        story.pass(1000);
        leaves(&mut story, &mut running, 100);
        running.push(story.runs(visitor, &[]));
    }
    assert_eq!(story.state.gate().departures.throughput(), None);
    assert_eq!(story.state.gate().decided, 0, "nobody is told a time");
    // The workers are there: ten run, forty wait, and a hundred leave a second.
    running.extend((30..36).map(|visitor| story.runs(visitor, &[])));
    let seats: Vec<_> = (40..80).map(|visitor| story.waits(visitor, &[])).collect();
    for (visitor, seat) in (40..70).zip(seats) {
        story.pass(10);
        leaves(&mut story, &mut running, 0);
        running.push(story.has_turn(visitor, &seat));
    }
    let x = story.state.gate().departures.throughput().expect("known");
    assert!((99.0..101.0).contains(&x), "{x}");
}

/// Ten run at a bound of 4 s. A visitor who has a worker, be it the last, is told nothing before X is known: by two rounds of
/// departures once a quarter of the bound is over, then by one, in the end by the time that accesses take, if it can be that.
/// Departures of the first round do not count.
#[test]
fn nobody_is_told_by_a_guess_while_the_speed_may_soon_be_known() {
    // So many departures count, 10 ms apart, the first of all `from` then on; how many places X is for, if it is known.
    for (counted, from, ms, known) in [
        (49, 0, 999, None),
        (50, 0, 999, Some(300..400)),
        (19, 0, 1001, None),
        (20, 0, 1001, Some(250..400)),
        (10, 0, 1499, None),
        (9, 0, 1501, None),
        (10, 0, 1501, Some(200..400)),
        (0, 1300, 1999, None),
        // 7.4 a second.
        (0, 1300, 2001, Some(10..15)),
        // Others have not left since.
        (0, 0, 2001, None),
    ] {
        let mut story = Story::new(Terms {
            run_ready: 10,
            parked: 200,
            prime: Micros::ZERO,
            ..terms(AUTO)
        });
        let mut running: Vec<_> = (1..=10).map(|visitor| story.runs(visitor, &[])).collect();
        let seats: Vec<_> = (11..=72).map(|visitor| story.waits(visitor, &[])).collect();
        let began = story.now;
        for (visitor, seat) in (11..).zip(seats.iter().take(10 + counted)) {
            story.now = began + Micros::from_millis(from + 10 * u64::from(visitor - 10));
            story.leaves(&running.remove(0));
            running.push(story.has_turn(visitor, seat));
        }
        story.now = began + Micros::from_millis(ms);
        let verdict = story.ask(151, &[], Parking::Last, |view, arrival| view.enter(arrival));
        let gate = story.state.gate();
        assert_eq!(
            gate.decided != 0,
            known.is_some(),
            "{counted}, {from}, {ms}"
        );
        match known {
            Some(places) => assert!(places.contains(&gate.wanted), "{}: {ms}", gate.wanted),
            None => assert!(
                matches!(verdict, Verdict::Wait(_)) || ms > 2000,
                "{verdict:?}"
            ),
        }
    }
}

/// Some stood outside a minute ago, and nobody has looked since: a visitor who waits now is the first of a
/// new queue.
#[test]
fn whom_nobody_has_seen_for_long_is_no_queue_that_lasts() {
    let mut story = Story::new(Terms {
        run_ready: 4,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    let mut running: Vec<_> = (1..5).map(|visitor| story.runs(visitor, &[])).collect();
    for visitor in 5..35 {
        story.state.at_gate(story.now, |view| view.note_outside(9));
        story.pass(100);
        story.leaves(&running.remove(0));
        running.push(story.runs(visitor, &[]));
    }
    let busy_for = |story: &Story| {
        let departures = &story.state.gate().departures;
        departures.busy_for(story.now).0 / 1000
    };
    assert_eq!(busy_for(&story), 3000);
    story.pass(500);
    let seat = story.waits(40, &[]);
    assert_eq!(busy_for(&story), 3500, "behind those outside");
    story.state.at_gate(story.now, |view| {
        view.gone(seat.place, Story::owner(40));
    });
    story.pass(60_000);
    story.waits(41, &[]);
    assert_eq!(busy_for(&story), 0);
}

/// Four workers for ten permits: nobody ever waits inside. Accesses outside are a queue all the same: X is
/// learnt from it, and newcomers are told to come later while more stand there than are served in a quarter
/// of the bound.
#[test]
fn whom_no_worker_has_taken_up_waits_as_well() {
    let mut story = Story::new(Terms {
        run_ready: 10,
        slot_tickets: AUTO,
        prime: Micros::ZERO,
        ..terms(AUTO)
    });
    story.left = 4;
    let stand_outside = |story: &mut Story, n: u32| {
        story.state.at_gate(story.now, |view| view.note_outside(n));
    };
    let mut running: Vec<_> = (1..=4).map(|visitor| story.runs(visitor, &[])).collect();
    stand_outside(&mut story, FEW - 1);
    assert_eq!(story.state.permits().outside(), 0, "a few are none");
    // Twenty a second, and one comes for each that leaves.
    for visitor in 5..80 {
        stand_outside(&mut story, 300);
        story.pass(50);
        let leaving = running.remove(0);
        story.leaves(&leaving);
        running.push(match story.enters(visitor, &[]) {
            Verdict::Run(permit) => Leaving {
                permit,
                owner: Story::owner(visitor),
                entered: story.now,
                granted: story.now,
                ..Leaving::default()
            },
            verdict => {
                let Verdict::Refuse(refusal) = verdict else {
                    panic!("{verdict:?}")
                };
                assert!(visitor > 20, "{visitor}: X is not known yet");
                assert_eq!(refusal.reason, Reason::Full);
                // Of those outside, only as many as fit a quarter of the bound are served first.
                let told = refusal.ticket.expect("sold").start - story.now;
                let quarter = Micros::from_secs(1);
                let near = told >= quarter - Micros::from_millis(500) && told < quarter + quarter;
                assert!(near, "{told:?}");
                break;
            }
        });
    }
    let x = story.state.gate().departures.throughput().expect("known");
    assert!((19.0..21.0).contains(&x), "{x}");
    // Some go on meanwhile: three, a quarter of the permits and one.
    assert_eq!(story.state.permits().running(), 3);
    story.refused(90, &[]);
    story.leaves(&running[0]);
    running[0] = story.runs(91, &[]);
    // Twenty outside: they are answered in time.
    stand_outside(&mut story, 20);
    running.push(story.runs(92, &[]));
    stand_outside(&mut story, 0);
    assert_eq!(story.state.permits().outside(), 0);
    assert!(
        story.state.gate().departures.present().is_none(),
        "nobody waits"
    );
}
