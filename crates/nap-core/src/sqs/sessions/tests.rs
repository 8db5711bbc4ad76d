use super::*;
use proptest::prelude::*;

const ROOM: u32 = 3;
const LIMITS: Limits = Limits {
    idle: Micros::from_secs(60),
    parallel: 2,
};

const WHOSE: (u32, Micros) = (ROOM, LIMITS.idle);

fn at(second: u64) -> Micros {
    Micros::from_secs(1000 + second)
}

fn sets(n: usize) -> Vec<SessionSet> {
    vec![SessionSet::default(); n]
}

fn enter(table: &mut Sessions<'_>, key: u64, owner: u64, second: u64) -> Way {
    table.enter(key, ROOM, owner, LIMITS, at(second), |_| true)
}

fn started(table: &mut Sessions<'_>, key: u64, owner: u64, second: u64) -> u32 {
    let begun = table
        .start(key | 1 << 63, WHOSE, owner, at(second), |_| ())
        .expect("room");
    let bound = table.bind(begun, owner, key, at(second), |_| ());
    let bound = bound.expect("room");
    table.leave(bound, owner, Micros(5), at(second));
    bound
}

/// A visitor may read for longer than one waits for a client that keeps no cookies.
const PATIENT: Limits = Limits {
    idle: Micros::from_secs(1800),
    ..LIMITS
};

/// A patient visitor's session, begun by the access `key`, whose answer gives it that name.
fn begin(table: &mut Sessions<'_>, key: u64, second: u64) -> Option<u32> {
    let whose = (ROOM, PATIENT.idle);
    let begun = table.start(key | 1 << 63, whose, key, at(second), |_| ())?;
    table.bind(begun, key, key, at(second), |_| ())
}

#[test]
fn only_a_session_that_was_started_is_known_and_only_in_its_room() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    assert_eq!(enter(&mut table, 77, 1, 0), Way::Unknown);
    let known = started(&mut table, 77, 1, 0);
    assert_eq!(enter(&mut table, 77, 2, 1), Way::In(known));
    assert_eq!(enter(&mut table, 78, 3, 1), Way::Unknown);
    assert_eq!(
        table.enter(77, ROOM + 1, 4, LIMITS, at(1), |_| true),
        Way::Unknown
    );
    assert!(table.knows(77, ROOM, at(1)) && !table.knows(77, ROOM + 1, at(1)));
}

#[test]
fn a_page_that_is_asked_for_a_thousand_times_has_a_thousand_visits() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 77, 1, 0);
    for access in 2..1002 {
        assert_eq!(enter(&mut table, 77, access, 1), Way::In(session));
        table.visit(session, if access % 100 == 0 { 1 } else { 0 }, at(1));
        table.leave(session, access, Micros(1), at(1));
    }
    // The access that started it has asked for no page.
    let visits = table.session(session).expect("there").visits();
    assert_eq!(visits[..3], [991.0, 10.0, 0.0]);
}

#[test]
fn one_cookie_shared_by_many_has_one_sessions_share() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 77, 1, 0);
    let inside = (2..100)
        .filter(|owner| enter(&mut table, 77, *owner, 1) == Way::In(session))
        .count();
    assert_eq!(inside, 2);
    assert_eq!(enter(&mut table, 77, 100, 1), Way::Busy);
    table.leave(session, 2, Micros(7), at(2));
    assert_eq!(enter(&mut table, 77, 101, 2), Way::In(session));
    assert_eq!(table.session(session).expect("there").work, Micros(12));
    table.leave(session, 2, Micros(7), at(2));
    assert_eq!(enter(&mut table, 77, 102, 2), Way::Busy, "once only");
}

#[test]
fn what_a_dead_child_had_in_hand_is_free_for_the_session() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    started(&mut table, 77, 1, 0);
    for owner in [2, 3] {
        assert!(matches!(enter(&mut table, 77, owner, 1), Way::In(_)));
    }
    assert_eq!(enter(&mut table, 77, 4, 1), Way::Busy);
    let lives = |owner| owner != 2;
    let way = table.enter(77, ROOM, 4, LIMITS, at(1), lives);
    assert!(matches!(way, Way::In(_)));
}

#[test]
fn a_session_is_over_when_idle_and_not_before() {
    let mut sets = sets(1);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 77, 1, 0);
    assert_eq!(enter(&mut table, 77, 2, 60), Way::In(session));
    // While an access of it is in hand it is not idle.
    let mut over = 0;
    table.reap(0..1, at(3000), |_| true, |_| over += 1);
    assert_eq!(over, 0);
    table.leave(session, 2, Micros(1), at(3000));
    table.reap(0..1, at(3060), |_| true, |_| over += 1);
    assert_eq!(over, 0);
    assert!(matches!(enter(&mut table, 77, 3, 3061), Way::Over(s) if s.accesses == 2));
    assert_eq!(enter(&mut table, 77, 3, 3061), Way::Unknown);
}

#[test]
fn a_set_full_of_members_has_no_place_and_loses_none() {
    let mut sets = sets(1);
    let mut table = Sessions { sets: &mut sets };
    for key in 1..=WAYS as u64 {
        started(&mut table, key, key, 0);
    }
    assert_eq!(table.start(99, WHOSE, 99, at(60), |_| ()), None);
    for key in 1..=WAYS as u64 {
        assert!(table.knows(key, ROOM, at(60)), "{key}");
    }
    let mut over = 0;
    let begun = table.start(99, WHOSE, 99, at(61), |_| over += 1);
    assert!(begun.is_some() && over == 1, "who made room is told of");
}

/// Robots that keep no cookie, and visitors that do.
#[test]
fn a_set_full_of_sessions_that_no_cookie_came_back_of_makes_room_for_others() {
    let mut sets = sets(1);
    let mut table = Sessions { sets: &mut sets };
    let begin = |table: &mut Sessions<'_>, key: u64, second| {
        let begun = begin(table, key, second)?;
        table.leave(begun, key, Micros(5), at(second));
        Some(begun)
    };
    // The odd ones come back once.
    for key in 1..=WAYS as u64 {
        let session = begin(&mut table, key, key).expect("room");
        if key % 2 == 1 {
            let way = table.enter(key, ROOM, 100 + key, PATIENT, at(20), |_| true);
            assert_eq!(way, Way::In(session));
            table.leave(session, 100 + key, Micros(5), at(20));
        }
    }
    assert_eq!(begin(&mut table, 50, 122), None, "they may be reading");
    // Of the even ones the first was seen longest ago; then all give way, one after the other.
    assert!(begin(&mut table, 51, 123).is_some());
    assert!(!table.knows(2, ROOM, at(123)) && table.knows(4, ROOM, at(123)));
    let more = (52..80).filter(|key| begin(&mut table, *key, 200).is_some());
    assert_eq!(more.count(), WAYS / 2 - 1);
    let kept = (1..=WAYS as u64).filter(|key| table.knows(*key, ROOM, at(200)));
    assert_eq!(kept.collect::<Vec<_>>(), [1, 3, 5, 7, 9, 11, 13, 15]);
}

#[test]
fn who_came_back_or_has_something_in_hand_makes_no_room() {
    let mut sets = sets(1);
    let mut table = Sessions { sets: &mut sets };
    let limits = Limits {
        parallel: 1,
        ..PATIENT
    };
    let sessions: Vec<u32> = (1..=WAYS as u64)
        .map(|key| begin(&mut table, key, 0).expect("room"))
        .collect();
    // The first comes back while its first answer is on its way; the second's goes on.
    let way = table.enter(1, ROOM, 101, limits, at(1), |_| true);
    assert_eq!(way, Way::Busy);
    for (key, session) in (1..).zip(sessions).filter(|(key, _)| *key != 2) {
        table.leave(session, key, Micros(5), at(1));
    }
    let more = (50..80).filter(|key| begin(&mut table, *key, 200).is_some());
    assert_eq!(more.count(), WAYS - 2);
    assert!(table.knows(1, ROOM, at(200)) && table.knows(2, ROOM, at(200)));
}

#[test]
fn for_another_name_no_session_makes_room() {
    let mut sets = sets(1);
    let mut table = Sessions { sets: &mut sets };
    for key in 1..=WAYS as u64 {
        let begun = begin(&mut table, key, 0).expect("room");
        table.leave(begun, key, Micros(5), at(0));
    }
    let Way::In(session) = table.enter(1, ROOM, 101, PATIENT, at(300), |_| true) else {
        panic!("it is a member");
    };
    let nobody = |_: &Session| panic!("a session has made room for a name");
    assert!(!table.rename(session, 101, 99, at(300), nobody));
    assert!((1..=WAYS as u64).all(|key| table.knows(key, ROOM, at(300))));
}

/// Keys whose two sets are these two, in this order.
fn keys_of(table: &Sessions<'_>, sets: [usize; 2]) -> Vec<u64> {
    let keys = (1..).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let found = keys.filter(|key| table.two_sets(*key) == sets);
    found.take(WAYS).collect()
}

#[test]
fn an_idle_session_makes_room_in_either_set() {
    for full_first in [0, 1] {
        let mut sets = sets(2);
        let mut table = Sessions { sets: &mut sets };
        let (first, second) = (full_first, 1 - full_first);
        for (set, second_s) in [(first, 60), (second, 0)] {
            for key in keys_of(&table, [set, set]) {
                let session = started(&mut table, key, key, second_s);
                table.leave(session, key, Micros(1), at(second_s));
            }
        }
        let key = keys_of(&table, [0, 1])[0];
        let mut over = 0;
        let begun = table.start(key, WHOSE, 99, at(61), |_| over += 1);
        assert!(begun.is_some() && over == 1, "{full_first}");
    }
}

#[test]
fn a_renamed_session_is_one_session_under_both_names() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 77, 1, 0);
    assert_eq!(enter(&mut table, 77, 2, 1), Way::In(session));
    table.rename(session, 2, 88, at(1), |_| ());
    assert_eq!(enter(&mut table, 88, 3, 1), Way::In(session));
    assert_eq!(enter(&mut table, 77, 4, 1), Way::Busy, "one share for both");
    table.leave(session, 2, Micros(1), at(2));
    assert_eq!(enter(&mut table, 77, 4, 2), Way::In(session));
    assert_eq!(table.all().count(), 1);
    // Once more, by an access that knows the middle name.
    table.rename(session, 3, 99, at(3), |_| ());
    assert!(table.knows(99, ROOM, at(3)) && table.knows(77, ROOM, at(3)));
    table.reap(0..4, at(200), |_| false, |_| ());
    assert_eq!(table.all().count(), 0);
    assert!(!table.knows(77, ROOM, at(200)));
}

fn used(table: &Sessions<'_>) -> usize {
    let keys = table.sets.iter().flat_map(|set| set.keys);
    keys.filter(|key| *key != 0).count()
}

/// Laravel, for one, gives a new cookie with every answer, and of six requests at a time the
/// browser keeps the cookie that it has processed last.
#[test]
fn a_session_of_many_names_is_known_by_any_that_its_client_may_have_kept() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 77, 1, 0);
    let limits = Limits {
        parallel: 8,
        ..LIMITS
    };
    for owner in 2..8 {
        let way = table.enter(77, ROOM, owner, limits, at(1), |_| true);
        assert_eq!(way, Way::In(session));
    }
    for owner in 2..8 {
        assert!(table.rename(session, owner, 100 + owner, at(1), |_| ()));
    }
    for key in [77, 102, 103, 104, 105, 106, 107] {
        assert!(table.knows(key, ROOM, at(2)), "{key}");
    }
    for owner in 2..8 {
        table.leave(session, owner, Micros(1), at(2));
    }
    let in_hand = |table: &Sessions<'_>| table.all().map(Session::in_hand).sum::<usize>();
    assert_eq!((in_hand(&table), table.all().count()), (0, 1));
    // An access that came under a name that is forgotten while it runs.
    assert_eq!(enter(&mut table, 77, 20, 3), Way::In(session));
    table.reap(0..4, at(124), |_| true, |_| panic!("it is not idle"));
    assert!(!table.knows(77, ROOM, at(124)) && table.knows(107, ROOM, at(63)));
    table.leave(session, 20, Micros(1), at(124));
    assert_eq!(in_hand(&table), 0);
    // Only the session and its name are left, in one entry.
    table.reap(0..4, at(125), |_| true, |_| panic!("it is not idle"));
    assert_eq!((used(&table), table.knows(107, ROOM, at(126))), (1, true));
}

#[test]
fn a_name_given_with_every_answer_takes_few_entries_and_makes_room() {
    let mut sets = sets(1);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 1, 1, 0);
    for n in 2..200 {
        assert_eq!(enter(&mut table, n - 1, n, 0), Way::In(session));
        assert!(table.rename(session, n, n, at(0) + Micros(n), |_| ()));
        table.leave(session, n, Micros(1), at(0));
    }
    // Its key, its name, and as many before that as the set has ways for.
    assert_eq!(used(&table), WAYS);
    assert!((186..200).all(|key| table.knows(key, ROOM, at(0))));
    // Others start: names that only serve requests under way give way.
    let begun = |table: &mut Sessions<'_>, key: u64| {
        table.start(1000 + key, WHOSE, 1000 + key, at(1), |_| {
            panic!("none is idle")
        })
    };
    let fits = (0..20).filter(|key| begun(&mut table, *key).is_some());
    assert_eq!(fits.count(), 14);
    assert!(table.knows(199, ROOM, at(1)) && !table.knows(198, ROOM, at(1)));
    // No place for another name: it is still known by the one it has.
    assert_eq!(enter(&mut table, 199, 5, 1), Way::In(session));
    assert!(!table.rename(session, 5, 500, at(1), |_| ()));
    assert!(table.knows(199, ROOM, at(60)));
}

#[test]
fn an_old_name_is_good_as_long_as_the_session_may_be_idle() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 77, 1, 0);
    let limits = Limits {
        idle: Micros::from_secs(600),
        ..LIMITS
    };
    let enter = |table: &mut Sessions<'_>, owner: u64, second| {
        table.enter(77, ROOM, owner, limits, at(second), |_| true)
    };
    assert_eq!(enter(&mut table, 2, 1), Way::In(session));
    assert!(table.rename(session, 2, 88, at(1), |_| ()));
    table.leave(session, 2, Micros(1), at(1));
    // The answer with the new name was lost.
    table.reap(0..4, at(500), |_| true, |_| panic!("it is not idle"));
    assert!(matches!(enter(&mut table, 3, 590), Way::In(_)));
}

#[test]
fn a_name_may_be_given_again() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 1, 1, 0);
    assert_eq!(enter(&mut table, 1, 2, 0), Way::In(session));
    for key in [2, 3, 2, 1, 3, 1] {
        assert!(table.rename(session, 2, key, at(0), |_| ()));
    }
    for (key, good) in [(1, true), (2, false), (3, false)] {
        assert_eq!(table.knows(key, ROOM, at(121)), good, "{key}");
        assert!(table.knows(key, ROOM, at(119)), "{key}");
    }
}

#[test]
fn a_table_of_another_size_has_all_that_finds_a_place() {
    let mut old = sets(8);
    let mut old = Sessions { sets: &mut old };
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for n in 1..=30 {
        let session = started(&mut old, key(n), n, 0);
        assert_eq!(enter(&mut old, key(n), 100 + n, 0), Way::In(session));
        assert!(old.rename(session, 100 + n, key(100 + n), at(0), |_| ()));
        old.leave(session, 100 + n, Micros(1), at(0));
    }
    let known = |table: &Sessions<'_>, names: std::ops::RangeInclusive<u64>| {
        names.filter(|n| table.knows(key(*n), ROOM, at(1))).count()
    };
    for (n, olds) in [(5, 20), (7, 30), (8, 30), (64, 30)] {
        let mut sets = sets(n);
        let mut table = Sessions { sets: &mut sets };
        table.take_over(&old, at(1));
        assert_eq!((n, table.all().count()), (n, 30));
        assert_eq!((n, known(&table, 101..=130)), (n, 30), "the newest names");
        assert!(known(&table, 1..=30) >= olds, "{n}: and old ones");
    }
}

#[test]
fn a_revoked_session_is_known_by_none_of_its_names() {
    let mut sets = sets(4);
    let mut table = Sessions { sets: &mut sets };
    let session = started(&mut table, 77, 1, 0);
    assert_eq!(enter(&mut table, 77, 2, 1), Way::In(session));
    table.rename(session, 2, 88, at(1), |_| ());
    started(&mut table, 99, 3, 1);
    let known: Vec<u64> = table.known(0..4).map(|(key, _)| key).collect();
    assert!(known.len() == 2 && known.contains(&88) && known.contains(&99));
    assert!(table.revoke(77).is_some_and(|over| over.work == Micros(5)));
    assert_eq!(table.revoke(88), None);
    for name in [77, 88] {
        assert_eq!(enter(&mut table, name, 4, 1), Way::Unknown);
    }
    // Its access that is under way leaves nothing behind.
    table.leave(session, 2, Micros(1), at(2));
    assert_eq!(table.all().count(), 1);
    // A session that has begun and has no name yet concerns only its own access.
    table.start(5, WHOSE, 6, at(2), |_| ()).expect("room");
    assert_eq!(table.revoke(5), None);
}

#[test]
fn a_start_without_a_name_ends_with_its_child() {
    let mut sets = sets(2);
    let mut table = Sessions { sets: &mut sets };
    table.start(5, WHOSE, 9, at(0), |_| ());
    table.reap(0..2, at(61), |_| true, |_| panic!("its child lives"));
    let mut over = 0;
    table.reap(0..2, at(2), |_| false, |_| over += 1);
    assert_eq!(over, 1);
}

#[test]
fn two_that_start_under_one_name_are_one_session() {
    let mut sets = sets(2);
    let mut table = Sessions { sets: &mut sets };
    let first = table.start(5, WHOSE, 1, at(0), |_| ()).expect("room");
    let second = table.start(6, WHOSE, 2, at(0), |_| ()).expect("room");
    assert!(table.bind(first, 1, 77, at(0), |_| ()).is_some());
    assert_eq!(table.bind(second, 2, 77, at(0), |_| ()), None);
    assert_eq!(table.all().count(), 1);
}

#[test]
fn three_quarters_of_the_ways_can_be_used() {
    let mut sets = sets(sets_for(12_000) as usize);
    let mut table = Sessions { sets: &mut sets };
    let key = |n: u64| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let kept = (0..12_000)
        .filter(|n| table.start(key(*n), WHOSE, 1, at(0), |_| ()).is_some())
        .count();
    assert_eq!(kept, 12_000);
}

#[derive(Clone, Debug)]
enum Act {
    Start(u64),
    Enter(u64),
    Leave(usize),
    Rename(usize, u64),
    End(usize),
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (1u64..20).prop_map(Act::Start),
        (1u64..20).prop_map(Act::Enter),
        (0usize..40).prop_map(Act::Leave),
        ((0usize..40), (1u64..20)).prop_map(|(who, key)| Act::Rename(who, key)),
        (0usize..40).prop_map(Act::End),
        (0u64..50).prop_map(Act::Pass),
    ];
    proptest::collection::vec(act, 1..200)
}

/// What the table should say of one session.
#[derive(Clone, Debug)]
struct Model {
    /// Its names, newest last, and when each was replaced.
    names: Vec<(u64, Option<Micros>)>,
    seen: Micros,
    in_hand: Vec<(u32, u64)>,
}

impl Model {
    /// The names by which it may be known.
    fn has(&self, key: u64) -> bool {
        self.names.iter().any(|(name, _)| *name == key)
    }

    /// The names by which it must be known.
    fn goes_by(&self, key: u64, now: Micros) -> bool {
        let recent = self.names.iter().rev().take(OLD_NAMES + 1);
        let good = |old: &Option<Micros>| old.is_none_or(|old| now <= old + ALIAS);
        recent.clone().any(|(name, old)| *name == key && good(old))
    }

    fn is_over(&self, now: Micros) -> bool {
        self.in_hand.is_empty() && now - self.seen > LIMITS.idle
    }

    fn is_named(&mut self, key: u64, now: Micros) {
        if self.names.last().is_some_and(|(name, _)| *name == key) {
            return;
        }
        if let Some((_, old)) = self.names.last_mut() {
            *old = Some(now);
        }
        self.names.retain(|(name, _)| *name != key);
        self.names.push((key, None));
    }
}

proptest! {
    /// Whatever is done, and however often a session is given another name: it never has more
    /// accesses in hand than `parallel`, each access that leaves makes one fewer, and as long
    /// as it is not idle it is known by its newest name and by those that it had a moment ago.
    #[test]
    fn a_member_is_known_until_it_ends_or_idles(acts in acts()) {
        let mut sets = sets(32);
        let mut table = Sessions { sets: &mut sets };
        let (mut now, mut owner) = (at(0), 0);
        let mut models: Vec<Model> = Vec::new();
        for act in acts {
            owner += 1;
            let busy: Vec<usize> = (0..models.len())
                .flat_map(|i| vec![i; models[i].in_hand.len()])
                .collect();
            let chosen = |who: usize| busy.get(who % busy.len().max(1)).copied();
            match act {
                Act::Pass(seconds) => {
                    now = now + Micros::from_secs(seconds);
                    table.reap(0..32, now, |_| true, |_| ());
                    models.retain(|model| !model.is_over(now));
                }
                Act::Start(key) => {
                    let begun = table.start(1 << 40 | owner, WHOSE, owner, now, |_| ());
                    let begun = begun.expect("there is room");
                    let other = models.iter().any(|model| model.has(key));
                    match table.bind(begun, owner, key, now, |_| ()) {
                        Some(session) => {
                            let known = |model: &&mut Model| model.has(key);
                            for model in models.iter_mut().filter(known) {
                                prop_assert!(!model.goes_by(key, now), "{key}: {model:?}");
                                model.names.retain(|(name, _)| *name != key);
                            }
                            models.push(Model {
                                names: vec![(key, None)],
                                seen: now,
                                in_hand: vec![(session, owner)],
                            });
                        }
                        None => prop_assert!(other, "{key} is nobody's"),
                    }
                }
                Act::Enter(key) => {
                    let way = table.enter(key, ROOM, owner, LIMITS, now, |_| true);
                    let known = models.iter().position(|model| model.has(key));
                    let must = known.filter(|i| models[*i].goes_by(key, now));
                    match way {
                        Way::In(session) => {
                            let known = known.expect("somebody's");
                            prop_assert!(models[known].in_hand.len() < 2);
                            models[known].in_hand.push((session, owner));
                            models[known].seen = now;
                        }
                        Way::Busy => {
                            let known = known.expect("somebody's");
                            prop_assert_eq!(models[known].in_hand.len(), 2);
                        }
                        Way::Over(_) => prop_assert!(false, "reaped when it was over"),
                        Way::Unknown => prop_assert!(must.is_none(), "{key} was thrown out"),
                    }
                }
                Act::Leave(who) => if let Some(i) = chosen(who) {
                    let (session, owner) = models[i].in_hand.swap_remove(0);
                    table.leave(session, owner, Micros(1), now);
                    models[i].seen = now;
                }
                Act::Rename(who, to) => if let Some(i) = chosen(who) {
                    let (session, owner) = models[i].in_hand[0];
                    prop_assert!(table.rename(session, owner, to, now, |_| ()));
                    let other = models.iter().position(|model| model.has(to));
                    // A name that another goes by, or went by a moment ago, is not given.
                    let free = |j: usize| table.knows(to, ROOM, now) && {
                        let at = table.find(to, now).expect("known");
                        j == i || models[i].in_hand.iter().any(|(_, owner)| {
                            table.session(at).expect("there").in_hand.contains(*owner)
                        })
                    };
                    if other.is_none_or(free) {
                        for model in models.iter_mut() {
                            let held = model.in_hand.contains(&(session, owner));
                            model.names.retain(|(name, _)| held || *name != to);
                        }
                        models[i].is_named(to, now);
                    }
                }
                Act::End(who) => if let Some(i) = chosen(who) {
                    let model = models.swap_remove(i);
                    let (session, owner) = model.in_hand[0];
                    prop_assert!(table.end_of(session, owner).is_some());
                    for (name, _) in model.names {
                        prop_assert!(!table.knows(name, ROOM, now), "{name}: it is over");
                    }
                }
            }
            let mut in_hand: Vec<usize> = table.all().map(Session::in_hand).collect();
            let mut wanted: Vec<usize> = models.iter().map(|m| m.in_hand.len()).collect();
            in_hand.sort_unstable();
            wanted.sort_unstable();
            prop_assert_eq!(in_hand, wanted);
            for model in &models {
                let newest = model.names.last().expect("it has one").0;
                prop_assert!(table.knows(newest, ROOM, now), "{newest}: {model:?}");
            }
        }
    }
}
