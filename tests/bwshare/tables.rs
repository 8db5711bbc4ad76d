//! The tables of debts: they outlive restarts, changed limits too, and a full one forgets the small debts.

use crate::{LIMITS, get, passes, retry_after, site, trace};
use nap_testkit::{Httpd, exchange, for_each_mpm, long, wait_until};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

#[test]
fn debts_outlive_restarts() {
    for_each_mpm(|mpm| {
        let stated = site(LIMITS).config("NapStateFile {root}/state");
        let mut httpd = stated.mpm(mpm).start();
        assert_eq!(passes(&httpd, "192.0.2.1", "/page.html", 13), 12);
        let ask = |httpd: &Httpd| get(httpd, "192.0.2.1", "/page.html").status;
        httpd.graceful();
        assert_eq!(ask(&httpd), 429, "graceful, {mpm}");
        httpd.stop();
        httpd.start_again();
        assert_eq!(ask(&httpd), 429, "full, {mpm}");
        let row = trace(&httpd, "192.0.2.1");
        assert_eq!((&row["files"], &row["refused"]), (&12.into(), &3.into()));
        assert_eq!(get(&httpd, "192.0.2.2", "/page.html").status, 200);
    });
}

#[test]
fn debts_in_bytes_and_those_of_horizons_outlive_restarts_too() {
    let horizons = "BwShareBytes 1G 1G\nBwShareHorizon 400000 1s 0.95\n\
                    BwShareHorizon 100 1h 0.9\nBwShareHorizon 50 8h 0.5";
    for (limits, why) in [("BwShareBytes 60K 1", "bytes"), (horizons, "horizon-2")] {
        let files = "BwShareFiles 1000 1000\nNapStateFile {root}/state\n";
        let mut httpd = site(&format!("{files}{limits}")).start();
        let ask = |httpd: &Httpd| get(httpd, "192.0.2.1", "/large.bin");
        let began = Instant::now();
        let until = |httpd: &Httpd| {
            let wait = retry_after(&ask(httpd)) as f64;
            began.elapsed().as_secs_f64() + wait
        };
        while ask(&httpd).status == 200 {}
        let first = until(&httpd);
        httpd.graceful();
        let graceful = until(&httpd);
        httpd.stop();
        httpd.start_again();
        let full = until(&httpd);
        let row = trace(&httpd, "192.0.2.1");
        assert_eq!((&row["reason"], &row["refused"]), (&why.into(), &4.into()));
        for (how, later) in [("graceful", graceful), ("full", full)] {
            assert!(
                (later - first).abs() <= 2.0,
                "{why}, {how}: {later}, {first}"
            );
        }
    }
}

#[test]
fn the_tables_sizes_are_said_at_start() {
    let httpd = site("NapTables clients=50000").start();
    let log = httpd.error_log();
    let said = log.lines().find(|line| line.contains("debts of "));
    let said = said.unwrap_or_else(|| panic!("{log}"));
    let number = |before: &str| {
        let (_, rest) = said.split_once(before).expect("the sentence");
        let number = rest.split(' ').next().expect("a word");
        number.parse::<u32>().expect("a number")
    };
    // Whole stripes of them, at most 64 bytes each.
    let clients = number("debts of ");
    assert!((50_000..60_000).contains(&clients), "{said}");
    let kib = number("at a time in ");
    assert!((1_500..4_000).contains(&kib), "{said}");
}

/// A small debt gives up its place: the heaviest debtors are known as long as any entry owes less.
#[test]
fn a_full_table_lets_everybody_in_and_forgets_no_heavy_debtor() {
    for_each_mpm(|mpm| {
        let httpd = site(LIMITS)
            .config("NapTables clients=1K trace=0\nKeepAlive On\nMaxKeepAliveRequests 0")
            .mpm(mpm)
            .expect_log("the table of debts is full", "it is")
            .start();
        assert_eq!(passes(&httpd, "192.0.2.1", "/page.html", 13), 12);
        let mut stream = httpd.connect();
        let mut ask = |client: String| {
            let header = format!("X-Forwarded-For: {client}\r\n");
            exchange(&mut stream, "/page.html", &header).starts_with(b"HTTP/1.1 200 ")
        };
        let fresh = (0..5000).map(|n| format!("10.0.{}.{}", n / 250, 1 + n % 250));
        assert_eq!(fresh.filter(|client| ask(client.clone())).count(), 5000);
        let info = httpd.get("/bwshare-info?json").json();
        // There are four stripes of 512 places.
        assert!(info["debts_lost"].as_u64() >= Some(5001 - 2048), "{info}");
        assert!(!ask("192.0.2.1".to_owned()), "they still owe 12");
        if long() {
            // Checked once a minute.
            wait_until("the log says so", Duration::from_secs(100), || {
                httpd.error_log().contains("the table of debts is full; ")
            });
        }
    });
}

/// A debt is an amount: loosened limits let in at once all who owe less than the new maximum.
#[test]
fn debts_are_the_same_amount_when_the_limits_change() {
    let with = |limits: &str| format!("{limits}\n<Location /page.html>\nBwShare On\n</Location>");
    let mut httpd = Httpd::builder()
        .nap()
        .file("htdocs/page.html", "a page")
        .config(&with("BwShareFiles 30 0.05"))
        .start();
    let passes = |httpd: &Httpd, n: usize| {
        let all = (0..n).filter(|_| httpd.get("/page.html").status == 200);
        all.count()
    };
    assert_eq!(passes(&httpd, 31), 30);
    httpd.reconfigure(&with("BwShareFiles 40 0.0001"));
    httpd.graceful();
    assert_eq!(passes(&httpd, 11), 10, "30 of 40 are owed");
    httpd.reconfigure(&with("BwShareFiles 50 0.001"));
    httpd.graceful();
    assert_eq!(passes(&httpd, 11), 10, "40 of 50 are");
}

/// The unsent part of a download that is broken off is given back, at the rate then in force.
#[test]
fn what_is_given_back_after_a_graceful_restart_has_the_price_of_then() {
    const HUGE: usize = 48 << 20;
    let with = |limits: &str| {
        format!(
            "BwShareFiles 100 0.0001\n{limits}\n<Location /huge.bin>\nBwShare On\n</Location>\n\
             <Location /bwshare-trace>\nSetHandler bwshare-trace\n</Location>"
        )
    };
    for (before, after) in [("1M", "1K"), ("1K", "1M")] {
        let mut httpd = Httpd::builder()
            .nap()
            .file("htdocs/huge.bin", vec![b'x'; HUGE])
            .config(&with(&format!("BwShareBytes 1G {before}")))
            .start();
        // Another debt, which must not be wiped out.
        assert_eq!(httpd.get("/huge.bin").body.len(), HUGE);
        let mut stream = httpd.connect();
        stream
            .write_all(b"GET /huge.bin HTTP/1.0\r\n\r\n")
            .expect("sent");
        stream.read_exact(&mut [0; 300_000]).expect("its beginning");
        httpd.reconfigure(&with(&format!("BwShareBytes 1G {after}")));
        httpd.graceful();
        let debt = |httpd: &Httpd| trace(httpd, "127.0.0.1")["byte_debt"].as_f64();
        let begun = Instant::now();
        let whole = debt(&httpd).expect("a number");
        assert!(whole > 1.5 * HUGE as f64, "{whole}");
        drop(stream);
        nap_testkit::wait_until("it is over", Duration::from_secs(20), || {
            debt(&httpd).is_some_and(|debt| debt < 1.5 * HUGE as f64)
        });
        // Paid off by the second limit meanwhile, at the higher of the rates.
        let paid = 1e6 * (begun.elapsed().as_secs_f64() + 10.0);
        let left = debt(&httpd).expect("a number");
        assert!(left > HUGE as f64 - paid, "{before} to {after}: {left}");
        httpd.stop();
    }
}
