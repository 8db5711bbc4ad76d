//! What is polled at several nodes: all together are polled as often as one would be.

use nap_testkit::fleet::Fleet;
use nap_testkit::{crowd, long};
use std::fs;

/// When a poll came, seconds, from a row of nap-load's.
fn poll(line: &str) -> Option<f64> {
    let fields: Vec<&str> = line.split(',').collect();
    match fields[..] {
        [at, _, "poll", "200", ..] => at.parse().ok(),
        _ => None,
    }
}

/// The most in any span of this many seconds.
fn most(times: &[f64], span_s: f64) -> usize {
    let until = |at: f64| times.partition_point(|other| *other < at + span_s);
    let each = times.iter().enumerate().map(|(n, at)| until(*at) - n);
    each.max().unwrap_or(0)
}

#[test]
fn pollers_of_three_nodes_come_as_often_as_those_of_one() {
    // T0 is 1.1/rate. With all of it at each node they would come three times as often.
    let (rate, clients, skip_s, seconds) = match long() {
        true => (100.0, 2_000, 30.0, 120.0),
        false => (25.0, 250, 15.0, 35.0),
    };
    let event = format!("<Location /score.json>\nTelePoll score base=2s rate={rate}\n</Location>");
    let fleet = Fleet::builder(3)
        .node(|node| {
            node.file("htdocs/score.json", "{\"score\": [3, 1]}\n")
                .config(&event)
        })
        .start();
    let csv = fleet.node(0).root().join("polls.csv");
    let options = [
        "pollers",
        "-c",
        &clients.to_string(),
        "--duration",
        &format!("{seconds}s"),
        "--csv",
        &csv.display().to_string(),
    ];
    crowd(&format!("{}/score.json", fleet.url()), &options);
    let rows = fs::read_to_string(&csv).expect("nap-load wrote it");
    let mut times: Vec<f64> = rows.lines().filter_map(poll).collect();
    times.retain(|at| (skip_s..seconds).contains(at));
    times.sort_by(f64::total_cmp);

    let due = rate / 1.1;
    let mean = times.len() as f64 / (seconds - skip_s);
    let five = most(&times, 5.0) as f64 / 5.0;
    println!("{mean:.1} a second, {five:.1} in the busiest five, of {due:.1}");
    assert!(five <= 1.15 * due, "{five:.1} a second, of {due:.1}");
    assert!(mean >= 0.8 * due, "{mean:.1} a second, of {due:.1}");
    for n in 0..3 {
        let event = &fleet.info(n)["events"][0];
        let part = 1.1 / rate / event["unit_s"].as_f64().expect("T0");
        assert!((0.3..0.37).contains(&part), "{n}: {event}");
        let all = event["settings"]["least_unit_s"]
            .as_f64()
            .expect("as configured");
        assert!((all * rate - 1.1).abs() < 1e-6, "{n}: {event}");
    }
}
