//! Holders who come to a full node one after the other, so that nothing but their ticket lets them in.

use crate::held_page::HeldPages;
use nap_testkit::ticket::Ticket;
use nap_testkit::{Builder, Httpd, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A room of one access, in which only holders may wait.
pub const FULL: &str = "NapRunReady 1\nNapWaitLimit 0\nNapReAccess 1000\nNapWaitMax 2s\nNapTicketPrime 10min\n\
                        NapSlotPeriod 1s\nNapSlotTickets 1000\nNapTicketsPerClient 100000";

const PATIENCE: Duration = Duration::from_secs(60);

/// With these pages at `/held`, and `/nap-info`.
pub fn at_full(server: Builder, pages: &HeldPages) -> Builder {
    let pass = format!(
        "ProxyPass /held http://127.0.0.1:{}/ flushpackets=on timeout=600\n\
         <Location /nap-info>\nSetHandler nap-info\nNapUse None\n</Location>",
        pages.port()
    );
    server.modules(&["proxy", "proxy_http"]).config(&pass)
}

/// Sells tickets to all, of whom some come. Each waits until the page of the one before ends. `header` gives the n-th
/// one's own header.
pub fn come(
    httpd: &Httpd,
    pages: &HeldPages,
    [some, all]: [u32; 2],
    header: impl Fn(u32) -> String,
) {
    let mut running = ask(httpd, "");
    assert_eq!(status(&mut running), "200");
    let refused = (0..all).map(|_| httpd.get("/held"));
    let tickets: Vec<Ticket> = refused.map(|answer| Ticket::of(&answer)).collect();
    tickets.iter().for_each(Ticket::until_prime);
    for (n, ticket) in (0..some).zip(&tickets) {
        let headers = format!("{}Nap-Ticket: {}\r\n", header(n), ticket.token);
        let mut holder = ask(httpd, &headers);
        until_all_wait(httpd);
        pages.end_one();
        running.read_to_end(&mut Vec::new()).expect("a whole page");
        assert_eq!(status(&mut holder), "200");
        running = holder;
    }
    pages.end_one();
    let info = httpd.get("/nap-info?json").json();
    let asked = &info["fleet"]["tickets"]["asked"];
    // A server in no fleet asks nobody. On a busy machine a holder may find the place free.
    if let Some(told) = asked["mine"].as_u64() {
        assert!(10 * told >= 9 * u64::from(some), "of {some}: {asked}");
        eprintln!("of {some} holders: {asked}");
    }
}

fn ask(httpd: &Httpd, headers: &str) -> TcpStream {
    let mut stream = httpd.connect();
    write!(stream, "GET /held HTTP/1.0\r\n{headers}\r\n").expect("httpd listens");
    stream
}

/// Reads the beginning of an answer.
fn status(stream: &mut TcpStream) -> String {
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    String::from_utf8_lossy(&head[9..]).into_owned()
}

/// Waits until no child has anything to do. Asking one would be counted.
fn until_all_wait(httpd: &Httpd) {
    let ticks = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a child of ours");
        let (_, words) = stat.rsplit_once(')').expect("its name");
        let words: Vec<&str> = words.split_whitespace().collect();
        (words[0] == "S").then(|| words[11..13].join(" "))
    };
    let children = httpd.children();
    let look = || -> Vec<Option<String>> { children.iter().map(ticks).collect() };
    let (mut before, mut still) = (look(), 0);
    wait_until("all children wait", PATIENCE, || {
        let now = look();
        let stands = now == before && now.iter().all(Option::is_some);
        still = if stands { still + 1 } else { 0 };
        before = now;
        still == 3
    });
}
