//! A crowd whose door is closed before its time.

use crate::check;
use crate::server::{Say, serve};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The report of a crowd whose door is closed after its first page. It is done before `--stop`.
fn closed(arrivals: &[&str]) -> Value {
    let (seen, first) = mpsc::channel();
    let url = serve(move |_| {
        let _ = seen.send(());
        Say::Page { redeemed: false }
    });
    let crowd = Command::new(env!("CARGO_BIN_EXE_nap-load"))
        .args(arrivals)
        .args(["--duration", "1h", "--stop", "60s", "--json", "-", &url])
        .stdout(Stdio::piped())
        .spawn()
        .expect("nap-load starts");
    let patience = Duration::from_secs(20);
    first.recv_timeout(patience).expect("a page is asked for");
    let pid = Pid::from_raw(crowd.id().cast_signed());
    kill(pid, Signal::SIGUSR1).expect("it runs");
    let output = crowd.wait_with_output().expect("it ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["ended"], "done", "{report:#}");
    assert!(report["posts"]["served"].as_u64() > Some(0), "{report:#}");
    check(&report, &[("posts.unfinished", 0)]);
    report
}

#[test]
fn nobody_new_comes_once_the_door_is_closed() {
    closed(&["--open", "100"]);
}

#[test]
fn those_who_stay_want_no_more_once_the_door_is_closed() {
    let report = closed(&["-c", "3", "-n", "1000000", "--think", "10ms"]);
    check(&report, &[("clients", 3)]);
}
