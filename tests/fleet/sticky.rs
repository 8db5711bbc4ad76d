//! `NapStore ... sticky`, where HAProxy keeps each visitor's address on one node, and `spare=0` where it does not.

use crate::crowd::{assert_all_kept, assert_few_put_off, figure, fleet, sale};
use crate::outage::{SILENT, disturbed, or_long, until_the_others_miss};
use nap_testkit::fleet::Fleet;
use nap_testkit::{for_event_or_each_mpm, made};
use serde_json::Value;
use std::process::Command;

/// A number of each node's page.
fn told(fleet: &Fleet, pointer: &str) -> Vec<f64> {
    let figure = |n| {
        let info = fleet.info(n);
        let found = info.pointer(pointer).and_then(Value::as_f64);
        found.unwrap_or_else(|| panic!("no {pointer} in {info:#}"))
    };
    (0..fleet.size()).map(figure).collect()
}

/// Each node sells its own slots: no place was leased of any that all have in common.
fn assert_nothing_was_leased(fleet: &Fleet) {
    assert_eq!(told(fleet, "/fleet/tickets/leased"), [0.0; 3]);
    assert_eq!(fleet.store().ask(&["KEYS", "nap:{nap}:s:*"]), "");
}

#[test]
fn behind_a_sticky_balancer_each_node_keeps_its_own_promises() {
    for_event_or_each_mpm(|mpm| {
        let fleet = fleet(mpm).sticking().options("sticky").start();
        let report = sale().open(&fleet, &[]);
        assert_all_kept(&report);
        assert_few_put_off(&report);
        let redeemed = figure(&report, "/nodes/redeemed");
        assert!(redeemed >= or_long(40.0, 1_000.0), "{report:#}");
        assert_eq!(figure(&report, "/nodes/redeemed_elsewhere"), 0.0);
        assert_eq!(told(&fleet, "/fleet/tickets/home"), [1.0; 3]);
        assert_nothing_was_leased(&fleet);
    });
}

/// Visitors whom HAProxy must send elsewhere bring tickets of a node that is no more.
#[test]
fn a_sticky_node_that_is_killed_leaves_its_tickets_to_the_others() {
    for_event_or_each_mpm(|mpm| {
        let mut fleet = fleet(mpm)
            .sticking()
            .options("sticky")
            .node(|node| node.expect_log(SILENT, "it is killed"))
            .start();
        disturbed(&mut fleet, or_long(20, 40), |fleet| {
            fleet.kill(1);
            until_the_others_miss(fleet, 1);
            fleet.start_again(1);
            fleet.until_members(3);
        });
        let guests = told(&fleet, "/fleet/tickets/guests");
        assert!(guests[0] + guests[2] > 0.0, "{guests:?}");
        assert_nothing_was_leased(&fleet);
    });
}

#[test]
fn without_spare_room_promises_are_kept_while_no_node_is_lost() {
    for_event_or_each_mpm(|mpm| {
        let fleet = fleet(mpm).options("spare=0").start();
        let report = sale().open(&fleet, &[]);
        assert_all_kept(&report);
        assert_few_put_off(&report);
        assert!(figure(&report, "/nodes/redeemed_elsewhere") > 0.0);
    });
}

const SESSIONS: &str = "
<NapRoom site>
NapRunReady 4
NapWaitMax 1s
NapSession start=^/cgi-bin/login end=^/cgi-bin/logout
NapSessionStart 300ms
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>
";

const PAGES: [&str; 4] = [
    "/cgi-bin/login",
    "/cgi-bin/page",
    "/cgi-bin/page",
    "/cgi-bin/logout",
];

const PAGE: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\na page\\n'\n";

/// A member whom HAProxy sent to another node would be a stranger there, and refused in the midst of a session.
#[test]
fn sessions_begin_and_end_behind_a_sticky_balancer() {
    for_event_or_each_mpm(|mpm| {
        let fleet = Fleet::builder(3)
            .sticking()
            .options("sticky")
            .node(|node| {
                let programs = ["login", "page", "logout"];
                let node = node.mpm(mpm).config(SESSIONS);
                let node = programs
                    .iter()
                    .fold(node, |node, name| node.cgi(name, PAGE));
                node.expect_log("[nap:warn]", "the bound is short")
            })
            .start();
        let clients = or_long("60", "240");
        let output = Command::new(made::file("release/nap-load"))
            .args(["sessions", "--clients", clients, "--sessions", "2"])
            .args(["--think", "100ms", "--stop", "240s", "--json", "-"])
            .arg(fleet.url())
            .args(PAGES)
            .output()
            .expect("nap-load runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let all = 2.0 * clients.parse::<f64>().expect("a number");
        assert_eq!(figure(&report, "/sessions/completed"), all, "{report:#}");
        assert_eq!(figure(&report, "/mid_session_failures"), 0.0, "{report:#}");
        assert_eq!(figure(&report, "/promises/broken"), 0.0, "{report:#}");
        assert!(figure(&report, "/tickets/issued") > 0.0, "{report:#}");
        let of = |what: &str| told(&fleet, &format!("/rooms/0/sessions/{what}"));
        let [started, finished] = ["started", "finished"].map(of);
        assert_eq!(started, finished, "each where it began");
        assert_eq!(started.iter().sum::<f64>(), all);
        assert!(started.iter().all(|n| *n > 0.0), "{started:?}");
        assert_eq!(of("refused_members"), [0.0; 3]);
    });
}
