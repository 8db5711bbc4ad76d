//! Children die by kill -9 while running, waiting or holding the lock. What they held comes back, the room
//! fills up again, and never takes more than before.
//!
//! As many visitors as the room holds ask again and again, including those whose child died. So a leaked
//! permit or place shows: the room is never full again.

use nap_testkit::held::{runs_in, waits_in};
use nap_testkit::{Builder, Httpd, Visitors, for_each_mpm, long, made, wait_until};
use serde_json::Value;
use std::time::{Duration, Instant};

const LIMIT: u64 = 4;
const PLACES: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(20);

fn kills() -> usize {
    if long() { 50 } else { 6 }
}

fn server() -> Builder {
    Httpd::builder()
        .nap()
        .info()
        .workers(3, 8)
        .config(&format!(
            "<NapRoom site>\nNapRunReady {LIMIT}\nNapWaitMax 1min\nNapWaitLimit {PLACES}\n\
             NapReAccess 1\n</NapRoom>\n<Location /counter>\nNapUse site\n</Location>"
        ))
        .expect_log("exit signal Killed", "the test kills children")
        .expect_log("cgi daemon", "mod_cgid misses the killed")
        .expect_log("exit signal Broken pipe", "its daemon writes to the killed")
        .expect_log("AH01239:", "and another takes its place")
        .expect_log("AH01258:", "but not at once")
        .expect_log("AH10393:", "one after the other, as httpd remarks")
}

/// All permits are in use and all places taken, none of them by dead children, whose programs have ended too.
fn is_full(httpd: &Httpd, dead: &[i32]) -> bool {
    let Some(room) = httpd.try_room() else {
        return false;
    };
    (room.running, room.waiting) == (LIMIT, PLACES)
        && !room.children.iter().any(|child| dead.contains(child))
        && httpd.counter().running == LIMIT
}

/// Kills children one after the other with `kill`; the room fills up again after each.
fn fills_up_after_each(httpd: &Httpd, mut kill: impl FnMut() -> i32) {
    let all = (LIMIT + PLACES) as u32;
    let visitors = Visitors::come(httpd, all, "/counter?ms=250");
    wait_until("the room is full", PATIENCE, || is_full(httpd, &[]));
    let mut dead = Vec::new();
    let (mut free, mut full) = (Vec::new(), Vec::new());
    for _ in 0..kills() {
        // Only the last one: in a long run pids come again.
        dead = vec![kill()];
        let start = Instant::now();
        wait_until("what the dead one held is free", PATIENCE, || {
            let room = httpd.try_room();
            room.is_some_and(|room| !room.children.contains(&dead[0]))
        });
        free.push(start.elapsed());
        // For this httpd has to start another child, and visitors have to come again.
        wait_until("the room is full again", PATIENCE, || is_full(httpd, &dead));
        full.push(start.elapsed());
    }
    let tries = visitors.leave();
    let is_empty = || {
        let room = httpd.room();
        (room.running, room.waiting, room.accesses) == (0, 0, 0) && httpd.counter().running == 0
    };
    wait_until("nothing is held any more", PATIENCE, is_empty);
    // The programs of killed children have ended: now the maximum means something.
    httpd.forget_counter_max();
    let visitors = Visitors::come(httpd, all + 1, "/counter?ms=250");
    wait_until("the room is full once more", PATIENCE, || {
        is_full(httpd, &dead)
    });
    wait_until("one more is refused", PATIENCE, || {
        visitors.tries().refused > 0
    });
    let after = visitors.leave();
    assert_eq!(httpd.counter().max, LIMIT, "full, and never over");
    assert!(after.failed.is_empty(), "{:?}", after.failed);
    let of = |mut times: Vec<Duration>| {
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() - 1])
    };
    let ((_, freed), (median, most)) = (of(free), of(full));
    eprintln!(
        "    free after {freed:?} at most, full again after {median:?} (median), {most:?} (most)"
    );
    eprintln!("    {} served, {} cut", tries.served, tries.failed.len());
}

/// The child that has most `doing`.
fn child_with(httpd: &Httpd, doing: fn(&Value) -> u64) -> i32 {
    let mut victim = None;
    wait_until("somebody does", PATIENCE, || {
        let info = httpd.get("/nap-info?json").json();
        let children = info["children"].as_array().expect("a list");
        let child = children.iter().max_by_key(|child| doing(child));
        victim = child.filter(|child| doing(child) > 0).cloned();
        victim.is_some()
    });
    let pid = victim.and_then(|child| child["pid"].as_i64());
    pid.expect("a number") as i32
}

#[test]
fn what_a_killed_child_held_comes_back() {
    for_each_mpm(|mpm| {
        let httpd = server().mpm(mpm).start();
        let mut by_turns = [runs_in, waits_in].into_iter().cycle();
        fills_up_after_each(&httpd, || {
            let victim = child_with(&httpd, by_turns.next().expect("they come again"));
            httpd.kill9(victim);
            victim
        });
    });
}

#[test]
fn a_child_that_dies_under_the_lock_stops_nobody() {
    let preload = made::file("preload/die_holding.so");
    let preload = format!("LD_PRELOAD={}", preload.display());
    for_each_mpm(|mpm| {
        let httpd = server()
            .mpm(mpm)
            .under(&["env", &preload, "DIE_FILE={root}/data/die"])
            .start();
        let file = httpd.root().join("data/die");
        fills_up_after_each(&httpd, || {
            std::fs::write(&file, "").expect("the data directory takes a file");
            let mut pid = None;
            wait_until("somebody took the lock and died", PATIENCE, || {
                let said = std::fs::read_to_string(file.with_extension("by"));
                pid = said.ok().and_then(|pid| pid.trim().parse().ok());
                pid.is_some_and(|pid| !httpd.children().contains(&pid))
            });
            std::fs::remove_file(file.with_extension("by")).expect("it was there");
            pid.expect("it has died")
        });
        let mended = httpd.room().mended;
        eprintln!("    mended {mended} times");
        assert!(mended > 0, "some of them died under the lock");
    });
}
