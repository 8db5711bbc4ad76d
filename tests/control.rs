//! `nap-control` on a real httpd: whose orders are accepted, and what each does to visitors.

use nap_testkit::browser::Browser;
use nap_testkit::{Answer, Builder, Httpd, wait_until};
use std::time::Duration;

const SITE: &str = r#"
<NapRoom site>
NapRunReady 2
NapWaitLimit 4
NapTicketsPerClient 1000
</NapRoom>
<Location />
NapUse site
</Location>
<LocationMatch "^/(nap-info|nap-control)">
NapUse None
BwShare Off
</LocationMatch>
<Location /nap-control>
SetHandler nap-control
</Location>
"#;

const DONE: (&str, &str) = ("nap-control (no user name): ", "what it is for");

fn site() -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .config(SITE)
        .config("NapControl /nap-control")
        .expect_log(DONE.0, DONE.1)
}

fn nonce(httpd: &Httpd) -> String {
    let info = httpd.get("/nap-info?json").json();
    info["control"]["nonce"]
        .as_str()
        .expect("it is on")
        .to_owned()
}

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// Sends an order as curl does.
fn order(httpd: &Httpd, body: &str) -> Answer {
    let nonce = nonce(httpd);
    let head = [
        FORM,
        ("Sec-Fetch-Site", "same-origin"),
        ("X-Nap-Control", &nonce),
    ];
    httpd.request("POST", "/nap-control", &head, body.as_bytes())
}

fn done(httpd: &Httpd, body: &str) -> String {
    let answer = order(httpd, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

fn reason(answer: &Answer) -> Option<&str> {
    answer.header("nap-reason")
}

/// Headers, body, status.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, u16);

#[test]
fn it_listens_to_its_own_pages_with_a_nonce_only() {
    let httpd = site().start();
    let good = nonce(&httpd);
    let own = format!("http://127.0.0.1:{}", httpd.port());
    let body = format!("do=close&room=site&nonce={good}");
    let ask = |head: &[(&str, &str)], body: &str| {
        httpd
            .request("POST", "/nap-control", head, body.as_bytes())
            .status
    };
    let same = ("Sec-Fetch-Site", "same-origin");
    let header = ("X-Nap-Control", good.as_str());
    let refused: [Case<'_>; 9] = [
        (&[FORM], &body, 403),
        (&[FORM, header], "do=close&room=site", 403),
        (
            &[FORM, ("Sec-Fetch-Site", "cross-site"), ("Origin", &own)],
            &body,
            403,
        ),
        (&[FORM, ("Sec-Fetch-Site", "same-site")], &body, 403),
        (&[FORM, ("Origin", "http://evil.example")], &body, 403),
        (&[FORM, ("Origin", "null"), ("Referer", &own)], &body, 403),
        (&[FORM, same], "do=close&room=site", 403),
        (&[FORM, same, ("X-Nap-Control", &good[1..])], &body, 403),
        (&[("Content-Type", "text/plain"), same, header], &body, 415),
    ];
    for (head, body, status) in refused {
        assert_eq!(ask(head, body), status, "{head:?}");
    }
    assert_eq!(ask(&[FORM, same, header], "do=dance&room=site"), 400);
    assert_eq!(ask(&[FORM, same, header], "do=close&room=other"), 404);
    let all = "do=close&room=site&scope=fleet";
    assert_eq!(ask(&[FORM, same, header], all), 400, "there is none");
    assert_eq!(ask(&[FORM, same, header], &"x".repeat(9000)), 413);
    assert_eq!(httpd.get("/counter").status, 200, "nothing has been done");
    let get = httpd.get("/nap-control");
    assert_eq!(get.status, 405);
    let allow = get.header("allow").unwrap_or_default();
    assert!(allow.contains("POST") && !allow.contains("GET"), "{allow}");
    assert_eq!(get.header("access-control-allow-origin"), None);

    assert_eq!(ask(&[FORM, ("Origin", &own)], &body), 200, "the form");
    assert_eq!(reason(&httpd.get("/counter")), Some("closed"));
    assert_eq!(ask(&[FORM, same, header], "do=open&room=site"), 200, "curl");
    assert_eq!(httpd.get("/counter").status, 200);
    let log = httpd.error_log();
    assert!(log.contains("room site is closed"), "{log}");
    assert!(log.contains("not done: its nonce is missing"), "{log}");
}

#[test]
fn it_is_off_unless_the_main_configuration_says_where_it_is() {
    let elsewhere = "<Location /elsewhere>\nNapUse None\nSetHandler nap-control\n</Location>";
    let off = Httpd::builder()
        .nap()
        .holding()
        .config(SITE)
        .config(elsewhere)
        .start();
    let head = [FORM, ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(
        off.request("POST", "/nap-control", &head, b"do=close")
            .status,
        404
    );
    assert!(off.get("/nap-info?json").json()["control"].is_null());
    assert!(!off.get("/nap-info").text().contains("<form"));
    drop(off);
    let on = site().config(elsewhere).start();
    assert_eq!(
        on.request("POST", "/elsewhere", &head, b"do=close").status,
        404
    );
    let page = on.get("/nap-info").text();
    assert!(page.contains("<form class=\"control\" method=\"post\" action=\"/nap-control\">"));
    assert!(!page.contains("name=\"scope\""), "there is no fleet");
    let said = Httpd::configtest("NapControl nap-control").expect_err("no path");
    assert!(
        said.contains("NapControl: \"nap-control\" is neither Off nor a path"),
        "{said}"
    );
}

#[test]
fn a_closed_room_lets_nobody_in_and_who_is_in_finishes() {
    let httpd = site().start();
    let held = httpd.hold("a", 2);
    let waits = httpd.get_later("/counter");
    httpd.until_waiting(1);
    assert!(done(&httpd, "do=close&room=site").contains("room site is closed"));
    let refused = httpd.get("/counter");
    assert_eq!((refused.status, reason(&refused)), (503, Some("closed")));
    assert_eq!(refused.header("nap-ticket"), None, "none is sold");
    held.release();
    assert_eq!(
        waits.join().expect("no panic").status,
        200,
        "they had a place already"
    );
    assert_eq!(
        httpd.get("/counter").status,
        503,
        "permits are free, and it is closed"
    );
    let mut httpd = httpd;
    httpd.graceful();
    assert_eq!(
        reason(&httpd.get("/counter")),
        Some("closed"),
        "after a graceful restart too"
    );
    done(&httpd, "do=open&room=site");
    assert_eq!(httpd.get("/counter").status, 200);
}

#[test]
fn everybody_is_sent_to_tickets_and_holders_are_let_in() {
    let httpd = site().start();
    done(&httpd, "do=tickets&room=site");
    let refused = httpd.get("/counter");
    assert_eq!((refused.status, reason(&refused)), (503, Some("full")));
    let ticket = refused.header("nap-ticket").expect("it is sold").to_owned();
    let come = || httpd.request("GET", "/counter", &[("Nap-Ticket", &ticket)], b"");
    wait_until("the time has come", Duration::from_secs(30), || {
        come().status == 200
    });
    let room = httpd.gate();
    assert_eq!(room["promise"]["kept"], 1, "in the prime window: {room}");
    assert_eq!(room["by_hand"]["admits"], "tickets");
}

#[test]
fn a_revoked_ticket_is_good_no_more_and_its_holder_is_told_so() {
    let httpd = site().start();
    done(&httpd, "do=tickets&room=site");
    let refused = httpd.get("/counter");
    let ticket = refused.header("nap-ticket").expect("it is sold").to_owned();
    let info = httpd.get("/nap-info?json").json();
    let id = info["tickets"][0]["id"].as_str().expect("an id").to_owned();
    let come = || httpd.request("GET", "/counter", &[("Nap-Ticket", &ticket)], b"");
    assert_eq!(reason(&come()), Some("early"));
    done(&httpd, &format!("do=revoke&ticket={id}"));
    assert_eq!(reason(&come()), Some("used"));
}

/// Signs in with the application's own cookie, whose value is the query.
const LOGIN: &str = "#!/bin/sh
printf 'Content-Type: text/plain\\r\\nSet-Cookie: SID=%s; Path=/\\r\\n\\r\\nhello\\n' \"$QUERY_STRING\"
";

#[test]
fn a_revoked_session_is_over_and_what_it_has_under_way_is_finished() {
    let sessions = SITE.replace(
        "NapWaitLimit 4",
        "NapWaitLimit 0\nNapSession cookie=SID start=^/cgi-bin/login\nNapSessionStart 1ms",
    );
    let httpd = Httpd::builder()
        .nap()
        .holding()
        .config(&sessions)
        .config("NapControl /nap-control")
        .cgi("login", LOGIN)
        .expect_log(DONE.0, DONE.1)
        .start();
    let come = |value: &str| {
        let cookie = format!("SID={value}");
        httpd.request("GET", "/counter", &[("Cookie", &cookie)], b"")
    };
    for value in ["a", "b", "c"] {
        let login = format!("/cgi-bin/login?{value}");
        assert_eq!(httpd.get(&login).status, 200);
    }
    let info = || httpd.get("/nap-info?json").json();
    let sessions = |what: &str| info()["rooms"][0]["sessions"][what].clone();
    let listed = info()["sessions"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(3), "{listed}");

    let held = httpd.hold("a", 2);
    let member = {
        let url = format!("{}/counter", httpd.url());
        std::thread::spawn(move || {
            nap_testkit::ask("GET", &url, &[("Cookie", "SID=a")], b"").status
        })
    };
    httpd.until_waiting(1);
    // One by its cookie, one by its id, of the two that are left.
    let said = done(&httpd, "do=revoke&room=site&cookie=a");
    assert_eq!(said, "the session of this cookie in room site is over\n");
    assert_eq!(come("a").status, 503, "a stranger, and it is full");
    let left = info()["sessions"].clone();
    let left: Vec<&str> = left
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["id"].as_str())
        .collect();
    assert_eq!(left.len(), 2);
    done(&httpd, &format!("do=revoke&session={}", left[0]));
    assert_eq!(
        (sessions("revoked"), sessions("in_table")),
        (2.into(), 1.into())
    );
    assert_eq!(order(&httpd, "do=revoke&room=site&cookie=a").status, 404);
    assert_eq!(
        order(&httpd, &format!("do=revoke&session={}", left[0])).status,
        404
    );
    assert_eq!(order(&httpd, "do=revoke&room=other&cookie=b").status, 404);
    assert!(
        !httpd.error_log().contains("cookie=a"),
        "its value is a secret"
    );
    held.release();
    assert_eq!(member.join().expect("an answer"), 200, "it waited already");

    // A limit set by hand applies to the pages, and the page says so.
    done(&httpd, "do=limit&room=site&limit=3");
    assert!(
        httpd
            .get("/nap-info")
            .text()
            .contains("Run Ready is fixed at 3.")
    );
}

#[test]
fn a_limit_is_fixed_and_taken_back() {
    let httpd = site().start();
    let limit = || httpd.gate()["run_ready"]["limit"].clone();
    assert_eq!(limit(), 2);
    done(&httpd, "do=limit&room=site&limit=3");
    assert_eq!(limit(), 3);
    let held = httpd.hold("a", 3);
    held.release();
    let mut httpd = httpd;
    httpd.graceful();
    assert_eq!(httpd.gate()["run_ready"]["limit"], 3, "configured is 2");
    done(&httpd, "do=limit&room=site&limit=");
    assert_eq!(httpd.gate()["run_ready"]["limit"], 2);
}

#[test]
fn a_notice_is_told_to_who_is_refused_and_is_escaped() {
    let httpd = site().start();
    done(
        &httpd,
        "do=notice&room=site&notice=Back+at+14%3A00+%3Cb%3E%26",
    );
    done(&httpd, "do=close&room=site");
    let page = |accept| {
        httpd
            .request("GET", "/counter", &[("Accept", accept)], b"")
            .text()
    };
    let html = page("text/html");
    assert!(
        html.contains("<p class=\"notice\">Back at 14:00 &#60;b&#62;&#38;</p>"),
        "{html}"
    );
    assert!(page("text/plain").contains("\nBack at 14:00 <b>&\n"));
    assert!(page("application/json").contains("\"notice\":\"Back at 14:00 <b>&\""));
    done(&httpd, "do=notice&room=site&notice=");
    assert!(!page("text/html").contains("Back at"));
    assert!(!page("application/json").contains("notice"));
}

#[test]
fn a_forgiven_client_owes_nothing() {
    let limits = "BwShare On\nBwShareFiles 3 0.001";
    let httpd = site().config(limits).start();
    let statuses: Vec<u16> = (0..4).map(|_| httpd.get("/counter").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    let said = done(&httpd, "do=forgive&client=127.0.0.1");
    assert_eq!(said, "client 127.0.0.1 owes nothing\n");
    assert_eq!(httpd.get("/counter").status, 200);
    let said = done(&httpd, "do=forgive&client=192.0.2.1");
    assert_eq!(said, "client 192.0.2.1 owes nothing; there was no debt\n");
}

#[test]
fn a_forgiven_clients_network_owes_nothing_either() {
    let limits = "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1\n\
                  BwShareFiles 1 0.001\n<Location /counter>\nBwShare On\n</Location>";
    let httpd = site().modules(&["remoteip"]).config(limits).start();
    let get = |n: u32| {
        let client = format!("2001:db8:7:{n:x}::1");
        let head = [("X-Forwarded-For", client.as_str())];
        httpd.request("GET", "/counter", &head, b"").status
    };
    let statuses: Vec<u16> = (0..9).map(get).collect();
    assert_eq!(statuses, [[200; 8].as_slice(), &[429]].concat());
    done(&httpd, "do=forgive&client=2001:db8:7:8::1");
    assert_eq!(get(8), 200);
}

#[test]
fn a_browser_is_sent_back_to_the_page_it_came_from() {
    let httpd = site().start();
    let nonce = nonce(&httpd);
    let head = [
        FORM,
        ("Sec-Fetch-Site", "same-origin"),
        ("Accept", "text/html,*/*"),
    ];
    let send = |back: &str| {
        let body = format!("do=open&room=site&nonce={nonce}&back={back}");
        httpd.request("POST", "/nap-control", &head, body.as_bytes())
    };
    let answer = send("/nap-info");
    assert_eq!(answer.status, 303);
    let to = answer.header("location").expect("a way back");
    assert!(to.ends_with("/nap-info"), "{to}");
    assert_eq!(
        send("//evil.example/").status,
        200,
        "nobody is sent elsewhere"
    );
}

/// The buttons of /nap-info, in a real Chromium: `make test-all` (NAP_TEST=all).
#[test]
fn the_page_s_own_buttons_close_open_fix_and_tell() {
    if !nap_testkit::long() {
        return;
    }
    let httpd = site().start();
    let browser = Browser::start(&[], &serde_json::json!({}));
    browser.open(&format!("{}/nap-info", httpd.url()));
    // The page refreshes itself; once paused, typing and clicking act on what is there.
    let pause = || browser.run("document.getElementById('pause').click()");
    pause();
    browser.click("button[value=close]");
    browser.until_shows("closed. Nobody is let in.");
    assert_eq!(httpd.get("/counter").status, 503);
    pause();
    browser.run("document.querySelector('input[name=notice]').value = 'back at <noon>'");
    browser.click("button[value=notice]");
    browser.until_shows("Notice: back at <noon>");
    let refused = httpd.get("/counter").text();
    assert!(refused.contains("back at &#60;noon&#62;"), "{refused}");
    pause();
    browser.run("document.querySelector('input[name=limit]').value = '3'");
    browser.click("button[value=limit]");
    browser.until_shows("Run Ready is fixed at 3.");
    pause();
    browser.click("button[value=open]");
    browser.until_shows("open.");
    assert_eq!(httpd.get("/counter").status, 200);
    assert!(browser.run("return location.pathname") == "/nap-info");
}
