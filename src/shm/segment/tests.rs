//! Tests of [`Segment`](super::Segment).

use super::*;
use crate::layout::Dims;
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::owner::Owner;
use nap_core::room::part::Part;
use nap_core::room::places::wake;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::Verdict;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn a_permit_claimed_for_a_waiter_under_a_death_is_not_lost() {
    let dims = Dims {
        children: 1,
        rooms: 1,
        gates: 1,
        places: 4,
        stripes: 0,
        trace_sets: 0,
        untold: 0,
        executors: 0,
        flights: 0,
        session_sets: 0,
        guest_sets: 0,
    };
    let segment = Segment::anonymous(dims).expect("shared memory");
    let life = segment.child_starts(1).expect("room");
    let permits = segment.permits(0).expect("a gate");
    permits.set_limit(2);
    let few = |n| Choice { how: how::FIXED, n };
    let terms = Terms {
        bound: Micros::from_secs(60),
        run_ready: 2,
        history: 100,
        wait_limit: few(4),
        re_access: few(1),
        parked: 4,
        ..Terms::default()
    };
    segment.locked(|tables| (tables.gates[0].kind, tables.gates[0].terms) = (1, terms));
    let enter = |serial| {
        let arrival = Arrival {
            owner: Owner::new(life, serial),
            parking: Parking::Anybody,
            left: u32::MAX,
            waited: Micros::ZERO,
            stood: Micros::ZERO,
            secondary: false,
            tickets: &[],
            told: None,
            patient: false,
            again: false,
            forged: false,
            of_visit: &[],
            part: Part::Beside,
            client: [0; 16],
            client_hash: [0; 2],
            method: b"GET",
            uri: b"/",
            kind: 0,
            priority: 0,
            secret: [0; 16],
            random: 0,
        };
        let verdict = segment.locked(|tables| {
            let mut view = tables.gate(0).expect("a gate");
            view.enter(&arrival)
        });
        verdict.expect("the lock is free")
    };
    for serial in [1, 2] {
        assert!(matches!(enter(serial), Verdict::Run(_)));
    }
    let Verdict::Wait(seat) = enter(3) else {
        panic!("both permits are in use");
    };
    // The first gives its permit back; the process that hands it on dies before it can tell.
    permits.release(0, Owner::new(life, 1));
    let died = catch_unwind(AssertUnwindSafe(|| {
        segment.locked(|_| {
            permits
                .claim_in_turn(Owner::new(life, 3))
                .expect("one is free");
            panic!("for the test");
        })
    }));
    assert!(died.is_err());
    let word = segment.wake_word(seat.place).expect("its place");
    assert_eq!(word.load(Relaxed), wake::GRANTED);
    permits.release(1, Owner::new(life, 2));
    let his = segment.locked(|tables| tables.places.place(seat.place).map(|p| p.permit));
    permits.release(his.flatten().expect("granted"), Owner::new(life, 3));
    assert_eq!(permits.running(), 0, "all three have left");
}

const SMALL: Dims = Dims {
    children: 1,
    rooms: 1,
    gates: 1,
    places: 4,
    stripes: 0,
    trace_sets: 0,
    untold: 0,
    executors: 0,
    flights: 0,
    session_sets: 4,
    guest_sets: 0,
};

#[test]
fn sessions_are_counted_anew_after_a_panic_among_them() {
    let segment = Segment::anonymous(SMALL).expect("shared memory");
    let died = catch_unwind(AssertUnwindSafe(|| {
        segment.locked_sessions(|members| {
            members.starts[0].live = 7;
            panic!("for the test");
        })
    }));
    assert!(died.is_err());
    let live = segment.locked_sessions(|members| members.starts[0].live);
    assert_eq!(live, Some(0));
}

#[test]
fn what_is_no_child_of_ours_any_more_holds_nothing() {
    let dims = Dims {
        children: 3,
        ..SMALL
    };
    let segment = Segment::anonymous(dims).expect("shared memory");
    let permits = segment.permits(0).expect("a gate");
    permits.set_limit(3);
    let mut lives = std::process::Command::new("sleep");
    let mut lives = lives.arg("60").spawn().expect("a child");
    let pids = [lives.id(), 1, std::process::id()];
    let owners = pids.map(|pid| {
        let life = segment.child_starts(pid).expect("room");
        let owner = Owner::new(life, pid);
        permits.claim(owner).expect("free");
        owner
    });
    segment.children_gone();
    lives.kill().and_then(|()| lives.wait()).expect("our child");
    let held: Vec<Owner> = permits.owners().collect();
    assert_eq!(held, [owners[0], owners[2]]);
    segment.children_gone();
    assert_eq!(permits.owners().collect::<Vec<_>>(), [owners[2]]);
}

#[test]
fn members_are_known_in_a_table_of_another_size() {
    let old = Segment::anonymous(SMALL).expect("shared memory");
    let now = Micros::from_secs(1000);
    old.locked_sessions(|members| {
        let table = &mut members.sessions;
        for key in 1..=40 {
            let whose = (0, Micros::from_secs(60));
            let begun = table.start(key << 32, whose, key, now, |_| ());
            let bound = table.bind(begun.expect("room"), key, key, now, |_| ());
            assert!(bound.is_some());
        }
    });
    for session_sets in [4, 7, 100] {
        let dims = Dims {
            session_sets,
            ..SMALL
        };
        let new = Segment::anonymous(dims).expect("shared memory");
        new.carry_over(&old);
        let known = new.locked_sessions(|members| {
            let table = &members.sessions;
            let known = (1..=40).filter(|key| table.knows(*key, 0, now)).count();
            (known, table.all().count())
        });
        assert_eq!(known, Some((40, 40)), "{session_sets}");
    }
}

#[test]
fn tickets_are_unknown_where_the_gates_that_sold_them_are_not_taken_over() {
    for other in [false, true] {
        let old = Segment::anonymous(SMALL).expect("shared memory");
        let permits = old.permits(0).expect("a gate");
        permits.set_outstanding(5);
        if other {
            // SAFETY: nobody else has this segment.
            let head = unsafe { &mut *old.base.cast::<Head>() };
            head.directory[Kind::Gates as usize].entry += 64;
        }
        let new = Segment::anonymous(SMALL).expect("shared memory");
        new.carry_over(&old);
        assert_eq!(new.head().key, old.head().key);
        assert_eq!(new.head().epoch != old.head().epoch, other);
        let permits = new.permits(0).expect("a gate");
        assert_eq!(permits.outstanding(), if other { 0 } else { 5 });
    }
}

#[test]
fn each_event_has_polls_of_its_own() {
    let dims = Dims {
        children: 1,
        rooms: 1,
        gates: 2,
        places: 1,
        stripes: 0,
        trace_sets: 0,
        untold: 0,
        executors: 0,
        flights: 0,
        session_sets: 0,
        guest_sets: 0,
    };
    let segment = Segment::anonymous(dims).expect("shared memory");
    for (n, event) in segment.events().iter().enumerate() {
        assert_eq!(event.owner.swap(n as u64 + 1, Relaxed), 0);
    }
    assert_eq!(segment.events().len(), 64);
}

#[test]
fn another_program_takes_a_segment_only_if_each_section_is_as_it_knows_it() {
    use std::os::fd::AsRawFd as _;
    let dims = Dims {
        children: 2,
        rooms: 1,
        gates: 3,
        places: 4,
        stripes: 0,
        trace_sets: 0,
        untold: 0,
        executors: 0,
        flights: 0,
        session_sets: 0,
        guest_sets: 0,
    };
    let (segment, file) = Segment::made(dims).expect("shared memory");
    let size = dims.bytes() as u64;
    let look = |size| Segment::inherited(file.as_raw_fd(), size);
    let Inherited::Known(same) = look(size) else {
        panic!("it is of this build");
    };
    assert_eq!(same.head().epoch, segment.head().epoch);
    assert!(matches!(look(size + 1), Inherited::None(_)));
    assert!(matches!(
        Segment::inherited(1_000_000, size),
        Inherited::None(_)
    ));
    // SAFETY: nobody else looks at this segment.
    let head = unsafe { &mut *segment.base.cast::<Head>() };
    head.directory[Kind::Sessions as usize].entry += 8;
    assert!(matches!(look(size), Inherited::Foreign(_)));
    head.magic.store(0, SeqCst);
    assert!(matches!(look(size), Inherited::None(_)));
}
