//! A child that ends takes nobody with it.

use super::{PATIENCE, ask, parked, read_all, site};
use nap_testkit::{made, parks, wait_until};
use std::fs;
use std::path::Path;

/// The most threads of a process that event's listener and idle workers have left: its main thread, ours, and one
/// worker.
const LEFT: usize = 3;

fn threads_of(pid: i32) -> usize {
    let of = Path::new("/proc").join(pid.to_string()).join("task");
    let threads = fs::read_dir(of).expect("the child has a connection, and lives");
    threads.count()
}

/// event's listener ends as soon as it must and counts no connection. A worker may have taken one by then that
/// is not counted yet; if its access was parked, nobody would wake it, and the child's end would cut it off.
#[test]
fn who_comes_as_a_child_ends_waits_and_is_answered() {
    if !parks() {
        return;
    }
    let preload = made::file("preload/late_connection.so");
    let preload = format!("LD_PRELOAD={}", preload.display());
    let mut httpd = site("On")
        .workers(2, 25)
        .under(&["env", &preload, "LATE_FILE={root}/data/late"])
        .start();
    let mut first = ask(&httpd, "/cgi-bin/hold?one");
    wait_until("it runs", PATIENCE, || httpd.holding("one") == 1);
    let old = httpd.children();
    // The children of the next generation have no connection.
    httpd.graceful();
    let file = httpd.root().join("data/late");
    wait_until("no old child takes connections", PATIENCE, || {
        let living = httpd.children();
        old.iter().filter(|pid| living.contains(pid)).count() == 1
    });
    fs::write(&file, "").expect("the data directory takes a file");
    let mut late = ask(&httpd, "/cgi-bin/app");
    let mut pid = None;
    wait_until("a worker has the connection", PATIENCE, || {
        let said = fs::read_to_string(file.with_extension("by"));
        pid = said.ok().and_then(|pid| pid.trim().parse().ok());
        pid.is_some()
    });
    let pid = pid.expect("it has said so");
    assert!(!old.contains(&pid), "its child has no other connection");
    httpd.graceful();
    wait_until("nobody listens there", PATIENCE, || threads_of(pid) <= LEFT);
    fs::remove_file(file.with_extension("by")).expect("it was there");
    wait_until("it waits on its worker", PATIENCE, || {
        httpd.accesses(&["waiting"]) == 1
    });
    assert_eq!(parked(&httpd), 0);
    fs::write(httpd.root().join("data/go-one"), "").expect("our own file");
    assert!(read_all(&mut first).contains("held one\n"));
    let answer = read_all(&mut late);
    assert!(answer.contains("the application\n"), "{answer:?}");
    httpd.until_idle();
}
