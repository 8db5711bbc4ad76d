//! What was sent is what was charged: of unknown length, shared, broken off, too short, encrypted.

use crate::{LIMITS, SLOWLY, get, passes, retry_after, site, trace};
use nap_testkit::{Mpm, for_each_mpm};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

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
