//! Where a ticket's holder stands, asked of a real server: their own time, the early call when the load stops
//! early, and what is no ticket.

use nap_testkit::ticket::Ticket;
use nap_testkit::{Answer, Builder, Httpd, for_each_mpm, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const STATUS: &str = "/nap-ticket/status";

/// One permit, nobody waits; tickets are far ahead.
const ROOM: &str = "<NapRoom site>
NapRunReady 1
NapWaitMax 20s
NapWaitLimit 0
NapReAccess 4
NapTicketPrime 3s
NapTicketsPerClient 100000
NapPoll base=2s
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>";

fn site() -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .config(ROOM)
        .cgi(
            "app",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nserved\\n'\n",
        )
        .access_log_format("%U %>s %{nap-group}n %{nap-ticket-fate}n")
}

fn buy(httpd: &Httpd) -> Ticket {
    let refused = httpd.get("/cgi-bin/app");
    assert_eq!(refused.status, 503, "{refused:?}");
    Ticket::of(&refused)
}

fn ask(httpd: &Httpd, head: &[(&str, &str)]) -> Answer {
    let answer = httpd.request("GET", STATUS, head, b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer
}

#[test]
fn a_holder_is_told_where_he_stands_and_called_when_the_load_stops_early() {
    for_each_mpm(|mpm| {
        let httpd = site().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let ticket = buy(&httpd);
        let by_cookie = [("Cookie", ticket.cookie())];
        let by_cookie: Vec<_> = by_cookie.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let answer = ask(&httpd, &by_cookie);
        let told = answer.json();
        assert_eq!(
            (&told["state"], &told["call"]),
            (&"wait".into(), &false.into())
        );
        let (from, next) = (told["from"].as_f64(), told["ask"].as_f64());
        assert!(from > Some(15.0) && from <= Some(ticket.from), "{told}");
        assert!(next >= Some(2.0) && next < from, "{told}");
        assert_eq!(answer.header("nap-call"), None);
        let header = [("Nap-Ticket", ticket.token.as_str())];
        assert_eq!(ask(&httpd, &header).json()["state"], "wait");
        let query = httpd.get(&format!("{STATUS}?nap-ticket={}", ticket.token));
        assert_eq!(query.json()["ticket"], told["ticket"]);

        held.release();
        let mut called = answer;
        wait_until("the holder is called", PATIENCE, || {
            called = ask(&httpd, &header);
            called.header("nap-call") == Some("now")
        });
        let told = called.json();
        assert_eq!(
            (&told["state"], &told["call"]),
            (&"now".into(), &true.into())
        );
        assert!(told["from"].as_f64() > Some(0.0), "before its time: {told}");
        // Another visitor is faster; the holder is let in all the same, to wait for their turn.
        let other = httpd.hold("other", 1);
        let served = std::thread::scope(|scope| {
            let asks = scope.spawn(|| httpd.request("GET", "/cgi-bin/app", &header, b""));
            httpd.until_waiting(1);
            assert_eq!(ask(&httpd, &header).json()["state"], "in");
            other.release();
            asks.join().expect("an answer")
        });
        assert_eq!((served.status, served.text().as_str()), (200, "served\n"));
        assert_eq!(ask(&httpd, &header).json()["state"], "used");
        let gate = httpd.gate();
        assert_eq!(gate["calls"]["called"], 1, "{gate}");
        assert_eq!(gate["calls"]["came"], 1, "{gate}");
        assert_eq!(gate["promise"]["broken"], 0, "{gate}");
        wait_until("it is logged", PATIENCE, || {
            httpd
                .access_log()
                .contains("/cgi-bin/app 200 re-access called")
        });
    });
}

#[test]
fn any_answer_tells_a_holder_who_is_called_that_he_is() {
    for_each_mpm(|mpm| {
        let httpd = site()
            .file("htdocs/news.html", "news\n")
            .file("htdocs/private/a.html", "private\n")
            .config("<Location /private>\nRequire all denied\n</Location>")
            .expect_log("client denied by server configuration", "nobody may see it")
            .mpm(mpm)
            .start();
        let held = httpd.hold("full", 1);
        let ticket = buy(&httpd);
        let cookie = ticket.cookie();
        let with = |path: &str, more: &[(&str, &str)]| {
            let head = [&[("Cookie", cookie.as_str())], more].concat();
            httpd.request("GET", path, &head, b"")
        };
        let called = |path: &str, more: &[(&str, &str)]| {
            with(path, more).header("nap-call").map(str::to_owned)
        };
        assert_eq!(called("/news.html", &[]), None, "the room is full");
        held.release();
        // Pages cannot read the headers of what a browser only shows: nobody is called by it.
        let picture = [("Sec-Fetch-Dest", "image")];
        assert_eq!(called("/news.html", &picture), None);
        wait_until(
            "the holder is called by what a script has asked for",
            PATIENCE,
            || called("/news.html", &[("Sec-Fetch-Dest", "empty")]).as_deref() == Some("now"),
        );
        assert_eq!(httpd.gate()["calls"]["called"], 1);
        for path in ["/news.html", "/private/a.html", "/is/not/there"] {
            assert_eq!(called(path, &picture).as_deref(), Some("now"), "{path}");
        }
        let by_header = [("Nap-Ticket", ticket.token.as_str())];
        let answer = httpd.request("GET", "/news.html", &by_header, b"");
        assert_eq!(answer.header("nap-call"), Some("now"));
        // Others are told nothing.
        for head in [
            &[][..],
            &[("Cookie", "nap-site=x; a=b")],
            &[("Cookie", "a=b")],
        ] {
            let answer = httpd.request("GET", "/news.html", head, b"");
            assert_eq!((answer.status, answer.header("nap-call")), (200, None));
        }
        assert_eq!(httpd.gate()["calls"]["called"], 1);
        let served = with("/cgi-bin/app", &[]);
        assert_eq!((served.status, served.header("nap-call")), (200, None));
        assert_eq!(called("/news.html", &[]), None, "it has been used");
    });
}

#[test]
fn a_poll_closes_its_connection_unless_the_next_comes_on_it() {
    let httpd = site().config("KeepAlive On\nKeepAliveTimeout 5").start();
    let held = httpd.hold("full", 1);
    let ticket = buy(&httpd);
    let header = [("Nap-Ticket", ticket.token.as_str())];
    let closes = |answer: Answer| answer.header("connection") == Some("close");
    let answer = ask(&httpd, &header);
    let next = answer.json()["ask"].as_f64();
    assert!(next > Some(2.0), "{next:?}");
    assert_eq!(closes(answer), next > Some(5.0));
    assert!(!closes(ask(&httpd, &[])));
    drop(held);
}

#[test]
fn what_is_no_ticket_gets_a_plain_answer_and_leaves_nothing() {
    let httpd = site().start();
    let held = httpd.hold("full", 1);
    let ticket = buy(&httpd);
    let mut forged = ticket.token.clone();
    forged.replace_range(10..11, if &forged[10..11] == "A" { "B" } else { "A" });
    let before = httpd.gate();
    let none = serde_json::json!({"state": "none", "call": false});
    for token in ["", "x", forged.as_str()] {
        assert_eq!(
            ask(&httpd, &[("Nap-Ticket", token)]).json(),
            none,
            "{token}"
        );
    }
    assert_eq!(ask(&httpd, &[]).json(), none);
    let after = httpd.gate();
    for part in ["promise", "wait", "run_ready"] {
        assert_eq!(before[part], after[part]);
    }
    // With its own ticket, another site's script may read an answer.
    let head = [
        ("Nap-Ticket", ticket.token.as_str()),
        ("Origin", "http://other.example"),
    ];
    let exposed = ask(&httpd, &head);
    let exposed = exposed.header("access-control-expose-headers");
    assert!(
        exposed.is_some_and(|names| names.contains("Retry-After")),
        "{exposed:?}"
    );
    assert_eq!(httpd.request("POST", STATUS, &[], b"a=1").status, 405);
    drop(held);
}

#[test]
fn who_asks_needs_no_place_pays_no_debt_and_logs_in_nowhere() {
    let httpd = site()
        .config("BwShare On\nBwShareFiles 1 0.0001\nBwShareRule exact refused=0")
        .config("<Location />\nRequire ip 192.0.2.1\n</Location>")
        .config("<Location /cgi-bin>\nRequire all granted\n</Location>")
        .config("<Location /nap-info>\nRequire all granted\nBwShare Off\n</Location>")
        .start();
    for _ in 0..20 {
        assert_eq!(ask(&httpd, &[]).json()["state"], "none");
    }
}

/// As on Debian, where mod_deflate is configured like this: such a filter must be prepared before it is used.
#[test]
fn filters_by_type_are_ready_for_every_page_of_ours() {
    let httpd = site()
        .modules(&["filter", "deflate"])
        .config(
            "AddOutputFilterByType DEFLATE text/html text/css text/javascript image/svg+xml application/json\n\
             <Location /cgi-bin/soft>\nNapTicketStatus 200\n</Location>",
        )
        .cgi("soft", "#!/bin/sh\nexit 1\n")
        .start();
    let held = httpd.hold("full", 1);
    let cookie = buy(&httpd).cookie();
    let pages = ["", "/status", "/nap.css", "/nap.js", "/icon.svg"];
    let pages = pages.map(|page| format!("/nap-ticket{page}"));
    for path in pages.iter().map(String::as_str).chain(["/cgi-bin/soft"]) {
        let head = [
            ("Cookie", cookie.as_str()),
            ("Accept", "text/html"),
            ("Accept-Encoding", "gzip"),
        ];
        let answer = httpd.request("GET", path, &head, b"");
        let told = (answer.status, answer.header("content-encoding"));
        assert_eq!(told, (200, Some("gzip")), "{path}");
    }
    held.release();
}
