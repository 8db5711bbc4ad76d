use proptest::prelude::*;

use super::*;

/// Pages that begin at these limits, each with a queue.
fn begun(starts: &[u32]) -> Vec<PageScheduler> {
    let begin = |start: &u32| {
        let mut page = PageScheduler::default();
        let pace = Pace {
            law: law::AUTO,
            start: *start,
            lo: 1,
            hi: 256,
            ..Pace::default()
        };
        page.configure(pace, Micros(1));
        page
    };
    starts.iter().map(begin).collect()
}

/// This many looks, at each of which ten more of every page have finished; `but` says what
/// differs.
fn look_on(
    pacer: &mut Pacer,
    pages: &mut [PageScheduler],
    looks: std::ops::Range<u64>,
    but: impl Fn(usize, Look) -> Look,
) {
    for nth in looks {
        let look = |at| {
            let look = Look {
                finished: 10 * nth as u32,
                running: 1,
                waiting: 9,
                residence_s: 0.1,
                ..Look::default()
            };
            Some(but(at, look))
        };
        pacer.look(
            pages,
            Micros::from_millis(1000 + 250 * nth),
            look,
            |_, _| (),
        );
    }
}

#[test]
fn a_page_whose_limit_is_set_by_hand_leaves_the_token_to_the_others() {
    let (mut pages, mut pacer) = (begun(&[4, 4]), Pacer::default());
    look_on(&mut pacer, &mut pages, 0..2, |_, look| look);
    assert_eq!(pacer.holder(), Some(0));
    let first = |at, look: Look| Look {
        by_hand: (at == 0).then_some(40),
        running: if at == 0 { 40 } else { 1 },
        ..look
    };
    let moves = |pages: &[PageScheduler]| [pages[0].moves(), pages[1].moves()];
    assert_eq!(moves(&pages), [1, 1], "both have begun");
    look_on(&mut pacer, &mut pages, 2..200, first);
    assert_eq!(pacer.holder(), Some(1));
    assert!(moves(&pages)[0] == 1 && moves(&pages)[1] > 1);
    look_on(&mut pacer, &mut pages, 200..800, |_, look| look);
    assert!(moves(&pages)[0] > 1, "its turn came again");
}

#[test]
fn a_window_of_unlike_accesses_tells_no_more_than_the_few_that_weigh_most() {
    let mut page = PageScheduler::default();
    let mut counted = 0.0;
    for (finished, weight_s) in [(25, 0.01), (1, 0.58), (25, 0.01)] {
        let mut total = Total::default();
        total.add(finished, weight_s);
        [_, _, counted] = page.count(&total, PERIOD);
    }
    // 50 and 1, as noisy as three equal ones: (0.5 + 0.58)^2 / (0.005 + 0.34).
    assert!((3.0..4.0).contains(&counted), "{counted}");
}

#[test]
fn who_hangs_above_a_lowered_limit_is_waited_for_a_minute_and_no_longer() {
    let (mut pages, mut pacer) = (begun(&[4]), Pacer::default());
    let hang = |_, look| Look { running: 9, ..look };
    look_on(&mut pacer, &mut pages, 0..230, hang);
    assert_eq!(pages[0].moves(), 1, "it has begun");
    look_on(&mut pacer, &mut pages, 230..300, hang);
    assert!(pages[0].moves() > 1);
}

#[test]
fn a_page_that_is_not_in_use_leaves_its_part_of_the_budget_to_the_others() {
    let pages = begun(&[120, 4, 5]);
    let pacer = Pacer {
        budget: 128,
        ..Pacer::default()
    };
    let used = |_| Some(Look::default());
    assert_eq!(pacer.most(&pages, 1, used), 3);
    assert_eq!(
        pacer.most(&pages, 1, |at| used(at).filter(|_| at != 0)),
        123
    );
    let by_hand = |at| {
        let by_hand = (at == 0).then_some(20);
        used(at).map(|look| Look { by_hand, ..look })
    };
    assert_eq!(pacer.most(&pages, 1, by_hand), 103);
}

/// A crowd that waits has been promised all that is free.
#[test]
fn the_papers_law_stays_where_others_leave_it_nothing() {
    let mut page = PageScheduler::default();
    let pace = Pace {
        law: law::PAPER,
        start: 8,
        lo: 1,
        hi: 64,
        ..Pace::default()
    };
    page.configure(pace, Micros(1));
    let (mut pages, mut pacer) = (vec![page], Pacer::default());
    pacer.budget = 1;
    let mut finished = 0_u32;
    for nth in 1..4000 {
        // What is done grows with the limit.
        finished += pages[0].limit;
        let look = |_| {
            Some(Look {
                finished,
                waiting: 9,
                residence_s: 0.1,
                ..Look::default()
            })
        };
        pacer.look(&mut pages, Micros::from_millis(250 * nth), look, |_, _| ());
        assert!((6..=8).contains(&pages[0].limit), "{}", pages[0].limit);
    }
}

#[test]
fn what_accesses_take_under_a_limit_set_by_hand_is_not_what_they_weigh() {
    let (mut pages, mut pacer) = (begun(&[4]), Pacer::default());
    look_on(&mut pacer, &mut pages, 0..40, |_, look| look);
    let before = pages[0].weight.seconds();
    let forty = |_, look: Look| Look {
        by_hand: Some(40),
        residence_s: 1.0,
        ..look
    };
    look_on(&mut pacer, &mut pages, 40..1000, forty);
    assert_eq!(pages[0].weight.seconds(), before);
}

#[test]
fn stray_writes_do_not_hold_a_window_open() {
    let strays: [fn(&mut PageScheduler); 2] = [
        |page| page.elapsed = (-1e12_f64).to_bits(),
        |page| page.reached = Micros(u64::MAX),
    ];
    for (nth, stray) in strays.iter().enumerate() {
        let (mut pages, mut pacer) = (begun(&[4]), Pacer::default());
        look_on(&mut pacer, &mut pages, 0..20, |_, look| look);
        let before = pages[0].moves();
        stray(&mut pages[0]);
        look_on(&mut pacer, &mut pages, 20..300, |_, look| look);
        assert!(pages[0].moves() > before + 1, "stray {nth}");
    }
}

/// What one page's gate counts at a look: finished, came in at once, under way, in the queue,
/// set by hand; none: not in use.
type Counted = Option<([u32; 2], u32, u32, Option<u32>)>;

fn counted() -> impl Strategy<Value = Counted> {
    let by_hand = prop::option::weighted(0.1, 1_u32..64);
    let counts = (
        prop::array::uniform2(0_u32..40),
        0_u32..64,
        0_u32..20,
        by_hand,
    );
    prop::option::weighted(0.9, counts)
}

proptest! {
    /// However little is left, and however that moves: a page stays within its bounds, takes no
    /// more than others leave it unless it had it before, and the gate is told every limit.
    #[test]
    fn a_small_budget_that_moves_bounds_growth_and_nothing_else(
        starts in prop::collection::vec(1_u32..32, 1..4),
        hi in 2_u32..64,
        looks in prop::collection::vec((prop::array::uniform3(counted()), 1_u32..40), 1..400),
    ) {
        let mut pages = begun(&starts);
        for page in &mut pages {
            page.configure(Pace { hi, start: page.pace.start.min(hi), ..page.pace }, Micros(1));
        }
        let mut told: Vec<u32> = pages.iter().map(|page| page.limit).collect();
        // The highest limit that each has had, or was in the middle of.
        let mut had: Vec<u32> = pages.iter().map(|page| page.hill.claim()).collect();
        let (mut pacer, mut sums) = (Pacer::default(), [[0_u32; 2]; 3]);
        for (nth, (seen, budget)) in looks.iter().enumerate() {
            pacer.budget = *budget;
            for (sum, seen) in sums.iter_mut().zip(seen) {
                let [finished, passed] = seen.map_or([0, 0], |(more, ..)| more);
                *sum = [sum[0].wrapping_add(finished), sum[1].wrapping_add(passed.min(finished))];
            }
            let look = |at: usize| {
                let (_, running, waiting, by_hand) = seen[at]?;
                let [finished, passed] = sums[at];
                Some(Look { finished, passed, running, waiting, by_hand, residence_s: 0.1 })
            };
            let most: Vec<u32> = (0..pages.len()).map(|at| pacer.most(&pages, at, look)).collect();
            let now = Micros::from_millis(1000 + 250 * nth as u64);
            pacer.look(&mut pages, now, look, |at, limit| told[at] = limit);
            for (at, page) in pages.iter().enumerate() {
                prop_assert!((1..=hi).contains(&page.limit), "{}", page.limit);
                prop_assert_eq!(told[at], page.limit, "page {}", at);
                prop_assert!(page.limit <= had[at].max(most[at]), "{} {:?}", at, page.hill);
                had[at] = had[at].max(page.hill.claim());
            }
        }
    }
}
