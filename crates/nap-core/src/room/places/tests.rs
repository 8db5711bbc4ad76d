use super::*;

/// A table with its queue, for tests.
pub(crate) struct Table {
    head: PlacesHead,
    entries: Vec<Place>,
    wakes: Vec<AtomicU32>,
}

impl Table {
    pub(crate) fn new(n: usize) -> Table {
        Table {
            head: PlacesHead::default(),
            entries: vec![Place::default(); n],
            wakes: (0..n).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    pub(crate) fn places(&mut self) -> Places<'_> {
        Places {
            head: &mut self.head,
            entries: &mut self.entries,
            wakes: &self.wakes,
        }
    }
}

fn place(serial: u32, due: u64) -> Place {
    Place {
        owner: Owner::new(Life { child: 1, epoch: 1 }, serial),
        deadline: Micros(due),
        ..Place::default()
    }
}

fn drain(places: &mut Places<'_>, queue: &mut Queue) -> Vec<u64> {
    let mut order = Vec::new();
    while let Some(at) = places.first(queue) {
        order.push(places.place(at).expect("linked").deadline.0);
        places.unlink(queue, at);
        places.free(at);
    }
    order
}

#[test]
fn a_priority_overtakes_newcomers_who_are_due_later_and_no_ticket_holder() {
    let (mut table, mut queue) = (Table::new(8), Queue::default());
    let mut places = table.places();
    for (line, deadline, due) in [
        (Line::Wait, 10, 0),
        (Line::Wait, 20, 0),
        (Line::ReAccess, 25, 0),
        (Line::Wait, 30, 0),
        (Line::Wait, 40, 15),
        (Line::Wait, 41, 15),
        (Line::Wait, 42, 42),
    ] {
        let place = Place {
            due: Micros(due),
            ..place(deadline as u32, deadline)
        };
        places.push(&mut queue, line, place).expect("room");
    }
    assert!(places.sound([&queue].into_iter()));
    places.mend(&mut [&mut queue]);
    assert!(places.sound([&queue].into_iter()));
    assert_eq!(drain(&mut places, &mut queue), [10, 25, 40, 41, 20, 30, 42]);
}

#[test]
fn a_queues_work_is_that_of_its_places() {
    let (mut table, mut queue) = (Table::new(8), Queue::default());
    let mut places = table.places();
    let of = |serial: u32, work, due| Place {
        work: Micros(work),
        due: Micros(due),
        ..place(serial, serial.into())
    };
    let first = places.push(&mut queue, Line::ReAccess, of(10, 5, 0));
    places.push(&mut queue, Line::Wait, of(11, 7, 0));
    places.push(&mut queue, Line::Wait, of(12, 9, 3));
    assert_eq!(queue.work, Micros(21));
    let owner = Owner::new(Life { child: 1, epoch: 1 }, 99);
    places.take_over(&mut queue, first.expect("room"), owner);
    assert!(places.move_head(&mut queue, Line::ReAccess, Line::Wait));
    assert_eq!(queue.work, Micros(21));
    places.mend(&mut [&mut queue]);
    assert_eq!(queue.work, Micros(21));
    drain(&mut places, &mut queue);
    assert_eq!(queue.work, Micros::ZERO);
}

#[test]
fn guard_tickets_go_first_then_the_earlier_deadline() {
    let (mut table, mut queue) = (Table::new(8), Queue::default());
    let mut places = table.places();
    for (line, due) in [(Line::Wait, 10), (Line::ReAccess, 5), (Line::Wait, 11)] {
        places
            .push(&mut queue, line, place(due as u32, due))
            .expect("room");
    }
    places
        .push(&mut queue, Line::Guard, place(99, 99))
        .expect("room");
    places
        .push(&mut queue, Line::ReAccess, place(10, 10))
        .expect("room");
    assert_eq!(queue.len(), 5);
    assert_eq!(drain(&mut places, &mut queue), [99, 5, 10, 10, 11]);
    assert!(queue.is_empty());
}

#[test]
fn a_full_table_says_so_and_a_freed_place_is_used_again() {
    let (mut table, mut queue) = (Table::new(2), Queue::default());
    let mut places = table.places();
    let first = places
        .push(&mut queue, Line::Wait, place(1, 1))
        .expect("room");
    places
        .push(&mut queue, Line::Wait, place(2, 2))
        .expect("room");
    assert_eq!(places.push(&mut queue, Line::Wait, place(3, 3)), None);
    places.unlink(&mut queue, first);
    places.free(first);
    assert_eq!(
        places.push(&mut queue, Line::Wait, place(4, 4)),
        Some(first)
    );
    assert_eq!(drain(&mut places, &mut queue), [2, 4]);
}

#[test]
fn a_place_taken_over_keeps_its_turn_and_the_older_access_learns_it() {
    let (mut table, mut queue) = (Table::new(8), Queue::default());
    let mut places = table.places();
    let at: Vec<u32> = (1..=3)
        .map(|i| {
            let ticket = Place {
                slot: 7,
                index: i,
                ..place(i, u64::from(i))
            };
            places
                .push(&mut queue, Line::ReAccess, ticket)
                .expect("room")
        })
        .collect();
    let younger = Owner::new(Life { child: 2, epoch: 5 }, 1);
    let new = places.take_over(&mut queue, at[1], younger).expect("room");
    assert_eq!(places.wake_word(at[1]), wake::TAKEN_OVER);
    assert_eq!(places.with_ticket(&queue, 7, 2), Some(new));
    assert_eq!(queue.len(), 3);
    assert_eq!(drain(&mut places, &mut queue), [1, 2, 3]);
}

#[test]
fn lists_torn_by_a_death_under_the_lock_are_mended_in_order() {
    let (mut table, mut queue) = (Table::new(8), Queue::default());
    let mut places = table.places();
    for due in [3, 1, 2] {
        places
            .push(&mut queue, Line::Wait, place(due as u32, due))
            .expect("room");
    }
    let gone = places
        .push(&mut queue, Line::Wait, place(9, 9))
        .expect("room");
    places.unlink(&mut queue, gone);
    places.free(gone);
    for entry in places.entries.iter_mut() {
        (entry.next, entry.prev, entry.linked) = (77, 0xffff_ffff, 1);
    }
    places.head.free = 12345;
    queue.lines = [Ends {
        head: 400,
        tail: 3,
        len: 70,
        _pad: 0,
    }; 3];
    assert!(!places.sound([&queue].into_iter()));
    places.mend(&mut [&mut queue]);
    assert!(places.sound([&queue].into_iter()));
    assert_eq!(queue.len(), 3);
    assert_eq!(drain(&mut places, &mut queue), [1, 2, 3]);
    assert!(places.push(&mut queue, Line::Wait, place(5, 5)).is_some());
}

#[test]
fn any_bit_pattern_is_survived() {
    let (mut table, mut queue) = (Table::new(4), Queue::default());
    let mut places = table.places();
    for seed in 0..200u32 {
        for (i, entry) in places.entries.iter_mut().enumerate() {
            let x = seed.wrapping_mul(2_654_435_761).wrapping_add(i as u32 * 97);
            (entry.next, entry.prev, entry.linked) = (x >> 3, x >> 7, x & 1);
            (entry.line, entry.gate, entry.owner) = (x, x >> 5, Owner(u64::from(x)));
        }
        queue.lines = [Ends {
            head: seed,
            tail: seed << 3,
            len: seed,
            _pad: 0,
        }; 3];
        places.head.free = seed.wrapping_mul(40503);
        places.unlink(&mut queue, seed);
        places.push(&mut queue, Line::Wait, place(1, 1));
        places.with_ticket(&queue, 1, 1);
        let other = Owner::new(Life { child: 1, epoch: 1 }, 1);
        places.take_over(&mut queue, seed & 3, other);
        while places.move_head(&mut queue, Line::ReAccess, Line::Wait) {}
        for at in places.newest_newcomers(&queue, u32::MAX) {
            places.unlink(&mut queue, at);
        }
        places.mend(&mut [&mut queue]);
        assert!(places.sound([&queue].into_iter()));
    }
}
