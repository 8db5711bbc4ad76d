//! What mod_nap costs a request, in userspace instructions as valgrind's callgrind counts them.
//!
//! Two servers (prefork) with the same configuration but for the module. Start-up is subtracted by
//! asking twice, with few and with many requests. Wall-clock time says nothing of a per cent here;
//! instructions do. Exits 1 when a bound of DESIGN.md is passed:
//!
//! - admitted: a small static file that is really scheduled, over one kept-alive connection;
//! - proxied: what rooms are for, a page of an application behind mod_proxy, in the same way; only
//!   httpd is counted;
//! - refused: with a ticket, against `Redirect 503` with an ErrorDocument of the same size.

#[path = "../tests/httpd/mod.rs"]
mod httpd;

use httpd::{Builder, Httpd, Mpm};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const FEW: u32 = 200;
const MANY: u32 = 1200;

fn main() {
    let admitted = admitted();
    let proxied = proxied();
    let refused = refused();
    println!("\n| instructions per request | without | with | ratio | bound |");
    println!("|---|---:|---:|---:|---:|");
    let within = [
        ("admitted", admitted, 1.015),
        ("proxied", proxied, 1.015),
        ("refused", refused, 1.10),
    ]
    .map(|(name, (without, with), bound)| {
        let ratio = with / without;
        println!("| {name} | {without:.0} | {with:.0} | {ratio:.4} | {bound} |");
        ratio <= bound
    });
    if within.contains(&false) {
        std::process::exit(1);
    }
}

/// The same for both servers; only what is in `<IfModule>` differs.
fn server(nap: bool, config: &str) -> Builder {
    let builder = Httpd::builder()
        .mpm(Mpm::Prefork)
        .workers(8, 1)
        .under(&[
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file={root}/data/callgrind.%p",
            "--log-file={root}/data/valgrind.%p",
        ])
        .file("htdocs/page/a.html", "x".repeat(1000))
        .config("KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 60")
        .config(config);
    let builder = builder.expect_log("this room wants MaxRequestWorkers", "a few workers suffice");
    if nap { builder.nap() } else { builder }
}

/// Instructions per admitted request without and with the module.
fn admitted() -> (f64, f64) {
    let config = room("NapRunReady 2");
    is_scheduled("/page/a.html", |builder| builder);
    let ask = |httpd: &Httpd, requests| ask_for("/page/a.html", httpd, requests);
    (
        per_request("admitted-without", || server(false, &config), ask),
        per_request("admitted-with", || server(true, &config), ask),
    )
}

/// The same for a page that an application makes.
fn proxied() -> (f64, f64) {
    let port = application();
    let behind = |builder: Builder| {
        let pass = format!("ProxyPass /app http://127.0.0.1:{port}/app");
        builder.modules(&["proxy", "proxy_http"]).config(&pass)
    };
    let config = room("NapRunReady 2");
    is_scheduled("/app", behind);
    let ask = |httpd: &Httpd, requests| ask_for("/app", httpd, requests);
    (
        per_request("proxied-without", || behind(server(false, &config)), ask),
        per_request("proxied-with", || behind(server(true, &config)), ask),
    )
}

fn ask_for(path: &str, httpd: &Httpd, requests: u32) {
    let mut stream = httpd.connect();
    for _ in 0..requests {
        let answer = exchange(&mut stream, path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

/// A page that no room schedules would cost nothing and prove nothing: where the room is full it
/// must be refused.
fn is_scheduled(path: &str, also: impl Fn(Builder) -> Builder) {
    let full = room("NapRunReady 1\nNapWaitLimit 2\nNapWaitMax 10min");
    let httpd = also(server(true, &full)).under(&[]).start();
    let _held = fill_up(&httpd);
    assert_eq!(httpd.get(path).status, 503, "{path} is scheduled");
}

/// An application that answers everything with 1000 bytes, over connections that are kept alive.
fn application() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    port
}

fn answer_all(mut stream: TcpStream) {
    let body = "x".repeat(1000);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (mut asked, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut part) {
        asked.extend_from_slice(&part[..length]);
        if asked.ends_with(b"\r\n\r\n") {
            asked.clear();
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Instructions per refused request: of Redirect 503, and of a refusal with a ticket.
fn refused() -> (f64, f64) {
    let config = room(
        // Two waiters keep the room full. They are the ledger as well, in which some twenty tickets
        // would find room; a static Re Access sells as many as a large room's ledger does.
        "NapRunReady 1\nNapWaitLimit 2\nNapReAccess 1000\nNapWaitMax 2min\nNapTicketPrime 5s\n\
         NapSlotTickets 1000\nNapTicketsPerClient 100000",
    );
    let ask = |path: &'static str| {
        move |httpd: &Httpd, requests: u32| {
            // On the server without the module this holds nothing, but it runs there as well.
            let _held = fill_up(httpd);
            for _ in 0..requests {
                let answer = exchange(&mut httpd.connect(), path);
                assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
            }
        }
    };
    let page = {
        let httpd = server(true, &config).under(&[]).start();
        let _held = fill_up(&httpd);
        httpd.get("/counter")
    };
    let sold = page.header("set-cookie").is_some();
    assert!(
        sold,
        "refused without a ticket: {:?}\n{}",
        page.headers,
        page.text()
    );
    let plain = config.clone() + "\nRedirect 503 /busy\nErrorDocument 503 /page/busy.html";
    let busy = "x".repeat(page.body.len());
    let without = || server(false, &plain).file("htdocs/page/busy.html", &busy);
    (
        per_request("refused-without", without, ask("/busy")),
        per_request("refused-with", || server(true, &config), ask("/counter")),
    )
}

/// A room for everything; without the module the section remains.
fn room(settings: &str) -> String {
    format!(
        "<IfModule nap_module>\n<NapRoom r>\nNapStatic On\n{settings}\n</NapRoom>\n</IfModule>\n\
         <Location />\n<IfModule nap_module>\nNapUse r\n</IfModule>\n\
         </Location>"
    )
}

/// Sends endless programs until the room refuses one: one runs, the others wait, as long as their
/// streams live. Without the module the last of them runs as well.
fn fill_up(httpd: &Httpd) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut stream = httpd.connect();
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .expect("above zero");
        stream
            .write_all(b"GET /counter?ms=600000 HTTP/1.0\r\n\r\n")
            .expect("httpd listens");
        let refused = stream.read_exact(&mut [0; 12]).is_ok();
        if refused {
            break;
        }
        held.push(stream);
    }
    held
}

/// The children's instructions for MANY requests less those for FEW, by their difference. Leaves
/// callgrind's files in target/bench, for callgrind_annotate.
fn per_request(name: &str, server: impl Fn() -> Builder, ask: impl Fn(&Httpd, u32)) -> f64 {
    let kept = httpd::made::directory("bench");
    let count = |requests| {
        let mut httpd = server().start();
        ask(&httpd, requests);
        let parent = format!("callgrind.{}", httpd.pid());
        httpd.stop();
        let files = std::fs::read_dir(httpd.root().join("data")).expect("our own directory");
        let names = files
            .flatten()
            .map(|file| file.file_name().to_string_lossy().into_owned());
        // The parent works by the clock, not by the request.
        let children = names.filter(|name| name.starts_with("callgrind.") && *name != parent);
        let counts = children.enumerate().map(|(n, child)| {
            let copy = kept.join(format!("callgrind.{name}.{requests}.{n}"));
            std::fs::copy(httpd.root().join("data").join(child), &copy).expect("target has room");
            total(&copy)
        });
        counts.sum::<f64>()
    };
    (count(MANY) - count(FEW)) / f64::from(MANY - FEW)
}

/// The line `totals: N` of callgrind's file.
fn total(path: &std::path::Path) -> f64 {
    let text = std::fs::read_to_string(path).expect("callgrind's file");
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0.0)
}

/// Asks for a path and reads one answer of known length, or to the end.
fn exchange(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
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
