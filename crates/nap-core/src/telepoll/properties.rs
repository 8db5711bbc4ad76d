//! Properties of an event that must hold whatever polls it, beside the examples in its own file. A
//! failing case is made small and printed by proptest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::{Event, Form, Mode, PollTerms, ticket_interval};
use crate::micros::Micros;

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Level),
        Just(Mode::Relevel),
        Just(Mode::Concentrate)
    ]
}

fn any_form() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Smooth), Just(Form::Paper)]
}

prop_compose! {
    fn any_terms()(
        base in 1..3600_u64,
        rate in 0.01..100_000.0_f64,
        mode in any_mode(),
        form in any_form(),
        k in 1..=100_u16,
        phase in (0..64_u16, 1..=64_u16),
    ) -> PollTerms {
        let (m, of) = phase;
        PollTerms { mode, form, k, m: m % of, of, ..PollTerms::new(Micros::from_secs(base), rate) }
    }
}

/// Gaps between accesses, microseconds: bursts, trickles and silence.
fn gaps(n: usize) -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![
        4 => Just(0_u64),
        4 => 0..20_000_u64,
        2 => 0..2_000_000_u64,
        1 => 0..600_000_000_u64,
    ];
    prop::collection::vec(gap, 1..n)
}

fn polled(terms: &PollTerms, gaps: &[u64]) -> Vec<(Micros, super::Poll)> {
    let event = Event::default();
    event.set(terms);
    let mut now = Micros::from_secs(1_000_000);
    let one = |gap: &u64| {
        now = now + Micros(*gap);
        (now, event.poll(now).expect("it has terms"))
    };
    gaps.iter().map(one).collect()
}

proptest! {
    #[test]
    fn levelled_accesses_are_told_times_that_lie_t0_apart(
        terms in any_terms(), gaps in gaps(300),
    ) {
        let terms = PollTerms { mode: Mode::Level, form: Form::Smooth, ..terms };
        let polled = polled(&terms, &gaps);
        let again: Vec<u64> = polled.iter().map(|(now, poll)| (*now + poll.wait).0).collect();
        for pair in again.windows(2) {
            // They are told whole microseconds.
            prop_assert!((pair[1] - pair[0]).saturating_mul(1000) + 1000 >= terms.floor_ns);
        }
    }

    #[test]
    fn levelled_accesses_wait_at_least_the_base_interval_and_no_longer_than_their_turn(
        terms in any_terms(), gaps in gaps(300),
    ) {
        let terms = PollTerms { mode: Mode::Level, ..terms };
        for (i, (_, poll)) in polled(&terms, &gaps).iter().enumerate() {
            prop_assert!(poll.wait >= terms.base);
            let turn_us = (i as u64 * terms.floor_ns).div_ceil(1000);
            prop_assert!(poll.wait <= terms.base + Micros(turn_us), "{i}: {:?}", poll.wait);
        }
    }

    #[test]
    fn the_papers_form_never_lets_more_come_than_one_in_t0_but_for_the_first_tick(
        terms in any_terms(), gaps in gaps(300),
    ) {
        let terms = PollTerms { mode: Mode::Level, form: Form::Paper, ..terms };
        let polled = polled(&terms, &gaps);
        let mut again: Vec<u64> = polled.iter().map(|(now, poll)| (*now + poll.wait).0).collect();
        again.sort_unstable();
        // An access just before a tick is paid back at once: two within one T0, never three.
        for three in again.windows(3) {
            prop_assert!((three[2] - three[0]).saturating_mul(1000) + 2000 >= terms.floor_ns);
        }
    }

    #[test]
    fn nobody_who_polls_by_any_terms_comes_again_within_a_second(
        terms in any_terms(), gaps in gaps(200),
    ) {
        for (_, poll) in polled(&terms, &gaps) {
            prop_assert!(poll.wait >= Micros::from_secs(1));
        }
    }

    /// This is the smooth form. In the paper's, with its whole units, some stay several units late.
    #[test]
    fn patient_clients_reach_their_slots_and_stay(
        n in 1..200_u64, k in 1..5_u16, phase in 0..4_u16, starts in prop::collection::vec(any::<u32>(), 200),
    ) {
        let base = Micros::from_secs(60);
        let terms = PollTerms { mode: Mode::Concentrate, form: Form::Smooth, k, m: phase, of: 4, ..PollTerms::new(base, 1000.0) };
        let event = Event::default();
        event.set(&terms);
        let begin = 1_000_000 * 60_000_000;
        let mut due: BinaryHeap<Reverse<u64>> = (starts.iter().take(n as usize))
            .map(|at| Reverse(begin + u64::from(*at) % base.0))
            .collect();
        // Two periods to be counted and shifted, one more for a first that was cut in two.
        while due.peek().is_some_and(|first| first.0 < begin + 5 * base.0) {
            if let Some(Reverse(at)) = due.pop() {
                let told = event.poll(Micros(at)).expect("it has terms");
                due.push(Reverse(at + told.wait.0));
            }
        }
        let offset = terms.offset_ns() / 1000;
        let share = base.0 / u64::from(k);
        for Reverse(at) in due {
            let into = (at - offset) % base.0;
            prop_assert!(into <= share + base.0 / n / u64::from(k) + 1000, "{into} of {share}");
        }
    }

    #[test]
    fn any_bits_and_any_time_are_survived(
        bits in prop::array::uniform16(any::<u64>()), times in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let event = Event::from_bits(bits);
        for now in times {
            event.level(Micros(now));
            event.poll(Micros(now));
        }
        event.set(&PollTerms::new(Micros::from_secs(10), 500.0));
        let now = Micros::from_secs(1_000_000);
        let wait = event.poll(now).expect("it has terms").wait;
        prop_assert!(wait <= Micros::from_secs(31 * 86_400));
    }

    #[test]
    fn a_ticket_polls_no_sooner_than_told_and_never_past_its_start(
        left in 0..100_000_000_000_u64, wait in 0..100_000_000_000_u64,
    ) {
        let next = ticket_interval(Micros(left), Micros(wait));
        prop_assert!(next.0 <= left);
        prop_assert!(next.0 == left || (next.0 >= wait && next.0 >= left / 4));
    }
}
