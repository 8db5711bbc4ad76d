//! Soak: a server that has long been busy holds no more than one that has just started. A visitor who is let
//! in, starts a session, is refused with a ticket, asks where they stand, or owes too much leaves nothing
//! behind in a child: no memory, no open file.

use nap_testkit::holdings::Holdings;
use nap_testkit::ticket::Ticket;
use nap_testkit::{Builder, Httpd, Mpm, for_each_mpm, long, wait_until};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(90);
/// Memory that a child may have at the end beyond what it had: an allocator's own ups and downs.
const SLACK_KIB: u64 = 1024;

/// Requests of each kind; in the long form a hundred bytes lost in each would show.
fn requests() -> u32 {
    if long() { 20_000 } else { 2_000 }
}

fn site(mpm: Mpm) -> Builder {
    let rooms = "<NapRoom open>
NapStatic On
NapRunReady auto min=4
</NapRoom>
<NapRoom shop>
NapStatic On
NapSession start=^/shop/ idle=1s
NapSessionStart 1ms
</NapRoom>
<NapRoom full>
NapRunReady 1
NapWaitLimit 0
NapReAccess 4
NapTicketsPerClient 100000
</NapRoom>
<Location /open>\nNapUse open\n</Location>
<Location /shop>\nNapUse shop\n</Location>
<Location /cgi-bin>\nNapUse full\n</Location>
<Location /greedy>\nBwShare On\n</Location>
BwShareFiles 30 200
BwShareBytes 10G 1G
CustomLog /dev/null common
KeepAliveTimeout 60
MaxKeepAliveRequests 0
# One access is held until all others have been answered, however long a busy machine takes for that.
Timeout 600";
    // Each child puts all its threads to use at once, and none ends for being idle.
    let (processes, threads) = if mpm == Mpm::Prefork { (8, 1) } else { (1, 16) };
    Httpd::builder()
        .nap()
        .mpm(mpm)
        .info()
        .holding()
        .workers(processes, threads)
        .file("htdocs/open/a.html", "x".repeat(1000))
        .file("htdocs/shop/a.html", "x".repeat(1000))
        .file("htdocs/greedy/a.html", "x".repeat(1000))
        .config(rooms)
        .expect_log("wants MaxRequestWorkers", "a few workers suffice")
}

/// Sends `n` requests, some at a time, with a header; how many were not answered with 2xx.
fn ask(httpd: &Httpd, path: &str, header: &str, n: u32) -> u32 {
    let ab = Command::new("ab")
        .args([
            "-q",
            "-l",
            "-k",
            "-c",
            "4",
            "-H",
            header,
            "-n",
            &n.to_string(),
        ])
        .arg(httpd.url() + path)
        .output()
        .expect("`make setup` installs ab");
    let said = String::from_utf8_lossy(&ab.stdout).into_owned();
    assert!(ab.status.success(), "{said}");
    let number = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.map(|n| n.trim().parse::<u32>().expect("a number"))
    };
    assert_eq!(number("Complete requests:"), Some(n), "{said}");
    number("Non-2xx responses:").unwrap_or(0)
}

/// All kinds of requests, `n` of each.
fn use_it(httpd: &Httpd, ticket: &str, n: u32) {
    let ticket = format!("Nap-Ticket: {ticket}");
    for (path, header, refused) in [
        ("/open/a.html", "Accept: text/html", 0),
        ("/shop/a.html", "Accept: text/html", 0),
        ("/open/a.html", ticket.as_str(), 0),
        ("/cgi-bin/app", "Accept: text/html", n),
        ("/cgi-bin/app", "Accept: application/json", n),
        ("/cgi-bin/app", ticket.as_str(), n),
        ("/nap-ticket/status", ticket.as_str(), 0),
        ("/greedy/a.html", "Accept: text/html", n),
    ] {
        let seen = ask(httpd, path, header, n);
        // Some of the greedy ones are let in each second; a session starts each millisecond.
        let some = !path.starts_with("/open") && (1..n).contains(&seen);
        assert!(some || seen == refused, "{path}, {header}: {seen} of {n}");
    }
}

#[test]
fn a_server_that_has_been_busy_for_long_is_as_it_was() {
    for_each_mpm(|mpm| {
        let httpd = site(mpm).start();
        let held = httpd.hold("full", 1);
        let ticket = Ticket::of(&httpd.get("/cgi-bin/app"));
        let children = httpd.children();
        use_it(&httpd, &ticket.token, 2_000);
        let before = Holdings::of_all(&children);
        use_it(&httpd, &ticket.token, requests());
        wait_until("it has closed what it opened", PATIENCE, || {
            Holdings::of_all(&children).files <= before.files
        });
        assert_eq!(httpd.children(), children, "none has ended");
        let (memory, after) = (before.memory_kib, Holdings::of_all(&children).memory_kib);
        eprintln!(
            "    {memory} KiB, {after} KiB after {} requests; {} files",
            8 * requests(),
            before.files
        );
        assert!(after <= memory + SLACK_KIB, "{after} KiB, was {memory}");
        held.release();
        httpd.until_idle();
    });
}
