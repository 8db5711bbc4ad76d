//! Pages of a room: each has its own gate, chosen by the visitor's request.

use nap_testkit::{Builder, Httpd, Visitors, for_each_mpm, wait_until};
use serde_json::Value;
use std::io::Write as _;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// One access of each page at a time, nobody waits, tickets for all who are refused.
const SETTINGS: &str = "NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 4
NapTicketsPerClient 1000";

const APP: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe application\\n'\n";

/// A room over `/cgi-bin` with these pages.
fn site(pages: &str) -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .config(&format!("<NapRoom site>\n{SETTINGS}\n{pages}\n</NapRoom>"))
        .config("<Location /cgi-bin>\nNapUse site\n</Location>")
        .cgi("app", APP)
        .cgi("other", APP)
}

/// The gate with this name in the first room.
fn gate(httpd: &Httpd, name: &str) -> Value {
    let mut info = httpd.get("/nap-info?json").json();
    let gates = info["rooms"][0]["gates"].as_array_mut().expect("gates");
    let found = gates.iter_mut().find(|gate| gate["name"] == name);
    found.unwrap_or_else(|| panic!("no gate {name}")).take()
}

#[test]
fn a_full_page_refuses_its_own_visitors_alone() {
    for_each_mpm(|mpm| {
        let httpd = site("NapPage search \\?search$\nNapPage buy ^/cgi-bin/app$")
            .mpm(mpm)
            .start();
        let held = httpd.hold("search", 1);
        assert_eq!(httpd.get("/cgi-bin/hold?search").status, 503);
        assert_eq!(httpd.get("/cgi-bin/app").status, 200, "another page");
        assert_eq!(httpd.get("/cgi-bin/other").status, 200, "no page's");
        let other = httpd.hold("other", 1);
        assert_eq!(
            httpd.get("/cgi-bin/other").status,
            503,
            "the room's own gate"
        );
        assert_eq!(
            httpd.get("/cgi-bin/app?x=1").status,
            200,
            "a query is no part of a path"
        );
        for (name, passed, refused) in [("page search", 1, 1), ("page buy", 2, 0), ("", 2, 1)] {
            let gate = gate(&httpd, name);
            assert_eq!(gate["counts"]["passed"], passed, "{name}");
            assert_eq!(gate["counts"]["refused_in_all"], refused, "{name}");
        }
        drop((held, other));
        httpd.until_idle();
    });
}

#[test]
fn tickets_of_two_pages_live_side_by_side() {
    let httpd = site("NapPage a \\?a$\nNapPage b \\?b$").start();
    let held = [httpd.hold("a", 1), httpd.hold("b", 1)];
    let mut cookies = Vec::new();
    for name in ["a", "b"] {
        let refused = httpd.get(&format!("/cgi-bin/hold?{name}"));
        let cookie = refused.header("set-cookie").expect("a ticket").to_owned();
        assert!(cookie.starts_with(&format!("nap-site~{name}=")), "{cookie}");
        cookies.push(cookie.split(';').next().expect("a pair").to_owned());
    }
    // A visitor is told their own ticket for each page again, whatever else the cookies say.
    let both = cookies.join("; ");
    for name in ["a", "b"] {
        let path = format!("/cgi-bin/hold?{name}");
        let again = httpd.request("GET", &path, &[("Cookie", &both)], b"");
        assert_eq!(again.header("nap-reason"), Some("early"), "{name}");
    }
    drop(held);
    httpd.until_idle();
}

#[test]
fn a_page_is_told_by_what_was_asked_for_whoever_answers() {
    let httpd = Httpd::builder()
        .nap()
        .holding()
        .modules(&["rewrite"])
        .config(&format!(
            "<NapRoom site>\n{SETTINGS}\n<NapPage shown ^/(shop/$|front)>\nNapRunReady 3\n</NapPage>\n\
             NapPage never index\\.cgi$\n</NapRoom>"
        ))
        .config(
            "<Location />\nNapUse site\n</Location>\n<Location /nap-info>\nNapUse None\n</Location>
            <Files *.cgi>\nSetHandler cgi-script\n</Files>
            <Directory {root}/htdocs>\nOptions +ExecCGI\nDirectoryIndex index.cgi
            RewriteEngine On\nRewriteRule ^front /shop/index.cgi\n</Directory>",
        )
        .program("htdocs/shop/index.cgi", APP)
        .start();
    for path in ["/shop/", "/%73hop/", "/front/42", "/fro%6et"] {
        assert_eq!(httpd.get(path).status, 200, "{path}");
    }
    let shown = gate(&httpd, "page shown");
    assert_eq!(shown["counts"]["passed"], 4);
    assert_eq!(shown["settings"]["run_ready"], 3);
    assert_eq!(gate(&httpd, "page never")["counts"]["passed"], 0);
}

/// The requested URL is no file of the room; only the script is, to which a rule sends it.
#[test]
fn a_page_of_a_room_of_files_is_told_by_what_was_asked_for() {
    let httpd = Httpd::builder()
        .nap()
        .holding()
        .modules(&["rewrite"])
        .config(&format!(
            "<NapRoom site>\n{SETTINGS}\nNapPage cart ^/cart\nNapPage script ^/index\\.cgi$\n</NapRoom>\n\
             <FilesMatch \"\\.cgi$\">\nSetHandler cgi-script\nNapUse site\n</FilesMatch>\n\
             <Directory {{root}}/htdocs>\nOptions +ExecCGI\nRewriteEngine On\n\
             RewriteCond %{{REQUEST_FILENAME}} !-f\nRewriteRule ^(cart|item) /index.cgi\n</Directory>"
        ))
        .program("htdocs/index.cgi", APP)
        .start();
    for (path, page) in [
        ("/cart/7", "page cart"),
        ("/item/7", "page script"),
        ("/index.cgi", "page script"),
    ] {
        let passed = |httpd: &Httpd| gate(httpd, page)["counts"]["passed"].as_u64();
        let before = passed(&httpd);
        assert_eq!(httpd.get(path).status, 200, "{path}");
        assert_eq!(passed(&httpd), before.map(|n| n + 1), "{path}");
    }
}

#[test]
fn a_page_may_be_shared_between_rooms() {
    let httpd = site("NapPage hold /hold")
        .config(&format!(
            "<NapRoom guests>\n{SETTINGS}\nNapPage hold /hold room=site\n</NapRoom>\n\
             <LocationMatch guests$>\nNapUse guests\n</LocationMatch>"
        ))
        .config("ScriptAliasMatch ^/cgi-bin/hold/guests$ {root}/cgi-bin/hold")
        .start();
    let held = httpd.hold("site", 1);
    let refused = httpd.get("/cgi-bin/hold/guests");
    assert_eq!(refused.status, 503, "the one permit is taken");
    let cookie = refused.header("set-cookie").expect("a ticket");
    assert!(cookie.starts_with("nap-site~hold="), "{cookie}");
    let info = httpd.get("/nap-info?json").json();
    assert_eq!(info["rooms"][1]["gates"].as_array().map(Vec::len), Some(1));
    drop(held);
    httpd.until_idle();
}

#[test]
fn a_graceful_restart_changes_pages_in_place() {
    for_each_mpm(|mpm| {
        let room = |pages: &str| {
            format!(
                "<NapRoom site>\n{SETTINGS}\n{pages}\n</NapRoom>\n\
                 <Location /cgi-bin>\nNapUse site\n</Location>\n\
                 <Location /nap-info>\nSetHandler nap-info\n</Location>"
            )
        };
        let mut httpd = site("NapPage a \\?a$\nNapPage gone \\?gone$")
            .mpm(mpm)
            .expect_log(
                "AH01257:",
                "mod_cgid's new daemon has not given its socket away yet",
            )
            .start();
        let mut first = httpd.connect();
        write!(first, "GET /cgi-bin/hold?a HTTP/1.0\r\n\r\n").expect("httpd listens");
        wait_until("it runs", PATIENCE, || httpd.holding("a") == 1);
        let token = httpd
            .get("/cgi-bin/hold?a")
            .header("nap-ticket")
            .map(str::to_owned);
        httpd.reconfigure(&room(
            "<NapPage a \\?a$>\nNapRunReady 2\n</NapPage>\nNapPage new \\?new$",
        ));
        httpd.graceful();
        wait_until("programs run again", PATIENCE, || {
            httpd.get("/cgi-bin/app").status == 200
        });
        let second = httpd.ask_to_hold("a", 1);
        wait_until("both run", PATIENCE, || httpd.holding("a") == 2);
        assert_eq!(
            httpd.get("/cgi-bin/hold?a").status,
            503,
            "two run, one of them before"
        );
        let token = token.expect("a ticket");
        let path = "/cgi-bin/hold?a";
        let again = httpd.request("GET", path, &[("Nap-Ticket", &token)], b"");
        assert_ne!(
            again.header("nap-reason"),
            Some("unknown"),
            "it is still theirs"
        );
        assert_eq!(gate(&httpd, "page new")["run_ready"]["limit"], 1);
        drop(second);
        httpd.until_idle();
    });
}

/// The starting limit of `NapRunReady auto`.
fn auto_start() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    processors.max(2)
}

/// Where accesses only wait for something, twice as many at once do twice as much.
#[test]
fn a_limit_that_finds_itself_doubles_where_that_is_a_gain() {
    let start = auto_start();
    let httpd = Httpd::builder()
        .nap()
        .info()
        .workers(2, 8 * start)
        .config(&format!(
            "<NapRoom site>\nNapRunReady auto max={}\nNapWaitMax 1min\nNapWaitLimit {}\n</NapRoom>
            <Location /counter>\nNapUse site\n</Location>",
            2 * start,
            4 * start
        ))
        .expect_log(
            "wants MaxRequestWorkers",
            "more may wait than there are visitors",
        )
        .start();
    let visitors = Visitors::come(&httpd, 4 * start, "/counter?ms=200");
    let run = || gate(&httpd, "")["run_ready"].clone();
    wait_until("doubling has gained", Duration::from_secs(90), || {
        run()["middle"].as_f64() > Some(1.5 * f64::from(start))
    });
    let seen = run();
    visitors.leave();
    assert_eq!(
        (&seen["law"], &seen["max"]),
        (&"auto".into(), &(2 * start).into())
    );
    let course = seen["limit_recent"].as_array().expect("five minutes");
    let limits: Vec<u64> = course.iter().filter_map(Value::as_u64).collect();
    assert!(limits.contains(&start.into()), "{limits:?}");
    assert!(limits.contains(&(2 * start).into()), "{limits:?}");
    let moves = seen["moves"].as_array().expect("moves");
    let first: Vec<u64> = moves
        .iter()
        .filter_map(|step| step["limit"].as_u64())
        .collect();
    assert_eq!(
        first[..2],
        [start.into(), u64::from(2 * start)],
        "{first:?}"
    );
    assert_eq!(httpd.counter().max, u64::from(2 * start));
}

/// `progress=own`: a page whose work is done elsewhere finds its limit while another page, which shares this
/// machine, is being examined without a result.
#[test]
fn a_page_with_progress_of_its_own_waits_for_no_turn() {
    let start = auto_start();
    let httpd = Httpd::builder()
        .nap()
        .holding()
        .workers(2, 16 * start)
        .config(&format!(
            "<NapRoom site>
            NapRunReady auto
            NapWaitMax 5min
            NapWaitLimit {waiting}
            NapPage held ^/cgi-bin/hold
            <NapPage elsewhere ^/counter>
            NapRunReady auto progress=own max={most}
            </NapPage>
            </NapRoom>
            <Location /cgi-bin>\nNapUse site\n</Location>
            <Location /counter>\nNapUse site\n</Location>",
            waiting = 4 * start,
            most = 2 * start
        ))
        .expect_log(
            "wants MaxRequestWorkers",
            "more may wait than there are visitors",
        )
        .start();
    // Nobody finishes there meanwhile, and one more always waits.
    let held = httpd.ask_to_hold("a", start as usize + 1);
    httpd.until_waiting(1);
    let visitors = Visitors::come(&httpd, 4 * start, "/counter?ms=200");
    let run = |page: &str| gate(&httpd, page)["run_ready"].clone();
    wait_until("it has doubled", Duration::from_secs(50), || {
        run("page elsewhere")["limit"] == 2 * start
    });
    assert_eq!(run("page held")["limit"], start, "still looked at");
    visitors.leave();
    held.release();
    httpd.until_idle();
}

/// Limit and reason in each of the error log's lines about a page's moves.
fn moves_told(httpd: &Httpd, page: &str) -> Vec<(u64, String)> {
    let begins = format!("room site page {page}: run ready ");
    let of = |line: &str| {
        let (limit, rest) = line.split_once(&begins)?.1.split_once(" (")?;
        let why = rest.split([',', ')']).next()?;
        Some((limit.parse().ok()?, why.to_owned()))
    };
    httpd.error_log().lines().filter_map(of).collect()
}

/// ... and as `/nap-info` shows them.
fn moves_shown(httpd: &Httpd, page: &str) -> Vec<(u64, String)> {
    let run = gate(httpd, &format!("page {page}"))["run_ready"].clone();
    let moves = run["moves"].as_array().cloned().unwrap_or_default();
    let of = |step: &Value| Some((step["limit"].as_u64()?, step["why"].as_str()?.to_owned()));
    moves.iter().filter_map(of).collect()
}

#[test]
fn each_move_of_a_limit_is_told_at_debug_once() {
    let mut httpd = Httpd::builder()
        .nap()
        .workers(2, 32)
        .config(
            "LogLevel nap:debug
            <NapRoom site>\nNapRunReady 4\nNapWaitMax 1min\nNapWaitLimit 20
            <NapPage walks ^/counter$>\nNapRunReady paper min=1 max=4\n</NapPage>\n</NapRoom>
            <Location /counter>\nNapUse site\n</Location>
            <Location /nap-info>\nSetHandler nap-info\n</Location>",
        )
        .start();
    let visitors = Visitors::come(&httpd, 12, "/counter?ms=5");
    wait_until("it has moved", PATIENCE, || {
        moves_shown(&httpd, "walks").len() > 4
    });
    visitors.leave();
    // The parent logs them when it gets to it.
    wait_until("all are told", PATIENCE, || {
        moves_told(&httpd, "walks") == moves_shown(&httpd, "walks")
    });
    let before = moves_told(&httpd, "walks").len();
    httpd.graceful();
    let visitors = Visitors::come(&httpd, 12, "/counter?ms=5");
    wait_until("it goes on telling", PATIENCE, || {
        moves_told(&httpd, "walks").len() > before
    });
    visitors.leave();
    let told = moves_told(&httpd, "walks");
    let shown = moves_shown(&httpd, "walks");
    assert!(shown.starts_with(&told), "{told:?} of {shown:?}");
}
