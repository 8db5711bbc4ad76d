//! What an engine does, told with a clock that the test sets.

use super::choice::{Ask, Member};
use super::engine::{Chosen, End, Engine, EngineTerms, Head, Law};
use super::executor::Executor;
use super::flight::{self, Flight};
use super::penalty::Failure;
use super::{ACTIVITIES, MEMBERS};
use crate::micros::Micros;

const OWNER: u64 = 7;
const SIZE: u64 = 1000;

/// An engine with its tables, and the time.
struct World {
    head: Box<Head>,
    executors: Vec<Executor>,
    flights: Vec<Flight>,
    members: Vec<Member>,
    terms: EngineTerms,
    law: Law,
    now: Micros,
    random: u64,
}

impl World {
    fn of(n: usize, law: Law) -> World {
        World {
            head: Box::new(Head::default()),
            executors: vec![Executor::default(); n],
            flights: vec![Flight::default(); 32],
            members: (0..n as u32)
                .map(|executor| Member {
                    executor,
                    factor: 100,
                })
                .collect(),
            terms: EngineTerms {
                explore_ppm: 0,
                ..EngineTerms::ours(Micros::from_secs(1))
            },
            law,
            now: Micros::from_secs(100),
            random: 1,
        }
    }

    fn engine(&mut self) -> Engine<'_> {
        Engine {
            head: &mut self.head,
            executors: &mut self.executors,
            flights: &mut self.flights,
        }
    }

    /// Chooses for work of this activity and size, retried past those in `tried`.
    fn try_choose(&mut self, activity: u32, size: u64, tried: &[u32]) -> Option<(u32, Chosen)> {
        self.random = self
            .random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1);
        let left = |m: &&Member| !tried.contains(&m.executor);
        let members: Vec<Member> = self.members.iter().filter(left).copied().collect();
        let (terms, law, now, random) = (self.terms, self.law, self.now, self.random);
        let chosen = self.engine().choose(&Ask {
            members: &members,
            activity,
            size,
            law,
            terms: &terms,
            may_probe: true,
            owner: OWNER,
            now,
            random,
        })?;
        Some((members[chosen.member].executor, chosen))
    }

    fn choose(&mut self) -> (u32, Chosen) {
        self.try_choose(1, SIZE, &[]).expect("there are members")
    }

    fn end(&mut self, flight: u32, end: End) {
        let (terms, now) = (self.terms, self.now);
        self.engine().end(flight, OWNER, end, &terms, now);
    }

    fn answered(&mut self, flight: u32, ms: u64) {
        self.end(flight, End::Answered(Micros::from_millis(ms), SIZE));
    }

    fn failed(&mut self, flight: u32, failure: Failure, ms: u64) {
        self.end(flight, End::Failed(failure, Micros::from_millis(ms)));
    }

    /// Each member has answered once, in this many milliseconds.
    fn knowing(n: usize, law: Law, ms: impl Fn(u32) -> u64) -> World {
        let mut world = World::of(n, law);
        for _ in 0..n {
            let (executor, chosen) = world.choose();
            world.answered(chosen.flight, ms(executor));
        }
        world
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now + Micros::from_millis(ms);
    }
}

#[test]
fn unseen_executors_come_first_one_piece_at_a_time() {
    for law in [Law::Oxthas, Law::Nap] {
        let mut world = World::of(3, law);
        let first: Vec<(u32, Chosen)> = (0..3).map(|_| world.choose()).collect();
        assert_eq!([first[0].0, first[1].0, first[2].0], [0, 1, 2]);
        // Nothing is known of any member, and each has its one piece.
        let fourth = world.choose();
        world.end(fourth.1.flight, End::GivenUp);
        world.answered(first[1].1.flight, 10);
        assert_eq!(world.choose().0, 1, "the others are not known yet");
        world.answered(first[0].1.flight, 10);
        world.answered(first[2].1.flight, 10);
        assert_eq!(
            world.try_choose(2, SIZE, &[]).map(|c| c.0),
            Some(0),
            "another activity begins anew"
        );
    }
}

#[test]
fn work_goes_where_it_will_be_done_first() {
    let mut world = World::knowing(2, Law::Nap, |executor| [10, 40][executor as usize]);
    let mut went = [0; 2];
    for _ in 0..10 {
        went[world.choose().0 as usize] += 1;
    }
    assert_eq!(went, [8, 2], "as four times as fast");
}

#[test]
fn work_of_other_activities_counts_with_its_time() {
    let mut world = World::of(2, Law::Nap);
    // Activity 2 takes a hundred times as long for its size.
    for (activity, ms) in [(1, 10), (2, 1000)] {
        for _ in 0..2 {
            let (_, chosen) = world.try_choose(activity, SIZE, &[]).expect("members");
            world.answered(chosen.flight, ms);
        }
    }
    let (busy, _) = world.try_choose(2, SIZE, &[]).expect("members");
    let other = 1 - busy;
    for _ in 0..50 {
        let (executor, _) = world.choose();
        assert_eq!(
            executor, other,
            "a second of work is under way at the first"
        );
    }
}

#[test]
fn a_load_factor_multiplies_the_capacity() {
    let mut world = World::knowing(2, Law::Nap, |_| 10);
    world.members[1].factor = 300;
    let mut went = [0; 2];
    for _ in 0..20 {
        went[world.choose().0 as usize] += 1;
    }
    assert_eq!(went, [5, 15]);
}

#[test]
fn oxthas_gives_small_work_to_the_weaker() {
    let mut world = World::knowing(3, Law::Oxthas, |executor| [30, 10, 20][executor as usize]);
    let mut of = |size| world.try_choose(1, size, &[]).map(|c| c.0);
    // S_max is 1000: bands end at 166, 500 and 1000.
    let went = [1, 166, 167, 500, 501, 1000, 1001].map(&mut of);
    assert_eq!(went, [0, 0, 2, 2, 1, 1, 1].map(Some));
    let of_two = world.try_choose(1, 300, &[1]).map(|c| c.0);
    assert_eq!(of_two, Some(0), "of two left the bands are of two: 333");
}

#[test]
fn the_capacities_of_the_paper_s_adjustment() {
    let mut world = World::of(1, Law::Oxthas);
    world.terms.pause = Micros::ZERO;
    for seconds in [10, 20] {
        let (_, chosen) = world.try_choose(1, 60, &[]).expect("a member");
        world.end(chosen.flight, End::Answered(Micros::from_secs(seconds), 0));
    }
    let adjusted = |world: &World| {
        let executor = &world.executors[0];
        let c = executor.cell(1).history.capacity().expect("known");
        c / (1.0 + f64::from(executor.failures(1)))
    };
    let fail = |world: &mut World| {
        let (_, chosen) = world.try_choose(1, 50, &[]).expect("a member");
        world.failed(chosen.flight, Failure::Timeout, 1_000_000);
        chosen.flight
    };
    fail(&mut world);
    assert!((adjusted(&world) - 1.5083333).abs() < 1e-6);
    fail(&mut world);
    assert!((adjusted(&world) - 0.7583333).abs() < 1e-6);
    world.engine().restore(0);
    assert!((adjusted(&world) - 2.275).abs() < 1e-6);
}

#[test]
fn who_has_failed_gets_one_probe_at_a_time_and_then_all_again() {
    for law in [Law::Oxthas, Law::Nap] {
        let mut world = World::knowing(2, law, |executor| [1, 100][executor as usize]);
        let (executor, chosen) = world.choose();
        assert_eq!(executor, 0);
        assert_eq!(chosen.timeout, Micros::from_secs(1));
        world.failed(chosen.flight, Failure::Timeout, 1000);
        for _ in 0..5 {
            let (executor, chosen) = world.choose();
            assert_eq!((executor, chosen.probe), (1, false));
            world.answered(chosen.flight, 100);
        }
        world.wait(300);
        let (executor, probe) = world.choose();
        assert_eq!((executor, probe.probe), (0, true));
        assert_eq!(probe.timeout, Micros::from_millis(900), "T is shorter");
        assert_eq!(world.choose().0, 1, "one probe at a time");
        world.failed(probe.flight, Failure::Timeout, 900);
        world.wait(300);
        assert_eq!(world.choose().0, 1, "the pause has doubled");
        world.wait(300);
        let (executor, probe) = world.choose();
        assert_eq!((executor, probe.probe), (0, true));
        world.answered(probe.flight, 1);
        let (executor, chosen) = world.choose();
        assert_eq!((executor, chosen.probe), (0, false));
        assert_eq!(chosen.timeout, Micros::from_secs(1), "and as it was");
    }
}

#[test]
fn work_that_cannot_be_done_again_is_a_probe_only_after_long() {
    let mut world = World::knowing(2, Law::Nap, |_| 10);
    let (failed, chosen) = world.choose();
    world.failed(chosen.flight, Failure::Connect, 0);
    let (terms, members) = (world.terms, world.members.clone());
    let chosen_after = |world: &mut World, ms| {
        world.wait(ms);
        let now = world.now;
        let chosen = world.engine().choose(&Ask {
            members: &members,
            activity: 1,
            size: SIZE,
            law: Law::Nap,
            terms: &terms,
            may_probe: false,
            owner: OWNER,
            now,
            random: 0,
        });
        let chosen = chosen.expect("there is somebody");
        (members[chosen.member].executor, chosen)
    };
    let (executor, chosen) = chosen_after(&mut world, 4_000);
    assert_ne!(executor, failed, "the other is well");
    world.answered(chosen.flight, 10);
    let (executor, chosen) = chosen_after(&mut world, 5_000);
    assert_eq!((executor, chosen.probe), (failed, true));
    world.answered(chosen.flight, 10);
    let (executor, chosen) = world.choose();
    assert!(!chosen.probe, "{executor} is well");
}

#[test]
fn failing_fast_is_no_speed() {
    for law in [Law::Oxthas, Law::Nap] {
        let mut world = World::knowing(4, law, |_| 100);
        let mut failures = 0;
        for _ in 0..1000 {
            let (executor, chosen) = world.choose();
            if executor == 2 {
                failures += 1;
                world.failed(chosen.flight, Failure::Status, 1);
            } else {
                world.answered(chosen.flight, 100);
            }
            world.wait(10);
        }
        assert!(failures < 20, "{failures} of 1000 under {law:?}");
    }
}

#[test]
fn one_activity_may_fail_where_others_are_well() {
    let mut world = World::knowing(2, Law::Nap, |executor| [10, 40][executor as usize]);
    for executor in 0..2 {
        let (own, chosen) = world.try_choose(2, SIZE, &[]).expect("members");
        assert_eq!(own, executor);
        world.answered(chosen.flight, 10);
    }
    for _ in 0..4 {
        let (own, chosen) = world.try_choose(2, SIZE, &[1]).expect("a member");
        assert_eq!(own, 0);
        world.failed(chosen.flight, Failure::Timeout, 1000);
        let (own, chosen) = world.choose();
        assert_eq!(own, 0, "activity 1 is answered there");
        world.answered(chosen.flight, 10);
    }
    assert_eq!(world.try_choose(2, SIZE, &[]).map(|c| c.0), Some(1));
}

#[test]
fn where_all_have_failed_work_still_goes_somewhere() {
    for law in [Law::Oxthas, Law::Nap, Law::Random] {
        let mut world = World::knowing(3, law, |_| 10);
        let mut failed = Vec::new();
        for _ in 0..3 {
            let (executor, chosen) = world.try_choose(1, SIZE, &failed).expect("members");
            world.failed(chosen.flight, Failure::Connect, 0);
            failed.push(executor);
        }
        assert_eq!(failed.len(), 3);
        assert!(world.try_choose(1, SIZE, &[]).is_some());
    }
    assert!(World::of(0, Law::Nap).try_choose(1, SIZE, &[]).is_none());
}

#[test]
fn an_executor_that_has_recovered_is_noticed() {
    let mut world = World::knowing(2, Law::Nap, |executor| [10, 400][executor as usize]);
    // The second, slow as long as it was used, is now the faster one.
    let mut went = 0;
    for _ in 0..3000 {
        let (executor, chosen) = world.choose();
        went += u32::from(executor == 1);
        world.answered(chosen.flight, [10, 2][executor as usize]);
        world.wait(10);
    }
    assert!(went > 1000, "{went} of 3000");
}

#[test]
fn what_a_dead_child_had_under_way_is_given_back() {
    let mut world = World::knowing(1, Law::Nap, |_| 10);
    for _ in 0..5 {
        world.choose();
    }
    assert_eq!(
        (world.executors[0].open, world.executors[0].cell(1).open),
        (5, 5)
    );
    world.engine().sweep(|owner| owner == OWNER + 1);
    assert_eq!(world.executors[0].open, 5, "another child");
    world.engine().sweep(|owner| owner == OWNER);
    let (executor, cell) = (&world.executors[0], world.executors[0].cell(1));
    assert_eq!((executor.open, executor.expected_us), (0, 0));
    assert_eq!((cell.open, cell.work, cell.expected_us), (0, 0, 0));
    assert!(world.flights.iter().all(|flight| flight.owner == 0));
}

#[test]
fn a_flight_ends_once_and_only_by_its_owner() {
    let mut world = World::knowing(1, Law::Nap, |_| 10);
    let (_, chosen) = world.choose();
    let (terms, now) = (world.terms, world.now);
    world
        .engine()
        .end(chosen.flight, OWNER + 1, End::GivenUp, &terms, now);
    assert_eq!(world.executors[0].open, 1);
    world.answered(chosen.flight, 10);
    world.answered(chosen.flight, 10);
    assert_eq!(world.executors[0].open, 0);
    assert_eq!(world.executors[0].cell(1).answers, 2);
    // The table is full: nothing is accounted for, and work is still done.
    let all: Vec<u32> = (0..40).map(|_| world.choose().1.flight).collect();
    assert_eq!(all.iter().filter(|f| **f == flight::NONE).count(), 40 - 32);
}

#[test]
fn executors_are_known_by_their_keys() {
    let mut world = World::of(4, Law::Nap);
    let at = |world: &mut World, key: u64| {
        world.now = world.now + Micros::from_secs(1);
        let now = world.now;
        world
            .engine()
            .executor(key, ["balancer://a", "http://b"], now)
    };
    let first: Vec<_> = (10..14).map(|key| at(&mut world, key)).collect();
    let again: Vec<_> = (10..14).map(|key| at(&mut world, key)).collect();
    assert_eq!(first, again);
    assert!(first.iter().all(Option::is_some));
    assert_eq!(
        at(&mut world, 99),
        first[0],
        "the one looked at longest ago goes"
    );
    assert_eq!(
        world.executors[first[1].expect("known") as usize]
            .name
            .text(),
        "http://b"
    );
    for executor in &mut world.executors {
        executor.open = 1;
    }
    assert_eq!(at(&mut world, 100), None);
}

#[test]
fn activities_have_numbers_until_there_are_too_many_and_those_of_the_forgotten() {
    let mut world = World::of(1, Law::Nap);
    let number = |world: &mut World, hash| {
        let now = world.now;
        world.engine().activity(hash, "name", now)
    };
    assert_eq!([5, 6, 5].map(|hash| number(&mut world, hash)), [1, 2, 1]);
    (7..200).for_each(|hash| {
        number(&mut world, hash);
    });
    assert_eq!([5, 199].map(|hash| number(&mut world, hash)), [1, 0]);
    // The first comes again, the second has work under way.
    world.wait(61_000);
    world.executors[0].cell_mut(2).open = 1;
    world.executors[0].cell_mut(3).answers = 9;
    let numbers = [5, 199, 198, 199].map(|hash| number(&mut world, hash));
    assert_eq!(numbers, [1, 3, 4, 3]);
    let answers = world.executors[0].cell_mut(3).answers;
    assert_eq!(answers, 0, "nothing is known of it");
}

/// Whatever the tables contain, nothing panics, and work still finds a member.
#[test]
fn any_bits_in_the_tables_are_survived() {
    let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        bits
    };
    for round in 0..300 {
        let law = [Law::Oxthas, Law::Nap][round % 2];
        let mut world = World::knowing(3, law, |_| 10);
        for executor in &mut world.executors {
            executor.key = next() | 1;
            executor.open = next() as u32;
            executor.expected_us = next();
            executor.penalty.probe = next() as u32;
            let cell = executor.cell_mut(1);
            (cell.work, cell.expected_us, cell.open) = (next(), next(), next() as u32);
            cell.penalty.failures = next() as u32;
            cell.penalty.probe = next() as u32;
            cell.observed_at = Micros(next());
        }
        for flight in &mut world.flights {
            *flight = Flight {
                owner: next() % 3,
                at: Micros(next()),
                size: next(),
                expected_us: next(),
                executor: (next() % 5) as u32,
                activity: next() as u32,
                probe: (next() % 3) as u32,
                number: next() as u32,
                next: next() as u32,
                ..Flight::default()
            };
        }
        for _ in 0..20 {
            world.now = Micros(next() >> (next() % 64));
            let activity = (next() % (2 * ACTIVITIES as u64)) as u32;
            let chosen = world.try_choose(activity, next() >> (next() % 64), &[]);
            let (_, chosen) = chosen.expect("three members");
            match next() % 4 {
                0 => world.answered(chosen.flight, next() >> 20),
                1 => world.failed(chosen.flight, Failure::Timeout, next() >> 20),
                2 => world.failed(next() as u32, Failure::Status, next() >> 20),
                _ => world.engine().sweep(|owner| owner == 1),
            }
        }
        world.engine().mend(|owner| owner != OWNER);
        for executor in &world.executors {
            let flights = world.flights.iter().filter(|f| f.owner == OWNER).count();
            assert!(executor.open as usize <= flights);
        }
        assert!(world.try_choose(1, SIZE, &[]).is_some());
    }
}

#[test]
fn more_members_than_are_looked_at_do_no_harm() {
    let mut world = World::of(2, Law::Oxthas);
    world.members = vec![world.members[0]; 3 * MEMBERS];
    let (_, chosen) = world.choose();
    world.answered(chosen.flight, 10);
    assert!(world.try_choose(1, SIZE, &[]).is_some());
    world.members = vec![
        Member {
            executor: u32::MAX,
            factor: 0,
        };
        3
    ];
    assert!(world.try_choose(1, SIZE, &[]).is_none(), "nobody is known");
}
