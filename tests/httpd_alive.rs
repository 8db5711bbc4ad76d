//! Tests of the harness itself, on which every other test with a real server depends.

use nap_testkit::{Httpd, Mpm, for_each_mpm, wait_until};
use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_server_serves_files_and_cgi_under_every_mpm() {
    for_each_mpm(|mpm| {
        let httpd = Httpd::builder()
            .mpm(mpm)
            .file("htdocs/a.txt", "hello")
            .start();
        assert_eq!(httpd.get("/a.txt").text(), "hello");
        assert_eq!(httpd.get("/none").status, 404);
        let posted = httpd.request("POST", "/board", &[], b"text=a%3Cb");
        assert!(posted.text().contains("<li>a&lt;b"), "{}", posted.text());
        wait_until("it is logged", PATIENCE, || {
            httpd.access_log().contains("POST /board")
        });
        assert!(
            !httpd.access_log().contains("OPTIONS"),
            "the harness's knocking is not logged"
        );
    });
}

#[test]
fn a_graceful_restart_brings_new_children_and_finishes_the_old() {
    for_each_mpm(|mpm| {
        let mut httpd = Httpd::builder().mpm(mpm).config("Redirect 410 /x").start();
        let old = httpd.children();
        assert_eq!(httpd.get("/x").status, 410);
        let mut slow = httpd.connect();
        slow.write_all(b"GET /counter?ms=700 HTTP/1.0\r\n\r\n")
            .expect("httpd listens");
        wait_until("the program runs", PATIENCE, || {
            httpd.counter().running == 1
        });
        httpd.reconfigure("Redirect 404 /x");
        httpd.graceful();
        wait_until("new children answer", PATIENCE, || {
            httpd.get("/x").status == 404
        });
        let mut answer = String::new();
        slow.read_to_string(&mut answer)
            .expect("the old child answers");
        assert!(answer.ends_with("counted\n"), "{answer}");
        wait_until("the old children are gone", PATIENCE, || {
            !httpd.children().iter().any(|pid| old.contains(pid))
        });
    });
}

#[test]
fn a_server_can_be_stopped_and_started_again_on_its_port() {
    for_each_mpm(|mpm| {
        let mut httpd = Httpd::builder().mpm(mpm).start();
        let port = httpd.port();
        httpd.restart();
        httpd.stop();
        httpd.start_again();
        assert_eq!(httpd.port(), port);
        assert_eq!(httpd.get("/board").status, 200);
        httpd.graceful_stop();
        assert!(!httpd.is_running());
    });
}

#[test]
fn children_are_counted_and_a_killed_one_is_replaced() {
    for_each_mpm(|mpm| {
        let httpd = Httpd::builder().mpm(mpm).workers(2, 3).start();
        let expected = if mpm == Mpm::Prefork { 6 } else { 2 };
        wait_until("all children are there", PATIENCE, || {
            httpd.children().len() == expected
        });
        let victim = httpd.children()[0];
        httpd.kill9(victim);
        wait_until("it is gone", PATIENCE, || {
            !httpd.children().contains(&victim)
        });
        wait_until("it is replaced", PATIENCE, || {
            httpd.children().len() == expected
        });
        assert_eq!(httpd.get("/board").status, 200);
    });
}

#[test]
fn the_counter_sees_what_runs_at_once_and_forgets_the_killed() {
    let httpd = Httpd::builder().workers(1, 8).start();
    let ask = |query: &str| {
        let mut stream = httpd.connect();
        write!(stream, "GET /counter?{query} HTTP/1.0\r\n\r\n").expect("httpd listens");
        stream
    };
    let before = httpd.counter();
    let mut streams: Vec<_> = (0..3).map(|_| ask("ms=400&bytes=100000")).collect();
    wait_until("three run", PATIENCE, || httpd.counter().running == 3);
    for stream in &mut streams {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert!(answer.len() > 100_000);
    }
    wait_until("none runs", PATIENCE, || httpd.counter().running == 0);
    let after = httpd.counter();
    assert_eq!(
        (after.max, after.started, after.ended, after.died),
        (3, 3, 3, 0)
    );
    assert!(
        after.mean_since(&before) > 0.5,
        "three runs of 0.4 s: {after:?}"
    );
}

#[test]
fn a_wrong_configuration_is_told_in_httpds_words() {
    let refused = Httpd::builder().config("NoSuchDirective on").configtest();
    assert!(
        refused
            .expect_err("it is wrong")
            .contains("Invalid command 'NoSuchDirective'")
    );
    Httpd::builder()
        .config("Redirect 404 /x")
        .configtest()
        .expect("it is right");
    let refused = Httpd::builder().config("NoSuchDirective on").try_start();
    assert!(refused.is_err_and(|log| log.contains("Invalid command")));
}

#[test]
fn an_error_log_line_nobody_expected_fails_the_test() {
    let left_over = std::cell::RefCell::new(None);
    let provoke = |builder: nap_testkit::Builder| {
        let httpd = builder.cgi("dies", "#!/bin/sh\nexit 1\n").start();
        *left_over.borrow_mut() = Some(httpd.root().to_path_buf());
        assert_eq!(httpd.get("/cgi-bin/dies").status, 500);
    };
    let failed = catch_unwind(AssertUnwindSafe(|| provoke(Httpd::builder())));
    let message = failed.expect_err("the guard panics");
    let message = message.downcast_ref::<String>().expect("with a message");
    assert!(
        message.contains("End of script output before headers"),
        "{message}"
    );
    let root = left_over.take().expect("the server ran");
    std::fs::remove_dir_all(root).expect("a failing test leaves its ServerRoot to be looked at");
    provoke(Httpd::builder().expect_log("End of script output", "the program is meant to fail"));
}
