use super::*;

/// Best at four, and a collapse beyond.
fn thrash(n: f64) -> f64 {
    n.min(4.0) / (1.0 + 0.6 * (n - 4.0).max(0.0))
}

/// `finished` accesses have finished in so many seconds, and more of them wait.
fn seen(finished: f64, elapsed_s: f64) -> Sight {
    Sight {
        finished,
        progress: finished,
        own: finished,
        elapsed_s,
        saturated: true,
    }
}

/// Runs this many windows of a second; returns the limit after them.
fn climb(hill: &mut ElasticHill, settings: &Settings, windows: u32, per_s: fn(f64) -> f64) -> u32 {
    for _ in 0..windows {
        let progress = 100.0 * per_s(f64::from(hill.limit(settings)));
        let sight = seen(progress, 1.0);
        hill.see(&sight, settings);
    }
    hill.limit(settings)
}

#[test]
fn a_range_that_becomes_smaller_is_no_trap() {
    let wide = Settings {
        start: 40,
        ..Settings::default()
    };
    for windows in 0..40 {
        let mut hill = ElasticHill::default();
        climb(&mut hill, &wide, windows, |_| 4.0);
        let narrow = Settings { hi: 16, ..wide };
        assert!(hill.bound(&narrow) <= 16);
        let found = climb(&mut hill, &narrow, 200, thrash);
        assert!((3..=6).contains(&found), "{windows}: {found}");
        let above = Settings { lo: 20, ..wide };
        assert!(hill.bound(&above) >= 20, "{windows}");
        assert!(climb(&mut hill, &above, 200, |n| n) > 100, "{windows}");
    }
}

#[test]
fn a_range_of_two_or_three_is_all_tried() {
    let alone = |n: f64| 1.0 / (1.0 + 0.6 * (n - 1.0));
    for (hi, best) in [(2, 1), (3, 1), (2, 2), (3, 3)] {
        let per_s = if best == 1 { alone } else { |n| n };
        let settings = Settings {
            hi,
            halves: true,
            ..Settings::default()
        };
        let mut hill = ElasticHill::default();
        climb(&mut hill, &settings, 40, per_s);
        let at_best = (0..400).filter(|_| climb(&mut hill, &settings, 1, per_s) == best);
        assert!(at_best.count() > 200, "up to {hi}, best at {best}");
    }
    let one = Settings {
        hi: 1,
        halves: true,
        ..Settings::default()
    };
    let mut hill = ElasticHill::default();
    assert!((0..100).all(|_| climb(&mut hill, &one, 1, |n| n) == 1));
}

#[test]
fn one_at_a_time_is_tried_only_where_two_do_more_than_three() {
    let settings = Settings {
        halves: true,
        ..Settings::default()
    };
    // Three do nearly as much as two; one does half of it.
    let two = |n: f64| n.min(2.0) / (1.0 + 0.05 * (n - 2.0).max(0.0));
    let mut hill = ElasticHill::default();
    for _ in 0..400 {
        assert!(climb(&mut hill, &settings, 1, two) >= 2);
    }
    assert!(climb(&mut hill, &settings, 1, two) <= 3);
    // Each is in the way of all others.
    let mut hill = ElasticHill::default();
    let one = |n: f64| 1.0 / (1.0 + 0.6 * (n - 1.0));
    let ones = (0..400).filter(|_| climb(&mut hill, &settings, 1, one) == 1);
    assert!(ones.count() > 250);
}

/// This many looks of a quarter of a second at a page that passes `per_s` at the limit in
/// force; the law may end its window at each. Returns the limit at each.
fn look_on(hill: &mut ElasticHill, looks: u32, per_s: fn(f64) -> f64) -> Vec<u32> {
    let settings = Settings {
        n_min: 30.0,
        ..two()
    };
    let look = |_| {
        let limit = hill.limit(&settings);
        let finished = per_s(f64::from(limit)) / 4.0;
        let sight = seen(finished, 0.25);
        hill.see(&sight, &settings);
        limit
    };
    (0..looks).map(look).collect()
}

fn longest(limits: &[u32], of: u32) -> usize {
    let runs = limits.split(|limit| *limit != of);
    runs.map(<[u32]>::len).max().unwrap_or_default()
}

/// Two do eight a second, one does half of that, and more are badly in each other's way.
fn search(n: f64) -> f64 {
    4.0 * n.min(2.0) / (1.0 + 0.5 * (n - 2.0).max(0.0))
}

#[test]
fn a_trial_that_has_surely_failed_ends() {
    let mut hill = ElasticHill::default();
    let limits = look_on(&mut hill, 2400, search);
    let [one, four] = [longest(&limits, 1), longest(&limits, 4)];
    // Thirty at four a second would be thirty looks.
    assert!((4..=22).contains(&one), "{one} looks at one at a time");
    assert!((4..=22).contains(&four), "{four} looks at four");
    let two = limits.iter().filter(|limit| **limit == 2).count();
    assert!(two > 1800, "{two} of 2400 looks at the best");
}

/// As the page schedulers have it on two processors.
fn two() -> Settings {
    Settings {
        start: 2,
        halves: true,
        ..Settings::default()
    }
}

/// How many of `windows` are seen at this limit.
fn windows_at(
    hill: &mut ElasticHill,
    settings: &Settings,
    windows: u32,
    limit: u32,
    per_s: fn(f64) -> f64,
) -> usize {
    let at = |_: &u32| climb(hill, settings, 1, per_s) == limit;
    (0..windows).filter(at).count()
}

#[test]
fn one_wrong_verdict_does_not_hold_for_ever() {
    for (from, to) in [(2.0, 3.0), (2.0, 1.0), (2.0, 4.0)] {
        let mut hill = ElasticHill::default();
        climb(&mut hill, &two(), 4, search);
        hill.set_middle(from, &two());
        hill.step_to(to, 0.0, &two());
        hill.probe(&two());
        climb(&mut hill, &two(), 60, search);
        let best = windows_at(&mut hill, &two(), 1000, 2, search);
        assert!(best > 850, "from {to}: {best}");
    }
}

#[test]
fn steps_down_go_on_to_the_best() {
    for start in 2..=12 {
        let settings = Settings { start, ..two() };
        for halves in [true, false] {
            let settings = Settings { halves, ..settings };
            let mut hill = ElasticHill::default();
            climb(&mut hill, &settings, 80, search);
            let best = windows_at(&mut hill, &settings, 1000, 2, search);
            assert!(best > 850, "{start}: {best}");
        }
    }
}

#[test]
fn a_peak_between_two_pairs_is_rested_on() {
    type Curve = fn(f64) -> f64;
    let peaks: [(u32, Curve); 3] = [
        (3, |n| n.min(3.0) / (1.0 + 0.4 * (n - 3.0).max(0.0))),
        (4, |n| n.min(4.0) / (1.0 + 0.6 * (n - 4.0).max(0.0))),
        (5, |n| n.min(5.0) / (1.0 + 0.8 * (n - 5.0).max(0.0))),
    ];
    let wide: [(u32, Curve); 3] = [
        (7, |n| n.min(7.0) / (1.0 + 0.6 * (n - 7.0).max(0.0))),
        (16, |n| n.min(16.0) / (1.0 + 0.2 * (n - 16.0).max(0.0))),
        (50, |n| n.min(50.0) / (1.0 + 0.1 * (n - 50.0).max(0.0))),
    ];
    for (peak, per_s) in peaks.into_iter().chain(wide) {
        for start in [2, 4, 8] {
            let settings = Settings { start, ..two() };
            let mut hill = ElasticHill::default();
            climb(&mut hill, &settings, 80, per_s);
            let mut done = 0.0;
            for _ in 0..1000 {
                done += per_s(f64::from(climb(&mut hill, &settings, 1, per_s)));
            }
            let part = done / 1000.0 / per_s(f64::from(peak));
            assert!(part > 0.9, "{peak} from {start}: {part}");
        }
    }
    // Just above the least, and just below the most.
    for (lo, hi) in [(3, 256), (1, 5), (4, 4)] {
        let settings = Settings { lo, hi, ..two() };
        let mut hill = ElasticHill::default();
        climb(&mut hill, &settings, 80, peaks[1].1);
        let best = windows_at(&mut hill, &settings, 1000, 4, peaks[1].1);
        assert!(best > 700, "{lo} to {hi}: {best}");
    }
}

#[test]
fn who_cannot_grow_stays() {
    // Two or three where others have taken all the rest, and many.
    for (start, windows) in (2..=20).flat_map(|start| (0..40).map(move |n| (start, n))) {
        let settings = Settings { start, ..two() };
        let mut hill = ElasticHill::default();
        climb(&mut hill, &settings, windows, |n| n);
        let before = hill.claim();
        for _ in 0..200 {
            let narrow = Settings {
                hi: hill.claim(),
                ..settings
            };
            hill.bound(&narrow);
            climb(&mut hill, &narrow, 1, |n| n);
            assert!(hill.claim() + 1 >= before, "{before}: {hill:?}");
        }
        let rests = hill.claim();
        assert!(
            rests >= start.min(before),
            "{before} from {start}: {hill:?}"
        );
    }
}

#[test]
fn who_cannot_tell_one_from_two_rests_at_two() {
    let settings = Settings {
        hi: 2,
        t_max: 1.0,
        n_min: 1e6,
        ..two()
    };
    // Too few to tell.
    let few = |n: f64| 0.05 * (1.0 + 0.2 * n);
    let mut hill = ElasticHill::default();
    let at_two = windows_at(&mut hill, &settings, 400, 2, few);
    assert!(at_two > 250, "{at_two}");
    let rests = (0..400).filter(|_| {
        climb(&mut hill, &settings, 1, few);
        assert!(hill.phase() != Phase::Rest || hill.limit(&settings) == 2);
        hill.phase() == Phase::Rest
    });
    assert!(rests.count() > 200);
}

#[test]
fn a_trial_that_is_cut_short_is_none() {
    let mut hill = ElasticHill::default();
    assert_eq!(climb(&mut hill, &two(), 2, |n| n), 8);
    let narrow = Settings { hi: 5, ..two() };
    assert!(hill.bound(&narrow) <= 5);
    assert_eq!((hill.phase(), hill.middle()), (Phase::Probe, 4.0));
}

#[test]
fn a_machine_that_stands_still_for_a_while_fails_no_trial() {
    let mut hill = ElasticHill::default();
    assert_eq!(climb(&mut hill, &two(), 10, |n| 0.05 * n), 4);
    for look in 0..24 {
        // Twenty a second, after a second and a half.
        let finished = if look < 6 { 0.0 } else { 5.0 };
        let sight = seen(finished, 0.25);
        hill.see(&sight, &two());
        assert_eq!((hill.phase(), hill.limit(&two())), (Phase::Start, 4));
    }
}

#[test]
fn nobody_is_held_at_one_at_a_time_before_that_is_known_to_be_best() {
    let settings = two();
    let alone = |n: f64| 1.0 / (1.0 + 0.6 * (n - 1.0));
    let mut hill = ElasticHill::default();
    let (mut tried, mut known) = (0, false);
    for _ in 0..400 {
        let limit = climb(&mut hill, &settings, 1, alone);
        let mut held = hill;
        let holds = held.hold(&settings);
        tried += u32::from(limit == 1 && hill.phase() == Phase::Probe);
        known |= hill.phase() == Phase::Rest;
        assert_eq!(holds == 1, known, "{hill:?}");
    }
    assert!(tried > 0);
}

/// What is seen where nobody finishes.
fn nobody(settings: &Settings) -> Sight {
    seen(0.0, settings.t_max)
}

#[test]
fn where_nobody_finishes_it_goes_back_to_where_some_did() {
    let settings = Settings::default();
    let mut hill = ElasticHill::default();
    assert_eq!(climb(&mut hill, &settings, 3, |n| n), 32);
    assert_eq!(hill.see(&nobody(&settings), &settings), Some(Step::Moved));
    assert_eq!((hill.phase(), hill.middle()), (Phase::Probe, 16.0));
    // Beyond twelve it stands still, wherever it begins and whichever end of a pair is first.
    for start in 1..=12 {
        let settings = Settings { start, ..two() };
        let mut hill = ElasticHill::default();
        let storm = |n: f64| if n > 12.0 { 0.0 } else { n };
        let (mut still, mut windows) = (0, 0);
        while windows < 5000 {
            // Ten times as long where nobody finishes.
            let limit = hill.limit(&settings);
            assert!(limit <= 24, "{start}: {limit}");
            let length = if limit > 12 { 10 } else { 1 };
            climb(&mut hill, &settings, length, storm);
            windows += length;
            still += if limit > 12 { length } else { 0 };
        }
        assert!(still < 600, "{start}: {still} of 5000");
    }
}

#[test]
fn one_window_in_which_nobody_finishes_at_two_is_no_proof_for_one() {
    let settings = Settings { hi: 2, ..two() };
    let mut hill = ElasticHill::default();
    while !(hill.tries_one() && hill.limit(&settings) == 2) {
        climb(&mut hill, &settings, 1, |n| n);
    }
    hill.see(&nobody(&settings), &settings);
    assert_eq!(hill.limit(&settings), 1);
    climb(&mut hill, &settings, 1, |n| n);
    assert_eq!((hill.phase(), hill.limit(&settings)), (Phase::Rest, 2));
}

#[test]
fn who_is_blocked_at_both_limits_goes_up() {
    let settings = two();
    for start in [2, 8] {
        let settings = Settings { start, ..settings };
        let mut hill = ElasticHill::default();
        climb(&mut hill, &settings, 40, |n| n.min(8.0));
        let before = hill.middle();
        let blocked = |_: &u32| hill.see(&nobody(&settings), &settings) == Some(Step::Blocked);
        assert_eq!((0..6).filter(blocked).count(), 3);
        assert!(hill.middle() > before + 2.0, "{before} {}", hill.middle());
    }
}
