//! Sessions on a real httpd: members are never refused, starters wait for their turn, and a cookie that was
//! given to nobody is worth nothing.

mod many;
mod shown;

use nap_testkit::ticket::Ticket;
use nap_testkit::{Answer, Builder, Httpd, for_each_mpm, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

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
        let before_the_sale = Instant::now();
        let ticket = Ticket::of(&httpd.get("/cgi-bin/login"));
        let header = [("Nap-Ticket", ticket.token.as_str())];
        let ask = || {
            httpd
                .request("GET", "/nap-ticket/status", &header, b"")
                .json()
        };
        let told = ask();
        assert_eq!(told["state"], "wait", "{told}");
        let after_the_sale =
            told["ask"].as_f64().unwrap_or(0.0) + before_the_sale.elapsed().as_secs_f64();
        assert!(after_the_sale >= 1.0, "{told}");
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
