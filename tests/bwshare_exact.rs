//! Debts to the file: a real httpd lets through of several clients at a time exactly what the formula says,
//! decision by decision.
//!
//! The clients have their own addresses on the loopback. The exact time of the server's decision is not
//! known, only that it was between the request and its answer. A decision is right if it is right for some
//! time in between. On this scale a credit comes in every fifty milliseconds.

use nap_testkit::robot::{Robot, Try};
use nap_testkit::{Httpd, Mpm, exchange, for_each_mpm};
use std::collections::HashSet;
use std::sync::Barrier;
use std::thread::scope;

/// Asserts that each try was decided by debts of at most `max`, paid off at `rate` a second, where a request
/// costs `cost` and is let in if the debt plus `asked` is no more than `max`. Also asserts that refused
/// clients were told the wait, to the second.
fn judge(tries: &[Try], max: f64, rate: f64, asked: f64, cost: impl Fn(&Try) -> f64) {
    for (n, now) in tries.iter().enumerate() {
        // The debt is the largest since any earlier request: it never falls below zero.
        let owed = |from: usize, elapsed: f64| {
            let since = tries[from..n].iter().filter(|t| t.passed);
            since.map(&cost).sum::<f64>() - rate * elapsed.max(0.0)
        };
        let passed = || (0..n).filter(|&i| tries[i].passed);
        let most = passed().map(|i| owed(i, now.sent - tries[i].answered));
        let least = passed().map(|i| owed(i, now.answered - tries[i].sent));
        let [most, least] = [most.fold(0.0, f64::max), least.fold(0.0, f64::max)];
        match now.passed {
            true => assert!(
                least + asked <= max + 1e-6,
                "{n} owed {least} at least: {now:?}"
            ),
            false => {
                assert!(
                    most + asked > max - 1e-6,
                    "{n} owed {most} at most: {now:?}"
                );
                // Long enough, and not a second more.
                let wait =
                    |owed: f64, off: f64| ((owed + asked - max) / rate + off).ceil().max(1.0);
                let told = now.told.expect("Retry-After");
                assert!(
                    told >= wait(least, -1e-4) && told <= wait(most, 1e-4),
                    "{n} owed {least} to {most}: {now:?}"
                );
            }
        }
    }
}

fn passes(tries: &[Try]) -> usize {
    tries.iter().filter(|t| t.passed).count()
}

type Script = fn(&mut Robot);

/// The results of robots that run these scripts all at once, each from its own address.
fn run(httpd: &Httpd, path: &str, scripts: &[Script]) -> Vec<Vec<Try>> {
    scope(|scope| {
        let robots = scripts.iter().zip(2u8..).map(|(script, n)| {
            scope.spawn(move || {
                let mut robot = Robot::new(httpd, n, path);
                script(&mut robot);
                robot.tries
            })
        });
        let robots: Vec<_> = robots.collect();
        let all = robots.into_iter().map(|r| r.join().expect("no panic"));
        all.collect()
    })
}

/// As large as the page, of a length that is not known beforehand.
const PROGRAM: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'; \
                       for i in 1 2; do head -c 3500 /dev/zero | tr '\\0' x; sleep 0.02; done\n";

/// With eight threads a child, more than there are robots: a child of event without an idle thread closes
/// kept-alive connections.
fn site(limits: &str) -> nap_testkit::Builder {
    Httpd::builder()
        .nap()
        .file("htdocs/page.html", "a page\n".repeat(1000))
        .config("KeepAlive On\nMaxKeepAliveRequests 0")
        .config(limits)
        .cgi("program", PROGRAM)
        .config("<LocationMatch ^/(page.html|cgi-bin)>\nBwShare On\n</LocationMatch>")
        .config("<Location /bwshare-trace>\nSetHandler bwshare-trace\n</Location>")
}

#[test]
fn files_let_through_are_as_many_as_the_formula_says_whatever_the_rhythm() {
    for_each_mpm(|mpm| {
        let httpd = site("BwShareFiles 10 20\nBwShareBytes 1G 1G")
            .mpm(mpm)
            .workers(3, 8)
            .start();
        let scripts: [Script; 4] = [
            |robot| robot.burst(60),
            |robot| robot.steadily(40.0, 2.0),
            |robot| robot.steadily(16.0, 2.0),
            |robot| {
                robot.burst(20);
                robot.be_silent(0.6);
                robot.burst(20);
            },
        ];
        let all = run(&httpd, "/page.html", &scripts);
        for tries in &all {
            judge(tries, 10.0, 20.0, 1.0, |_| 1.0);
        }
        let [burst, double, slower, again] = &all[..] else {
            panic!("four robots");
        };
        assert!(
            passes(burst) >= 10 && passes(burst) < 60,
            "{}",
            passes(burst)
        );
        assert!(
            passes(double) < double.len(),
            "it is too fast: {}",
            double.len()
        );
        assert_eq!(
            passes(slower),
            slower.len(),
            "0.8 of the rate is never refused"
        );
        assert!(
            passes(&again[20..]) >= 10,
            "silence has paid for another burst"
        );
    });
}

#[test]
fn eight_processes_at_once_let_exactly_the_maximum_through() {
    let httpd = site("BwShareFiles 400 0.0001\nBwShareBytes 1G 1G")
        .file("htdocs/free.html", "not charged")
        .mpm(Mpm::Prefork)
        .workers(8, 1)
        .access_log_format("%P %U %s")
        .start();
    let all_there = Barrier::new(8);
    let one = || {
        let mut stream = httpd.connect();
        // The connection has its process now.
        exchange(&mut stream, "/free.html", "");
        all_there.wait();
        let passes =
            |_: &u32| exchange(&mut stream, "/page.html", "").starts_with(b"HTTP/1.1 200 ");
        (0..).take_while(passes).count()
    };
    let passed: usize = scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        clients
            .into_iter()
            .map(|c| c.join().expect("no panic"))
            .sum()
    });
    assert_eq!(passed, 400, "of one client");
    let log = httpd.access_log();
    let charged = log.lines().filter(|line| line.ends_with(" /page.html 200"));
    let processes: HashSet<_> = charged.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(processes.len(), 8, "{processes:?}");
}

/// Robots with these scripts get as many bytes as `max` and `rate` allow, and at most one answer more; the
/// first of them asks for 0.8 of the rate.
fn bytes_are_exact(path: &str, (max, rate): (f64, f64), streamed: bool, scripts: &[Script]) {
    for_each_mpm(|mpm| {
        let limits = format!("BwShareFiles 100000 10000\nBwShareBytes {max} {rate}");
        let httpd = site(&limits).mpm(mpm).workers(3, 8).start();
        let length = httpd.get(path).header("content-length").map(str::to_owned);
        assert_eq!(length.is_none(), streamed, "{length:?}");
        let all = run(&httpd, path, scripts);
        for tries in &all {
            judge(tries, max, rate, 1e-3, |t| t.bytes);
            let (first, last) = (tries[0].sent, tries[tries.len() - 1].answered);
            let sent = tries.iter().filter(|t| t.passed).map(|t| t.bytes);
            let most = max + (last - first) * rate + 8000.0;
            let sent: f64 = sent.sum();
            assert!(sent < most, "{sent} of {most}");
        }
        let refused = all.iter().map(|tries| tries.len() - passes(tries));
        let refused: Vec<usize> = refused.collect();
        assert_eq!(refused[0], 0, "0.8 of the rate is never refused");
        assert!(refused[1..].iter().all(|n| *n > 0), "{refused:?}");
    });
}

#[test]
fn bytes_let_through_stay_below_one_answer_more_than_the_formula() {
    // At 7.3 kB an answer the rate pays for 13.7 a second.
    let scripts: [Script; 4] = [
        |robot| robot.steadily(11.0, 1.5),
        |robot| robot.burst(40),
        |robot| robot.steadily(28.0, 1.5),
        |robot| {
            robot.burst(12);
            robot.be_silent(0.6);
            robot.burst(12);
        },
    ];
    bytes_are_exact("/page.html", (50_000.0, 100_000.0), false, &scripts);
}

/// A program's output is charged as it is sent, and programs take their time.
#[test]
fn so_do_bytes_of_answers_whose_length_nobody_knows_beforehand() {
    // At 7.2 kB an answer the rate pays for 2.8 a second.
    let scripts: [Script; 4] = [
        |robot| robot.steadily(2.2, 2.5),
        |robot| robot.burst(20),
        |robot| robot.steadily(5.6, 2.5),
        |robot| {
            robot.burst(9);
            robot.be_silent(0.8);
            robot.burst(9);
        },
    ];
    bytes_are_exact("/cgi-bin/program", (30_000.0, 20_000.0), true, &scripts);
}

#[test]
fn the_wait_that_is_told_counts_down_to_the_second() {
    let asks: [Script; 1] = [|robot| robot.steadily(8.0, 3.0)];
    let counts_down = |mpm, limits: &str, is_right: &dyn Fn(&[Try])| {
        let httpd = site(limits).mpm(mpm).workers(3, 8).start();
        let tries = &run(&httpd, "/page.html", &asks)[0];
        is_right(tries);
        let told = tries.iter().filter_map(|t| t.told);
        let told: HashSet<u64> = told.map(|seconds| seconds as u64).collect();
        assert!(told.len() > 1, "{told:?} with {limits}");
    };
    for_each_mpm(|mpm| {
        // The fifth file waits for 3.4 s, and 4.6 kB too many wait for 2.3 s.
        counts_down(mpm, "BwShareFiles 4 0.29\nBwShareBytes 1G 1G", &|tries| {
            judge(tries, 4.0, 0.29, 1.0, |_| 1.0);
        });
        counts_down(
            mpm,
            "BwShareFiles 1000 100\nBwShareBytes 10000 2000",
            &|tries| {
                judge(tries, 10_000.0, 2000.0, 1e-3, |t| t.bytes);
            },
        );
    });
}

/// The note's 30 files and a credit of 0.05 a second, a hundred times as fast: 30 + 1 s x 5 = 35 in a second,
/// like 30 + 100 s x 0.05 in a hundred.
#[test]
fn the_notes_robot_is_refused_from_request_36_on_and_stands_red() {
    let httpd = site("BwShareFiles 30 5\nBwShareBytes 1G 1G").start();
    let mut robot = Robot::new(&httpd, 9, "/page.html");
    robot.steadily(100.0, 1.0);
    judge(&robot.tries, 30.0, 5.0, 1.0, |_| 1.0);
    let first = robot.tries[0].sent;
    let within = robot.tries.iter().filter(|t| t.answered < first + 1.0);
    assert!(within.filter(|t| t.passed).count() <= 35);
    robot.burst(40);
    let html = httpd.get("/bwshare-trace").text();
    let red = html.lines().find(|line| line.contains("127.0.0.9"));
    let red = red.expect("a row");
    assert!(
        red.contains("class=\"red\"") && red.contains("over the limit"),
        "{red}"
    );
}

/// The note's numbers under the historic names, and nothing else. Its words would let request 31 pass
/// (`BwShareRule literal`); by its formula a client gets 30 at once, and one every twenty seconds.
#[test]
fn the_notes_own_lines_limit_files_and_bytes_and_can_be_off() {
    const FILE: usize = 60_000;
    for_each_mpm(|mpm| {
        let httpd = Httpd::builder()
            .nap()
            .file("htdocs/small.html", "small")
            .file("htdocs/large.bin", vec![b'x'; FILE])
            .file("htdocs/free/small.html", "free")
            .config(
                "KeepAlive On\nMaxKeepAliveRequests 0\n\
                 BW_tx1debt_max 30\nBW_tx1cred_rate 0.05\n\
                 BW_tx2debt_max 500000\nBW_tx2cred_rate 1000\n\
                 <LocationMatch ^/(small|large|free)>\nBW_throttle_off 0\n</LocationMatch>\n\
                 <Location /free>\nBW_throttle_off\n</Location>",
            )
            .mpm(mpm)
            .workers(3, 8)
            .start();
        let ask = |from, path, n| {
            let mut robot = Robot::new(&httpd, from, path);
            robot.burst(n);
            robot.tries
        };
        let files = ask(2, "/small.html", 40);
        let bytes = ask(3, "/large.bin", 15);
        // This client owes too many files already.
        let free = ask(2, "/free/small.html", 60);
        judge(&files, 30.0, 0.05, 1.0, |_| 1.0);
        judge(&bytes, 500_000.0, 1000.0, 1e-3, |t| t.bytes);
        assert_eq!(passes(&free), free.len(), "BW_throttle_off");
        let first = |tries: &[Try]| tries.iter().position(|t| !t.passed);
        let (first_file, first_large) = (first(&files), first(&bytes));
        eprintln!("{mpm}: refused at {first_file:?} and {first_large:?}");
        assert_eq!(first_file, Some(30));
        // Eight are 480 kB; nine are above half a megabyte for 40 s.
        assert_eq!(first_large, Some(9));
    });
}
