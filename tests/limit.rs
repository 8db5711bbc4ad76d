//! `NapRunReady` is exact: never one more, whatever clients do, and never one less while anybody
//! waits. A CGI program counts for itself, over all children.

mod httpd;

use httpd::{Builder, Httpd, Visitors, for_each_mpm, long, wait_until};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// One at a time: the mean is that of a machine that has time for it.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// Limit and connections: as issued, or small.
fn size() -> (u64, u32) {
    if long() { (10, 200) } else { (4, 40) }
}

/// A room over the counter with a queue that holds three times its limit.
fn room(limit: u64) -> Builder {
    let waiting = 3 * limit;
    Httpd::builder().nap().config(&format!(
        "<NapRoom site>\nNapRunReady {limit}\nNapWaitMax 1min\nNapWaitLimit {waiting}\n\
         NapReAccess 1\nNapDownload Off\n</NapRoom>\n<Location /counter>\nNapUse site\n</Location>"
    ))
}

#[test]
fn as_many_run_as_may_while_anybody_waits_and_never_more() {
    let _turn = turn();
    let (limit, connections) = size();
    for_each_mpm(|mpm| {
        let httpd = room(limit).mpm(mpm).workers(4, 16).start();
        let visitors = Visitors::come(&httpd, connections, "/counter?ms=1000");
        wait_until("the room is full", PATIENCE, || {
            httpd.counter().running == limit
        });
        let before = httpd.counter();
        wait_until("each permit has been used six times", PATIENCE, || {
            httpd.counter().ended >= before.ended + 6 * limit
        });
        let after = httpd.counter();
        let mean = after.mean_since(&before);
        let tries = visitors.leave();
        eprintln!("    mean {mean:.3} of {limit}, most {}", after.max);
        assert_eq!(after.max, limit, "full, and never over: {after:?}");
        // The gap is one start of a program; a second of work makes it one or two per cent,
        // on a busy machine more; a queue that is only polled would lose over ten.
        let least = if long() { 0.98 } else { 0.9 };
        assert!(mean >= least * limit as f64, "{mean:.3} of {limit}");
        assert!(tries.failed.is_empty(), "{:?}", tries.failed);
    });
}

#[test]
fn never_more_than_may_run_while_clients_hang_up() {
    let _turn = turn();
    let (limit, connections) = size();
    let rounds = if long() { 100 } else { 8 };
    for_each_mpm(|mpm| {
        let httpd = room(limit).mpm(mpm).workers(4, 16).start();
        // Half of them ask for more than the sockets hold, so that a program is at work, stuck in
        // its answer, when its reader goes.
        let patience = Duration::from_millis(400);
        let large = "/counter?ms=30&bytes=20000000";
        let rude = [
            Visitors::come_and_hang_up(&httpd, connections / 8, "/counter?ms=60", patience),
            Visitors::come_and_hang_up(&httpd, connections / 8, large, patience),
        ];
        let polite = Visitors::come(&httpd, connections / 2, "/counter?ms=40");
        wait_until("some have been served and many hung up", PATIENCE, || {
            polite.tries().served >= rounds * limit as usize
                && rude.iter().all(|r| r.tries().served >= rounds)
        });
        rude.into_iter().for_each(|r| drop(r.leave()));
        let tries = polite.leave();
        wait_until("nobody runs", PATIENCE, || httpd.counter().running == 0);
        let counter = httpd.counter();
        eprintln!("    {counter:?}, {tries:?}");
        assert_eq!(counter.max, limit, "full, and never over: {counter:?}");
        assert!(tries.failed.is_empty(), "{:?}", tries.failed);
    });
}

#[test]
fn a_flood_of_refusals_writes_hardly_a_line() {
    let _turn = turn();
    let refusals = if long() { 10_000 } else { 2_000 };
    for_each_mpm(|mpm| {
        let httpd = room(1).mpm(mpm).workers(2, 16).start();
        let full = Visitors::come(&httpd, 6, "/counter?ms=500");
        wait_until("it runs", PATIENCE, || httpd.counter().running == 1);
        let before = httpd.error_log().lines().count();
        let url = httpd.url() + "/counter?ms=500";
        let ab = std::process::Command::new("ab")
            .args(["-q", "-l", "-c", "8", "-n", &refusals.to_string(), &url])
            .output()
            .expect("`make setup` installs ab");
        let said = String::from_utf8_lossy(&ab.stdout).into_owned();
        let refused = said
            .lines()
            .find_map(|l| l.strip_prefix("Non-2xx responses:"));
        let refused: u32 = refused
            .and_then(|n| n.trim().parse().ok())
            .expect("refusals");
        full.leave();
        assert!(refused > refusals * 9 / 10, "{said}");
        let log = httpd.error_log();
        let lines: Vec<&str> = log.lines().skip(before).collect();
        assert!(lines.len() <= 3, "{lines:#?}");
    });
}
