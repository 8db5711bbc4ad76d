//! The reserve of workers: while all places are taken, what is not scheduled is answered, and refusals are
//! answered too.
//!
//! Two children with 25 threads each. One access holds the room's permit, and as many wait as may: the bound
//! is long, so none of them leaves by itself.

use nap_testkit::http2::Http2;
use nap_testkit::{Builder, Httpd, Mpm, long, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const THREADS: u64 = 25;

fn site() -> Builder {
    site_of(1000)
}

/// With this wait limit.
fn site_of(places: u64) -> Builder {
    let room = format!(
        "<NapRoom site>
        NapRunReady 1\nNapWaitMax 10min\nNapWaitLimit {places}\nNapReAccess 1000
        </NapRoom>
        <Location /cgi-bin>\nNapUse site\n</Location>"
    );
    Httpd::builder()
        .nap()
        .holding()
        .workers(2, THREADS as u32)
        .config(&room)
        .file("htdocs/style.css", "p {}\n")
        .expect_log("wants MaxRequestWorkers", "all places are to be taken")
}

fn site_of_http2() -> Builder {
    over_http2(site())
}

fn over_http2(site: Builder) -> Builder {
    site.modules(&["http2"])
        .config("Protocols h2c http/1.1\nH2Direct on")
}

/// Takes places until this many wait; later ones are refused. Images are sold no tickets: with one out,
/// newcomers would leave some workers of each child to its holder.
fn fill(httpd: &Httpd, places: usize) -> Vec<TcpStream> {
    let mut waiters = Vec::new();
    wait_until("all places are taken", PATIENCE, || {
        let mut stream = httpd.connect();
        let image = "GET /cgi-bin/hold?wait HTTP/1.0\r\nSec-Fetch-Dest: image\r\n\r\n";
        stream.write_all(image.as_bytes()).expect("httpd listens");
        waiters.push(stream);
        httpd.waiting() == places
    });
    waiters
}

/// The slowest request of a round.
#[derive(Default)]
struct Slowest(Duration);

impl Slowest {
    fn of<T>(&mut self, ask: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let answer = ask();
        self.0 = self.0.max(start.elapsed());
        answer
    }
}

/// The time of the slowest request in each of `times` rounds; each must be answered as it should.
fn latencies(times: usize, ask: impl Fn(&mut Slowest)) -> Vec<Duration> {
    let took = |_| {
        let mut slowest = Slowest::default();
        ask(&mut slowest);
        slowest.0
    };
    let mut all: Vec<Duration> = (0..times).map(took).collect();
    all.sort_unstable();
    let at = |share: usize| all[(times - 1) * share / 100];
    eprintln!(
        "{times} of {times}; p50 {:?}, p90 {:?}, p99 {:?}, most {:?}",
        at(50),
        at(90),
        at(99),
        at(100)
    );
    all
}

fn everybody_else_is_answered_over_http1(mpm: Mpm, times: usize) -> Vec<Duration> {
    let httpd = site().mpm(mpm).config("NapPark Off").start();
    let held = httpd.hold("full", 1);
    let waiting_ends = httpd.ask_to_hold("wait", 0);
    // 25 threads less a reserve of 3 in each child, less the one that runs.
    let waiters = fill(&httpd, 43);
    let before = httpd.waiting();
    let all = latencies(times, |each| {
        assert_eq!(each.of(|| httpd.get("/style.css")).status, 200);
        let refused = each.of(|| httpd.get("/cgi-bin/hold?wait"));
        assert_eq!(refused.status, 503);
        assert!(refused.text().contains("overloaded"));
        assert_eq!(each.of(|| httpd.get("/nap-ticket")).status, 404);
        let info = each.of(|| httpd.get("/nap-info")).text();
        assert!(info.contains(">Full: 1 of 1 run, 43 wait of 43"), "{info}");
    });
    assert_eq!(httpd.waiting(), before, "nobody lost a place");
    drop((waiters, waiting_ends, held));
    httpd.until_idle();
    all
}

fn everybody_else_is_answered_over_http2(mpm: Mpm, times: usize) -> Vec<Duration> {
    let httpd = site_of_http2().mpm(mpm).start();
    // One child gets it all: the kernel does not spread connections evenly either.
    wait_until("both children are there", PATIENCE, || {
        httpd.children().len() == 2
    });
    let _paused = httpd.pause(httpd.children()[0]);
    let held = httpd.hold("full", 1);
    let waiting_ends = httpd.ask_to_hold("wait", 0);
    // Each on a connection of its own, which takes most of httpd's workers. Of 25 workers 12 may have streams
    // that wait, less half the reserve.
    let connections: Vec<Http2> = (0..11).map(|_| Http2::open(&httpd)).collect();
    let streams = connections.iter().map(|c| c.ask("/cgi-bin/hold?wait"));
    let streams: Vec<_> = streams.collect();
    httpd.until_waiting(11);
    let waiters = fill(&httpd, 21);
    let all = latencies(times, |each| {
        let fresh = each.of(|| Http2::open(&httpd));
        assert_eq!(each.of(|| fresh.get("/style.css")).status, 200);
        assert_eq!(each.of(|| fresh.get("/cgi-bin/hold?wait")).status, 503);
        assert_eq!(each.of(|| fresh.get("/nap-ticket")).status, 404);
        assert_eq!(each.of(|| httpd.get("/style.css")).status, 200);
    });
    drop(streams);
    drop((waiters, waiting_ends, held));
    httpd.until_idle();
    all
}

/// Under both MPMs with threads: a hundred rounds; in the long form a thousand, each request within a tenth
/// of a second.
fn answered_in_time(everybody_else: impl Fn(Mpm, usize) -> Vec<Duration>) {
    for mpm in [Mpm::Worker, Mpm::Event] {
        eprintln!("--- {mpm}");
        if !long() {
            everybody_else(mpm, 100);
            continue;
        }
        let most = everybody_else(mpm, 1000)[999];
        assert!(most < Duration::from_millis(100), "{most:?}");
    }
}

#[test]
fn over_http1_everybody_else_is_answered() {
    answered_in_time(everybody_else_is_answered_over_http1);
}

#[test]
fn over_http2_everybody_else_is_answered() {
    answered_in_time(everybody_else_is_answered_over_http2);
}

#[test]
fn a_reset_streams_place_is_another_s_and_its_connection_lives() {
    for mpm in [Mpm::Worker, Mpm::Event] {
        let httpd = over_http2(site_of(2)).mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let connection = Http2::open(&httpd);
        let stays = connection.ask("/cgi-bin/hold?wait");
        httpd.until_waiting(1);
        let goes = connection.ask("/cgi-bin/hold?wait");
        httpd.until_waiting(2);
        let refused = httpd.get("/cgi-bin/hold?wait");
        assert_eq!(refused.status, 503, "no place is left");
        let reset = Instant::now();
        drop(goes);
        httpd.until_waiting(1);
        let next = connection.ask("/cgi-bin/hold?wait");
        httpd.until_waiting(2);
        let took = reset.elapsed();
        eprintln!("    {mpm}: the place was another's after {took:?}");
        assert!(!long() || took < Duration::from_millis(500), "{took:?}");
        assert_eq!(connection.get("/style.css").status, 200);
        held.release();
        drop(httpd.ask_to_hold("wait", 0));
        assert_eq!(stays.answer().status, 200);
        assert_eq!(next.answer().status, 200);
    }
}

#[test]
fn streams_reset_while_they_run_let_no_more_run() {
    const LIMIT: u64 = 3;
    for mpm in [Mpm::Worker, Mpm::Event] {
        let httpd = Httpd::builder()
            .nap()
            .info()
            .mpm(mpm)
            .workers(2, THREADS as u32)
            .modules(&["http2"])
            .config("Protocols h2c http/1.1\nH2Direct on")
            .config(&format!(
                "<NapRoom site>\nNapRunReady {LIMIT}\nNapWaitMax 1min\nNapWaitLimit 12\n\
                 NapReAccess 1\n</NapRoom>\n<Location /counter>\nNapUse site\n</Location>"
            ))
            .start();
        let connection = Http2::open(&httpd);
        let mut ran = 0;
        for _ in 0..if long() { 20 } else { 4 } {
            let before = httpd.counter().started;
            let streams: Vec<_> = (0..5).map(|_| connection.ask("/counter?ms=400")).collect();
            wait_until("as many have begun as may run", PATIENCE, || {
                httpd.counter().started >= before + LIMIT
            });
            // These have their turn as soon as a permit is back, too early or not.
            let others: Vec<_> = (0..6).map(|_| httpd.get_later("/counter?ms=20")).collect();
            ran += u32::from(httpd.counter().running == LIMIT);
            drop(streams);
            for other in others {
                assert_eq!(other.join().expect("an answer").status, 200);
            }
        }
        assert!(ran > 0, "some were reset while they ran");
        wait_until("nobody runs", PATIENCE, || {
            (httpd.room().running, httpd.counter().running) == (0, 0)
        });
        let counter = httpd.counter();
        eprintln!("    {mpm}: {counter:?}, {ran} times while they ran");
        assert_eq!(counter.max, LIMIT, "full, and never over");
    }
}

#[test]
fn a_reset_stream_gives_its_permit_back_though_its_connection_idles() {
    let httpd = site_of_http2()
        .config("KeepAliveTimeout 300\nTimeout 300")
        .start();
    let connection = Http2::open(&httpd);
    let goes = connection.ask("/cgi-bin/hold?gone");
    wait_until("it runs", PATIENCE, || httpd.holding("gone") == 1);
    drop(goes);
    // Nobody takes the answer of its script.
    drop(httpd.ask_to_hold("gone", 0));
    httpd.until_idle();
    drop(connection);
}

#[test]
fn a_client_that_hangs_up_while_it_waits_leaves_its_place() {
    nap_testkit::for_each_mpm(|mpm| {
        let httpd = site().mpm(mpm).workers(2, 8).start();
        let held = httpd.hold("full", 1);
        let ask = || {
            let mut stream = httpd.connect();
            write!(stream, "GET /cgi-bin/hold?wait HTTP/1.0\r\n\r\n").expect("httpd listens");
            stream
        };
        let mut streams: Vec<TcpStream> = (0..3).map(|_| ask()).collect();
        httpd.until_waiting(3);
        drop(streams.remove(1));
        httpd.until_waiting(2);
        // A half-closed connection is a client that has left, too.
        let closing = &streams[1];
        closing.shutdown(std::net::Shutdown::Write).expect("open");
        httpd.until_waiting(1);
        drop(httpd.ask_to_hold("wait", 0));
        drop(held);
        let mut answer = String::new();
        streams[0].read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        httpd.until_waiting(0);
    });
}
