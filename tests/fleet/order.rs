//! Who is refused earlier has the earlier ticket, whichever nodes the two came to.

use nap_testkit::fleet::Fleet;
use nap_testkit::held::Held;
use nap_testkit::long;
use nap_testkit::ticket::Ticket;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const ROOM: &str = "
<NapRoom shop>
NapRunReady 1
NapWaitMax 1s
NapWaitLimit 0
NapReAccess 60
NapTicketsPerClient 100000
</NapRoom>
<LocationMatch ^/(work|cgi-bin)>
NapUse shop
</LocationMatch>
";

/// So many come for each that three nodes serve, with pages of [`page`].
const OVERLOAD: f64 = 3.0;

/// A page, and how far apart visitors come, in milliseconds: three nodes serve three in its time.
fn page() -> (&'static str, u64) {
    match long() {
        true => ("/work?cpu=1&sleep=900", 100),
        false => ("/work?cpu=1&sleep=300", 33),
    }
}

/// Of ten visitors, how many come to each node: .5, .3, .2.
const DEAL: [usize; 10] = [0, 1, 2, 0, 1, 0, 0, 2, 1, 0];

/// A refused visitor: the node, when the answer was here, and how long to wait.
struct Told {
    node: usize,
    at: Instant,
    wait: f64,
}

impl Told {
    /// When the ticket begins, in seconds from `from`.
    fn start(&self, from: Instant) -> f64 {
        self.at.duration_since(from).as_secs_f64() + self.wait
    }
}

#[test]
fn whoever_is_refused_earlier_has_the_earlier_ticket() {
    let fleet = Fleet::builder(3)
        .node(|node| {
            let node = node.work().holding().config(ROOM);
            node.expect_log(
                "[nap:warn]",
                "the room tells of settings that are too small",
            )
        })
        .start();
    let (page, apart) = page();
    // What the nodes serve a second becomes known; then all are full.
    scope(|scope| {
        for node in fleet.nodes() {
            scope.spawn(|| (0..12).for_each(|_| assert_eq!(node.get(page).status, 200)));
        }
    });
    let nodes = fleet.nodes().iter();
    let held: Vec<Held<'_>> = nodes.map(|node| node.hold("all", 1)).collect();
    let visitors = if long() { 300 } else { 100 };
    let began = Instant::now();
    let mut told = Vec::new();
    let mut deal = DEAL.into_iter().cycle();
    while told.len() < visitors {
        let node = deal.next().expect("it goes on for ever");
        let ticket = Ticket::of(&fleet.node(node).get(page));
        told.push(Told {
            node,
            at: ticket.issued,
            wait: ticket.from,
        });
        sleep(Duration::from_millis(apart));
    }
    drop(held);
    let starts: Vec<f64> = told.iter().map(|told| told.start(began)).collect();
    let (mut pairs, mut wrong, mut worst) = (0, 0, 0.0_f64);
    for (later, told_later) in told.iter().enumerate() {
        for (earlier, told_earlier) in told[..later].iter().enumerate() {
            let apart = told_later.at.duration_since(told_earlier.at);
            if apart > Duration::from_secs(1) {
                pairs += 1;
                wrong += usize::from(starts[later] < starts[earlier]);
                worst = worst.max(starts[earlier] - starts[later]);
            }
        }
    }
    let waits: Vec<f64> = (0..3)
        .map(|n| {
            let here = told.iter().filter(|told| told.node == n);
            let waits: Vec<f64> = here.map(|told| told.wait).collect();
            waits.iter().sum::<f64>() / waits.len() as f64
        })
        .collect();
    let said =
        format!("{wrong} of {pairs} pairs, by {worst:.2} s at most; mean waits {waits:.3?} s");
    eprintln!("{said}");
    assert!(pairs > 1_000, "{said}");
    assert!(wrong * 100 <= pairs, "{said}");
    // In a short run a node sells what it leased a third of a second ago; meanwhile others are sold a third of a second's
    // refusals later places.
    let stock = if long() { 0.0 } else { OVERLOAD / 3.0 };
    let [least, most] = [f64::min, f64::max].map(|of| waits.iter().copied().fold(waits[0], of));
    assert!(most <= 1.05 * least + stock, "{said}");
}
