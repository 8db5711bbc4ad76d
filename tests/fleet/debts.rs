//! What a client takes at one node it owes at all, wherever the balancer sends it.

use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::long;
use nap_testkit::robot::{Robot, Try};
use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// At once, and a second.
const FILES: [f64; 2] = [300.0, 5.0];

const PAGE: &str = "/page.html";

fn site() -> FleetBuilder {
    Fleet::builder(3).node(|node| {
        node.file("htdocs/page.html", "a page\n".repeat(1000))
            .config("KeepAlive On\nMaxKeepAliveRequests 0")
            .config("BwShareFiles 300 5\nBwShareBytes 200M 1M")
            .config("<Location /page.html>\nBwShare On\n</Location>")
    })
}

/// How many were let in, and how many are paid off while that took.
fn passed(tries: &[Try]) -> (usize, f64) {
    let seconds = tries.last().map_or(0.0, |last| last.answered) - tries[0].sent;
    let passed = tries.iter().filter(|one| one.passed).count();
    (passed, FILES[1] * seconds)
}

#[test]
fn a_client_that_is_sent_from_node_to_node_gets_little_more_than_at_one() {
    let fleet = site().start();
    let seconds = if long() { 20.0 } else { 8.0 };
    let mut robot = Robot::at(fleet.port(), 77, PAGE);
    robot.steadily(100.0, seconds);
    let (passed, paid) = passed(&robot.tries);
    assert!(robot.tries.len() > 500, "{}", robot.tries.len());
    let most = 1.25 * FILES[0] + paid;
    eprintln!(
        "{passed} of {} in {:.1} s, {most:.0} at most",
        robot.tries.len(),
        paid / FILES[1]
    );
    assert!(passed as f64 <= most, "{passed} of {most}");
    for node in fleet.nodes() {
        let came = node.access_log().matches(PAGE).count();
        assert!(came * 4 > robot.tries.len(), "{came} came to a node");
    }
    // Its maximum is not divided.
    assert!(passed as f64 >= FILES[0] + paid - FILES[1], "{passed}");
}

#[test]
fn a_client_that_stays_at_one_node_has_its_whole_maximum_there() {
    let fleet = site().start();
    let mut robot = Robot::new(fleet.node(1), 78, PAGE);
    robot.burst(400);
    let (passed, paid) = passed(&robot.tries);
    assert!(passed as f64 >= FILES[0], "{passed}");
    assert!(
        passed as f64 <= FILES[0] + paid + 1.0,
        "{passed}, {paid} of them paid"
    );
    // And another one all the same.
    let mut other = Robot::at(fleet.port(), 79, PAGE);
    other.burst(100);
    assert!(other.tries.iter().all(|one| one.passed));
}

/// Takes as long as the recording.
#[test]
fn recorded_browsing_over_the_nodes_is_never_refused() {
    if !long() {
        return;
    }
    let fleet = site().start();
    let recording = include_str!("../recordings/person.txt");
    let times = recording.lines().filter(|line| !line.starts_with('#'));
    let times: Vec<f64> = times
        .map(|line| {
            let at = line.split(' ').next().and_then(|at| at.parse().ok());
            at.expect("a time and a path")
        })
        .collect();
    let (begun, next) = (Instant::now(), Mutex::new(times.iter()));
    let asked: usize = scope(|scope| {
        // As many connections as a browser has.
        let all = [(); 6].map(|()| {
            scope.spawn(|| {
                let mut robot = Robot::at(fleet.port(), 80, PAGE);
                while let Some(at) = { next.lock().expect("nobody panics").next() } {
                    let at = Duration::from_secs_f64(*at);
                    sleep(at.saturating_sub(begun.elapsed()));
                    robot.burst(1);
                }
                assert!(robot.tries.iter().all(|one| one.passed));
                robot.tries.len()
            })
        });
        all.map(|one| one.join().expect("nobody is refused"))
            .iter()
            .sum()
    });
    assert_eq!(asked, times.len());
}
