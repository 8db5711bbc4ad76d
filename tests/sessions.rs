//! Sessions on a real httpd: members are never refused, starters wait for their turn, and a cookie that was
//! given to nobody is worth nothing.

use nap_testkit::http2::{Http2, Stream};
use nap_testkit::ticket::Ticket;
use nap_testkit::{Answer, Builder, Httpd, Mpm, for_each_mpm, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

const PAGE: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe page\\n'\n";
/// Signs in: the application's own cookie, with the name that the query gives.
const LOGIN: &str = "#!/bin/sh
printf 'Content-Type: text/plain\\r\\nSet-Cookie: SID=%s; Path=/\\r\\n\\r\\nhello\\n' \"$QUERY_STRING\"
";
const LEAVE: &str = "#!/bin/sh
printf 'Content-Type: text/plain\\r\\nNap-Session: end\\r\\n\\r\\ngood bye\\n'
";

/// One access runs at a time; nobody without a session waits for it.
const SETTINGS: &str = "NapRunReady 1
NapWaitMax 1s
NapWaitLimit 0
NapTicketsPerClient 1000";

fn site(sessions: &str) -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .config(&room(sessions))
        .expect_log(
            "NapWaitMax 1s: tickets are sold for at most",
            "the bound is short",
        )
        .config("<Location /cgi-bin>\nNapUse site\n</Location>")
        .cgi("page", PAGE)
        .cgi("login", LOGIN)
        .cgi("leave", LEAVE)
}

fn room(sessions: &str) -> String {
    format!("<NapRoom site>\n{SETTINGS}\n{sessions}\n</NapRoom>")
}

const OWN: &str = "NapSession start=^/cgi-bin/login end=^/cgi-bin/logout\nNapSessionStart 1ms";
const SID: &str = "NapSession cookie=SID start=^/cgi-bin/login\nNapSessionStart 1ms";

fn with(httpd: &Httpd, path: &str, cookie: &str) -> Answer {
    httpd.request("GET", path, &[("Cookie", cookie)], b"")
}

/// The pair of the answer's first cookie whose name begins with this.
fn cookie(answer: &Answer, name: &str) -> String {
    let found = answer
        .headers_named("set-cookie")
        .find(|cookie| cookie.starts_with(name));
    let found = found.unwrap_or_else(|| panic!("no {name} in {answer:?}"));
    found.split(';').next().expect("a pair").to_owned()
}

/// Signs in; returns our cookie.
fn sign_in(httpd: &Httpd) -> String {
    let answer = httpd.get("/cgi-bin/login");
    assert_eq!(answer.status, 200, "{answer:?}");
    cookie(&answer, "naps~site=")
}

fn sessions(httpd: &Httpd, what: &str) -> u64 {
    let info = httpd.get("/nap-info?json").json();
    let number = info["rooms"][0]["sessions"][what].as_u64();
    number.unwrap_or_else(|| panic!("no {what} in {}", info["rooms"][0]["sessions"]))
}

/// The session gate's count of this.
fn lobby(httpd: &Httpd, what: &str) -> u64 {
    let info = httpd.get("/nap-info?json").json();
    let lobby = &info["rooms"][0]["gates"][0];
    let number = lobby["promise"][what].as_u64();
    number.unwrap_or_else(|| panic!("no {what} in {lobby}"))
}

/// The total of the session gate's chart of the last minutes.
fn starts_shown(httpd: &Httpd) -> u64 {
    let info = httpd.get("/nap-info?json").json();
    let seconds = &info["rooms"][0]["gates"][0]["recent"]["finished"];
    let seconds = seconds.as_array().expect("a list");
    seconds.iter().filter_map(Value::as_u64).sum()
}

fn get_later(httpd: &Httpd, path: &str, cookie: &str) -> std::thread::JoinHandle<u16> {
    let (url, cookie) = (format!("{}{path}", httpd.url()), cookie.to_owned());
    std::thread::spawn(move || nap_testkit::ask("GET", &url, &[("Cookie", &cookie)], b"").status)
}

#[test]
fn a_member_waits_as_long_as_it_takes_and_a_stranger_gets_a_ticket() {
    for_each_mpm(|mpm| {
        let httpd = site(OWN).mpm(mpm).start();
        let member = sign_in(&httpd);
        let held = httpd.hold("a", 1);
        let answer = get_later(&httpd, "/cgi-bin/page", &member);
        httpd.until_waiting(1);
        let stranger = httpd.get("/cgi-bin/page");
        assert_eq!(stranger.status, 503);
        let ticket = Ticket::of(&stranger);
        assert!(cookie(&stranger, "nap-site=").len() > 60, "the room's own");
        // The bound has passed; the guard would have fired.
        ticket.sleep_until(2.0);
        assert_eq!(httpd.waiting(), 1, "the member still waits");
        held.release();
        assert_eq!(answer.join().expect("an answer"), 200);
        assert_eq!(sessions(&httpd, "started"), 1);
        // The ticket starts a session, whatever page it is presented at.
        ticket.until_prime();
        let kept = with(&httpd, "/cgi-bin/page", &ticket.cookie());
        assert_eq!(kept.status, 200, "{kept:?}");
        cookie(&kept, "naps~site=");
        assert_eq!(sessions(&httpd, "started"), 2);
        wait_until(
            "both starts are in the session gate's chart",
            PATIENCE,
            || starts_shown(&httpd) == 2,
        );
        httpd.until_idle();
    });
}

/// The visitor has a turn at the session gate and waits at their page: until that runs, nothing is spent.
#[test]
fn a_ticket_is_not_spent_before_its_page_runs() {
    for_each_mpm(|mpm| {
        let httpd = site(OWN).mpm(mpm).start();
        let held = httpd.hold("a", 1);
        let ticket = Ticket::of(&httpd.get("/cgi-bin/page"));
        let present = || {
            let mut stream = httpd.connect();
            let cookie = ticket.cookie();
            write!(
                stream,
                "GET /cgi-bin/page HTTP/1.0\r\nCookie: {cookie}\r\n\r\n"
            )
            .expect("httpd listens");
            stream
        };
        ticket.until_prime();
        let first = present();
        httpd.until_waiting(1);
        // Reloaded: the older request is told, and the newer one has its place.
        let mut second = present();
        let mut told = String::new();
        (&first).read_to_string(&mut told).expect("an answer");
        assert!(
            told.contains("503") && told.contains("taken-over"),
            "{told}"
        );
        // The visitor's connection breaks.
        drop(second);
        httpd.until_waiting(0);
        second = present();
        httpd.until_waiting(1);
        held.release();
        told.clear();
        second.read_to_string(&mut told).expect("an answer");
        assert!(
            told.contains("200 OK") && told.contains("naps~site="),
            "{told}"
        );
        assert_eq!(sessions(&httpd, "in_table"), 1);
        let counts = ["presented", "kept", "broken"].map(|what| lobby(&httpd, what));
        assert_eq!(counts, [1, 1, 0]);
        httpd.until_idle();
    });
}

#[test]
fn a_session_that_begins_where_nobody_can_wait_any_more_is_one_like_all() {
    let places = 16;
    let own = format!("{OWN} parallel=16");
    let own = own.replace(
        "\nNapSessionStart 1ms parallel=16",
        " parallel=16\nNapSessionStart 1ms",
    );
    let httpd = site(&own)
        .config(&format!("NapPark Off\nNapTables waiters={places}"))
        .workers(1, 48)
        .start();
    let members = [sign_in(&httpd), sign_in(&httpd)];
    let held = httpd.hold("a", 1);
    let waiting: Vec<_> = (0..places)
        .map(|n| get_later(&httpd, "/cgi-bin/page", &members[n % 2]))
        .collect();
    httpd.until_waiting(places);
    let third = sign_in(&httpd);
    assert_eq!(sessions(&httpd, "passed"), 1, "nobody held them up");
    assert_eq!(sessions(&httpd, "in_table"), 3);
    // And the third visitor goes on: the page is taken, and strangers are told when to come.
    assert_eq!(with(&httpd, "/cgi-bin/page", &third).status, 200);
    assert_eq!(httpd.get("/cgi-bin/page").status, 503);
    held.release();
    for answer in waiting {
        assert_eq!(answer.join().expect("an answer"), 200);
    }
    httpd.until_idle();
    assert_eq!(sessions(&httpd, "unnamed"), 0);
}

#[test]
fn who_starts_a_session_waits_for_his_turn_and_the_queue_is_bounded() {
    let turns =
        "NapSession start=^/cgi-bin/login\nNapSessionStart 3s\nNapSessionQueue 1\nNapWaitMax 10s";
    let httpd = site(turns).start();
    sign_in(&httpd);
    let second = httpd.get_later("/cgi-bin/login");
    httpd.until_waiting(1);
    let third = httpd.get("/cgi-bin/login");
    assert_eq!(third.status, 503, "the queue is full");
    assert_eq!(third.header("nap-reason"), Some("full"));
    Ticket::of(&third);
    assert_eq!(
        httpd.get("/cgi-bin/page").status,
        200,
        "no start, and there is room"
    );
    assert_eq!(second.join().expect("an answer").status, 200);
    assert_eq!(sessions(&httpd, "started"), 2);
    assert_eq!(sessions(&httpd, "in_table"), 2);
}

/// The visitor's ticket is the session gate's, whichever page refused them: there they ask, and are called
/// for a turn that nobody takes.
#[test]
fn who_holds_a_ticket_asks_at_the_session_gate_and_is_called() {
    let turns = "NapSession start=^/cgi-bin/login
NapSessionStart 1s
NapSessionQueue 1
NapWaitMax 20s
NapPoll base=1s";
    for_each_mpm(|mpm| {
        let httpd = site(turns).mpm(mpm).start();
        sign_in(&httpd);
        let second = httpd.get_later("/cgi-bin/login");
        httpd.until_waiting(1);
        // The first tickets are good at once, or in a moment.
        for _ in 0..3 {
            Ticket::of(&httpd.get("/cgi-bin/login"));
        }
        let ticket = Ticket::of(&httpd.get("/cgi-bin/login"));
        let header = [("Nap-Ticket", ticket.token.as_str())];
        let ask = || {
            httpd
                .request("GET", "/nap-ticket/status", &header, b"")
                .json()
        };
        let told = ask();
        assert_eq!(told["state"], "wait", "{told}");
        assert!(told["ask"].as_f64() >= Some(1.0), "{told}");
        assert_eq!(second.join().expect("an answer").status, 200);
        let mut told = told;
        wait_until("the holder is called", PATIENCE, || {
            told = ask();
            told["state"] == "now"
        });
        assert!(told["from"].as_f64() > Some(0.0), "before its time: {told}");
        let served = httpd.request("GET", "/cgi-bin/login", &header, b"");
        assert_eq!(served.status, 200, "{served:?}");
        assert_eq!(sessions(&httpd, "started"), 3);
    });
}

#[test]
fn the_applications_cookie_counts_when_the_application_has_set_it() {
    for_each_mpm(|mpm| {
        let httpd = site(SID).mpm(mpm).start();
        assert_eq!(httpd.get("/cgi-bin/login?abc").status, 200);
        assert_eq!(sessions(&httpd, "in_table"), 1);
        let held = httpd.hold("a", 1);
        assert_eq!(with(&httpd, "/cgi-bin/page", "SID=invented").status, 503);
        let member = get_later(&httpd, "/cgi-bin/page", "theme=dark; SID=abc");
        httpd.until_waiting(1);
        held.release();
        assert_eq!(member.join().expect("an answer"), 200);
        // Another name at another login: the session is the same.
        let again = with(&httpd, "/cgi-bin/login?xyz", "SID=abc");
        assert_eq!((again.status, sessions(&httpd, "started")), (200, 1));
        let other = httpd.hold("b", 1);
        let member = get_later(&httpd, "/cgi-bin/leave", "SID=xyz");
        httpd.until_waiting(1);
        drop(other);
        assert_eq!(member.join().expect("an answer"), 200);
        wait_until("the session is over", PATIENCE, || {
            sessions(&httpd, "finished") == 1 && sessions(&httpd, "in_table") == 0
        });
        httpd.until_idle();
    });
}

#[test]
fn the_applications_word_ends_a_session_and_goes_no_further() {
    let httpd = site(SID).start();
    httpd.get("/cgi-bin/login?abc");
    let answer = with(&httpd, "/cgi-bin/leave", "SID=abc");
    assert_eq!((answer.status, answer.header("nap-session")), (200, None));
    let stranger = httpd.get("/cgi-bin/leave");
    assert_eq!(
        (stranger.status, stranger.header("nap-session")),
        (200, None)
    );
    assert_eq!(sessions(&httpd, "finished"), 1);
    let held = httpd.hold("a", 1);
    assert_eq!(with(&httpd, "/cgi-bin/page", "SID=abc").status, 503);
    drop(held);
    httpd.until_idle();
}

#[test]
fn the_applications_word_goes_no_further_where_nobody_is_held_up_either() {
    let httpd = site(&format!(
        "{SID}\nNapExempt \"%{{QUERY_STRING}} == 'exempt'\""
    ))
    .config(
        "<If \"%{QUERY_STRING} == 'dry'\">\nNapEngine DryRun\n</If>\n\
             <If \"%{QUERY_STRING} == 'off'\">\nNapEngine Off\n</If>",
    )
    .start();
    for (how, word) in [("exempt", None), ("dry", None), ("off", Some("end"))] {
        let answer = httpd.get(&format!("/cgi-bin/leave?{how}"));
        assert_eq!(answer.status, 200, "{how}");
        assert_eq!(answer.header("nap-session"), word, "{how}");
    }
}

#[test]
fn an_end_page_ends_a_session_and_takes_its_cookie_back() {
    for_each_mpm(|mpm| {
        let httpd = site(OWN).cgi("logout", PAGE).mpm(mpm).start();
        let member = sign_in(&httpd);
        let answer = with(&httpd, "/cgi-bin/logout", &member);
        assert_eq!(answer.status, 200);
        assert_eq!(cookie(&answer, "naps~site="), "naps~site=");
        assert_eq!(
            (sessions(&httpd, "finished"), sessions(&httpd, "in_table")),
            (1, 0)
        );
    });
}

#[test]
fn a_shared_cookie_has_one_sessions_share() {
    for_each_mpm(|mpm| {
        let shared =
            "NapSession start=^/cgi-bin/login parallel=2\nNapSessionStart 1ms\nNapRunReady 3";
        let httpd = site(shared).mpm(mpm).start();
        let member = sign_in(&httpd);
        let asked: Vec<_> = (0..2)
            .map(|_| get_later(&httpd, "/cgi-bin/hold?a", &member))
            .collect();
        wait_until("both run", PATIENCE, || httpd.holding("a") == 2);
        let others = httpd.hold("b", 1);
        // The third access with the same cookie is a stranger's, and the page is full.
        assert_eq!(with(&httpd, "/cgi-bin/page", &member).status, 503);
        assert_eq!(sessions(&httpd, "beyond_parallel"), 1);
        // Its permit is back before its answer has ended; its program has ended before either.
        assert!(others.release()[0].starts_with("HTTP/1.1 200"));
        assert_eq!(
            with(&httpd, "/cgi-bin/page", &member).status,
            200,
            "there is room"
        );
        drop(httpd.ask_to_hold("a", 0));
        for answer in asked {
            assert_eq!(answer.join().expect("an answer"), 200);
        }
        httpd.until_idle();
    });
}

#[test]
fn sessions_outlive_restarts_and_children() {
    for_each_mpm(|mpm| {
        let mut httpd = site(OWN)
            .config("NapStateFile {root}/state/nap.state")
            .file("state/.keep", "")
            .expect_log("child process", "it was killed")
            .expect_log("cgi daemon", "mod_cgid misses the killed")
            .mpm(mpm)
            .start();
        let member = sign_in(&httpd);
        httpd.graceful();
        let is_member = |httpd: &Httpd, name| {
            let held = httpd.hold(name, 1);
            let answer = get_later(httpd, "/cgi-bin/page", &member);
            httpd.until_waiting(1);
            held.release();
            assert_eq!(answer.join().expect("an answer"), 200);
            httpd.until_idle();
        };
        is_member(&httpd, "a");
        let killed = httpd.children();
        killed.iter().for_each(|pid| httpd.kill9(*pid));
        wait_until("other children are there", PATIENCE, || {
            let room = httpd.try_room();
            room.is_some_and(|room| !room.children.iter().any(|pid| killed.contains(pid)))
        });
        is_member(&httpd, "b");
        httpd.stop();
        httpd.start_again();
        is_member(&httpd, "c");
        assert_eq!(sessions(&httpd, "in_table"), 1);
    });
}

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

/// A visitor with a ticket for later is no worse off than one without: a page that starts nothing and has
/// room answers them, and the ticket stays.
#[test]
fn a_ticket_whose_time_has_not_come_is_in_nobodys_way() {
    let httpd = site(OWN).start();
    let held = httpd.hold("a", 1);
    let ticket = Ticket::of(&httpd.get("/cgi-bin/page"));
    held.release();
    httpd.until_idle();
    let answer = with(&httpd, "/cgi-bin/page", &ticket.cookie());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.headers_named("set-cookie").count(), 0, "{answer:?}");
    assert_eq!(sessions(&httpd, "started"), 0);
    // Where they would have to wait, they are shown their own ticket again.
    let held = httpd.hold("b", 1);
    let again = with(&httpd, "/cgi-bin/page", &ticket.cookie());
    assert_eq!(Ticket::of(&again).token, ticket.token);
    held.release();
    ticket.until_prime();
    assert_eq!(with(&httpd, "/cgi-bin/page", &ticket.cookie()).status, 200);
    assert_eq!(sessions(&httpd, "started"), 1);
}

/// A cache in front may keep the application's answers, but none with a cookie of ours.
#[test]
fn an_answer_that_starts_a_session_is_nobody_elses() {
    let httpd = site(OWN)
        .modules(&["cache", "cache_disk"])
        .config(
            "CacheQuickHandler Off\nCacheRoot {root}/data/cache\nCacheEnable disk /cgi-bin\n\
             CacheIgnoreNoLastMod On",
        )
        .cgi(
            "login",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\nCache-Control: max-age=600\\r\\n\\r\\nhello\\n'\n",
        )
        .start();
    let cache = httpd.root().join("data/cache");
    std::fs::create_dir(&cache).expect("a directory");
    use std::os::unix::fs::PermissionsExt as _;
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&cache, all).expect("our own");
    let answer = httpd.get("/cgi-bin/login");
    assert!(
        answer
            .headers_named("cache-control")
            .any(|value| value.contains("private")),
        "{answer:?}"
    );
    let (first, second) = (cookie(&answer, "naps~site="), sign_in(&httpd));
    assert_ne!(first, second, "each has their own session");
    assert_eq!(sessions(&httpd, "started"), 2);
}

/// A long answer gives its permit back and does not count towards `parallel=`, but its session is not idle
/// meanwhile.
#[test]
fn a_long_answer_is_in_hand_until_its_end() {
    for_each_mpm(|mpm| {
        let httpd = site(
            "NapSession start=^/cgi-bin/login idle=1s parallel=1\nNapSessionStart 1ms\n\
             NapDownload 1K",
        )
        .cgi(
            "long",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'; head -c 100000000 /dev/zero\n",
        )
        .expect_log("error writing", "a program whose reader has gone")
        .mpm(mpm)
        .start();
        let member = sign_in(&httpd);
        let mut stream = httpd.connect();
        let request = format!("GET /cgi-bin/long HTTP/1.0\r\nCookie: {member}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        stream.read_exact(&mut [0; 100_000]).expect("its beginning");
        wait_until("its permit is back", PATIENCE, || {
            let info = httpd.get("/nap-info?json").json();
            info["rooms"][0]["gates"][1]["run_ready"]["running"] == 0
        });
        let comes_as_member = || {
            let before = sessions(&httpd, "accesses");
            assert_eq!(with(&httpd, "/cgi-bin/page", &member).status, 200);
            sessions(&httpd, "accesses") > before
        };
        // One access at a time waits or runs; the long answer does neither.
        assert!(comes_as_member(), "under {mpm}");
        // Longer than a session may be idle.
        std::thread::sleep(Duration::from_millis(2500));
        assert!(comes_as_member(), "it was not idle, under {mpm}");
        assert_eq!(sessions(&httpd, "beyond_parallel"), 0);
        drop(stream);
        wait_until("it ends when nothing comes any more", PATIENCE, || {
            sessions(&httpd, "idle_ended") == 1 && sessions(&httpd, "in_table") == 0
        });
    });
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

#[test]
fn a_page_of_a_room_with_sessions_is_not_used_by_one_without_nor_the_other_way() {
    let two = |shop: &str, other: &str| {
        format!(
            "<NapRoom shop>\nNapPage pay ^/pay\n{shop}\n</NapRoom>
            <NapRoom other>\nNapPage pay ^/pay room=shop\n{other}\n</NapRoom>
            <Location /shop>\nNapUse shop\n</Location>
            <Location /other>\nNapUse other\n</Location>"
        )
    };
    let sessions = "NapSession idle=20min";
    let said =
        Httpd::configtest(&two(sessions, "")).expect_err("nobody would be told when to come");
    let sentence = "NapPage pay: room=shop: that room has sessions, and room other has none: ";
    assert!(said.contains(sentence), "{said}");
    let said =
        Httpd::configtest(&two("", sessions)).expect_err("tickets would come before members");
    let sentence = "NapPage pay: room=shop: room other has sessions, and that room has none: ";
    assert!(said.contains(sentence), "{said}");
    Httpd::configtest(&two(sessions, sessions)).unwrap_or_else(|said| panic!("{said}"));
    Httpd::configtest(&two("", "")).unwrap_or_else(|said| panic!("{said}"));
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

#[test]
fn wrong_sessions_stop_configtest_in_a_sentence() {
    let used = |line: &str| {
        let room = format!("<NapRoom site>\n{line}\n</NapRoom>");
        format!("{room}\n<Location /shop>\nNapUse site\n</Location>")
    };
    let cases = [
        (
            "NapSession start=(",
            "NapSession: start: \"(\" is not a regular expression: ",
        ),
        (
            "NapSession end=",
            "NapSession: end= wants a regular expression",
        ),
        (
            "NapPriority progress",
            "NapPriority progress compares members of sessions, but the room has none",
        ),
        (
            "NapSession cookie=a;b",
            "cookie=\"a;b\" is not a cookie's name",
        ),
        ("NapSession idle=1ms", "\"idle=1ms\" is out of range"),
        ("NapSession parallel=99", "\"parallel=99\" is out of range"),
        ("NapSessionStart 1s", "the room has none; add NapSession"),
        (
            "NapSession start=^/login",
            "room site: NapSession: start= matches nothing in the room: URLs that begin with /login \
             lie in no <Location> with NapUse site",
        ),
        (
            "NapSession end=^/bye",
            "room site: NapSession: end= matches nothing in the room: URLs that begin with /bye",
        ),
    ];
    for (line, words) in cases {
        let said = match Httpd::configtest(&used(line)) {
            Ok(()) => panic!("it passes: {line}"),
            Err(said) => said,
        };
        assert!(said.contains(words), "{line}: {said}");
    }
    for good in [
        "NapSession start=^/shop/login",
        "NapSession start=login$",
        "NapSession",
    ] {
        Httpd::configtest(&used(good)).unwrap_or_else(|said| panic!("{good}: {said}"));
    }
}

/// A value of `/nap-info`, for programs that draw it.
#[test]
fn the_interval_and_the_page_queue_are_shown_over_time() {
    let httpd = site(OWN).start();
    sign_in(&httpd);
    let shown = || -> Value {
        let mut info = httpd.get("/nap-info?json").json();
        info["rooms"][0]["sessions"].take()
    };
    wait_until("a second is written", PATIENCE, || {
        let minutes = &shown()["minutes"];
        let written = |what: &str| {
            let all = minutes[what].as_array().expect("a list");
            all.iter().any(|second| !second.is_null())
        };
        written("interval_s") && written("page_queue")
    });
    assert_eq!(shown()["interval_s"], 0.001);
    let page = httpd.get("/nap-info").text();
    assert!(page.contains("the session interval is 0.001 s ("), "{page}");
    // A visitor who has started a session runs on a page: the session gate is quiet all the same.
    assert!(page.contains("nobody waits to start a session."), "{page}");
}

/// The paper's law (section 3.2): the interval grows by `inc` in each second in which the page's queue is as
/// long as the threshold, and shrinks by `dec` otherwise.
#[test]
fn the_papers_interval_follows_the_queues_of_the_pages() {
    let law = "NapSession start=^/cgi-bin/login\n\
               NapSessionStart paper threshold=2 inc=100ms dec=50ms min=10ms max=10s";
    let httpd = site(law).start();
    let member = sign_in(&httpd);
    let interval = || {
        let info = httpd.get("/nap-info?json").json();
        let seconds = info["rooms"][0]["sessions"]["interval_s"].as_f64();
        seconds.expect("an interval")
    };
    // It begins with as many sessions a second as there are processors.
    let is_least = || (interval() - 0.01).abs() < 1e-9;
    wait_until("it has shrunk", PATIENCE, is_least);
    let held = httpd.hold("a", 1);
    let asked: Vec<_> = (0..4)
        .map(|_| get_later(&httpd, "/cgi-bin/page", &member))
        .collect();
    httpd.until_waiting(4);
    wait_until("it grows", PATIENCE, || interval() > 0.35);
    held.release();
    for asked in asked {
        assert_eq!(asked.join().expect("an answer"), 200);
    }
    wait_until("it shrinks", PATIENCE, is_least);
}

/// Whichever page sold it, a ticket is the session gate's, and its records are the room's.
#[test]
fn the_ticket_log_names_the_room_when_a_ticket_is_sold_and_when_it_is_over() {
    let httpd = site(&format!(
        "{OWN}\nNapPage hold ^/cgi-bin/hold\nNapTicketLifetime 5s"
    ))
    .config("NapTicketLog {root}/tickets")
    .start();
    let held = httpd.hold("a", 1);
    let refused = httpd.get("/cgi-bin/hold?b");
    assert_eq!(refused.status, 503, "{refused:?}");
    let records = |event: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(httpd.root().join("tickets")).expect("the log");
        let records = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        records
            .filter(|record: &Value| record["event"] == event)
            .collect()
    };
    assert_eq!(records("issued")[0]["room"], "site");
    // The parent looks every ten seconds.
    wait_until("its end is told", PATIENCE, || {
        !records("expired").is_empty()
    });
    assert_eq!(records("expired")[0]["room"], "site");
    drop(held);
}
