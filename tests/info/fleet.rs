//! The fleet on the page, in the JSON form and in the figures.

use std::sync::atomic::Ordering::Relaxed;

use crate::{FILES, NOW, PREFORK, json, report, wall, with_room};
use mod_nap::info::{Fleet, Report};
use nap_core::fleet::link::{Link, Standing};
use nap_core::fleet::member::{Differs, Figures, Member, Presence, Setting};
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;

fn member(name: &str, presence: Presence, differs: Differs) -> Member {
    let mut member = Member {
        presence: presence as u32,
        share: 250_000,
        heard: (NOW - Micros::from_secs(4)).0,
        figures: Figures {
            running: 3,
            limit: 4,
            sold: 17,
            ..Figures::default()
        },
        differs,
        ..Member::default()
    };
    member.call(name, "host.example");
    member
}

/// This node is number 2. Number 1 is silent, number 3 is configured differently.
fn taken(standing: Standing, trouble: Option<Trouble>) -> Fleet {
    let link = Link::default();
    link.agent_seen.store(NOW.0, Relaxed);
    link.node.store(2, Relaxed);
    link.offset.store(-250_000, Relaxed);
    link.stand(NOW - Micros::from_secs(40), Standing::Joined, None);
    for trip in [200, 300, 2_000_000] {
        link.answered(NOW - Micros::from_secs(31), Micros(trip));
    }
    link.stand(NOW - Micros::from_secs(30), standing, trouble);
    let slower = Differs::new(Setting::WaitMax, "board", 5_000, 4_000);
    let members = [
        Member::default(),
        member("web1", Presence::Silent, Differs::default()),
        member("<web2>", Presence::Alive, Differs::default()),
        member("web3", Presence::Alive, slower),
    ];
    let mut fleet = Fleet::new("redis://10.0.0.5", "nap", "<web2>");
    fleet.take(&members);
    fleet.take_link(&link, NOW);
    fleet
}

/// With everything in it.
pub fn fleet() -> Fleet {
    taken(Standing::Away, Some(Trouble::Refused))
}

fn with(fleet: &Fleet) -> Report {
    with_room("board", |tables, now| {
        report(tables, now, PREFORK).with_fleet(fleet, wall())
    })
}

#[test]
fn a_store_that_is_away_and_what_is_odd_about_nodes_is_told() {
    let report = with(&fleet());
    let told = json(&report);
    let attention = told["attention"].as_array().expect("a list");
    let last: Vec<&str> = attention.iter().filter_map(|one| one.as_str()).collect();
    assert_eq!(
        last[last.len() - 3..],
        [
            "The store is away since 11:59:30: nobody listens at its address.",
            "web1 is silent since 11:59:56.",
            "Room board: NapWaitMax is 5s at web3 and 4s here.",
        ]
    );
    let store = &told["fleet"]["store"];
    assert_eq!(store["state"], "away");
    assert_eq!(
        (&store["away_s"], &store["outages"]),
        (&30.0.into(), &1.into())
    );
    assert_eq!(store["clock_offset_s"], -0.25);
    let page = report.to_html(FILES, None);
    assert!(
        page.contains("number 2. Store redis://10.0.0.5: the store is away"),
        "{page}"
    );
    assert!(!page.contains("<web2>"), "a name is text");
    let metrics = report.to_metrics(None);
    for line in [
        "nap_node_info{node=\"<web2>\"} 1",
        "nap_store_up 0",
        "nap_store_away_seconds_total 30",
        "nap_fleet_nodes{state=\"alive\"} 2",
        "nap_fleet_nodes{state=\"silent\"} 1",
        "nap_fleet_nodes{state=\"left\"} 0",
        "nap_clock_offset_seconds -0.25",
        "nap_fleet_weight 0.25",
        "# TYPE nap_store_round_trip_seconds histogram",
        "nap_store_round_trip_seconds_bucket{le=\"0.00025\"} 1",
        "nap_store_round_trip_seconds_bucket{le=\"0.0005\"} 2",
        "nap_store_round_trip_seconds_bucket{le=\"1\"} 2",
        "nap_store_round_trip_seconds_bucket{le=\"+Inf\"} 3",
        "nap_store_round_trip_seconds_sum 2.0005",
        "nap_store_round_trip_seconds_count 3",
    ] {
        assert!(
            metrics.lines().any(|one| one == line),
            "no {line} in {metrics}"
        );
    }
}

#[test]
fn a_member_in_good_standing_has_nothing_to_say_of_the_store() {
    let report = with(&taken(Standing::Joined, None));
    let told = json(&report);
    assert!(!told["attention"].to_string().contains("store"), "{told}");
    assert_eq!(told["fleet"]["store"]["state"], "joined");
    assert!(report.to_metrics(None).contains("\nnap_store_up 1\n"));
}

#[test]
fn without_a_fleet_there_is_no_word_of_one() {
    let report = with_room("board", |tables, now| report(tables, now, PREFORK));
    assert!(json(&report).get("fleet").is_none());
    assert!(!report.to_html(FILES, None).contains("id=\"fleet\""));
    let metrics = report.to_metrics(None);
    for part in [
        "nap_store_",
        "nap_fleet_",
        "nap_node_",
        "nap_agent_",
        "nap_clock_",
        "nap_rights{",
    ] {
        assert!(!metrics.contains(part), "{part} in {metrics}");
    }
}

/// Zero, too: a node that nobody comes to may have no right at all.
#[test]
fn rights_to_a_limit_that_is_shared_are_told() {
    for rights in [0, 3] {
        let report = with_room("board", |tables, now| {
            tables.gates[0].terms.shared = 1;
            tables.permits[0].set_rights(rights);
            report(tables, now, PREFORK)
        });
        let told = json(&report);
        let run_ready = &told["rooms"][0]["gates"][0]["run_ready"];
        assert_eq!(run_ready["rights"], rights);
        let metrics = report.to_metrics(None);
        let line = format!("nap_rights{{room=\"board\",gate=\"\"}} {rights}");
        assert!(metrics.lines().any(|one| one == line), "{metrics}");
    }
}
