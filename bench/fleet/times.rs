//! How soon a fleet is whole again, and does as it is told. Each is done `times=` times, and the longest counts:
//!
//! - **closed, open again**: from an order at one node until all do so, both ways;
//! - **rights back**: from when a node is killed that holds rights to a shared limit, until the others have all of them;
//! - **joined again**: from when it answers again, until all see three nodes;
//! - **joined, started at once**: from when it is started just after it was killed, until it has joined. Its name is still
//!   another server's for three seconds;
//! - **another store**: from when the primary of three Sentinels is killed, until all nodes speak with the replica. The Sentinels
//!   take a second to believe that it is dead;
//! - **told again** (`told.rs`): from when a store answers that has lost which tickets are used, until it knows it again: it was
//!   emptied, killed, or has taken over.
//!
//! It is looked each 5 ms, and a look takes as long as the page does.

use crate::board;
use crate::pairs;
use crate::told;
use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::store::{Sentinels, Store};
use nap_testkit::wait_until;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Of all nodes together.
const LIMIT: u64 = 6;
/// After so many seconds of silence a node has no rights.
const FORGET: u32 = 5;

const SITE: &str = "
<NapRoom shop>
NapRunReady 6 shared
NapWaitMax 2s
</NapRoom>
<Location /counter>
NapUse shop
</Location>
NapControl /nap-control
<Location /nap-control>
SetHandler nap-control
NapUse None
</Location>";

/// What is measured, the most that it may take, and what it took, in seconds.
type Row = (&'static str, f64, Vec<f64>);

pub fn run() -> bool {
    let times = board::number_option("times=", "3");
    eprintln!("fleet times, {times} times");
    let closed = (0..times).flat_map(|_| closes()).collect();
    let [rights, joined, at_once] = kills(times);
    let another = (0..times).map(|_| another_store()).collect();
    let told = |of: fn() -> f64| (0..times).map(|_| of()).collect();
    let rows: [Row; 8] = [
        ("closed, open again", 0.5, closed),
        ("rights back", f64::from(FORGET) + 1.0, rights),
        ("joined again", 4.0, joined),
        ("joined, started at once", 4.0, at_once),
        ("another store", 5.0, another),
        ("told again, emptied", 1.0, told(told::emptied)),
        ("told again, killed", 2.0, told(told::comes_back)),
        ("told again, taken over", 1.0, told(told::taken_over)),
    ];
    println!("\n| | seconds, of {times} | longest | wanted | held |\n|---|---|---:|---:|---|");
    let mut claims = Vec::new();
    for (what, wanted, took) in &rows {
        let longest = pairs::most(took);
        let held = longest <= *wanted;
        let word = if held { "yes" } else { "**no**" };
        println!(
            "| {what} | {} | {longest:.2} | {wanted} | {word} |",
            pairs::spread(took, 2)
        );
        claims.push((
            held,
            format!("{what} took {longest:.2} s, {wanted} is wanted"),
        ));
    }
    pairs::holds(&claims)
}

/// Three nodes that share a limit.
pub fn fleet() -> FleetBuilder {
    let builder = Fleet::builder(3).options(&format!("forget={FORGET}s"));
    builder.node(|node| {
        node.config(SITE)
            .expect_log("nap-control (no user name): ", "it is closed and opened")
            .expect_log("(ordered at web", "it is closed and opened")
            .expect_log(" is silent since ", "it is killed")
            .expect_log(
                " is the name of another server that is alive (",
                "it is started at once",
            )
            .expect_log("the store is away (", "it, or its primary, is killed")
            .expect_log("the store was emptied", "it is")
            .expect_log(
                "[nap:warn]",
                "the room tells of settings that are too small",
            )
    })
}

/// Until then, in seconds since `began`.
pub fn until(what: &str, began: Instant, holds: impl FnMut() -> bool) -> f64 {
    wait_until(what, PATIENCE, holds);
    began.elapsed().as_secs_f64()
}

/// From an order at one node until all do so: closed, and open again.
fn closes() -> [f64; 2] {
    let fleet = fleet().start();
    // A new store gives no rights for two seconds: who comes before that waits for it.
    for node in fleet.nodes() {
        assert_eq!(node.get("/counter?ms=1").status, 200);
    }
    [("do=close&room=shop", true), ("do=open&room=shop", false)].map(|(body, closed)| {
        let began = Instant::now();
        let answer = fleet.order(0, 0, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        until("all do as they are told", began, || {
            fleet.nodes().iter().all(|node| {
                let answer = node.get("/counter?ms=1");
                (answer.header("nap-reason") == Some("closed")) == closed
            })
        })
    })
}

/// A node is killed, and started again, while the limit is used: when the others have its rights, and at once.
fn kills(times: u32) -> [Vec<f64>; 3] {
    let mut fleet = fleet().start();
    let options = "--get --bound 2s --again 5s --stop 1h --open 150 --duration 1h";
    let options: Vec<&str> = options.split(' ').collect();
    let crowd = fleet.crowd_later("/counter?ms=50", &options);
    let rights = |fleet: &Fleet, nodes: &[usize]| -> u64 {
        fleet.figures(nodes, "/run_ready/limit").iter().sum()
    };
    let all_hold_some = |fleet: &Fleet| {
        wait_until("each node holds some", PATIENCE, || {
            fleet
                .figures(&[0, 1, 2], "/run_ready/limit")
                .iter()
                .all(|held| *held > 0)
                && rights(fleet, &[0, 1, 2]) == LIMIT
        });
    };
    let mut took = [const { Vec::new() }; 3];
    for _ in 0..times {
        all_hold_some(&fleet);
        let began = Instant::now();
        fleet.kill(1);
        took[0].push(until("the others have all of it", began, || {
            rights(&fleet, &[0, 2]) == LIMIT
        }));
        fleet.start_again(1);
        let began = Instant::now();
        took[1].push(until("all see three", began, || {
            (0..3).all(|n| fleet.sees(n, "alive") == 3)
        }));
        all_hold_some(&fleet);
        fleet.kill(1);
        let began = Instant::now();
        fleet.start_again(1);
        took[2].push(until("it has joined", began, || {
            fleet.info(1)["fleet"]["store"]["state"] == "joined"
        }));
        fleet.until_members(3);
    }
    // The last of them is back.
    crowd.close_after(Duration::ZERO);
    assert!(fleet.counter().max <= LIMIT, "never more at once");
    took
}

fn another_store() -> f64 {
    let mut primary = Store::start();
    let replica = Store::replica_of(&primary);
    let sentinels = Sentinels::of(&primary);
    let fleet = fleet().at_store(&sentinels.url()).start();
    let began = Instant::now();
    primary.kill();
    let took = until("all speak with the other", began, || {
        replica.ask(&["ROLE"]).starts_with("master")
            && (0..3).all(|n| fleet.info(n)["fleet"]["store"]["state"] == "joined")
    });
    drop(fleet);
    took
}
