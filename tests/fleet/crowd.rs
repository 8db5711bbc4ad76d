//! A crowd in front of a fleet: each comes back to whichever node HAProxy chooses, and what they were promised holds
//! there, too.

use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::{Crowd, Mpm, for_event_or_each_mpm, long};
use serde_json::Value;

/// The crowd's page, and the bound of its room.
pub struct Sale {
    pub page: &'static str,
    pub bound: &'static str,
    crowd: [&'static str; 2],
    /// Newcomers a second, half as many again as are served: with a bound of 1 s tickets are sold for half of what the
    /// servers do.
    newcomers: &'static str,
}

/// Twelve run at once in the long form, three in the short one. Pages sleep, as three nodes share the machine.
pub fn sale() -> Sale {
    match long() {
        true => Sale {
            page: "/work?cpu=1&sleep=150",
            bound: "4s",
            crowd: ["600", "8"],
            newcomers: "120",
        },
        false => Sale {
            page: "/work?cpu=1&sleep=100",
            bound: "1s",
            crowd: ["120", "2"],
            newcomers: "30",
        },
    }
}

/// Three nodes for a sale.
pub fn fleet(mpm: Mpm) -> FleetBuilder {
    let limit = if long() { 4 } else { 1 };
    let room = format!(
        "<NapRoom shop>\nNapRunReady {limit}\nNapWaitMax {}\n</NapRoom>\n\
         <Location /work>\nNapUse shop\n</Location>",
        sale().bound
    );
    // Tickets begin in the order in which visitors were refused: a small crowd comes back in step with the round robin, each
    // to their seller.
    let balance = if long() { "roundrobin" } else { "random(1)" };
    Fleet::builder(3).balance(balance).node(|node| {
        let node = node.mpm(mpm).work().config(&room);
        node.expect_log(
            "[nap:warn]",
            "the room tells of settings that are too small",
        )
    })
}

impl Sale {
    /// Sends the crowd; `more` options of nap-load come last.
    pub fn open(&self, fleet: &Fleet, more: &[&str]) -> Value {
        let [clients, posts] = self.crowd;
        let own = [
            "--clients",
            clients,
            "--posts",
            posts,
            "--bound",
            self.bound,
        ];
        let all = [&own[..], &["--get", "--stop", "240s"], more].concat();
        fleet.crowd(self.page, &all)
    }

    /// Newcomers until it is closed, who want one page each and present a ticket again whose answer was lost.
    pub fn stream(&self, fleet: &Fleet) -> Crowd {
        // Everybody wants a processor in the short form.
        let again = if long() { "2s" } else { "5s" };
        let own = [
            ["--open", self.newcomers],
            ["--duration", "1h"],
            ["--bound", self.bound],
            ["--again", again],
            ["--stop", "600s"],
        ];
        fleet.crowd_later(self.page, &[&own.concat()[..], &["--get"]].concat())
    }
}

/// A number of nap-load's report.
#[track_caller]
pub fn figure(report: &Value, pointer: &str) -> f64 {
    let found = report.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

/// Each promise was kept, and everybody was served. Nodes that are killed, or starved by others' tests, put holders off, but
/// not most of them.
#[track_caller]
pub fn assert_all_kept(report: &Value) {
    for pointer in [
        "/promises/broken",
        "/promises/booked_again",
        "/promises/deferred_twice",
        "/promises/unanswered",
        "/tickets/torn",
        "/tickets/doubled",
        "/posts/unfinished",
    ] {
        assert_eq!(figure(report, pointer), 0.0, "{pointer}\n{report:#}");
    }
    let [put_off, presented] =
        ["deferred", "presented"].map(|of| figure(report, &format!("/promises/{of}")));
    assert!(put_off <= presented / 2.0, "{report:#}");
    assert_eq!(report["ended"], "done", "{report:#}");
}

/// Few holders were served later than the bound: it was nearly over when their turn came, and then the page took its time.
/// In the long form alone, as a short bound is no longer than a busy machine may stand still.
#[track_caller]
pub fn assert_few_late(report: &Value) {
    let [late, presented] =
        ["over_bound", "presented"].map(|of| figure(report, &format!("/promises/{of}")));
    assert!(!long() || late <= presented / 20.0, "{report:#}");
}

/// Few were put off, too. Where the store forgets what was sold, or a node dies, more may be.
#[track_caller]
pub fn assert_few_put_off(report: &Value) {
    assert_few_late(report);
    let [put_off, presented] =
        ["deferred", "presented"].map(|of| figure(report, &format!("/promises/{of}")));
    assert!(!long() || put_off <= presented / 10.0, "{report:#}");
}

#[test]
fn a_ticket_is_good_at_each_node() {
    for_event_or_each_mpm(|mpm| {
        let fleet = fleet(mpm).start();
        let report = sale().open(&fleet, &[]);
        assert_all_kept(&report);
        assert_few_put_off(&report);
        let [least, elsewhere] = if long() { [1_000.0, 0.6] } else { [40.0, 0.2] };
        eprintln!(
            "    {} redeemed, {:.3} of them elsewhere, {:.3} kept; {} put off, {} late",
            figure(&report, "/nodes/redeemed"),
            figure(&report, "/nodes/elsewhere_share"),
            figure(&report, "/kept_share"),
            figure(&report, "/promises/deferred"),
            figure(&report, "/promises/over_bound"),
        );
        assert!(figure(&report, "/nodes/redeemed") >= least, "{report:#}");
        assert!(
            figure(&report, "/nodes/elsewhere_share") >= elsewhere,
            "{report:#}"
        );
        assert!(figure(&report, "/kept_share") >= 0.95, "{report:#}");
    });
}
