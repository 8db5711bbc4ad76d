//! A node has few connections to the store, however many children it has, and no child speaks with it.

use crate::crowd::{assert_all_kept, figure, fleet, sale};
use nap_testkit::{Mpm, wait_until};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// System calls by which a process makes and uses a connection of its own, and the one by which a child takes a visitor's.
const CALLS: &str = "trace=socket,socketpair,connect,sendto,sendmsg,recvmsg,accept4";

#[test]
fn children_of_prefork_leave_the_store_to_one_process() {
    let fleet = fleet(Mpm::Prefork).node(|node| node.workers(5, 30)).start();
    let children = fleet.node(0).children();
    assert_eq!(children.len(), 150);
    let watched = fleet.node(0).root().join("strace");
    // Not their programs, and the agent is no child of theirs.
    let mut strace = Command::new("strace");
    strace
        .args(["-qq", "-e", CALLS, "-e", "signal=none", "-o"])
        .arg(&watched);
    for child in &children {
        strace.args(["-p", &child.to_string()]);
    }
    let mut strace = strace
        .stdin(Stdio::null())
        .spawn()
        .expect("strace is installed (tests/setup.sh)");
    let traced = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let tracer = status
            .lines()
            .find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|pid| pid.trim() != "0")
    };
    wait_until("all children are watched", PATIENCE, || {
        children.iter().all(traced)
    });
    let report = sale().open(&fleet, &[]);
    // The agents', and the one that asks.
    let connections = fleet.store().figure("clients", "connected_clients");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(strace.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .expect("a process of ours");
    strace.wait().expect("a process of ours");
    assert!(connections <= 2 * 3 + 1, "{connections}");
    let calls = fs::read_to_string(&watched).expect("strace wrote it");
    let taken = calls.lines().filter(|call| call.contains("accept4"));
    assert!(taken.count() > 0, "nothing was watched");
    let mut others = calls.lines().filter(|call| !call.contains("accept4"));
    assert_eq!(others.next(), None);
    assert_all_kept(&report);
    assert!(figure(&report, "/nodes/redeemed_elsewhere") > 0.0);
}
