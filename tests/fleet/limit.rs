//! The limits of the nodes hold: each one's own, and one that all share, wherever visitors come and whatever is killed.

use crate::crowd::{assert_all_kept, figure};
use nap_testkit::cut::Way;
use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::{Crowd, long, wait_until};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Of all nodes together.
const LIMIT: u64 = 6;

/// A node that is silent for so long has no part of it.
const FORGET: Duration = Duration::from_secs(12);

/// All nodes have it together, or each a third of it for itself.
const SHARED: &str = "6 shared";
const LOCAL: &str = "2";

const PAGE: &str = "/counter?ms=50";

/// The balancer likes one node best, and another one every now and then.
const LIKES: [[u32; 3]; 3] = [[80, 10, 10], [10, 80, 10], [10, 10, 80]];

fn shop(limit: &str) -> FleetBuilder {
    let room = format!(
        "<NapRoom shop>\nNapRunReady {limit}\nNapWaitMax 2s\n</NapRoom>\n\
         <Location /counter>\nNapUse shop\n</Location>"
    );
    Fleet::builder(3).node(|node| {
        let node = node.config(&room);
        node.expect_log(
            "[nap:warn]",
            "the room tells of settings that are too small",
        )
    })
}

/// Newcomers, more than the limit serves, until it is closed.
fn stream(fleet: &Fleet) -> Crowd {
    let options = "--get --bound 2s --again 5s --stop 1h --open 150 --duration 1h";
    fleet.crowd_later(PAGE, &options.split(' ').collect::<Vec<_>>())
}

/// Never more at once, and as many as that.
fn assert_limit_holds(fleet: &Fleet) {
    let counted = fleet.counter();
    assert_eq!(counted.max, LIMIT, "{counted:?}");
    assert_eq!(counted.running, 0, "{counted:?}");
}

#[test]
fn no_more_run_at_once_than_all_nodes_together_may() {
    let fleet = shop(SHARED).weights(&LIKES[0]).start();
    let (seconds, turns) = if long() { (300, 29) } else { (8, 3) };
    let crowd = stream(&fleet);
    for turn in 1..=turns {
        sleep(Duration::from_secs(if long() { 10 } else { 2 }));
        fleet.weigh(&LIKES[turn % 3]);
    }
    let report = crowd.close_after(Duration::from_secs(seconds));
    assert_all_kept(&report);
    assert_limit_holds(&fleet);
    assert!(figure(&report, "/nodes/redeemed_elsewhere") > 0.0);
}

#[test]
fn no_node_lets_in_more_than_it_may_when_all_come_at_once() {
    let fleet = shop(LOCAL).start();
    let options = "--get --bound 2s --stop 200s --posts 1 --ramp 100ms --clients";
    let clients = if long() { "3000" } else { "400" };
    let options: Vec<&str> = options.split(' ').chain([clients]).collect();
    let report = fleet.crowd("/counter?ms=100", &options);
    assert_all_kept(&report);
    assert_limit_holds(&fleet);
}

/// What these nodes may run together.
fn rights(fleet: &Fleet, nodes: &[usize]) -> u64 {
    fleet.figures(nodes, "/run_ready/limit").iter().sum()
}

#[test]
fn a_node_that_is_cut_off_goes_on_with_its_rights_and_no_more() {
    let mut fleet = shop(SHARED)
        .options(&format!("forget={}s", FORGET.as_secs()))
        .with_cuts()
        .start();
    fleet.expect_log(" is silent since ", "it is cut off");
    fleet.expect_log("the store is away (", "it is cut off");
    let crowd = stream(&fleet);
    wait_until("all of the limit is used", PATIENCE, || {
        fleet.counter().max == LIMIT
    });
    let cut = Instant::now();
    fleet.cut(1).turn(Way::Cut);
    wait_until("the others miss it", PATIENCE, || {
        fleet.sees(0, "silent") == 1 && fleet.sees(2, "silent") == 1
    });
    let kept = rights(&fleet, &[1]);
    assert!((1..LIMIT).contains(&kept), "{kept}");
    // The most at once, until shortly before it is forgotten.
    let mut most = 0;
    wait_until("the others have all of it", PATIENCE, || {
        let counted = fleet.counter().max;
        if cut.elapsed() < FORGET - Duration::from_secs(2) {
            most = counted;
        }
        rights(&fleet, &[0, 2]) == LIMIT
    });
    assert_eq!(most, LIMIT);
    assert_eq!(rights(&fleet, &[1]), kept, "its visitors go on");
    fleet.cut(1).turn(Way::Open);
    fleet.until_members(3);
    wait_until("nobody has more than a part", PATIENCE, || {
        rights(&fleet, &[0, 1, 2]) == LIMIT
    });
    let report = crowd.close_after(Duration::from_secs(if long() { 60 } else { 20 }));
    assert_all_kept(&report);
    assert_limit_was_kept(&fleet, LIMIT + kept);
    assert_eq!(fleet.counter().running, 0);
}

/// Never more at once.
fn assert_limit_was_kept(fleet: &Fleet, limit: u64) {
    let counted = fleet.counter();
    assert!(counted.max <= limit, "{counted:?}, not {limit}");
}

#[test]
fn the_share_of_a_node_that_is_killed_comes_back_to_the_others() {
    let mut fleet = shop(SHARED).options("forget=5s").start();
    fleet.expect_log(" is silent since ", "it is killed");
    let crowd = stream(&fleet);
    wait_until("all of the limit is used", PATIENCE, || {
        fleet.counter().max == LIMIT
    });
    fleet.kill(1);
    wait_until("the others have all of it", PATIENCE, || {
        rights(&fleet, &[0, 2]) == LIMIT
    });
    fleet.start_again(1);
    fleet.until_members(3);
    wait_until("it has its part again", PATIENCE, || {
        fleet.figures(&[1], "/run_ready/limit")[0] > 0
    });
    let report = crowd.close_after(Duration::from_secs(if long() { 60 } else { 12 }));
    assert_all_kept(&report);
    assert_limit_holds(&fleet);
}
