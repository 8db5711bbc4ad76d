//! How many may be parked: what event, descriptors and other settings allow, and who turns it off.

use crate::{APP, PATIENCE, ask, parked, read_all, site};
use nap_testkit::{Httpd, Mpm, wait_until};

/// The administrator's own setting for event is kept: if it is too small nothing is parked.
#[test]
fn event_takes_connections_for_all_who_may_wait() {
    let cases = [
        (
            "",
            "AsyncRequestWorkerFactor 40 is in force, as none is given",
            500,
        ),
        ("AsyncRequestWorkerFactor 10", "", 250),
        (
            "AsyncRequestWorkerFactor 1.5",
            "NapPark: with AsyncRequestWorkerFactor 1.5 event takes few connections (mod_nap sets it where it is \
             not given); waiting accesses hold workers",
            0,
        ),
    ];
    for (given, said, places) in cases {
        let httpd = site("On")
            .workers(2, 25)
            .config(&format!("{given}\nNapTables waiters=500\nLogLevel info"))
            .expect_log("event takes few connections", "it is said")
            .start();
        assert!(httpd.error_log().contains(said), "{}", httpd.error_log());
        let info = httpd.get("/nap-info?json").json();
        assert_eq!(info["workers"]["parked_at_most"], places, "{given}");
    }
}

/// Each parked access has two descriptors: if a child may have only few, the log says how many may be parked.
#[test]
fn descriptors_say_how_many_may_be_parked() {
    let cases = [
        (
            4096,
            "NapPark: a child may open 4096 files at most (ulimit -Hn); so 2048 may wait",
            2048,
        ),
        (
            1060,
            "NapPark: a child may open 1060 files at most (ulimit -Hn); waiting accesses hold workers",
            0,
        ),
    ];
    for (files, said, places) in cases {
        let httpd = Httpd::builder()
            .nap()
            .info()
            .mpm(Mpm::Event)
            .workers(2, 25)
            .under(&["prlimit", &format!("--nofile={files}:{files}")])
            .config("<NapRoom site>\nNapRunReady 1\n</NapRoom>")
            .start();
        assert!(httpd.error_log().contains(said), "{}", httpd.error_log());
        let info = httpd.get("/nap-info?json").json();
        assert_eq!(info["workers"]["parked_at_most"], places);
    }
}

/// An access that waits in an old child is served there, whatever the new configuration says; and the
/// module's setting for event is withdrawn.
#[test]
fn it_can_be_turned_off_and_on_by_a_graceful_restart() {
    let settings = |park: &str| {
        format!(
            "NapPark {park}\n<NapRoom site>\nNapRunReady 1\nNapWaitMax 10min\nNapWaitLimit 100\n</NapRoom>\n\
             <Location /cgi-bin>\nNapUse site\n</Location>\n\
             <Location /nap-info>\nSetHandler nap-info\n</Location>"
        )
    };
    let mut httpd = Httpd::builder()
        .nap()
        .holding()
        .mpm(Mpm::Event)
        .workers(2, 25)
        .cgi("app", APP)
        .config("LogLevel info")
        .config(&settings("On"))
        .expect_log("lets at most", "few workers are meant")
        .expect_log("AH10246:", "a program of before the restart")
        .start();
    for (park, next) in [("On", "Off"), ("Off", "On")] {
        let mut first = ask(&httpd, &format!("/cgi-bin/hold?{park}"));
        wait_until("it runs", PATIENCE, || httpd.holding(park) == 1);
        let mut before = ask(&httpd, "/cgi-bin/app");
        httpd.until_waiting(1);
        assert_eq!(parked(&httpd), usize::from(park == "On"));
        httpd.reconfigure(&settings(next));
        httpd.graceful();
        let mut behind = ask(&httpd, "/cgi-bin/app");
        httpd.until_waiting(2);
        assert_eq!(parked(&httpd), 1, "from {park} to {next}");
        std::fs::write(httpd.root().join(format!("data/go-{park}")), "").expect("our own file");
        for waits in [&mut first, &mut before, &mut behind] {
            let answer = read_all(waits);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{park}: {answer}");
        }
        httpd.until_idle();
    }
}

/// It works unasked; but streams of HTTP/2, and accesses that wait before a login, still hold workers.
#[test]
fn places_are_no_matter_of_workers_unless_somebody_waits_on_one() {
    let cases = [
        ("", "there are places for "),
        ("Protocols h2c http/1.1", "workers allow 43"),
        (
            "<NapRoom other>\nNapRunReady 1\nNapAdmit early\n</NapRoom>",
            "workers allow ",
        ),
        ("NapPark Off", "workers allow 43"),
    ];
    for (config, said) in cases {
        let httpd = Httpd::builder()
            .nap()
            .holding()
            .mpm(Mpm::Event)
            .workers(2, 25)
            .modules(&["http2"])
            .config("<NapRoom site>\nNapRunReady 1\nNapWaitMax 1min\n</NapRoom>")
            .config("<Location /cgi-bin>\nNapUse site\n</Location>")
            .config(config)
            .expect_log("wants MaxRequestWorkers", "few workers are meant")
            .start();
        let told = httpd.error_log();
        assert!(told.contains(said), "{config}: {told}");
        let held = httpd.hold("one", 1);
        let mut waits = ask(&httpd, "/cgi-bin/hold?one");
        httpd.until_waiting(1);
        let expected = usize::from(config != "NapPark Off");
        assert_eq!(parked(&httpd), expected, "{config}");
        held.release();
        assert!(read_all(&mut waits).starts_with("HTTP/1.1 200 "));
        httpd.until_idle();
    }
}
