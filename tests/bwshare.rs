//! mod_bwshare on a real httpd: what is let through equals the formula, refused clients are told how long to
//! wait, and what was sent is what was charged.
//!
//! Clients are told apart by X-Forwarded-For behind mod_remoteip, which trusts the loopback here. The
//! harness's own requests are exempt. Rates are so low that no credit comes in while a test runs, unless the
//! test is about credit.

use nap_testkit::{Answer, Builder, Httpd, Mpm, exchange, for_each_mpm, long, wait_until};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
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

#[test]
fn bytes_charged_are_bytes_sent_whether_their_length_was_known_or_not() {
    for_each_mpm(|mpm| {
        let httpd = site(LIMITS)
            .file("htdocs/index.html", "the index\n".repeat(100))
            .file("htdocs/folder/page.html", "in a folder")
            .file("htdocs/packed.html", "a page\n".repeat(1000))
            .modules(&["deflate"])
            .config("<Location /packed.html>\nSetOutputFilter DEFLATE\n</Location>")
            .mpm(mpm)
            .start();
        for (client, request, head, status) in [
            ("192.0.2.1", "GET /large.bin", "", "200"),
            ("192.0.2.2", "GET /cgi-bin/slowly", "", "200"),
            ("192.0.2.3", "GET /nothing-there", "", "404"),
            ("192.0.2.4", "HEAD /large.bin", "", "200"),
            ("192.0.2.5", "GET /large.bin", "If-None-Match: *\r\n", "304"),
            (
                "192.0.2.6",
                "GET /large.bin",
                "Range: bytes=100-299\r\n",
                "206",
            ),
            (
                "192.0.2.7",
                "GET /large.bin",
                "Range: bytes=0-9,500-999\r\n",
                "206",
            ),
            ("192.0.2.8", "GET /", "", "200"),
            ("192.0.2.9", "GET /folder", "", "301"),
            (
                "192.0.2.10",
                "GET /packed.html",
                "Accept-Encoding: gzip\r\n",
                "200",
            ),
        ] {
            let mut stream = httpd.connect();
            let request = format!("{request} HTTP/1.0\r\n{head}X-Forwarded-For: {client}\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("sent");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("an answer");
            assert_eq!(all.get(9..12), Some(status.as_bytes()), "{request}");
            nap_testkit::wait_until("it is over", Duration::from_secs(10), || {
                trace(&httpd, client)["bytes"] == all.len()
            });
        }
        let row = trace(&httpd, "192.0.2.1");
        assert!(
            row["byte_debt"].as_f64().expect("a number") > 49_000.0,
            "{row}"
        );
        let packed = trace(&httpd, "192.0.2.10")["bytes"].as_u64();
        assert!(
            (1..1000).contains(&packed.unwrap_or(0)),
            "of 7000: {packed:?}"
        );
    });
}

/// The interim answer to `Expect: 100-continue` is sent as well.
#[test]
fn a_form_that_waits_to_be_sent_is_charged_like_any() {
    for_each_mpm(|mpm| {
        let form = SLOWLY.replace("\nprintf", "\ncat >/dev/null\nprintf");
        let httpd = site(LIMITS).cgi("form", &form).mpm(mpm).start();
        let mut stream = httpd.connect();
        let head = "POST /cgi-bin/form HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                    Content-Length: 5\r\nExpect: 100-continue\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("sent");
        let mut all = vec![0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut all).expect("an interim answer");
        assert_eq!(all, b"HTTP/1.1 100 Continue\r\n\r\n", "{mpm}");
        stream.write_all(b"hello").expect("sent");
        stream.read_to_end(&mut all).expect("an answer");
        assert!(all.len() > 30_000, "{mpm}");
        nap_testkit::wait_until("it is over", Duration::from_secs(10), || {
            trace(&httpd, "192.0.2.1")["bytes"] == all.len()
        });
        assert_eq!(trace(&httpd, "192.0.2.1")["files"], 1);
    });
}

/// Behind a proxy that sends several requests before it reads: each answer is charged to its client, as it is
/// sent.
#[test]
fn clients_who_share_a_connection_are_each_charged_what_is_sent_to_them() {
    for_each_mpm(|mpm| {
        let httpd = site(LIMITS).config("KeepAlive On").mpm(mpm).start();
        let ask = |what: &str, client: u8, head: &str| {
            format!(
                "{what} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.{client}\r\n{head}\r\n"
            )
        };
        let asked = [
            ask("HEAD /large.bin", 1, ""),
            ask("GET /page.html", 2, ""),
            ask("GET /cgi-bin/slowly", 1, ""),
            ask("GET /large.bin", 3, "Connection: close\r\n"),
        ];
        let mut stream = httpd.connect();
        stream.write_all(asked.concat().as_bytes()).expect("sent");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("four answers");
        let behind = |from: usize, end: &[u8]| {
            let at = all[from..].windows(end.len()).position(|here| here == end);
            from + at.expect("it ends") + end.len()
        };
        let head = behind(0, b"\r\n\r\n");
        let page = behind(head, b"\r\n\r\n") + 700;
        let program = behind(page, b"\r\n0\r\n\r\n");
        for (client, bytes) in [
            ("192.0.2.1", head + program - page),
            ("192.0.2.2", page - head),
            ("192.0.2.3", all.len() - program),
        ] {
            nap_testkit::wait_until("it is over", Duration::from_secs(10), || {
                trace(&httpd, client)["bytes"] == bytes
            });
        }
    });
}

/// The client stops reading: what has left the server is charged, not all that was to come.
#[test]
fn an_aborted_download_is_charged_as_far_as_it_came() {
    const HUGE: usize = 48 << 20;
    for_each_mpm(|mpm| {
        let httpd = site("BwShareFiles 12 0.0001\nBwShareBytes 1G 1")
            .file("htdocs/huge.bin", vec![b'x'; HUGE])
            .cgi(
                "stream",
                "#!/bin/sh\nprintf '\\r\\n'; head -c 50000000 /dev/zero\n",
            )
            .expect_log("error writing", "a program whose reader has gone")
            .mpm(mpm)
            .start();
        for (client, path) in [("192.0.2.1", "/huge.bin"), ("192.0.2.2", "/cgi-bin/stream")] {
            let mut stream = httpd.connect();
            let request = format!("GET {path} HTTP/1.0\r\nX-Forwarded-For: {client}\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("sent");
            stream.read_exact(&mut [0; 300_000]).expect("its beginning");
            let charged = || trace(&httpd, client)["bytes"].as_u64().expect("a number");
            if path == "/huge.bin" {
                assert!(charged() >= HUGE as u64, "all of it, while it is sent");
            }
            drop(stream);
            // What the kernel had taken counts as sent: some megabytes on a loopback.
            nap_testkit::wait_until("it is over", Duration::from_secs(20), || {
                (300_000..24 << 20).contains(&charged())
            });
            // A byte a second is paid off.
            let row = trace(&httpd, client);
            let [bytes, debt] = ["bytes", "byte_debt"].map(|name| row[name].as_f64());
            let paid = bytes.expect("a number") - debt.expect("a number");
            assert!((0.0..600.0).contains(&paid), "{row}");
        }
        // A complete download is charged to the byte.
        let whole = get(&httpd, "192.0.2.3", "/huge.bin");
        let headers: usize = whole
            .headers
            .iter()
            .map(|(n, v)| n.len() + v.len() + 4)
            .sum();
        let all = HUGE + headers + "HTTP/1.1 200 OK\r\n\r\n".len();
        nap_testkit::wait_until("it is settled", Duration::from_secs(20), || {
            trace(&httpd, "192.0.2.3")["bytes"] == all
        });
    });
}

/// A client that takes a huge file in parts, breaking each off, pays for everything it has read.
#[test]
fn what_was_under_way_when_a_download_was_broken_off_counts_as_sent() {
    const HUGE: u64 = 1 << 30;
    const READ: u64 = 8 << 20;
    for_each_mpm(|mpm| {
        let httpd = site("BwShareFiles 12 0.0001\nBwShareBytes 100G 1K")
            .mpm(mpm)
            .start();
        let file = std::fs::File::create(httpd.root().join("htdocs/sparse.bin"));
        file.and_then(|file| file.set_len(HUGE)).expect("a hole");
        let charged = || {
            trace(&httpd, "192.0.2.1")["bytes"]
                .as_u64()
                .expect("a number")
        };
        for parts in 1..=3 {
            let mut stream = httpd.connect();
            let request = "GET /sparse.bin HTTP/1.0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
            stream.write_all(request.as_bytes()).expect("sent");
            let part = std::io::copy(&mut (&mut stream).take(READ), &mut std::io::sink());
            assert_eq!(part.expect("its beginning"), READ);
            assert!(charged() >= HUGE, "all of it, while it is sent");
            drop(stream);
            nap_testkit::wait_until("it is over", Duration::from_secs(20), || charged() < HUGE);
            // At most an eighth more, and what the kernel had taken: some megabytes on a loopback.
            let (least, most) = (parts * READ, parts * (READ * 9 / 8 + (16 << 20)));
            assert!(
                (least..most).contains(&charged()),
                "{} under {mpm}",
                charged()
            );
        }
    });
}

/// Answers that are shorter than announced: their program ends too soon, or their reader leaves.
#[test]
fn an_answer_shorter_than_it_said_is_charged_as_far_as_it_came() {
    const SAID: u64 = 50_000_000;
    let ends_soon = format!(
        "#!/bin/sh\nprintf 'Content-Length: {SAID}\\r\\n\\r\\n'; head -c 1000000 /dev/zero\n"
    );
    let goes_on = format!(
        "#!/bin/sh\nprintf 'Content-Length: {SAID}\\r\\n\\r\\n'; head -c {SAID} /dev/zero\n"
    );
    for_each_mpm(|mpm| {
        let httpd = site("BwShareFiles 12 0.0001\nBwShareBytes 40M 1")
            .cgi("ends-soon", &ends_soon)
            .cgi("goes-on", &goes_on)
            // httpd trusts a proxied server's length, and a program's only with this.
            .config("SetEnv ap_trust_cgilike_cl 1")
            .expect_log("error writing", "a program whose reader has gone")
            .mpm(mpm)
            .start();
        for (client, path) in [
            ("192.0.2.1", "/cgi-bin/ends-soon"),
            ("192.0.2.2", "/cgi-bin/goes-on"),
        ] {
            let charged = || trace(&httpd, client)["bytes"].as_u64().expect("a number");
            for times in 1..=2 {
                let mut stream = httpd.connect();
                let request = format!("GET {path} HTTP/1.0\r\nX-Forwarded-For: {client}\r\n\r\n");
                stream.write_all(request.as_bytes()).expect("sent");
                stream.read_exact(&mut [0; 300_000]).expect("its beginning");
                if path == "/cgi-bin/goes-on" {
                    assert!(charged() >= SAID, "all of it, while it is sent");
                    let beside = get(&httpd, client, "/page.html");
                    assert_eq!(beside.status, 429, "no second download beside it");
                }
                drop(stream);
                // What the kernel had taken counts as sent: some megabytes on a loopback.
                nap_testkit::wait_until("it is over", Duration::from_secs(20), || {
                    (times * 300_000..times * (16 << 20)).contains(&charged())
                });
            }
            assert_eq!(get(&httpd, client, "/page.html").status, 200, "{path}");
        }
    });
}

#[test]
fn downloads_end_at_the_byte_maximum_whatever_their_kind() {
    let httpd = site("BwShareFiles 1000 1\nBwShareBytes 120000 1").start();
    // Refused once 120,000 are owed: three of 50,000 and a little, four of 30,000.
    assert_eq!(passes(&httpd, "192.0.2.1", "/large.bin", 6), 3);
    let begin = Instant::now();
    let answer = get(&httpd, "192.0.2.1", "/page.html");
    assert_eq!(answer.status, 429);
    assert!(answer.text().contains("more data"), "{}", answer.text());
    let debt = trace(&httpd, "192.0.2.1")["byte_debt"].as_f64();
    let over = debt.expect("a number") - 120_000.0;
    // A byte a second is paid off; the debt is read later.
    let least = retry_after(&answer) as f64 - begin.elapsed().as_secs_f64() - 1.0;
    let most = retry_after(&answer) as f64;
    assert!(
        (least..=most).contains(&over),
        "{least} to {most} s for {over} bytes"
    );
    assert_eq!(passes(&httpd, "192.0.2.2", "/cgi-bin/slowly", 6), 4);
}

#[test]
fn a_refusal_says_how_long_and_why_in_the_visitors_language_and_form() {
    let httpd = site(
        "BwShareFiles 1 0.0001\n<Location /old>\nBwShareStatus 200\n</Location>\n\
        <Location /busy>\nBwShareStatus 503\n</Location>\n\
        <Location /own>\nErrorDocument 429 \"our own words\"\n</Location>",
    )
    .start();
    let ask = |path: &str, head: &[(&str, &str)]| {
        let head = [&[("X-Forwarded-For", "192.0.2.1")], head].concat();
        httpd.request("GET", path, &head, b"")
    };
    assert_eq!(ask("/page.html", &[]).status, 200);
    let html = ask("/page.html", &[("Accept", "text/html")]);
    assert_eq!(html.status, 429);
    assert!(html.text().contains("Please wait 2:4"), "{}", html.text());
    assert_eq!(html.header("cache-control"), Some("no-store, private"));
    assert_eq!(
        html.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!((9_900..=10_000).contains(&retry_after(&html)));
    let ja = ask("/page.html", &[("Accept-Language", "ja")]);
    assert!(ja.text().contains("お待ちください"), "{}", ja.text());
    let json = ask("/page.html", &[("Accept", "application/json")]);
    for answer in [&ja, &json] {
        assert_eq!(answer.header("cache-control"), Some("no-store, private"));
    }
    let problem = json.json();
    assert_eq!(
        (&problem["status"], &problem["reason"]),
        (&429.into(), &"files".into())
    );
    assert_eq!(problem["retry_after"], retry_after(&json));
    assert!(html.text().contains("data-return-ms"), "{}", html.text());
    let head = [("X-Forwarded-For", "192.0.2.1"), ("Accept", "text/html")];
    let posted = httpd
        .request("POST", "/page.html", &head, b"name=value")
        .text();
    assert!(
        posted.contains("send it again") && !posted.contains("data-return-ms"),
        "{posted}"
    );
    for (path, status) in [("/old", 200), ("/busy", 503)] {
        let answer = ask(path, &[]);
        assert_eq!(answer.status, status);
        assert!((9_900..=10_000).contains(&retry_after(&answer)));
        let kept = answer.header("cache-control");
        assert_eq!(kept, Some("no-store, private"), "{path}");
    }
    let own = ask("/own", &[]);
    assert_eq!((own.status, own.text().as_str()), (429, "our own words"));
    assert!(retry_after(&own) >= 9_900);
    assert_eq!(own.header("cache-control"), Some("no-store, private"));
    // Its style is not refused, and the page requested by itself shows nothing.
    assert_eq!(ask("/nap-ticket/nap.css", &[]).status, 200);
    assert_eq!(ask("/nap-ticket/slow-down", &[]).status, 404);
}

#[test]
fn settings_hold_by_place_and_by_virtual_host() {
    let httpd = site(
        "BwShareFiles 2 0.0001\nBwShareExempt \"%{HTTP_USER_AGENT} == 'probe'\"\n\
         Alias /free {root}/htdocs\nAlias /dry {root}/htdocs\n\
         <Location /free>\nBW_throttle_off\n</Location>\n\
         <Location /dry>\nBwShare DryRun\n</Location>\n\
         <VirtualHost *>\nServerName localhost\nDocumentRoot {root}/htdocs\n</VirtualHost>\n\
         <VirtualHost *>\nServerName strict\nDocumentRoot {root}/htdocs\nBW_tx1debt_max 1\n\
         </VirtualHost>",
    )
    .start();
    assert_eq!(passes(&httpd, "192.0.2.1", "/free/page.html", 5), 5);
    assert_eq!(passes(&httpd, "192.0.2.1", "/page.html", 5), 2);
    assert_eq!(passes(&httpd, "192.0.2.1", "/dry/page.html", 3), 3);
    assert_eq!(
        httpd.get("/bwshare-info?json").json()["would_be_refused"],
        3
    );
    let probe = [("X-Forwarded-For", "192.0.2.1"), ("User-Agent", "probe")];
    assert_eq!(httpd.request("GET", "/page.html", &probe, b"").status, 200);
    let strict = [("X-Forwarded-For", "192.0.2.1"), ("Host", "strict")];
    let ask = || httpd.request("GET", "/page.html", &strict, b"").status;
    assert_eq!([ask(), ask()], [200, 429], "debts and limits of its own");
}

#[test]
fn an_untrusted_peer_cannot_choose_who_it_is() {
    let httpd = Httpd::builder()
        .nap()
        .modules(&["remoteip"])
        .file("htdocs/page.html", "a page")
        .config(
            "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 10.0.0.1\n\
             BwShareFiles 3 0.0001\n<Location /page.html>\nBwShare On\n</Location>\n\
             <Location /bwshare-trace>\nSetHandler bwshare-trace\n</Location>",
        )
        .start();
    let passed =
        (1..=6).filter(|n| get(&httpd, &format!("192.0.2.{n}"), "/page.html").status == 200);
    assert_eq!(passed.count(), 3, "one client, whatever it says");
    let all = httpd.get("/bwshare-trace?json").json();
    let rows = all["rows"].as_array().expect("rows");
    let clients: Vec<&Value> = rows.iter().map(|row| &row["client"]).collect();
    assert_eq!(clients, ["127.0.0.1"]);
    let row = trace(&httpd, "127.0.0.1");
    assert_eq!((&row["files"], &row["refused"]), (&3.into(), &3.into()));
}

#[test]
fn a_client_is_its_prefix_and_rotating_in_a_larger_one_ends_too() {
    let httpd = site("BwShareFiles 2 0.0001")
        .config("<Location /mine>\nSetHandler bwshare-mine\nBwShare Off\n</Location>")
        .start();
    assert_eq!(passes(&httpd, "::ffff:192.0.2.1", "/page.html", 1), 1);
    assert_eq!(
        passes(&httpd, "192.0.2.1", "/page.html", 3),
        1,
        "the same client"
    );
    let rotating = |n: u32| get(&httpd, &format!("2001:db8:7:{n:x}::1"), "/page.html");
    let statuses: Vec<u16> = (0..20).map(|n| rotating(n).status).collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        16,
        "8 x 2"
    );
    let text = rotating(99).text();
    assert!(
        text.contains("network that your address belongs to"),
        "{text}"
    );
    let other = get(&httpd, "2001:db8:8:1::1", "/page.html");
    assert_eq!(other.status, 200, "another /48");
    // All waits include the network's debt: a file takes 1250 s of the network's, 10,000 s of a client's.
    let waits = |n: u32| {
        let client = format!("2001:db8:7:{n:x}::1");
        get(&httpd, &client, "/mine?json").json()["wait_s"].clone()
    };
    let wait = waits(98).as_u64().expect("a number");
    assert!((1_200..=1_250).contains(&wait), "who owes nothing: {wait}");
    let text = get(&httpd, "2001:db8:7:62::1", "/mine").text();
    assert!(!text.contains("need not wait"), "{text}");
    assert!(text.contains("network that your address"), "{text}");
    let row = trace(&httpd, "2001:db8:7:5::/64");
    assert_eq!(
        (&row["over_limit"], &row["reason"]),
        (&true.into(), &"network".into()),
        "{row}"
    );
}

/// The note's words let one file more through than its formula, and may charge a refused request too.
#[test]
fn the_rule_and_who_a_client_is_hold_by_virtual_host() {
    let host = |name: &str, lines: &str| {
        format!(
            "<VirtualHost *>\nServerName {name}\nDocumentRoot {{root}}/htdocs\n{lines}\n</VirtualHost>"
        )
    };
    let hosts = [
        host("localhost", ""),
        host("literal", "BwShareRule literal"),
        host("charging", "BwShareRule exact refused=0.5"),
        host("wide", "BwShareClient 24 56"),
        host(
            "shown",
            "BwShareStatus 200\nErrorDocument 429 \"our own words\"",
        ),
    ];
    let httpd = site("BwShareFiles 3 0.001")
        .config(&hosts.join("\n"))
        .start();
    let ask = |host: &str, client: &str| {
        let head = [("X-Forwarded-For", client), ("Host", host)];
        httpd.request("GET", "/page.html", &head, b"")
    };
    let passed = |host: &str, client: &str| {
        let all = (0..6).filter(|_| ask(host, client).status == 200);
        all.count()
    };
    assert_eq!(passed("localhost", "192.0.2.1"), 3);
    assert_eq!(passed("literal", "192.0.2.1"), 4, "one file more");
    // A refusal is charged up to the maximum: what time has paid off since is owed again.
    assert_eq!(passed("charging", "192.0.2.1"), 3);
    std::thread::sleep(Duration::from_millis(2100));
    assert!(retry_after(&ask("localhost", "192.0.2.1")) <= 998);
    assert_eq!(retry_after(&ask("charging", "192.0.2.1")), 1000);
    assert_eq!(passed("wide", "192.0.2.1"), 3);
    assert_eq!(passed("wide", "192.0.2.200"), 0, "of the same /24");
    assert_eq!(passed("wide", "192.0.3.1"), 3, "of another");
    assert_eq!(passed("wide", "2001:db8:7:ff00::1"), 3);
    assert_eq!(passed("wide", "2001:db8:7:ff99::1"), 0, "of the same /56");
    assert_eq!(trace(&httpd, "192.0.2.0/24")["refused"], 9);
    // A site's own ErrorDocument is shown, with the usual status.
    (0..3).for_each(|_| assert_eq!(ask("shown", "192.0.2.9").status, 200));
    let own = ask("shown", "192.0.2.9");
    assert_eq!((own.status, own.text().as_str()), (429, "our own words"));
    assert!(retry_after(&own) > 900);
}

/// Two hosts may have the same name at different addresses: a debt to one is not a debt to the other.
#[test]
fn hosts_of_one_name_have_debts_of_their_own_which_outlive_a_restart() {
    let host = |address: &str, files: u32| {
        format!(
            "<VirtualHost {address}:{{port}}>\nServerName twin\nDocumentRoot {{root}}/htdocs\n\
             BwShareFiles {files} 0.0001\n</VirtualHost>\n"
        )
    };
    let hosts = host("127.0.0.1", 3) + &host("127.0.0.2", 5);
    let mut httpd = site("NapStateFile {root}/state\nListen 127.0.0.2:{port}")
        .config(&hosts)
        .start();
    let passed = |httpd: &Httpd, address: &str| {
        let status = || {
            let mut stream = TcpStream::connect((address, httpd.port())).expect("httpd listens");
            let request = "GET /page.html HTTP/1.0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
            stream.write_all(request.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer.split(' ').nth(1).expect("a status").to_string()
        };
        (0..4).filter(|_| status() == "200").count()
    };
    assert_eq!(passed(&httpd, "127.0.0.1"), 3);
    assert_eq!(passed(&httpd, "127.0.0.2"), 4);
    httpd.stop();
    httpd.start_again();
    assert_eq!(passed(&httpd, "127.0.0.1"), 0);
    assert_eq!(passed(&httpd, "127.0.0.2"), 1);
}

/// A client over its own limit whose network has to wait longer is told the longer wait.
#[test]
fn a_refusal_tells_the_networks_wait_where_it_is_longer() {
    let httpd = site("BwShareFiles 100 10\nBwShareBytes 25000 10")
        .file("htdocs/huge.bin", vec![b'x'; 1_000_000])
        .start();
    assert_eq!(get(&httpd, "2001:db8:7:1::1", "/large.bin").status, 200);
    let own = get(&httpd, "2001:db8:7:1::1", "/page.html");
    let wait = retry_after(&own);
    assert!((2_500..2_600).contains(&wait), "25,000 at 10: {wait}");
    assert!(own.text().contains("more data"), "{}", own.text());
    assert_eq!(get(&httpd, "2001:db8:7:2::1", "/huge.bin").status, 200);
    // The network may owe 200,000 and pays off 80 a second.
    let network = get(&httpd, "2001:db8:7:1::1", "/page.html");
    let wait = retry_after(&network);
    assert!((10_600..10_700).contains(&wait), "850,000 at 80: {wait}");
    let text = network.text();
    assert!(text.contains("network that your address"), "{text}");
}

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

/// An administrator who looks for refusals in the log finds them, however they were answered.
#[test]
fn the_log_says_for_which_debt_a_request_was_refused() {
    let httpd = site(
        "BwShareFiles 1 0.0001\nAlias /dry {root}/htdocs\n\
         <Location /dry>\nBwShare DryRun\n</Location>\n\
         <Location /own>\nErrorDocument 429 \"our own words\"\n</Location>\n\
         <Location /made>\nErrorDocument 429 /cgi-bin/slowly\n</Location>",
    )
    .access_log_format("%U %>s %{bwshare}n")
    .start();
    let asked = [
        "/page.html",
        "/page.html",
        "/own",
        "/made",
        "/dry/page.html",
    ];
    for (lines, path) in (1..).zip(asked) {
        get(&httpd, "192.0.2.1", path);
        // A request is logged a moment after its answer, perhaps after the next one.
        wait_until("it is logged", Duration::from_secs(20), || {
            httpd.access_log().lines().count() == lines
        });
    }
    let log = httpd.access_log();
    let said: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with("/bwshare"))
        .collect();
    let expected = [
        "/page.html 200 -",
        "/page.html 429 files",
        "/own 429 files",
        "/made 429 files",
        "/dry/page.html 200 files",
    ];
    assert_eq!(said, expected, "{log}");
}

#[test]
fn the_trace_shows_who_is_red() {
    let httpd = site(LIMITS).start();
    passes(&httpd, "192.0.2.1", "/page.html", 13);
    passes(&httpd, "192.0.2.2", "/page.html", 1);
    let html = httpd.get("/bwshare-trace/").text();
    assert_eq!(html.matches("class=\"red\"").count(), 1, "{html}");
    assert!(
        html.contains("over the limit: files") && html.contains("192.0.2.2"),
        "{html}"
    );
    let row = trace(&httpd, "192.0.2.1");
    assert_eq!((&row["files"], &row["refused"]), (&12.into(), &1.into()));
    assert_eq!(
        (&row["over_limit"], &row["file_debt_max"]),
        (&true.into(), &12.0.into())
    );
    let csv = httpd.get("/bwshare-trace?csv&client=192.0.2.2").text();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert!(
        httpd.get("/bwshare-info").text().contains("2 of 131"),
        "two clients in debt"
    );
}

#[test]
fn pages_have_either_spelling_and_names_only_when_asked_for() {
    let httpd = site(LIMITS)
        .config(
            "<Location /bwshare_trace>\nSetHandler bwshare_trace\nBwShare Off\n</Location>\n\
             <Location /bwshare_info>\nSetHandler bwshare_info\nBwShare Off\n</Location>",
        )
        .start();
    passes(&httpd, "127.0.0.1", "/page.html", 1);
    for path in [
        "/bwshare_trace",
        "/bwshare-trace/",
        "/bwshare_trace/by/path",
    ] {
        let html = httpd.get(path).text();
        assert!(
            html.contains("127.0.0.1") && !html.contains("localhost"),
            "{path}: {html}"
        );
    }
    let html = httpd.get("/bwshare-trace?names&sort=files").text();
    assert!(
        html.contains("<small>localhost"),
        "as the hosts file has it: {html}"
    );
    assert_eq!(trace(&httpd, "127.0.0.1")["name"], Value::Null);
    for path in ["/bwshare_info/", "/bwshare-info/x"] {
        assert!(
            httpd.get(path).text().contains("Limits of a client"),
            "{path}"
        );
    }
    assert_eq!(
        httpd.get("/bwshare_trace/x?csv").header("content-type"),
        Some("text/csv; charset=utf-8")
    );
}

#[test]
fn a_visitor_sees_what_he_owes_himself() {
    let httpd = site("BwShareFiles 12 0.0001")
        .config("<Location /mine>\nSetHandler bwshare-mine\nBwShare Off\n</Location>")
        .start();
    passes(&httpd, "192.0.2.1", "/page.html", 3);
    passes(&httpd, "192.0.2.2", "/page.html", 13);
    let own = get(&httpd, "192.0.2.1", "/mine");
    assert_eq!(own.header("cache-control"), Some("no-store, private"));
    let text = own.text();
    assert!(
        text.contains("3.0 of 12") && text.contains("need not wait"),
        "{text}"
    );
    let json = get(&httpd, "192.0.2.2", "/mine?json").json();
    assert_eq!(json["files"]["max"], 12.0);
    assert!(json["wait_s"].as_u64() > Some(9_900), "{json}");
    assert!(
        get(&httpd, "192.0.2.3", "/mine")
            .text()
            .contains("0.0 of 12")
    );
}

#[test]
fn horizons_limit_and_their_service_is_shown() {
    let horizons = "BwShareFiles 1000 1000\nBwShareBytes 1G 1G\nBwShareLink 1M\n\
                    BwShareHorizon 400000 1s 0.95\nBwShareHorizon 100 1h 0.9\n\
                    BwShareHorizon 50 8h 0.5";
    let httpd = site(horizons).start();
    // 180,000 bytes in the one-hour bucket and 720,000 in the eight-hour one: four of 50,000 and a little.
    let mut answers = (0..20).map(|_| get(&httpd, "192.0.2.1", "/large.bin"));
    let refused = answers.find(|answer| answer.status == 429);
    let refused = refused.expect("refused in the end");
    assert!(refused.text().contains("more data"), "{refused:?}");
    let row = trace(&httpd, "192.0.2.1");
    assert_eq!(
        (&row["files"], &row["reason"]),
        (&4.into(), &"horizon-2".into()),
        "{row}"
    );
    // The one-hour rate is 100 a second; its bucket pays off half of that.
    let owed = row["bytes"].as_f64().expect("a number") - 180_000.0;
    let (wait, most) = (retry_after(&refused) as f64, (owed / 50.0).ceil());
    assert!((most - 5.0..=most).contains(&wait), "{wait} s of {most}");
    let info = httpd.get("/bwshare-info?json").json();
    let limits = &info["limits"][0];
    assert_eq!(limits["link_bytes_per_s"], 1_048_576.0);
    assert_eq!(limits["horizons"][1]["steered_to"], 100.0);
    // Refused by the second: inside the third with all requests, inside the second with all but the last.
    let asked = info["requests"].as_f64().expect("a number");
    assert_eq!(info["horizon_shares"][2], 1.0);
    assert_eq!(info["horizon_shares"][1], (asked - 1.0) / asked);
    let html = httpd.get("/bwshare-info").text();
    assert!(
        html.contains("Share achieved") && html.contains("1.0 MB a second"),
        "{html}"
    );
    // A test of the line takes ten seconds: a megabyte is enough for the one client that came.
    nap_testkit::wait_until("a test is over", Duration::from_secs(30), || {
        let info = httpd.get("/bwshare-info?json").json();
        let achieved = &info["limits"][0]["horizons"];
        (0..3).all(|i| achieved[i]["achieved_share"] == 1.0)
    });
    // An IPv6 client's network does not count as another request.
    let before = httpd.get("/bwshare-info?json").json();
    for _ in 0..asked as usize {
        get(&httpd, "2001:db8:7:1::1", "/page.html");
    }
    let after = httpd.get("/bwshare-info?json").json();
    let missed = |info: &Value| {
        let share = info["horizon_shares"][1].as_f64().expect("a share");
        (1.0 - share) * info["requests"].as_f64().expect("a number")
    };
    assert!(
        (missed(&before) - missed(&after)).abs() < 1e-6,
        "{before} {after}"
    );
}

#[test]
fn a_wrong_value_stops_configtest_with_directive_value_and_range() {
    for (config, words) in [
        (
            "BwShareFiles 0 1",
            "BwShareFiles: \"0\" is not a number of files from 1",
        ),
        (
            "BwShareFiles 30 -1",
            "\"-1\" is not files a second from 0.0001",
        ),
        ("BwShareBytes NaN 1", "\"NaN\" is not bytes"),
        ("BwShareBytes 500000 1e30", "\"1e30\" is not bytes a second"),
        ("BwShare Perhaps", "use On, Off or DryRun"),
        ("BwShareStatus 404", "\"404\" is not 429, 503 or 200"),
        ("BwShareClient 64 64", "from 8 to 32"),
        ("BwShareRule fair", "\"fair\" is not exact or literal"),
        ("BwShareHorizon 1000 1s", "BwShareHorizon: wants"),
        (
            "BwShareHorizon 1e30 1s 0.5",
            "\"1e30\" is not bytes a second",
        ),
        (
            "BwShareLink -1",
            "BwShareLink: \"-1\" is not bytes a second",
        ),
        ("BwShareFiles 1e30 1", "\"1e30\" is not a number of files"),
        ("BwShareFiles 30 NaN", "\"NaN\" is not files a second"),
        ("BwShareExempt \"((\"", "is not an expression"),
        (
            "BwShareBytes 10G 1",
            "BwShareBytes: a debt of 10737418240 takes more than 36 years",
        ),
        (
            "BwShareFiles 1000000 1\n<VirtualHost *>\nServerName slow\n\
             BW_tx1cred_rate 0.0001\n</VirtualHost>",
            "BwShareFiles: a debt of 1000000 takes more than 36 years",
        ),
    ] {
        let said = Httpd::configtest(config).expect_err(config);
        assert!(said.contains(words), "{config}: {said}");
    }
    assert_eq!(
        Httpd::configtest("BwShareHorizon 125000 1s 0.95\nBwShare On"),
        Ok(())
    );
}

#[test]
fn a_wrong_value_of_a_historic_name_stops_configtest_too() {
    for (name, what) in [
        ("BW_tx1cred_rate", "files a second"),
        ("BW_tx1debt_max", "a number of files"),
        ("BW_tx2cred_rate", "bytes a second"),
        ("BW_tx2debt_max", "bytes"),
    ] {
        for value in ["0", "-1", "NaN", "1e30"] {
            let said = Httpd::configtest(&format!("{name} {value}")).expect_err(value);
            let begins = said.contains(&format!("{name}: \"{value}\" is not {what}"));
            assert!(
                begins && said.contains(" from ") && said.contains(" to "),
                "{said}"
            );
        }
    }
    for value in ["2", "-1", "NaN", "1e30", "1 0"] {
        let said = Httpd::configtest(&format!("BW_throttle_off {value}")).expect_err(value);
        assert!(said.contains("BW_throttle_off: wants nothing, or 1 or 0"));
    }
}

/// What curl reports for a client's request, with or without TLS: status, bytes of headers and body.
fn curl(client: &str, url: &str, version: &str) -> (u16, usize) {
    let output = std::process::Command::new("curl")
        .args(["-ski", "--raw", version, url])
        .args(["-H", &format!("X-Forwarded-For: {client}")])
        .output()
        .expect("curl runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let status = said.split(' ').nth(1).expect("a status line");
    (status.parse().expect("a number"), output.stdout.len())
}

#[test]
fn under_tls_what_is_charged_is_what_was_encrypted() {
    for_each_mpm(|mpm| {
        let tls = nap_testkit::free_port();
        let httpd = site("BwShareFiles 2 0.0001").mpm(mpm).tls(tls).start();
        let bases = [httpd.url(), format!("https://127.0.0.1:{tls}")];
        for (n, path) in ["/large.bin", "/cgi-bin/slowly"].iter().enumerate() {
            for (kind, base) in bases.iter().enumerate() {
                let client = format!("192.0.2.{}", 1 + 2 * n + kind);
                let ask = || curl(&client, &format!("{base}{path}"), "--http1.1");
                let (status, bytes) = ask();
                assert_eq!(status, 200);
                let charged = || trace(&httpd, &client)["bytes"].as_u64().unwrap_or(0) as usize;
                let equal = nap_testkit::comes_true(Duration::from_secs(5), || charged() == bytes);
                assert!(equal, "{mpm} {base}{path}: {} of {bytes}", charged());
                assert_eq!([ask().0, ask().0], [200, 429], "{mpm}: {base}{path}");
            }
        }
        if mpm != Mpm::Prefork {
            let ask = || curl("192.0.2.9", &format!("{}/page.html", bases[1]), "--http2").0;
            assert_eq!([ask(), ask(), ask()], [200, 200, 429], "{mpm}");
        }
    });
}
