//! One of three nodes is cut off from the store for a minute (`cut=` seconds), and cut off from nothing else: what do the
//! other two serve meanwhile, compared with the minute before and with the one after? Each has a limit of its own, and half
//! as many newcomers again as all of them serve come, so that all sell tickets, and each other's come back to them.

use crate::board;
use crate::pairs::{self, Machine};
use nap_testkit::cut::Way;
use nap_testkit::fleet::Fleet;
use nap_testkit::{made, wait_until};
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// Three times four at once, and a tenth of a second each: 120 a second.
const ROOM: &str = "
<NapRoom shop>
NapRunReady 4
NapWaitMax 4s
</NapRoom>
<Location /counter>
NapUse shop
</Location>";
const PAGE: &str = "/counter?ms=100";
const NEWCOMERS: &str = "180";
const BOUND: &str = "4s";

const CUT_OFF: usize = 1;
const OTHERS: [usize; 2] = [0, 2];

/// Until the nodes know how fast they are, and holders come back.
const BEFORE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(60);
/// Of what the others served before and after.
const SERVED: f64 = 0.95;

pub fn run() -> bool {
    let rounds = board::number_option("rounds=", "1");
    let seconds = board::number_option("cut=", "60").max(10);
    println!(
        "\nOne of three nodes is cut off from the store for {seconds} s:\n\n\
         | the others serve | meanwhile | after | ratio | wanted | redeemed elsewhere | put off | broken | machine busy % \
         |\n|{}",
        "---:|".repeat(9)
    );
    (0..rounds).fold(true, |all_hold, round| one(round, seconds) & all_hold)
}

fn one(round: u32, seconds: u32) -> bool {
    let label = format!("fleet cut {round}");
    eprintln!("{label}");
    let builder = Fleet::builder(3).with_cuts().node(|node| {
        let node = node.config(ROOM).access_log_format(pairs::WAITS);
        node.expect_log("the store is away (", "it is cut off")
            .expect_log(" is silent since ", "it is cut off")
            .expect_log(
                "[nap:warn]",
                "the room tells of settings that are too small",
            )
    });
    let fleet = builder.start();
    let seed = (round + 1).to_string();
    let options = [
        ["--open", NEWCOMERS],
        ["--duration", "1h"],
        ["--bound", BOUND],
        ["--again", "2s"],
        ["--stop", "1h"],
        ["--seed", &seed],
        ["--label", &label],
    ];
    let crowd = fleet.crowd_later(PAGE, &[&options.concat()[..], &["--get"]].concat());
    sleep(BEFORE);
    let machine = Machine::now();
    let before = served(&fleet, seconds);
    fleet.cut(CUT_OFF).turn(Way::Cut);
    wait_until("the others miss it", PATIENCE, || {
        OTHERS.iter().all(|n| fleet.sees(*n, "silent") == 1)
    });
    let meanwhile = served(&fleet, seconds);
    fleet.cut(CUT_OFF).turn(Way::Open);
    fleet.until_members(3);
    let after = served(&fleet, seconds);
    let busy = 100.0 * machine.busy_since();
    let report = crowd.close_after(Duration::ZERO);
    board::keep(&made::directory("bench"), &label, &report);
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64);
    let [elsewhere, put_off, broken] = [
        "/nodes/redeemed_elsewhere",
        "/promises/deferred",
        "/promises/broken",
    ]
    .map(|pointer| number(pointer).unwrap_or(f64::NAN));
    let ratio = meanwhile / ((before + after) / 2.0);
    println!(
        "| {before:.1} | {meanwhile:.1} | {after:.1} | {ratio:.3} | >= {SERVED} | {elsewhere} | {put_off} | {broken} | \
         {busy:.0} |"
    );
    pairs::holds(&[
        (
            ratio >= SERVED,
            format!(
                "the others serve {ratio:.3} of what they serve otherwise, {SERVED} is wanted{}",
                pairs::if_busy(&[busy])
            ),
        ),
        (broken == 0.0, format!("{broken} promises were broken")),
    ])
}

/// How many the others serve a second, in the next `seconds`.
fn served(fleet: &Fleet, seconds: u32) -> f64 {
    let now = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.expect("after 1970").as_secs()
    };
    // Nobody looks at /nap-info from the next second on.
    let begun = now() + 1;
    sleep(Duration::from_secs(seconds.into()));
    // Accesses that came in the last of them are not all over.
    let these = begun..now().saturating_sub(5);
    let each = OTHERS.map(|n| pairs::waits(&these, &fleet.node(n).access_log()).len());
    each.iter().sum::<usize>() as f64 / (these.end - these.start) as f64
}
