//! What mod_nap costs a request, in userspace instructions as valgrind's callgrind counts them.
//!
//! Two servers (prefork) with the same configuration but for the module. Start-up is subtracted by
//! asking twice, with few and with many requests. Wall-clock time says nothing of a per cent here;
//! instructions do. Exits 1 when a bound of DESIGN.md is passed:
//!
//! - admitted: a small static file that is really scheduled, over one kept-alive connection;
//! - refused: with a ticket, against `Redirect 503` with an ErrorDocument of the same size.

#[path = "../tests/httpd/mod.rs"]
mod httpd;

use httpd::{Answer, Builder, Httpd, Mpm, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const FEW: u32 = 200;
const MANY: u32 = 1200;

fn main() {
    let admitted = admitted();
    let refused = refused();
    println!("\n| instructions per request | without | with | ratio | bound |");
    println!("|---|---:|---:|---:|---:|");
    let within = [("admitted", admitted, 1.015), ("refused", refused, 1.10)].map(
        |(name, (without, with), bound)| {
            let ratio = with / without;
            println!("| {name} | {without:.0} | {with:.0} | {ratio:.4} | {bound} |");
            ratio <= bound
        },
    );
    if within != [true, true] {
        std::process::exit(1);
    }
}

/// The same for both servers; only what is in `<IfModule>` differs.
fn server(nap: bool, config: &str) -> Builder {
    let builder = Httpd::builder()
        .mpm(Mpm::Prefork)
        .workers(4, 1)
        .under(&[
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file={root}/data/callgrind.%p",
            "--log-file={root}/data/valgrind.%p",
        ])
        .file("htdocs/page/a.html", "x".repeat(1000))
        .config("KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 60")
        .config(config);
    if nap { builder.nap() } else { builder }
}

/// Instructions per admitted request without and with the module.
fn admitted() -> (f64, f64) {
    let config = "<IfModule nap_module>\n<NapRoom r>\nNapRunReady 2\nNapStatic On\n</NapRoom>\n\
                  </IfModule>\n<Location /page>\n<IfModule nap_module>\nNapUse r\n</IfModule>\n\
                  </Location>\n<Location /nap-info>\nSetHandler nap-info\n</Location>";
    let ask = |httpd: &Httpd, requests: u32| {
        let mut stream = httpd.connect();
        for _ in 0..requests {
            let answer = exchange(&mut stream, "GET /page/a.html HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    };
    // An admitted access that was not scheduled would cost nothing and prove nothing.
    let httpd = server(true, config).under(&[]).start();
    let before = httpd.get("/nap-info?json").text();
    ask(&httpd, FEW);
    let after = httpd.get("/nap-info?json").text();
    assert_ne!(
        counts(&before),
        counts(&after),
        "the room saw nothing of {FEW} requests"
    );
    (
        per_request(|| server(false, config), ask),
        per_request(|| server(true, config), ask),
    )
}

/// All whole numbers of at least FEW in a text: something counted the requests.
fn counts(json: &str) -> usize {
    let numbers = json.split(|c: char| !c.is_ascii_digit());
    numbers
        .filter(|n| {
            n.parse()
                .is_ok_and(|n: u64| (u64::from(FEW)..2 * u64::from(FEW)).contains(&n))
        })
        .count()
}

/// Instructions per refused request: of Redirect 503, and of a refusal with a ticket.
fn refused() -> (f64, f64) {
    let full = "<IfModule nap_module>\n<NapRoom r>\nNapRunReady 1\nNapWaitLimit 0\n</NapRoom>\n\
                </IfModule>\n<Location /counter>\n<IfModule nap_module>\nNapUse r\n</IfModule>\n\
                </Location>";
    // One program holds the only permit; it also runs on the other server, where it holds nothing.
    let fill = |httpd: &Httpd| -> TcpStream {
        let mut stream = httpd.connect();
        stream
            .write_all(b"GET /counter?ms=600000 HTTP/1.0\r\n\r\n")
            .expect("httpd listens");
        wait_until("the room is full", Duration::from_secs(30), || {
            httpd.counter().running == 1
        });
        stream
    };
    let page: Answer = {
        let httpd = server(true, full).under(&[]).start();
        let _held = fill(&httpd);
        httpd.get("/counter/again")
    };
    assert_eq!(page.status, 503, "a full room refuses");
    assert!(
        page.header("set-cookie").is_some(),
        "with a ticket: {page:?}"
    );
    let plain = "Redirect 503 /busy\nErrorDocument 503 /page/busy.html\n\
                 <Location /counter>\n</Location>";
    let ask = |path: &'static str| {
        move |httpd: &Httpd, requests: u32| {
            let _held = fill(httpd);
            for _ in 0..requests {
                let mut stream = httpd.connect();
                let answer = exchange(
                    &mut stream,
                    &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"),
                );
                assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
            }
        }
    };
    let size = page.body.len();
    let without = || server(false, plain).file("htdocs/page/busy.html", "x".repeat(size));
    (
        per_request(without, ask("/busy")),
        per_request(|| server(true, full), ask("/counter/again")),
    )
}

/// The children's instructions for MANY requests less those for FEW, by their difference.
fn per_request(server: impl Fn() -> Builder, ask: impl Fn(&Httpd, u32)) -> f64 {
    let count = |requests| {
        let mut httpd = server().start();
        ask(&httpd, requests);
        let parent = format!("callgrind.{}", httpd.pid());
        httpd.stop();
        let files = std::fs::read_dir(httpd.root().join("data")).expect("our own directory");
        let files = files.flatten().filter(|file| {
            let name = file.file_name();
            // The parent works by the clock, not by the request.
            name.to_string_lossy().starts_with("callgrind.") && *name != *parent
        });
        let totals = files.map(|file| total(&file.path()));
        totals.sum::<f64>()
    };
    (count(MANY) - count(FEW)) / f64::from(MANY - FEW)
}

/// The line `totals: N` of callgrind's file.
fn total(path: &std::path::Path) -> f64 {
    let text = std::fs::read_to_string(path).expect("callgrind's file");
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0.0)
}

/// Sends a request and reads one answer of known length, or to the end.
fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("httpd reads");
    let (mut answer, mut part) = (Vec::new(), [0; 16384]);
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "));
            if length
                .and_then(|n| n.parse().ok())
                .is_some_and(|n: usize| body.len() >= n)
            {
                return text;
            }
        }
        match stream
            .read(&mut part)
            .expect("an answer within the time-out")
        {
            0 => return text,
            n => answer.extend_from_slice(&part[..n]),
        }
    }
}
