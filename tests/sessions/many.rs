//! Many at once: streams of a connection, members at a page that stalls or that two rooms share, a full table.

use crate::{LOGIN, OWN, PAGE, PATIENCE, cookie, get_later, sessions, sign_in, site, with};
use nap_testkit::http2::{Http2, Stream};
use nap_testkit::{Httpd, Mpm, for_each_mpm, wait_until};

/// mod_http2 does not work under prefork.
const WITH_STREAMS: [Mpm; 2] = [Mpm::Worker, Mpm::Event];

fn over_http2(mpm: Mpm, sessions: &str) -> Httpd {
    site(sessions)
        .workers(1, 64)
        .modules(&["http2"])
        .config("Protocols h2c http/1.1")
        .mpm(mpm)
        .start()
}

#[test]
fn streams_of_http2_are_accesses_of_one_session() {
    let http2 = "NapSession start=^/cgi-bin/login parallel=4\nNapSessionStart 1ms\nNapRunReady 2";
    for mpm in WITH_STREAMS {
        let httpd = over_http2(mpm, http2);
        let member = sign_in(&httpd);
        let held = httpd.hold("a", 2);
        let connection = Http2::open(&httpd);
        let ask = || connection.ask_with("/cgi-bin/page", &member);
        let streams: Vec<_> = (0..4).map(|_| ask()).collect();
        httpd.until_waiting(4);
        let beyond = ask().answer();
        assert_eq!(beyond.status, 503, "a fifth at a time is a stranger's");
        held.release();
        for stream in streams {
            assert_eq!(stream.answer().status, 200);
        }
        httpd.until_idle();
        // All have left: as many may come again.
        assert_eq!(ask().answer().status, 200);
    }
}

/// As a browser requests them: all at once. Half of a child's threads are available to wait on.
#[test]
fn a_page_of_24_parts_over_one_connection_is_a_members() {
    let wide = "NapSession start=^/cgi-bin/login parallel=32\nNapSessionStart 1ms\nNapRunReady 2";
    for mpm in WITH_STREAMS {
        let httpd = over_http2(mpm, wide);
        let member = sign_in(&httpd);
        let connection = Http2::open(&httpd);
        let ask = || connection.ask_with("/cgi-bin/page", &member);
        let answers = |streams: Vec<Stream>| -> Vec<u16> {
            streams.into_iter().map(|s| s.answer().status).collect()
        };
        for _ in 0..3 {
            let all = answers((0..24).map(|_| ask()).collect());
            assert_eq!(all, [200; 24], "{mpm}");
            httpd.until_idle();
        }
        let held = httpd.hold("a", 2);
        let streams = (0..24).map(|_| ask()).collect();
        httpd.until_waiting(24);
        held.release();
        assert_eq!(answers(streams), [200; 24], "{mpm}: they waited");
        httpd.until_idle();
        assert_eq!(sessions(&httpd, "beyond_parallel"), 0, "{mpm}");
        assert_eq!(sessions(&httpd, "started"), 1, "{mpm}");
    }
}

/// Nothing bounds a member's wait, so a member with many accesses at a page that stalls would hold all
/// workers.
#[test]
fn a_page_that_stalls_leaves_workers_to_others() {
    for_each_mpm(|mpm| {
        let settings = "NapRunReady 1\nNapWaitMax 1s\nNapTicketsPerClient 1000\n\
                        NapSession start=^/cgi-bin/login parallel=16\nNapSessionStart 1ms";
        let httpd = Httpd::builder()
            .nap()
            .holding()
            .workers(1, 16)
            .config(&format!(
                "NapPark Off\n<NapRoom site>\n{settings}\n</NapRoom>"
            ))
            .expect_log(
                "NapWaitMax 1s: tickets are sold for at most",
                "the bound is short",
            )
            .config("<Location /cgi-bin>\nNapUse site\n</Location>")
            .file("htdocs/page.html", "a page")
            .cgi("page", PAGE)
            .cgi("login", LOGIN)
            .mpm(mpm)
            .start();
        let (greedy, other) = (sign_in(&httpd), sign_in(&httpd));
        let held = httpd.hold("a", 1);
        let asked: Vec<_> = (0..15)
            .map(|_| get_later(&httpd, "/cgi-bin/page", &greedy))
            .collect();
        wait_until("the member is told so", PATIENCE, || {
            sessions(&httpd, "beyond_parallel") > 0
        });
        assert_eq!(httpd.get("/page.html").status, 200);
        // Nor does anybody begin a session to wait there.
        let stranger = httpd.get("/cgi-bin/login");
        assert_eq!(stranger.status, 503, "{stranger:?}");
        assert!(stranger.header("nap-ticket").is_some(), "{stranger:?}");
        let waiting = httpd.waiting();
        let answer = get_later(&httpd, "/cgi-bin/page", &other);
        httpd.until_waiting(waiting + 1);
        held.release();
        assert_eq!(answer.join().expect("an answer"), 200, "{mpm}");
        let statuses: Vec<u16> = asked
            .into_iter()
            .map(|asked| asked.join().expect("an answer"))
            .collect();
        let of = |status| statuses.iter().filter(|own| **own == status).count();
        assert_eq!(of(200) + of(503), 15, "{statuses:?}");
        assert!((1..=5).contains(&of(503)), "{statuses:?} under {mpm}");
        httpd.until_idle();
    });
}

/// Two shops share a payment page: members of both rooms come to it, and one room's limit holds for both.
#[test]
fn members_of_two_rooms_meet_at_one_page() {
    let two = "<NapRoom one>\nNapRunReady 4\nNapTicketsPerClient 1000\n\
               <NapPage pay ^/cgi-bin/(page|hold)$>\nNapRunReady 1\n</NapPage>\n\
               NapSession start=^/cgi-bin/login\nNapSessionStart 1ms\n</NapRoom>\n\
               <NapRoom two>\nNapRunReady 4\nNapTicketsPerClient 1000\n\
               NapPage pay ^/two/page$ room=one\n\
               NapSession start=^/two/login\nNapSessionStart 1ms\n</NapRoom>";
    let httpd = Httpd::builder()
        .nap()
        .holding()
        .workers(2, 64)
        .config(two)
        .config(
            "ScriptAlias /two {root}/cgi-bin\n<Location /cgi-bin>\nNapUse one\n</Location>\n\
             <Location /two>\nNapUse two\n</Location>",
        )
        .cgi("page", PAGE)
        .cgi("login", LOGIN)
        .start();
    let one = cookie(&httpd.get("/cgi-bin/login"), "naps~one=");
    let two = cookie(&httpd.get("/two/login"), "naps~two=");
    assert_eq!(with(&httpd, "/two/page", &two).status, 200);
    assert_eq!(with(&httpd, "/cgi-bin/page", &one).status, 200);
    let held = httpd.hold("a", 1);
    let both = [("/two/page", &two), ("/cgi-bin/page", &one)];
    let answers = both.map(|(path, cookie)| get_later(&httpd, path, cookie));
    httpd.until_waiting(2);
    // Without a session there is a ticket of the room that was asked.
    let (first, second) = (httpd.get("/cgi-bin/page"), httpd.get("/two/page"));
    assert!(cookie(&first, "nap-one=").len() > 60, "{first:?}");
    assert!(cookie(&second, "nap-two=").len() > 60, "{second:?}");
    held.release();
    for answer in answers {
        assert_eq!(answer.join().expect("an answer"), 200);
    }
    httpd.until_idle();
}

#[test]
fn a_full_table_is_told_and_stops_nobody() {
    let mut httpd = site(OWN)
        .config("NapTables sessions=1K")
        .expect_log("sessions found no place in their table", "it is full")
        .start();
    let told = |httpd: &Httpd| {
        let log = httpd.error_log();
        log.matches("sessions found no place in their table")
            .count()
    };
    // As many as the table has places, and more.
    while sessions(&httpd, "unplaced") < 3 {
        for _ in 0..50 {
            assert_eq!(httpd.get("/cgi-bin/login").status, 200);
        }
        assert!(sessions(&httpd, "started") < 3000);
    }
    wait_until("it is told", PATIENCE, || told(&httpd) > 0);
    // Not logged again by a process that has nothing new.
    httpd.graceful();
    assert_eq!(httpd.get("/cgi-bin/page").status, 200);
    assert_eq!(told(&httpd), 1);
}
