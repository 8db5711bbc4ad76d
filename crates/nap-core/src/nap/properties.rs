//! Properties of ledger, slots and ticket that must hold whatever is asked of them, beside the
//! examples in their own files. A failing case is made small and printed by proptest.

use proptest::prelude::*;

use super::cookie::cookies;
use super::ledger::{CELL, Ledger};
use super::slots::{SlotTerms, Slots};
use super::ticket::{Key, Keys, TEXT, Ticket};
use crate::micros::Micros;

const NOW: u64 = 1_000_000;

fn secs(s: u64) -> Micros {
    Micros::from_secs(NOW + s)
}

/// Spans in microseconds after [`NOW`].
fn span() -> impl Strategy<Value = (Micros, Micros)> {
    (0..120_000_000_u64, 1..30_000_000_u64).prop_map(|(start, length)| {
        let start = secs(0) + Micros(start);
        (start, start + Micros(length))
    })
}

fn ledger() -> Box<Ledger> {
    let mut ledger = Box::new(Ledger::EMPTY);
    ledger.advance(secs(0));
    ledger
}

/// The windows open in each of the cells that spans may touch.
fn counts(ledger: &Ledger) -> Vec<u32> {
    (0..320)
        .map(|cell| secs(0) + Micros(cell * CELL.0))
        .map(|at| ledger.max_claims(at, at))
        .collect()
}

prop_compose! {
    fn any_ticket()(
        numbers in any::<(u8, u8, u16, u64, u32, u32, u32, u32)>(),
        times in (0..1_u64 << 60, 0..1_u64 << 40, 0..1_u64 << 40),
        serial in any::<u32>(),
        id in any::<u64>(),
    ) -> Ticket {
        let (flags, node, lease, epoch, room, gate, slot, index) = numbers;
        let start = Micros(times.0);
        let prime_end = start + Micros(times.1);
        let end = prime_end + Micros(times.2);
        let bind = serial.rotate_left(7);
        Ticket { flags, node, lease, epoch, room, gate, slot, index, serial, start, prime_end, end, bind, id }
    }
}

proptest! {
    #[test]
    fn a_window_that_fits_leaves_no_moment_above_the_limit(
        spans in prop::collection::vec(span(), 1..60),
        limit in 1..6_u32,
    ) {
        let mut ledger = ledger();
        let mut held = Vec::new();
        for (start, end) in spans {
            let most = ledger.max_claims(start, Micros(end.0 - 1));
            let fits = ledger.fits(start, end, limit);
            prop_assert_eq!(fits, most < limit, "from its own cell to its last");
            if fits {
                ledger.claim(start, end);
                held.push((start, end));
            }
            prop_assert!(counts(&ledger).into_iter().all(|claims| claims <= limit));
        }
        for cell in 0..320 {
            let from = secs(0) + Micros(cell * CELL.0);
            let to = from + CELL;
            let own = held.iter().filter(|&&(start, end)| start < to && from < end).count();
            prop_assert_eq!(ledger.max_claims(from, from) as usize, own);
        }
    }

    /// The token bucket of the sale: tickets no closer than 1/X, each sold only where it fits, some
    /// redeemed or given up. Whatever the rest do within their windows, no span sees more of them
    /// than L, X a second of its cells, and the one more that its first cell may hold.
    #[test]
    fn no_span_sees_more_tickets_than_the_bucket_holds(
        (x, limit) in (2..20_u64, 1..40_u32),
        tickets in prop::collection::vec((0..3_u64, 100_000..6_000_000_u64, 0..5_u8), 1..200),
        (from, length) in (0..60_u64, 0..40_u64),
    ) {
        let mut ledger = ledger();
        let mut start = secs(1);
        for (skipped, window, fate) in tickets {
            start = start + Micros((1 + skipped) * 1_000_000 / x);
            let end = start + Micros(window);
            if ledger.fits(start, end, limit) {
                ledger.claim(start, end);
                if fate == 0 {
                    ledger.unclaim(start, end);
                }
            }
        }
        let (from, to) = (secs(0) + Micros(from * CELL.0), secs(0) + Micros((from + length) * CELL.0));
        let came = u64::from(ledger.windows_between(from, to));
        let bucket = u64::from(limit) + (x * length * CELL.0).div_ceil(1_000_000) + 1;
        prop_assert!(came <= bucket, "{} of {}", came, bucket);
    }

    #[test]
    fn giving_up_a_claim_undoes_it(
        before in prop::collection::vec(span(), 0..20),
        (start, end) in span(),
    ) {
        let mut ledger = ledger();
        for (start, end) in before {
            ledger.claim(start, end);
        }
        let was = counts(&ledger);
        ledger.claim(start, end);
        prop_assert_ne!(counts(&ledger), was.clone());
        ledger.unclaim(start, end);
        prop_assert_eq!(counts(&ledger), was);
    }

    #[test]
    fn a_wider_span_shows_no_fewer_claims_and_admits_nobody_more(
        claims in prop::collection::vec(span(), 0..20),
        (from, to) in span(),
        (earlier, later) in (0..30_000_000_u64, 0..30_000_000_u64),
        (queued, limit, drain) in (0..8_u32, 0..8_u32, 0.0..3.0_f64),
    ) {
        let mut ledger = ledger();
        for (start, end) in claims {
            ledger.claim(start, end);
        }
        let (narrow, wide) = (to - from, to - from + Micros(later));
        let least = ledger.max_claims(from, to);
        prop_assert!(least <= ledger.max_claims(from - Micros(earlier), to + Micros(later)));
        let admits = |bound, queued, limit| ledger.admits(from, bound, queued, limit, drain);
        prop_assert!(!admits(wide, queued, limit) || admits(narrow, queued, limit));
        prop_assert!(!admits(narrow, queued + 1, limit) || admits(narrow, queued, limit));
        prop_assert!(!admits(narrow, queued, limit) || admits(narrow, queued, limit + 1));
        let slower = ledger.admits(from, narrow, queued, limit, drain / 2.0);
        prop_assert!(!slower || admits(narrow, queued, limit));
    }

    #[test]
    fn no_place_is_sold_twice_nor_outside_its_slot(
        (capacity, overbooked, late_share_ppm) in (1..12_u32, 0..4_u32, 0..300_000_u32),
        visitors in prop::collection::vec((0..3_000_u64, 0..40_000_u64, any::<bool>(), 0..4_u64), 1..80),
    ) {
        let terms = SlotTerms {
            period: Micros::from_secs(10),
            capacity,
            issue_limit: capacity + overbooked,
            late_share_ppm,
            horizon: Micros::from_secs(3600),
            bound: Micros::from_secs(4),
            prime: Micros::from_secs(3),
            lifetime: Micros::ZERO,
        };
        let mut slots = Box::new(Slots::EMPTY);
        let mut now = secs(0);
        let (mut sold, mut positions) = (Vec::new(), Vec::new());
        for (passed, ahead, late, refused) in visitors {
            now = now + Micros::from_millis(passed);
            let first = now + Micros::from_millis(ahead);
            let mut may = |_: &_, start: Micros| refused == 0 || start.secs_floor() % 4 != refused;
            let booking = match late {
                true => slots.rebook(now, first, &terms, &mut may),
                false => slots.book(now, first, &terms, &mut may),
            };
            let Some(booking) = booking else { continue };
            let slot = slots.slot(booking.seq).expect("just sold from");
            prop_assert!(booking.start >= first);
            prop_assert!(slot.start <= booking.start && booking.start < slot.end());
            prop_assert!(slot.sold_in_all() <= slot.issue_limit);
            prop_assert!(refused == 0 || booking.start.secs_floor() % 4 != refused);
            let place = (booking.seq, booking.index);
            prop_assert!(!sold.contains(&place), "{:?} sold twice", place);
            sold.push(place);
            let position = booking.position;
            prop_assert!(!positions.contains(&position), "{} is another's state", position);
            positions.push(position);
        }
    }

    #[test]
    fn a_ticket_opens_as_it_was_sealed_and_no_other_text_does(
        ticket in any_ticket(),
        (at, bit) in (0..TEXT, 0..8_u32),
        secret in prop::collection::vec(any::<u8>(), 16..40),
    ) {
        let keys = Keys::new(vec![Key::new(3, &secret)]).expect("one key");
        let text = ticket.seal(keys.signing().expect("one key")).into_bytes();
        prop_assert_eq!(Ticket::open(&text, &keys), Ok(ticket));
        prop_assert!(Ticket::open(&text[..at], &keys).is_err());
        prop_assert!(Ticket::open(&[&text[..], &text[at..=at]].concat(), &keys).is_err());
        let mut changed = text;
        changed[at] ^= 1 << bit;
        prop_assert!(Ticket::open(&changed, &keys).is_err());
    }

    #[test]
    fn four_tickets_over_several_headers_are_found_in_any_order(
        values in prop::collection::vec("[A-Za-z0-9_-]{1,120}", 4),
        others in prop::collection::vec(("[a-z]{4,8}", "[!-+./-:<-~]{0,20}"), 0..6),
        keys in prop::collection::vec(any::<u32>(), 10),
        cuts in prop::collection::vec(prop::sample::select(vec!["; ", ";", ", ", "\n"]), 10),
    ) {
        let own = values.iter().map(|value| format!("nap={value}"));
        let others = others.iter().map(|(name, value)| format!("{name}={value}"));
        let mut pairs: Vec<(u32, String)> = keys.iter().copied().zip(own.chain(others)).collect();
        pairs.sort();
        let text: String = pairs.iter().zip(cuts).map(|((_, pair), cut)| pair.clone() + cut).collect();
        let mut found: Vec<&[u8]> = text
            .lines()
            .flat_map(|header| cookies(header.as_bytes(), [b"nap"]))
            .collect();
        let mut expected: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}
