//! `NapRunReady` is exact: never one more, whatever clients do, and never one less while anybody waits. A CGI
//! program keeps its own count over all children.

use nap_testkit::{Builder, Httpd, Visitors, for_each_mpm, long, wait_until};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The long form has two hundred clients on two processors.
fn patience() -> Duration {
    Duration::from_secs(if long() { 300 } else { 60 })
}

/// A program that starts and ends.
const NOTHING: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nnothing\\n'\n";

/// The greatest time of a hand-over, in requests for a program that does nothing. A hand-over is the end of
/// one program, the wake-up of a waiter and the start of the next program, each behind the machine's other
/// work.
const HAND_OVER: f64 = 3.0;
/// ... and the greatest share of the limit in all: half of what a queue that is only polled loses.
const HAND_OVERS: f64 = 0.05;

/// One test at a time: the mean is that of a machine that has time for it.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// Limit and connections: as in the issue, or small.
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

/// Mean time of a request for a program that does nothing, seconds, unscheduled, while `busy` lasts.
fn turnaround_while(httpd: &Httpd, busy: impl FnOnce()) -> f64 {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            let (start, mut rounds) = (Instant::now(), 0);
            while rounds < 5 || !over.load(Relaxed) {
                assert_eq!(httpd.get("/cgi-bin/nothing").status, 200);
                rounds += 1;
            }
            start.elapsed().as_secs_f64() / f64::from(rounds)
        });
        let ends = nap_testkit::SetOnDrop(&over);
        busy();
        drop(ends);
        rounds.join().expect("all are answered")
    })
}

#[test]
fn as_many_run_as_may_while_anybody_waits_and_never_more() {
    let _turn = turn();
    let (limit, connections) = size();
    for_each_mpm(|mpm| {
        let httpd = room(limit)
            .mpm(mpm)
            .workers(4, 16)
            .cgi("nothing", NOTHING)
            .start();
        // A hand-over's time depends on the machine, and is small compared with a long program.
        let ms = if long() { 3000 } else { 1000 };
        let visitors = Visitors::come(&httpd, connections, &format!("/counter?ms={ms}"));
        wait_until("the room is full", patience(), || {
            httpd.counter().running == limit
        });
        let before = httpd.counter();
        let turnaround = turnaround_while(&httpd, || {
            wait_until("each permit has been used six times", patience(), || {
                httpd.counter().ended >= before.ended + 6 * limit
            });
        });
        let after = httpd.counter();
        let mean = after.mean_since(&before);
        let tries = visitors.leave();
        let turns = (after.ended - before.ended) as f64;
        let span = (after.now_ns - before.now_ns) as f64 / 1e9;
        let hand_overs = HAND_OVER * turns * turnaround / span;
        let fair = mean + hand_overs.min(HAND_OVERS * limit as f64);
        eprintln!(
            "    mean {mean:.3} of {limit}, most {}; {fair:.3} but for hand-overs, with {:.0} ms for a \
             program that does nothing",
            after.max,
            turnaround * 1e3
        );
        assert_eq!(after.max, limit, "full, and never over: {after:?}");
        // A queue that is only polled would lose over ten per cent of a second of work.
        assert!(fair >= 0.98 * limit as f64, "{fair:.3} of {limit}");
        assert!(!long() || mean >= 9.8, "{mean:.3} of {limit}");
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
        // Half of them ask for more than the sockets hold, so that a program is stuck in its answer when its
        // reader leaves.
        let short = Duration::from_millis(400);
        let large = "/counter?ms=30&bytes=20000000";
        let rude = [
            Visitors::come_and_hang_up(&httpd, connections / 8, "/counter?ms=60", short),
            Visitors::come_and_hang_up(&httpd, connections / 8, large, short),
        ];
        let polite = Visitors::come(&httpd, connections / 2, "/counter?ms=40");
        wait_until("some have been served and many hung up", patience(), || {
            polite.tries().served >= rounds * limit as usize
                && rude.iter().all(|r| r.tries().served >= rounds)
        });
        rude.into_iter().for_each(|r| drop(r.leave()));
        let tries = polite.leave();
        wait_until("nobody runs", patience(), || httpd.counter().running == 0);
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
        wait_until("it runs", patience(), || httpd.counter().running == 1);
        let (before, start) = (httpd.error_log().lines().count(), Instant::now());
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
        let minutes = start.elapsed().as_secs() as usize / 60 + 1;
        assert!(lines.len() <= 3 * minutes, "{lines:#?}");
    });
}
