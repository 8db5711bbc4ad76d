use super::*;
use crate::sqs::capacity::Users;
use std::collections::VecDeque;

const STEPS: StepLaw = Laws::CHOSEN.step;

fn starts(interval: Micros) -> Starts {
    let mut starts = Starts::default();
    starts.set(StartTerms {
        on: 1,
        how: how::FIXED,
        interval,
        ..StartTerms::default()
    });
    starts
}

fn at(ms: u64) -> Micros {
    Micros::from_secs(1000) + Micros::from_millis(ms)
}

/// The defaults of NapSessionStart, on two processors.
fn auto() -> Starts {
    let mut starts = Starts::default();
    starts.set(StartTerms {
        on: 1,
        cores: 2,
        threshold: 5_000_000,
        min: Micros::from_millis(1),
        max: Micros::from_secs(60),
        ..StartTerms::default()
    });
    starts
}

/// A second passes with a page at which `queue` wait.
fn tick(starts: &mut Starts, now: Micros, (queue, passes): (u32, Option<f64>), wish: Wish) {
    let page = PageNow {
        queue,
        passes,
        share: 1.0,
        busy: 1.0,
    };
    let queues = Queues::of(std::iter::once(queue));
    starts.tick(now, queues, [page], wish, &STEPS);
}

const QUIET: (u32, Option<f64>) = (0, None);

#[test]
fn a_turn_comes_each_interval_and_is_not_saved_up() {
    let mut starts = starts(Micros::from_millis(500));
    let taken: Vec<bool> = [0, 0, 440, 450, 940, 951, 9000, 9000, 9400, 9460]
        .into_iter()
        .map(|ms| starts.take(at(ms)))
        .collect();
    let expected = [
        true, false, false, true, false, true, true, false, false, true,
    ];
    assert_eq!(taken, expected);
}

#[test]
fn a_turn_given_back_is_due_again() {
    let mut starts = starts(Micros::from_millis(500));
    assert!(starts.take(at(0)) && !starts.take(at(1)));
    starts.give_back();
    assert!(starts.take(at(2)));
}

#[test]
fn a_start_that_was_undone_is_not_on_its_way() {
    let mut starts = auto();
    for ms in [0, 100, 3000] {
        starts.note_start(at(ms));
    }
    let begun = |starts: &Starts| [0, 3000].map(|ms| starts.begun.at(at(ms)));
    starts.begun.uncount(at(3000));
    assert_eq!(begun(&starts), [Some(2), Some(0)]);
    for left in [1, 0, 0] {
        starts.begun.uncount(at(100));
        assert_eq!(begun(&starts), [Some(left), Some(0)]);
    }
    starts.begun.uncount(at(60_000));
    assert_eq!(begun(&starts), [Some(0), Some(0)]);
}

#[test]
fn the_first_rate_is_all_of_the_processors_until_more_is_known() {
    let mut starts = auto();
    assert_eq!(starts.interval.seconds(), 0.5);
    let mut over = Session::default();
    over.work = Micros::from_millis(50);
    (0..8).for_each(|_| starts.note_end(&over, End::Finished));
    tick(&mut starts, at(0), QUIET, Wish::Nobody);
    assert_eq!(starts.interval.rate(), 40.0);
    // Steps are a part of what was fed forward; the paper's tenth would take minutes.
    tick(&mut starts, at(1000), QUIET, Wish::Queue);
    assert_eq!(starts.interval.rate().round(), 44.0);
    tick(&mut starts, at(2000), (9, None), Wish::Queue);
    assert!(starts.interval.rate() < 38.0);
    assert_eq!(starts.intervals.at(at(2000)), Some(267));
    assert_eq!(starts.queues.at(at(2000)), Some(900));
}

#[test]
fn turns_of_two_seconds_are_saved_up_where_the_interval_finds_itself() {
    let mut starts = auto();
    let mut taken = |ms: u64| (0..9).filter(|_| starts.take(at(ms))).count();
    assert_eq!(taken(0), 5, "two a second, and the one that is due");
    assert_eq!(taken(400), 0);
    assert_eq!(taken(500), 1);
    assert_eq!(taken(60_000), 5, "not those of a minute");
}

#[test]
fn holders_raise_the_rate_up_to_what_processors_bear_and_waiters_beyond() {
    let mut starts = auto();
    let mut second = 0;
    let mut rate_after = |starts: &mut Starts, wish| {
        for _ in 0..100 {
            second += 1;
            tick(starts, at(1000 * second), QUIET, wish);
        }
        starts.interval.rate()
    };
    assert_eq!(rate_after(&mut starts, Wish::Nobody), 2.0);
    let mut over = Session::default();
    over.work = Micros::from_millis(500);
    (0..8).for_each(|_| starts.note_end(&over, End::Finished));
    let held = rate_after(&mut starts, Wish::Holders);
    assert!((4.0..4.2).contains(&held), "{held}");
    assert!(rate_after(&mut starts, Wish::Queue) > 8.0);
}

#[test]
fn before_anything_is_known_holders_raise_it_to_twice_what_is_started() {
    let mut starts = auto();
    let rate_after = |starts: &mut Starts, seconds: std::ops::Range<u64>, started: u64| {
        for second in seconds {
            (0..started).for_each(|_| starts.note_start(at(1000 * second)));
            tick(starts, at(1000 * second), QUIET, Wish::Holders);
        }
        starts.interval.rate()
    };
    let rate = rate_after(&mut starts, 0..100, 0);
    assert!(
        (4.0..4.2).contains(&rate),
        "twice what it began with: {rate}"
    );
    let rate = rate_after(&mut starts, 100..200, 4);
    assert!((8.0..8.2).contains(&rate), "{rate}");
}

#[test]
fn a_step_is_as_large_as_the_machine_while_nothing_is_known() {
    let mut starts = auto();
    starts.set(StartTerms {
        cores: 32,
        ..starts.terms
    });
    let before = starts.interval.rate();
    tick(&mut starts, at(0), QUIET, Wish::Queue);
    assert!((starts.interval.rate() - before - 1.6).abs() < 1e-9);
}

#[test]
fn what_is_found_stays_within_the_bounds_and_a_fixed_interval_is_nothing_found() {
    let terms = |how, min_ms| StartTerms {
        on: 1,
        how,
        cores: 16,
        interval: Micros::from_millis(1),
        threshold: 5_000_000,
        min: Micros::from_millis(min_ms),
        max: Micros::from_secs(60),
        ..StartTerms::default()
    };
    let mut starts = Starts::default();
    starts.set(terms(how::AUTO, 2_000));
    assert_eq!(starts.interval.seconds(), 2.0, "never open");
    let mut over = Session::default();
    over.work = Micros::from_millis(50);
    (0..8).for_each(|_| starts.note_end(&over, End::Finished));
    for second in 0..5 {
        tick(&mut starts, at(1000 * second), QUIET, Wish::Queue);
        assert_eq!(starts.interval.seconds(), 2.0);
    }
    starts.set(terms(how::FIXED, 1));
    assert_eq!(starts.interval.seconds(), 0.001);
    starts.set(terms(how::AUTO, 1));
    let rate = starts.interval.rate();
    assert!(
        (300.0..340.0).contains(&rate),
        "16 processors for 50 ms: {rate}"
    );
}

/// It is known what twelve pages pass; a page that hardly any session asks for is not
/// considered.
#[test]
fn a_queue_at_a_page_that_is_no_bottleneck_slows_the_starts_as_well() {
    let mut starts = auto();
    let mut over = Session::default();
    over.visits[0] = 1;
    over.work = Micros::from_millis(100);
    (0..8).for_each(|_| starts.note_end(&over, End::Finished));
    let page = PageNow {
        queue: 4,
        passes: Some(4.0),
        share: 1.0,
        busy: 1.0,
    };
    let mut second = 0;
    let mut rate_with = |elsewhere: u32| {
        for _ in 0..40 {
            second += 1;
            let queues = Queues::of([page.queue, elsewhere].into_iter());
            starts.tick(at(1000 * second), queues, [page], Wish::Queue, &STEPS);
        }
        starts.interval.rate()
    };
    let known = rate_with(0);
    assert!((3.0..5.1).contains(&known), "{known}");
    let slowed = rate_with(40);
    assert!(slowed < 0.3 * known, "{slowed}");
    assert_eq!(rate_with(8), slowed, "neither too many nor few");
    assert_eq!(rate_with(0), known);
}

/// Rooms whose sessions come, ten seconds after their start, to one page that passes three a
/// second. Somebody always wants to start one in each, from a given second on.
struct Crowd {
    rooms: Vec<(Starts, u64)>,
    under_way: VecDeque<(Micros, usize)>,
    page: VecDeque<usize>,
    /// How many the page passes a second; twelve have as many parts.
    passes: u64,
    /// How many have passed since the last second.
    passed: u64,
}

impl Crowd {
    fn of(from: &[u64]) -> Crowd {
        Crowd {
            rooms: from.iter().map(|second| (auto(), *second)).collect(),
            under_way: VecDeque::new(),
            page: VecDeque::new(),
            passes: 3,
            passed: 0,
        }
    }

    /// How many sessions each room has had served in these seconds, and how many waited at the
    /// page.
    fn served(&mut self, seconds: std::ops::Range<u64>) -> (Vec<u32>, Vec<usize>) {
        let age = Micros::from_secs(10);
        let (mut served, mut waited) = (vec![0; self.rooms.len()], Vec::new());
        for step in seconds.start * 12..seconds.end * 12 {
            let now = at(0) + Micros(step * 1_000_000 / 12);
            for (room, (starts, from)) in self.rooms.iter_mut().enumerate() {
                if step >= *from * 12 && starts.take(now) {
                    starts.note_start(now);
                    self.under_way.push_back((now + age, room));
                }
            }
            let come = self.under_way.partition_point(|(due, _)| *due <= now);
            for (_, room) in self.under_way.drain(..come) {
                let capacity = &mut self.rooms[room].0.capacity;
                let page = capacity.number(0).expect("it has one page");
                capacity.came(page, age);
                self.page.push_back(room);
            }
            if step % (12 / self.passes) == 0
                && let Some(room) = self.page.pop_front()
            {
                let mut over = Session::default();
                over.visits[0] = 1;
                self.rooms[room].0.note_end(&over, End::Finished);
                served[room] += 1;
                self.passed += 1;
            }
            if step % 12 == 0 {
                waited.push(self.page.len());
                self.second(step / 12, now);
            }
        }
        (served, waited)
    }

    fn second(&mut self, second: u64, now: Micros) {
        let wants = |from: u64| second >= from;
        let flow = |starts: &Starts| {
            let known = starts.capacity.gates().flatten().next();
            known.map_or(0.0, |(_, flow)| flow)
        };
        let mut users = Users::NONE;
        for (starts, from) in &mut self.rooms {
            starts.capacity.second();
            users.add(flow(starts), wants(*from));
        }
        let waiting = self.page.len() as u32;
        let busy = std::mem::take(&mut self.passed) as f64 / self.passes as f64;
        for (starts, from) in &mut self.rooms {
            let page = PageNow {
                queue: waiting,
                passes: (waiting > 0).then_some(self.passes as f64),
                share: users.share(flow(starts), wants(*from)),
                busy,
            };
            let wish = if wants(*from) {
                Wish::Queue
            } else {
                Wish::Nobody
            };
            let queues = Queues::of(std::iter::once(waiting));
            starts.tick(now, queues, [page], wish, &STEPS);
        }
    }
}

#[test]
fn a_room_that_was_idle_beside_a_crowd_knows_what_the_page_passes() {
    let mut crowd = Crowd::of(&[0, 0]);
    crowd.served(0..300);
    // For ten minutes nobody wants to start in the second room; then its own crowd comes, and
    // finds another one there, which leaves soon.
    crowd.rooms[1].1 = 900;
    crowd.served(300..900);
    crowd.rooms[0].1 = 10_000;
    crowd.served(900..940);
    let (served, _) = crowd.served(940..1000);
    assert!(served[1] >= 160, "of 180: {served:?}");
}

#[test]
fn rooms_that_share_their_bottleneck_start_together_what_it_passes() {
    for from in [&[0][..], &[0, 0], &[0, 0, 0], &[0, 200, 100]] {
        let mut crowd = Crowd::of(from);
        crowd.served(0..1000);
        let (served, waited) = crowd.served(1000..1600);
        let all: u32 = served.iter().sum();
        assert!(all >= 1780, "the page idles: {from:?} {served:?}");
        let most = waited.iter().max().copied().unwrap_or(0);
        assert!(most <= 12, "too many wait: {from:?} {waited:?}");
        let fair = all / from.len() as u32;
        let is_fair = |own: &u32| own.abs_diff(fair) * 5 <= fair;
        assert!(served.iter().all(is_fair), "{from:?} {served:?}");
    }
}

#[test]
fn a_page_that_becomes_four_times_as_fast_is_known_to_be_in_half_a_minute() {
    let mut crowd = Crowd::of(&[0]);
    crowd.served(0..300);
    crowd.passes = 12;
    let (served, _) = crowd.served(300..330);
    assert!(served[0] < 330, "sessions take ten seconds: {served:?}");
    let (served, waited) = crowd.served(330..360);
    assert!(served[0] >= 324, "0.9 of 360: {served:?}");
    assert!(waited.iter().all(|waiting| *waiting < 30), "{waited:?}");
}

/// A page passes two a second, and each session asks for it once, ten seconds after its start.
#[test]
fn once_a_page_has_shown_what_it_passes_as_many_are_started() {
    let mut starts = auto();
    let mut over = Session::default();
    over.visits[0] = 1;
    (0..8).for_each(|_| starts.note_end(&over, End::Finished));
    starts.capacity.came(0, Micros::from_secs(10));
    starts.capacity.second();
    // Eight seconds of starts at twice what it passes, then 30 wait: 32 are under way, and 20
    // of all these will have passed in the ten seconds until the last has come.
    for start in 0..32 {
        starts.note_start(at(250 * start));
    }
    tick(&mut starts, at(8000), (30, Some(2.0)), Wish::Queue);
    assert_eq!(starts.interval.rate(), 1.0, "half of it at least");
    // Nobody is under way any more, and the last of them waits: a quarter more.
    tick(&mut starts, at(30_000), (1, Some(2.0)), Wish::Queue);
    assert_eq!(starts.interval.rate(), 2.5);
    // No queue, but the turns were not used: that says nothing about the page.
    tick(&mut starts, at(31_000), QUIET, Wish::Queue);
    let passes = |starts: &mut Starts| {
        let quiet = PageNow {
            share: 1.0,
            ..PageNow::NONE
        };
        let least = starts.capacity.look(std::iter::once(quiet), |_| 0.0);
        least.map_or(0.0, |least| least.rate)
    };
    assert_eq!(passes(&mut starts), 2.0);
    for start in 0..22 {
        starts.note_start(at(32_000 + 450 * start));
    }
    // 22 have been started in ten seconds, 20 pass, and 3.5 may wait.
    tick(&mut starts, at(42_000), QUIET, Wish::Queue);
    let rate = starts.interval.rate();
    assert!((rate - 2.075).abs() < 1e-9, "{rate}");
    assert_eq!(
        passes(&mut starts),
        2.04,
        "all turns were used, and nobody waits"
    );
    tick(&mut starts, at(43_000), QUIET, Wish::Nobody);
    assert_eq!(starts.interval.rate(), rate, "nobody wants more");
}
