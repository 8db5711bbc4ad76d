//! `NapPriority` on a real httpd: who is served earlier, and that the queue can be counted in work.

use nap_testkit::{Builder, Httpd, Mpm, for_each_mpm, wait_until};
use std::io::Write;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Records that it runs.
const NOTE: &str = r#"#!/bin/sh
echo "$QUERY_STRING" >>"$BOARD_DIR/order"
printf 'Content-Type: text/plain\r\n\r\nnoted\n'
"#;

fn site(lines: &str) -> Builder {
    nap_testkit::Httpd::builder()
        .nap()
        .holding()
        .config(&format!(
            "<NapRoom site>\nNapRunReady 1\nNapWaitMax 1min\n{lines}\n</NapRoom>"
        ))
        .config("<Location /cgi-bin>\nNapUse site\n</Location>")
        .cgi("note", NOTE)
        .expect_log("wants MaxRequestWorkers", "six visitors are no crowd")
}

/// Accesses that came to a full room one by one, in the order in which they ran.
fn order(site: Builder, come: &[&str]) -> Vec<String> {
    let httpd = site.start();
    let held = httpd.hold("first", 1);
    let mut visitors = Vec::new();
    for (before, query) in come.iter().enumerate() {
        visitors.push(httpd.get_later(&format!("/cgi-bin/note?{query}")));
        wait_until("it waits", PATIENCE, || httpd.waiting() == before + 1);
    }
    held.release();
    for visitor in visitors {
        assert_eq!(visitor.join().expect("no panic").status, 200);
    }
    ran(&httpd)
}

/// The accesses that have run, in order.
fn ran(httpd: &Httpd) -> Vec<String> {
    let said = std::fs::read_to_string(httpd.root().join("data/order")).expect("they have run");
    said.lines().map(str::to_owned).collect()
}

const COME: [&str; 5] = ["a", "b", "guest", "vip", "guest2"];

#[test]
fn the_highest_priority_whose_expression_is_true_counts() {
    let lines = "NapPriority 2 \"%{QUERY_STRING} =~ /^guest/\"
        NapPriority 6 \"%{QUERY_STRING} == 'vip'\"
        NapPriority 1 \"%{QUERY_STRING} == 'vip'\"";
    for_each_mpm(|mpm| {
        let order = order(site(lines).mpm(mpm), &COME);
        assert_eq!(order, ["vip", "guest", "guest2", "a", "b"]);
    });
}

#[test]
fn without_priorities_and_counted_in_work_they_run_as_they_came() {
    for lines in ["", "NapWaitLimit work"] {
        assert_eq!(order(site(lines), &COME), COME, "{lines}");
    }
}

const HEAVY: &str = "#!/bin/sh
sleep 3
printf 'Content-Type: text/plain\\r\\n\\r\\nheavy\\n'
";

/// Behind one light access another light one waits; a heavy one, which counts as many, has no place.
#[test]
fn counted_in_work_a_heavy_access_is_refused_where_a_light_one_waits() {
    for (limit, heavy_waits) in [("work", false), ("auto", true)] {
        let httpd = site(&format!("NapWaitLimit {limit}"))
            .mpm(Mpm::Event)
            .config("NapPark Off")
            .workers(1, 15)
            .cgi("heavy", HEAVY)
            .start();
        // This teaches how fast waiting accesses go, and what each kind takes: mostly little.
        let held = httpd.hold("first", 1);
        let light = |n| httpd.get_later(&format!("/cgi-bin/note?{n}"));
        let crowd: Vec<_> = (0..11).map(light).collect();
        httpd.until_waiting(11);
        let heavy = httpd.get_later("/cgi-bin/heavy");
        httpd.until_waiting(12);
        held.release();
        for one in crowd.into_iter().chain([heavy]) {
            assert_eq!(one.join().expect("no panic").status, 200);
        }
        (0..60).for_each(|_| assert_eq!(httpd.get("/cgi-bin/note").status, 200));

        let held = httpd.hold("second", 1);
        let before = light(11);
        httpd.until_waiting(1);
        let heavy = httpd.get_later("/cgi-bin/heavy");
        // A refused access is told so now, while the room is held.
        wait_until("the heavy one is in, or told", PATIENCE, || {
            heavy.is_finished() || httpd.waiting() == 2
        });
        assert_eq!(!heavy.is_finished(), heavy_waits, "{limit}");
        let behind = light(12);
        httpd.until_waiting(2 + usize::from(heavy_waits));
        held.release();
        let [before, heavy, behind] =
            [before, heavy, behind].map(|one| one.join().expect("no panic").status);
        assert_eq!([before, behind], [200, 200], "{limit}");
        assert_eq!(heavy, if heavy_waits { 200 } else { 503 }, "{limit}");
    }
}

/// An access that has been passed over for as much as a priority is worth is not passed over again.
#[test]
fn a_members_wait_counts_against_a_strangers_priority() {
    let site = site_of_sessions("NapPriority 1 \"%{QUERY_STRING} == 'vip'\"");
    let httpd = site.start();
    let cookie = sign_in(&httpd);
    let held = httpd.hold("first", 1);
    let url = format!("{}/cgi-bin/note?member", httpd.url());
    let member = std::thread::spawn(move || {
        nap_testkit::ask("GET", &url, &[("Cookie", &cookie)], b"").status
    });
    httpd.until_waiting(1);
    // An eighth of the bound.
    std::thread::sleep(Duration::from_millis(1100));
    let stranger = httpd.get_later("/cgi-bin/note?vip");
    httpd.until_waiting(2);
    held.release();
    assert_eq!(member.join().expect("an answer"), 200);
    assert_eq!(stranger.join().expect("an answer").status, 200);
    assert_eq!(ran(&httpd), ["member", "vip"]);
}

const LOGIN: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nhello\\n'\n";

/// A room of one access at once with sessions.
fn site_of_sessions(lines: &str) -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .config(&format!(
            "<NapRoom site>
            NapRunReady 1
            NapWaitMax 8s
            NapWaitLimit 10
            NapSession start=^/cgi-bin/login end=^/cgi-bin/bye
            NapSessionStart 1ms
            {lines}
            </NapRoom>
            <Location /cgi-bin>
            NapUse site
            </Location>"
        ))
        .cgi("note", NOTE)
        .cgi("login", LOGIN)
        .cgi("bye", LOGIN)
        .expect_log("wants MaxRequestWorkers", "six visitors are no crowd")
}

/// Signs in; the session's cookie.
fn sign_in(httpd: &Httpd) -> String {
    let answer = httpd.get("/cgi-bin/login");
    let cookie = answer.header("set-cookie").expect("of the session");
    cookie.split(';').next().expect("a pair").to_owned()
}

/// `NapPriority progress`: a visitor who has asked for nearly all that a session asks for is served before
/// one who came earlier and has just begun.
#[test]
fn who_is_nearest_the_end_of_a_session_runs_first() {
    for (lines, first) in [("NapPriority progress", "near"), ("", "far")] {
        for_each_mpm(|mpm| {
            let httpd = site_of_sessions(lines).mpm(mpm).start();
            let ask = |cookie: &str, path: &str| {
                let answer = httpd.request("GET", path, &[("Cookie", cookie)], b"");
                assert_eq!(answer.status, 200, "{answer:?}");
            };
            // What a session asks for is learnt from one that ends.
            let over = sign_in(&httpd);
            (0..6).for_each(|_| ask(&over, "/cgi-bin/note?over"));
            ask(&over, "/cgi-bin/bye");
            let (far, near) = (sign_in(&httpd), sign_in(&httpd));
            (0..6).for_each(|_| ask(&near, "/cgi-bin/note?near"));
            let held = httpd.hold("first", 1);
            let later = |cookie: String, who: &str| {
                let url = format!("{}/cgi-bin/note?{who}", httpd.url());
                std::thread::spawn(move || {
                    nap_testkit::ask("GET", &url, &[("Cookie", &cookie)], b"")
                })
            };
            let far = later(far, "far");
            httpd.until_waiting(1);
            let near = later(near, "near");
            httpd.until_waiting(2);
            held.release();
            for member in [far, near] {
                assert_eq!(member.join().expect("an answer").status, 200);
            }
            let ran = ran(&httpd);
            assert_eq!(ran[12], first, "{lines}: {ran:?}");
        });
    }
}

/// The paper's wasted work: a visitor who has closed the connection is not processed.
#[test]
fn who_has_gone_while_he_waited_is_not_processed() {
    for_each_mpm(|mpm| {
        let httpd = site("").mpm(mpm).start();
        let held = httpd.hold("first", 1);
        let ask = |who: &str| {
            let mut stream = httpd.connect();
            write!(stream, "GET /cgi-bin/note?{who} HTTP/1.0\r\n\r\n").expect("httpd listens");
            stream
        };
        let goes = ask("gone");
        httpd.until_waiting(1);
        let stays = httpd.get_later("/cgi-bin/note?stays");
        httpd.until_waiting(2);
        drop(goes);
        httpd.until_waiting(1);
        held.release();
        assert_eq!(stays.join().expect("no panic").status, 200);
        httpd.until_idle();
        assert_eq!(ran(&httpd), ["stays"]);
    });
}
