//! mod_bwshare on a real httpd: what is let through equals the formula, refused clients are told how long to
//! wait, and what was sent is what was charged.
//!
//! Clients are told apart by X-Forwarded-For behind mod_remoteip, which trusts the loopback here. The
//! harness's own requests are exempt. Rates are so low that no credit comes in while a test runs, unless the
//! test is about credit.

mod clients;
mod configured;
mod sent;
mod shown;
mod tables;

use nap_testkit::{Answer, Builder, Httpd, for_each_mpm};
use serde_json::Value;
use std::time::{Duration, Instant};

const LIMITS: &str = "BwShareFiles 12 0.0001\nBwShareBytes 100M 1";

/// Everything but the pages for the administrator is charged.
fn site(config: &str) -> Builder {
    Httpd::builder()
        .nap()
        .modules(&["remoteip"])
        .file("htdocs/page.html", "a page\n".repeat(100))
        .file("htdocs/large.bin", vec![b'x'; 50_000])
        .cgi("slowly", SLOWLY)
        .config(
            "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1\nBwShare On\n\
             BwShareExempt \"%{HTTP_USER_AGENT} == 'knock'\"\n\
             <Location /bwshare-info>\nSetHandler bwshare-info\nBwShare Off\n</Location>\n\
             <Location /bwshare-trace>\nSetHandler bwshare-trace\nBwShare Off\n</Location>",
        )
        .config(config)
}

/// 30,000 bytes of a length that is not known beforehand.
const SLOWLY: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n\
                      for i in 1 2 3; do head -c 10000 /dev/zero; done\n";

fn get(httpd: &Httpd, client: &str, path: &str) -> Answer {
    httpd.request("GET", path, &[("X-Forwarded-For", client)], b"")
}

/// How many of `n` requests, one after the other, are let through.
fn passes(httpd: &Httpd, client: &str, path: &str, n: usize) -> usize {
    (0..n)
        .filter(|_| get(httpd, client, path).status == 200)
        .count()
}

fn trace(httpd: &Httpd, client: &str) -> Value {
    let all = httpd.get("/bwshare-trace?json").json();
    let rows = all["rows"].as_array().expect("rows").clone();
    let own = rows.iter().find(|row| row["client"] == client);
    own.unwrap_or_else(|| panic!("{client} is not in {all}"))
        .clone()
}

fn retry_after(answer: &Answer) -> u64 {
    let value = answer.header("retry-after").expect("Retry-After");
    value.parse().expect("whole seconds")
}

#[test]
fn a_burst_over_all_processes_gets_exactly_the_maximum() {
    for_each_mpm(|mpm| {
        let httpd = site(LIMITS).mpm(mpm).workers(8, 2).start();
        let clients = ["192.0.2.1", "192.0.2.2", "2001:db8:1:2::3"];
        let all: Vec<(&str, Answer)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    let (client, httpd) = (clients[n % 3], &httpd);
                    scope.spawn(move || {
                        let asked = (0..12).map(|_| (client, get(httpd, client, "/page.html")));
                        asked.collect::<Vec<_>>()
                    })
                })
                .collect();
            let all = threads
                .into_iter()
                .flat_map(|t| t.join().expect("no panic"));
            all.collect()
        });
        for client in clients {
            let own = || all.iter().filter(|(of, _)| *of == client);
            let passed = own().filter(|(_, answer)| answer.status == 200).count();
            assert_eq!(passed, 12, "{client} under {mpm}, of {}", own().count());
            for (_, answer) in own().filter(|(_, answer)| answer.status != 200) {
                assert_eq!(answer.status, 429);
                // One file of credit takes 10,000 s.
                assert!(
                    (9_900..=10_000).contains(&retry_after(answer)),
                    "{answer:?}"
                );
            }
        }
        let info = httpd.get("/bwshare-info?json").json();
        assert_eq!(info["requests"], 96);
        assert_eq!(info["refused_in_all"], 96 - 36);
    });
}

#[test]
fn credit_comes_in_at_its_rate_and_waiting_as_told_is_enough() {
    let httpd = site("BwShareFiles 3 0.5\nBwShareBytes 100M 1M").start();
    let (mut passed, mut refused) = (0, 0);
    let begin = Instant::now();
    while refused < 3 {
        let answer = get(&httpd, "192.0.2.1", "/page.html");
        if answer.status == 200 {
            passed += 1;
        } else {
            refused += 1;
            std::thread::sleep(Duration::from_secs(retry_after(&answer)));
            let again = get(&httpd, "192.0.2.1", "/page.html");
            assert_eq!(again.status, 200, "told to wait so long: {answer:?}");
            passed += 1;
        }
        let most = 3.0 + begin.elapsed().as_secs_f64() * 0.5;
        assert!(f64::from(passed) <= most, "{passed} of at most {most}");
    }
}
