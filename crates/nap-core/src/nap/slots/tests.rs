use super::*;

const DAY: Micros = Micros::from_secs(24 * 3600);

fn terms(capacity: u32) -> SlotTerms {
    SlotTerms {
        period: Micros::from_secs(10),
        capacity,
        issue_limit: capacity,
        late_share_ppm: 0,
        horizon: DAY,
        bound: Micros::from_secs(4),
        prime: Micros::from_secs(3),
        lifetime: Micros::ZERO,
    }
}

fn secs(s: f64) -> Micros {
    Micros::from_secs_f64(s)
}

fn slots() -> Box<Slots> {
    Box::new(Slots::EMPTY)
}

/// Starts of what is sold while the ledger always has room, in seconds.
fn book_all(slots: &mut Slots, first: f64, terms: &SlotTerms, n: usize) -> Vec<f64> {
    (0..n)
        .map_while(|_| slots.book(secs(0.0), secs(first), terms, &mut |_, _| true))
        .map(|booking| booking.start.as_secs_f64())
        .collect()
}

#[test]
fn capacity_counts_the_slots_that_run_at_once() {
    assert_eq!(capacity(300.0, 0.148, 1, 1.0, 1.0), 2027);
    assert_eq!(capacity(300.0, 0.148, 10, 0.9, 0.5), 9121);
    assert_eq!(capacity(1.0, 5.0, 1, 1.0, 1.0), 1);
    assert_eq!(capacity(10.0, f64::NAN, 1, 1.0, 1.0), 1);
    assert_eq!(capacity_from_rate(10.0, 67.6, 0.9, 0.5), 304);
}

#[test]
fn starts_are_spread_and_the_next_slot_starts_where_the_last_one_ends() {
    let mut slots = slots();
    let eight_by_four = SlotTerms {
        period: Micros::from_secs(8),
        ..terms(4)
    };
    let starts = book_all(&mut slots, 4.0, &eight_by_four, 6);
    assert_eq!(starts, [4.0, 6.0, 8.0, 10.0, 12.0, 14.0]);
    assert_eq!(
        slots.open_slots().map(|slot| slot.sold).collect::<Vec<_>>(),
        [4, 2]
    );
}

#[test]
fn where_all_have_come_the_next_slot_starts_at_once() {
    let mut slots = slots();
    let sold = book_all(&mut slots, 4.0, &terms(2), 40);
    assert_eq!(sold.last(), Some(&199.0));
    slots.begin_again(secs(20.0), secs(21.0), &terms(2));
    let book = |slots: &mut Slots| {
        let booking = slots.book(secs(20.0), secs(21.0), &terms(2), &mut |_, _| true);
        booking.map(|booking| booking.start.as_secs_f64())
    };
    let again: Vec<_> = (0..3).map_while(|_| book(&mut slots)).collect();
    assert_eq!(again, [21.0, 26.0, 31.0]);
    // The old ones are closed in their order, then the new.
    let mut closed = 0;
    while slots.close_due(secs(1_000.0), secs(1.0)).is_some() {
        closed += 1;
    }
    assert_eq!(closed, 22);
}

#[test]
fn under_a_shorter_horizon_no_time_is_sold_twice() {
    let mut slots = slots();
    let hours = |h: u64| SlotTerms {
        horizon: Micros::from_secs(h * 3600),
        ..terms(1)
    };
    let last = book_all(&mut slots, 4.0, &hours(2), 1000).pop();
    assert!(last.is_some_and(|last| last > 7180.0), "{last:?}");
    assert!(book_all(&mut slots, 4.0, &hours(1), 1).is_empty());
    // When less is booked ahead the next slot follows the last.
    let now = secs(3700.0);
    let next = slots.book(now, secs(3704.0), &hours(1), &mut |_, _| true);
    let after = last.map(|last| last + 10.0);
    assert_eq!(next.map(|booking| booking.start.as_secs_f64()), after);
}

#[test]
fn a_slot_keeps_the_capacity_it_opened_with() {
    let mut slots = slots();
    assert_eq!(book_all(&mut slots, 4.0, &terms(2), 1), [4.0]);
    assert_eq!(book_all(&mut slots, 4.0, &terms(5), 3), [9.0, 14.0, 16.0]);
}

#[test]
fn a_slot_keeps_the_bound_it_opened_with() {
    let mut slots = slots();
    let longer = SlotTerms {
        bound: Micros(9_000_001),
        ..terms(2)
    };
    let mut asked = Vec::new();
    for terms in [terms(2), longer, longer] {
        slots.book(secs(0.0), secs(4.0), &terms, &mut |slot, _| {
            asked.push((slot.seq, slot.bound().0 / 1000));
            true
        });
    }
    assert_eq!(asked, [(1, 4000), (1, 4000), (2, 9001)]);
}

#[test]
fn starts_before_the_first_are_skipped_and_never_sold() {
    let mut slots = slots();
    assert_eq!(book_all(&mut slots, 4.0, &terms(5), 1), [4.0]);
    assert_eq!(book_all(&mut slots, 7.0, &terms(5), 1), [8.0]);
    assert_eq!(book_all(&mut slots, 4.0, &terms(5), 2), [10.0, 12.0]);
    assert_eq!(book_all(&mut slots, 104.0, &terms(5), 1), [104.0]);
}

#[test]
fn what_the_ledger_refuses_stays_on_offer() {
    let mut slots = slots();
    let full_until = |until: f64| move |_: &Slot, start: Micros| start >= secs(until);
    let book = |slots: &mut Slots, until| {
        slots
            .book(secs(0.0), secs(4.0), &terms(5), &mut full_until(until))
            .map(|booking| booking.start.as_secs_f64())
    };
    assert_eq!(book(&mut slots, 24.0), Some(24.0), "two slots without room");
    assert_eq!(book(&mut slots, 0.0), Some(4.0), "room again");
    assert_eq!(book(&mut slots, 10.0), Some(10.0));
    assert_eq!(
        book(&mut slots, 0.0),
        Some(6.0),
        "so does a gap within a slot"
    );
}

#[test]
fn what_is_not_open_to_one_buyer_is_the_next_ones() {
    let mut slots = slots();
    let book = |slots: &mut Slots, from: u32| {
        let open = &mut |slot: &Slot| slot.seq >= from;
        let booking = slots.book_open(secs(0.0), secs(4.0), &terms(20), open, &mut |_, _| true);
        booking.map(|b| (b.seq, b.index, b.skipped))
    };
    assert_eq!(book(&mut slots, 0), Some((1, 0, false)));
    assert_eq!(book(&mut slots, 9), Some((9, 0, true)));
    assert_eq!(book(&mut slots, 0), Some((1, 1, false)));
    // After more refusals than left-overs the search goes on where newcomers were last sold to,
    // not where the holder was.
    let full = &mut |slot: &Slot, start| slot.seq >= 3 && start >= secs(24.0);
    let booking = slots.book(secs(0.0), secs(4.0), &terms(20), full);
    assert_eq!(booking.map(|b| (b.seq, b.index)), Some((3, 0)));
    // A slot with nothing left does not count as skipped.
    for _ in 0..18 {
        slots.book(secs(0.0), secs(4.0), &terms(20), &mut |_, _| true);
    }
    assert_eq!(book(&mut slots, 2), Some((2, 0, false)));
}

#[test]
fn a_cell_that_was_refused_is_asked_for_once() {
    let mut slots = slots();
    let mut asked = Vec::new();
    let booking = slots.book(secs(0.0), secs(4.0), &terms(1000), &mut |_, start| {
        asked.push(start.as_secs_f64());
        start >= secs(7.0)
    });
    assert_eq!(booking.map(|b| b.index), Some(300));
    assert_eq!(asked, [4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0]);
}

#[test]
fn nothing_is_sold_beyond_the_horizon_and_the_search_ends() {
    let mut slots = slots();
    let near = SlotTerms {
        horizon: Micros::from_secs(60),
        ..terms(2)
    };
    let starts = book_all(&mut slots, 4.0, &near, 100);
    assert_eq!((starts.len(), starts.last()), (12, Some(&59.0)));

    let mut asked = 0_u32;
    let mut refuse = |_: &Slot, _| {
        asked += 1;
        false
    };
    assert_eq!(
        slots.book(secs(0.0), secs(60.5), &terms(100), &mut refuse),
        None
    );
    assert!((1000..=STEPS).contains(&asked), "{asked}");
}

#[test]
fn left_overs_everywhere_do_not_hide_what_lies_behind_them() {
    let mut slots = slots();
    let mut starts = Vec::new();
    // Room for a single claim every 100 s: each slot between keeps places that it cannot sell.
    for _ in 0..40 {
        let taken = starts.clone();
        let booking = slots
            .book(secs(0.0), secs(4.0), &terms(10), &mut |_, start| {
                start.secs_floor() % 100 == 50 && !taken.contains(&start)
            })
            .expect("a place every 100 s");
        starts.push(booking.start);
    }
    assert_eq!(starts.last().map(|start| start.secs_floor()), Some(3950));
}

#[test]
fn the_late_pool_is_a_tenth_of_the_places_kept_from_newcomers() {
    let mut slots = slots();
    let tenth = SlotTerms {
        late_share_ppm: 100_000,
        ..terms(20)
    };
    let starts = book_all(&mut slots, 0.0, &tenth, 18);
    assert!(
        starts.iter().all(|s| *s < 10.0 && *s != 4.5 && *s != 9.5),
        "{starts:?}"
    );
    let late = slots
        .rebook(secs(0.0), secs(1.0), &tenth, &mut |_, _| true)
        .expect("free");
    assert_eq!((late.index, late.start), (9, secs(4.5)));
    let late = slots
        .rebook(secs(0.0), secs(1.0), &tenth, &mut |_, _| true)
        .expect("free");
    assert_eq!((late.index, late.start), (19, secs(9.5)));
    let next = slots
        .rebook(secs(0.0), secs(1.0), &tenth, &mut |_, _| true)
        .expect("free");
    assert_eq!(
        (next.seq, next.index),
        (2, 0),
        "the pool is empty: ahead of newcomers"
    );
    let slot = slots.slot(1).expect("still kept");
    assert_eq!((slot.sold, slot.sold_late), (18, 2));
}

#[test]
fn a_late_holder_gets_the_newcomers_place_where_it_is_earlier() {
    let mut slots = slots();
    let tenth = SlotTerms {
        late_share_ppm: 100_000,
        ..terms(20)
    };
    book_all(&mut slots, 0.0, &tenth, 2);
    let booking = slots
        .rebook(secs(0.0), secs(0.0), &tenth, &mut |_, _| true)
        .expect("free");
    assert_eq!((booking.index, booking.start), (2, secs(1.0)));
}

#[test]
fn every_share_splits_the_places_in_two_without_loss() {
    for (share, places) in [
        (0, 7),
        (50_000, 100),
        (333_333, 10),
        (500_000, 9),
        (1_000_000, 50),
    ] {
        let slot = Slot {
            late_share_ppm: share,
            issue_limit: places,
            ..Slot::EMPTY
        };
        let of = |pool| {
            let mut index = slot.of_pool(pool, 0);
            let mut all = Vec::new();
            while index < places {
                all.push(index);
                index = slot.of_pool(pool, index + 1);
            }
            all
        };
        let late = of(Pool::Late);
        let mut all = [of(Pool::Newcomers), late.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..places).collect::<Vec<_>>(), "share {share}");
        assert_eq!(
            late.len() as u64,
            u64::from(places) * u64::from(share.min(900_000)) / 1_000_000
        );
    }
}

#[test]
fn overbooked_places_share_the_period() {
    let mut slots = slots();
    let overbooked = SlotTerms {
        issue_limit: 5,
        ..terms(4)
    };
    let starts = book_all(&mut slots, 0.0, &overbooked, 6);
    assert_eq!(starts, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(
        slots.slot(1).map(|slot| (slot.capacity, slot.sold)),
        Some((4, 5))
    );
}

#[test]
fn a_slot_closes_when_its_last_ticket_has_expired_and_tells_who_never_came() {
    let mut slots = slots();
    book_all(&mut slots, 0.0, &terms(4), 7);
    for fate in [Fate::Redeemed, Fate::Redeemed, Fate::Late] {
        assert!(slots.settle(1, fate));
    }
    slots.unsettle(1, Fate::Redeemed);
    let grace = Micros::from_secs(30);
    assert_eq!(slots.close_due(secs(39.9), grace), None);
    let closed = slots.close_due(secs(60.0), grace);
    assert_eq!(
        closed,
        Some(Closed {
            seq: 1,
            sold: 4,
            expired: 2
        })
    );
    let closed = slots.close_due(secs(60.0), grace);
    assert_eq!(
        closed,
        Some(Closed {
            seq: 2,
            sold: 3,
            expired: 3
        })
    );
    assert_eq!(slots.close_due(secs(60.0), grace), None);
    assert!(!slots.settle(1, Fate::Redeemed), "closed is closed");
    assert_eq!(
        (slots.position(1, 0), slots.open_slots().count()),
        (None, 0)
    );
}

#[test]
fn a_slot_is_open_for_the_longest_lifetime_sold() {
    for lives in [[100, 10], [10, 100]] {
        let mut slots = slots();
        for life in lives {
            let terms = SlotTerms {
                lifetime: Micros::from_secs(life),
                ..terms(2)
            };
            book_all(&mut slots, 0.0, &terms, 1);
        }
        // Its end, the lifetime and half of it.
        let grace = Micros::from_secs(15);
        assert_eq!(slots.close_due(secs(159.9), grace), None);
        assert!(slots.close_due(secs(160.0), grace).is_some());
    }
}

#[test]
fn the_ring_is_used_over_and_over_and_never_overwrites_an_open_slot() {
    let mut slots = slots();
    let short = SlotTerms {
        period: Micros::from_secs(1),
        ..terms(2)
    };
    let starts = book_all(&mut slots, 0.0, &short, 3 * SLOTS);
    assert_eq!(starts.len(), 2 * SLOTS);
    let mut now = secs(0.0);
    for _ in 0..20_000 {
        now = now + Micros::from_secs(1);
        while slots.close_due(now, Micros::ZERO).is_some() {}
        assert!(
            slots.book(now, now, &short, &mut |_, _| true).is_some(),
            "at {now:?}"
        );
    }
}

#[test]
fn states_of_open_slots_never_overlap() {
    let mut slots = slots();
    let wide = terms(100_000);
    let mut taken = 0_u64;
    for i in 0..20 {
        if slots
            .book(secs(0.0), secs(f64::from(i) * 10.0), &wide, &mut |_, _| {
                true
            })
            .is_some()
        {
            taken += 100_000;
        }
    }
    assert_eq!(taken, 1_000_000, "2^20 positions hold ten such slots");
    assert!(slots.close_due(secs(10.0), Micros::ZERO).is_some());
    assert!(
        slots
            .book(secs(10.0), secs(200.0), &wide, &mut |_, _| true)
            .is_some()
    );
}

#[test]
fn any_bit_pattern_is_survived() {
    let wild = Slot {
        seq: u32::MAX,
        capacity: u32::MAX,
        issue_limit: u32::MAX,
        late_share_ppm: u32::MAX,
        start: Micros::MAX,
        period: Micros::MAX,
        next: [u32::MAX; 2],
        sold: u32::MAX,
        sold_late: u32::MAX,
        fates: [u32::MAX; 4],
        ..Slot::EMPTY
    };
    for word in [u32::MAX, u32::MAX - 1, 1 << 31, 7] {
        let mut slots = slots();
        slots.newest = word;
        slots.oldest = word.wrapping_mul(3);
        slots.from = [word.wrapping_mul(5), u32::MAX];
        slots.last = [word.wrapping_mul(7), u32::MAX];
        for (n, slot) in slots.ring.iter_mut().enumerate() {
            *slot = Slot {
                seq: n as u32,
                start: Micros(word.into()),
                leased: word,
                ..wild
            };
        }
        assert!(slots.slot(8).is_some());
        let _ = (slots.open_count(), slots.in_stock(Micros::ZERO));
        for now in [0, 5, 1 << 40] {
            let now = Micros(now);
            let _ = slots.book(now, now, &terms(3), &mut |_, _| false);
            let _ = slots.rebook(now, now, &terms(3), &mut |_, _| true);
            let _ = slots.book(now, now, &terms(0), &mut |_, _| true);
            while slots.close_due(now, Micros::ZERO).is_some() {}
            let _ = (slots.open_slots().count(), slots.position(word, word));
            slots.settle(word, Fate::Redeemed);
        }
        let later = secs(1e9);
        while slots.close_due(later, Micros::ZERO).is_some() {}
        assert!(
            slots
                .book(later, later, &terms(3), &mut |_, _| true)
                .is_some(),
            "it sells again"
        );
    }
}

#[test]
fn where_places_are_leased_newcomers_are_sold_no_others() {
    let mut slots = slots();
    // Places of its own, sold while the store was away, then a lease that lies among them.
    assert_eq!(book_all(&mut slots, 4.0, &terms(5), 2), [4.0, 6.0]);
    let lease = SlotTerms {
        period: Micros::from_secs(2),
        ..terms(4)
    };
    assert!(slots.open_leased(secs(7.0), &lease));
    assert_eq!(slots.in_stock(secs(0.0)), 4);
    assert_eq!(slots.in_stock(secs(7.6)), 2);
    let leased = terms(0);
    assert_eq!(book_all(&mut slots, 4.0, &leased, 5), [7.0, 7.5, 8.0, 8.5]);
    assert_eq!(slots.in_stock(secs(0.0)), 0);
    // Without the store again: what is left of its own, though it is earlier.
    assert_eq!(book_all(&mut slots, 4.0, &terms(5), 2), [8.0, 10.0]);
    // An own slot that is over stands in nobody's way.
    assert!(slots.open_leased(secs(70.0), &lease));
    assert_eq!(book_all(&mut slots, 60.0, &leased, 2), [70.0, 70.5]);
    assert_eq!(slots.from[Pool::Newcomers as usize], 3);
}

#[test]
fn however_many_leases_are_sold_out_behind_an_own_place_the_next_is_found() {
    let mut slots = slots();
    // Far ahead, and not over while the leases are sold.
    assert_eq!(book_all(&mut slots, 5000.0, &terms(5), 1), [5000.0]);
    let lease = |slots: &mut Slots, n: u32| {
        let one = SlotTerms {
            period: Micros::from_secs(1),
            ..terms(1)
        };
        slots.open_leased(secs(f64::from(n)), &one)
    };
    let leased = terms(0);
    for n in 10..10 + 3 * STEPS {
        assert!(lease(&mut slots, n));
        let sold = book_all(&mut slots, 4.0, &leased, 2);
        assert_eq!(sold, [f64::from(n)]);
    }
    assert_eq!(slots.open_count(), 3 * STEPS + 1);
    // Without the store the rest of the own slot is sold, and then another, behind the last lease.
    let without = book_all(&mut slots, 4.0, &terms(5), 6);
    let last = f64::from(10 + 3 * STEPS);
    let want = [5002.0, 5004.0, 5006.0, 5008.0, last, last + 2.0];
    assert_eq!(without, want);
}
