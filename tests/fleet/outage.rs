//! What happens to a node or to the store while a crowd is there breaks no promise.

use crate::crowd::{assert_all_kept, assert_few_late, figure, fleet, sale};
use nap_testkit::cut::Way;
use nap_testkit::fleet::Fleet;
use nap_testkit::store::{Sentinels, Store};
use nap_testkit::{Builder, Mpm, for_event_or_each_mpm, long, wait_until};
use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;

pub const AWAY: &str = "the store is away (";
pub const SILENT: &str = " is silent since ";
pub const EMPTIED: &str = "the store was emptied";
const PATIENCE: Duration = Duration::from_secs(60);

/// Tickets sold by these nodes.
fn sold(fleet: &Fleet, nodes: &[usize]) -> u64 {
    fleet.figures(nodes, "/promise/sold").iter().sum()
}

/// Tickets are being sold, and holders come back.
fn until_full_sale(fleet: &Fleet) {
    wait_until("tickets are sold and redeemed", PATIENCE, || {
        let came: u64 = fleet.figures(&[0, 1, 2], "/promise/presented").iter().sum();
        sold(fleet, &[0, 1, 2]) >= 10 && came >= 3
    });
}

/// For so many seconds, and until each node has sold more: HAProxy's random sends one of them few more than it serves.
fn stay_on_sale(fleet: &Fleet, seconds: u64) {
    let before = fleet.figures(&[0, 1, 2], "/promise/sold");
    stay(seconds);
    wait_until("each node sells", PATIENCE, || {
        let after = fleet.figures(&[0, 1, 2], "/promise/sold");
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| after > before)
    });
}

/// Newcomers, half as many again as can be served, until all has happened, and for so long at least; it happens at full
/// sale.
pub fn disturbed(fleet: &mut Fleet, seconds: u32, happens: impl FnOnce(&mut Fleet)) -> Value {
    let report = changed(fleet, seconds, happens);
    assert_few_late(&report);
    report
}

/// The same, where even the bound may become another one.
pub fn changed(fleet: &mut Fleet, seconds: u32, happens: impl FnOnce(&mut Fleet)) -> Value {
    let crowd = sale().stream(fleet);
    until_full_sale(fleet);
    happens(fleet);
    let report = crowd.close_after(Duration::from_secs(seconds.into()));
    assert_all_kept(&report);
    eprintln!(
        "    {} presented, {} put off, {} late",
        figure(&report, "/promises/presented"),
        figure(&report, "/promises/deferred"),
        figure(&report, "/promises/over_bound"),
    );
    assert!(figure(&report, "/nodes/redeemed_elsewhere") > 0.0);
    report
}

/// Waits until the others see that one node is silent.
pub fn until_the_others_miss(fleet: &Fleet, node: usize) {
    let others = (0..fleet.size()).filter(|n| *n != node);
    wait_until("the others miss it", PATIENCE, || {
        others.clone().all(|n| fleet.sees(n, "silent") == 1)
    });
}

/// Either as in the short form, or as in the long one.
pub fn or_long<T>(short: T, all: T) -> T {
    if long() { all } else { short }
}

/// For so many seconds.
fn stay(seconds: u64) {
    sleep(Duration::from_secs(seconds));
}

#[test]
fn the_tickets_of_a_node_that_is_killed_are_kept_by_the_others() {
    for_event_or_each_mpm(|mpm| {
        let mut fleet = fleet(mpm)
            .node(|node| node.expect_log(SILENT, "it is killed"))
            .start();
        let seconds = or_long(20, 40);
        disturbed(&mut fleet, seconds, |fleet| {
            fleet.kill(1);
            until_the_others_miss(fleet, 1);
            let before = sold(fleet, &[0, 2]);
            wait_until("the others go on", PATIENCE, || {
                sold(fleet, &[0, 2]) > before
            });
            fleet.start_again(1);
            fleet.until_members(3);
        });
    });
}

#[test]
fn children_that_are_killed_take_no_ticket_with_them() {
    for_event_or_each_mpm(|mpm| {
        let mut fleet = fleet(mpm)
            .node(|node| {
                node.expect_log("exit signal Killed", "we kill it")
                    .expect_log("AH01248", "mod_cgid's daemon was being told of a request")
                    .expect_log("exit signal Broken pipe", "or it was answering one")
                    .expect_log("AH01239", "so another daemon is begun")
            })
            .start();
        disturbed(&mut fleet, or_long(8, 60), |fleet| {
            for round in 0..or_long(8, 20) {
                let node = fleet.node(round % 3);
                let children = node.children();
                node.kill9(children[round % children.len()]);
                // httpd makes a new child once a second. Were they killed faster, half of the workers would be missing all
                // the time under worker, and a few holders would find no place to wait.
                sleep(Duration::from_millis(or_long(600, 3_000)));
            }
        });
    });
}

/// A graceful restart gives mod_cgid another daemon: it says so where the first ends as a request has just reached it, or where
/// the socket of the next is not the children's yet. After several in a row httpd may not know any more of which generation a
/// child was that ends.
pub fn of_restarts(node: Builder) -> Builder {
    let said = [
        "AH01261",
        "unable to connect to cgi daemon",
        "AH10246",
        "AH00546",
    ];
    said.iter()
        .fold(node, |node, line| node.expect_log(line, "it is restarted"))
}

/// A full restart of one of three nodes, as docs/coexistence.md has it. One that stops accepts connections for seconds, and
/// answers none: its balancer is told first.
pub fn restart(fleet: &mut Fleet, n: usize) {
    restart_after(fleet, n, || {});
}

/// The same; something happens while the node is down.
pub fn restart_after(fleet: &mut Fleet, n: usize, happens: impl FnOnce()) {
    let mut weights = [1; 3];
    weights[n] = 0;
    fleet.weigh(&weights);
    // Who waits there would be cut off, and may be too late for their prime window when they come again.
    fleet.until_unused(n);
    fleet.node(n).until_idle();
    fleet.node_mut(n).stop();
    happens();
    fleet.node_mut(n).start_again();
    fleet.until_members(3);
    fleet.weigh(&[1; 3]);
}

#[test]
fn nodes_are_restarted_one_after_the_other() {
    for_event_or_each_mpm(|mpm| {
        let mut fleet = fleet(mpm).node(of_restarts).start();
        disturbed(&mut fleet, or_long(8, 40), |fleet| {
            for _ in 0..or_long(1, 4) {
                for n in 0..3 {
                    fleet.node_mut(n).graceful();
                    fleet.until_store_is("joined");
                }
            }
            for n in 0..3 {
                restart(fleet, n);
            }
        });
    });
}

/// Lines about the store in a node's log.
fn told(fleet: &Fleet, n: usize) -> Vec<String> {
    let log = fleet.node(n).error_log();
    let lines = log.lines().filter(|line| line.contains("the store"));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_store_is_killed_and_comes_back_empty() {
    let mut fleet = fleet(Mpm::Event)
        .node(|node| node.expect_log(AWAY, "it is killed"))
        .start();
    let outage = or_long(4, 60);
    disturbed(&mut fleet, or_long(9, 90), |fleet| {
        fleet.store_mut().kill();
        fleet.until_store_is("away");
        stay_on_sale(fleet, outage);
        fleet.store_mut().start_again();
        fleet.until_store_is("joined");
        fleet.until_members(3);
    });
    for n in 0..3 {
        let told = told(&fleet, n);
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(told[1].contains(" s; it was emptied"), "{told:#?}");
        assert!(
            told[1].contains(" redemptions told, 0 of them twice"),
            "{told:#?}"
        );
        assert!(!told[1].contains(" 0 redemptions told"), "{told:#?}");
    }
    // Each visitor came to one node at a time.
    assert_eq!(redeemed_twice(&fleet), 0);
}

/// Tickets that two nodes redeemed, as the store was away.
fn redeemed_twice(fleet: &Fleet) -> u64 {
    let twice = |n| {
        let info = fleet.info(n);
        let twice = info["fleet"]["tickets"]["twice"].as_u64();
        twice.expect("a number")
    };
    (0..fleet.size()).map(twice).sum()
}

#[test]
fn the_store_may_be_slow_cut_off_or_say_nothing() {
    let mut fleet = fleet(Mpm::Event)
        .with_cuts()
        .node(|node| node.expect_log(AWAY, "it is cut off"))
        .start();
    let ms = Duration::from_millis;
    let ways = [
        Way::Late(ms(5)),
        Way::Late(ms(30)),
        Way::Late(ms(500)),
        Way::Drip(ms(1)),
        Way::Silent,
        Way::Cut,
    ];
    let each = or_long(2, 10);
    disturbed(&mut fleet, or_long(14, 70), |fleet| {
        for way in ways {
            fleet.cuts().iter().for_each(|cut| cut.turn(way));
            stay(each);
        }
        fleet.cuts().iter().for_each(|cut| cut.turn(Way::Open));
        fleet.until_store_is("joined");
    });
}

#[test]
fn one_node_alone_may_be_cut_off_from_the_store() {
    let mut fleet = fleet(Mpm::Event)
        .with_cuts()
        .node(|node| node.expect_log(AWAY, "it is cut off"))
        .node(|node| node.expect_log(SILENT, "so the others miss it"))
        .start();
    disturbed(&mut fleet, or_long(20, 70), |fleet| {
        fleet.cut(2).turn(Way::Cut);
        until_the_others_miss(fleet, 2);
        stay_on_sale(fleet, or_long(2, 50));
        fleet.cut(2).turn(Way::Open);
        fleet.until_members(3);
    });
}

#[test]
fn the_store_may_forget_be_full_or_take_no_writes() {
    let mut fleet = fleet(Mpm::Event)
        .node(|node| node.expect_log(AWAY, "it takes no writes"))
        .node(|node| node.expect_log(EMPTIED, "it is emptied"))
        .start();
    let other = Store::start();
    let port = other.port().to_string();
    disturbed(&mut fleet, or_long(14, 60), |fleet| {
        for _ in 0..or_long(3, 6) {
            assert_eq!(fleet.store().ask(&["FLUSHALL"]), "OK");
            stay(or_long(1, 5));
        }
        let failing = [
            [
                ["CONFIG", "SET", "maxmemory", "1"],
                ["CONFIG", "SET", "maxmemory", "0"],
            ]
            .map(Vec::from),
            [
                vec!["REPLICAOF", "127.0.0.1", &port],
                vec!["REPLICAOF", "NO", "ONE"],
            ],
        ];
        for [begin, end] in failing {
            assert_eq!(fleet.store().ask(&begin), "OK");
            fleet.until_store_is("away");
            stay(or_long(1, 5));
            assert_eq!(fleet.store().ask(&end), "OK");
            fleet.until_store_is("joined");
        }
    });
    for n in 0..3 {
        // Each kind at most once a minute.
        let told = told(&fleet, n);
        let emptied = told.iter().filter(|line| line.contains("was emptied"));
        assert!((1..=2).contains(&emptied.count()), "{told:#?}");
    }
}

#[test]
fn the_store_may_refuse_us_or_be_somebody_elses() {
    let mut fleet = fleet(Mpm::Event)
        .with_cuts()
        .node(|node| node.expect_log(AWAY, "it is of no use"))
        .node(|node| node.expect_log(EMPTIED, "it is emptied"))
        .start();
    let each = or_long(1, 10);
    disturbed(&mut fleet, or_long(14, 60), |fleet| {
        // An application's password is changed, and changed back.
        fleet.store_mut().want_password("changed");
        fleet.store().ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        fleet.until_store_is("away");
        stay(each);
        fleet.store_mut().want_password("");
        fleet.until_store_is("joined");
        // Another application empties it, and has keys of these names that are none of ours.
        let gates = fleet.store().ask(&["KEYS", "nap:{nap}:g:*"]);
        let gate = gates.lines().next().expect("the gate's beats");
        let others = ["nap:{nap}:beats", gate];
        assert_eq!(fleet.store().ask(&["FLUSHALL"]), "OK");
        for key in others {
            // A node may have written it again meanwhile.
            fleet.store().ask(&["SET", key, "of another one"]);
        }
        fleet.until_store_is("away");
        stay(each);
        for key in others {
            assert_eq!(fleet.store().ask(&["DEL", key]), "1");
        }
        fleet.until_store_is("joined");
        // What answers at its address is something else.
        fleet.cuts().iter().for_each(|cut| cut.turn(Way::Garbage));
        fleet.until_store_is("away");
        stay(each);
        fleet.cuts().iter().for_each(|cut| cut.turn(Way::Open));
        fleet.until_store_is("joined");
    });
    for n in 0..3 {
        let told = told(&fleet, n);
        for words in ["(NOAUTH ", "(WRONGTYPE "] {
            let lines = told.iter().filter(|line| line.contains(words));
            assert_eq!(lines.count(), 1, "{words}: {told:#?}");
        }
        // Going and coming of each trouble, and that it was emptied.
        assert!(told.len() <= 8, "{told:#?}");
    }
}

/// Others fill a small store. Whatever key it likes is thrown away, of ours, too.
#[test]
fn a_store_that_throws_data_away_breaks_no_promise() {
    let limited = ["--maxmemory", "2mb", "--maxmemory-policy", "allkeys-lru"];
    let store = Store::with(&limited);
    let mut fleet = fleet(Mpm::Event)
        .at_store(&store.url())
        .node(|node| node.expect_log("use noeviction", "it throws data away"))
        .node(|node| node.expect_log(EMPTIED, "its epoch is thrown away"))
        .start();
    let of_others = "x".repeat(50_000);
    disturbed(&mut fleet, or_long(14, 60), |_| {
        for n in 0..or_long(100, 600) {
            assert_eq!(store.ask(&["SET", &format!("other{n}"), &of_others]), "OK");
            sleep(Duration::from_millis(50));
        }
    });
    let emptied = |n: &usize| fleet.node(*n).error_log().contains(EMPTIED);
    assert!(
        (0..3).any(|n| emptied(&n)),
        "nothing of ours was thrown away"
    );
    for n in 0..3 {
        let log = fleet.node(n).error_log();
        let lines = log.lines().filter(|line| line.contains("use noeviction"));
        assert!((1..=2).contains(&lines.count()), "{log}");
        assert!(!log.contains(AWAY), "{log}");
    }
}

#[test]
fn another_store_takes_over() {
    let mut primary = Store::start();
    let replica = Store::replica_of(&primary);
    let sentinels = Sentinels::of(&primary);
    let mut fleet = fleet(Mpm::Event)
        .at_store(&sentinels.url())
        .node(|node| node.expect_log(AWAY, "the primary is killed"))
        .start();
    disturbed(&mut fleet, or_long(10, 40), |fleet| {
        if long() {
            // What the primary takes from now on is lost.
            assert_eq!(replica.ask(&["CONFIG", "SET", "masterauth", "wrong"]), "OK");
            primary.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
            stay(1);
        }
        primary.kill();
        fleet.until_store_is("away");
        fleet.until_store_is("joined");
        assert!(replica.ask(&["ROLE"]).starts_with("master"));
    });
}
