//! The ticket log: how each ticket ended, and a log that nobody reads.

use crate::{PATIENCE, buy, site_with};
use nap_testkit::held::admitted;
use nap_testkit::{Httpd, wait_until};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn the_ticket_log_tells_how_each_ticket_ended() {
    let httpd = site_with("NapTicketLifetime 5s\n")
        .config("NapTicketLog {root}/tickets")
        .start();
    let held = httpd.hold("full", 1);
    let kept = buy(&httpd);
    buy(&httpd);
    kept.until_prime();
    let answer = admitted(&httpd, held, "/cgi-bin/app", &[("Cookie", &kept.cookie())]);
    assert_eq!(answer.status, 200, "{answer:?}");
    let records = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(httpd.root().join("tickets")).expect("the log");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let of = |event: &str| -> Vec<serde_json::Value> {
        let records = records().into_iter();
        records.filter(|record| record["event"] == event).collect()
    };
    let issued = of("issued");
    assert_eq!(issued.len(), 2);
    assert_eq!(of("redeemed")[0]["id"], issued[0]["id"]);
    // The parent looks every ten seconds.
    wait_until("the other one's end is told", 2 * PATIENCE, || {
        !of("expired").is_empty()
    });
    let expired = &of("expired")[0];
    assert_eq!(expired["id"], issued[1]["id"]);
    assert_eq!(expired["room"], "site");
    let (end, told) = (expired["end"].as_f64(), expired["time"].as_f64());
    assert!(end < told, "{expired}");
    let tickets = &httpd.get("/nap-info?json").json()["tickets"];
    let fates = tickets
        .as_array()
        .expect("a list")
        .iter()
        .map(|t| &t["fate"]);
    assert_eq!(fates.collect::<Vec<_>>(), ["expired", "redeemed"]);
    // Nothing is logged twice.
    let before = records().len();
    sleep(Duration::from_secs(11));
    assert_eq!((before, records().len()), (4, 4));
}

/// Fills the pipe to the program `name` that the server has started.
fn fill_pipe(httpd: &Httpd, name: &str) {
    let parent = httpd.pid();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.expect("the server runs");
    let is_named = |pid: &&str| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    };
    let pid = (children.split_whitespace().find(is_named)).expect("the program runs");
    let mut pipe = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/{pid}/fd/0"))
        .expect("its pipe");
    while pipe.write(&[b'\n'; 4096]).is_ok() {}
}

/// Children record sold tickets, the parent those that expire.
#[test]
fn a_stuck_ticket_log_holds_up_neither_visitors_nor_the_parent() {
    let mut httpd = site_with("NapTicketLifetime 5s\n")
        .config("NapTicketLog \"|/bin/sleep 100\"")
        .expect_log("NapTicketLog cannot be written", "nobody reads it")
        .start();
    let held = httpd.hold("full", 1);
    buy(&httpd);
    fill_pipe(&httpd, "sleep");
    buy(&httpd);
    let parent = format!("[pid {}", httpd.pid());
    wait_until("the parent tells of lines lost", 2 * PATIENCE, || {
        let log = httpd.error_log();
        log.lines()
            .any(|line| line.contains(&parent) && line.contains("lost"))
    });
    held.release();
    httpd.stop();
}
