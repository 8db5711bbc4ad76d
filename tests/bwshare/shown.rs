//! What is shown: to the refused, in the log, on the administrator's pages, and to clients who ask what they owe.

use crate::{LIMITS, get, passes, retry_after, site, trace};
use nap_testkit::wait_until;
use serde_json::Value;
use std::time::Duration;

#[test]
fn a_refusal_says_how_long_and_why_in_the_visitors_language_and_form() {
    let httpd = site(
        "BwShareFiles 1 0.0001\n<Location /old>\nBwShareStatus 200\n</Location>\n\
        <Location /busy>\nBwShareStatus 503\n</Location>\n\
        <Location /own>\nErrorDocument 429 \"our own words\"\n</Location>",
    )
    .start();
    let ask = |path: &str, head: &[(&str, &str)]| {
        let head = [&[("X-Forwarded-For", "192.0.2.1")], head].concat();
        httpd.request("GET", path, &head, b"")
    };
    assert_eq!(ask("/page.html", &[]).status, 200);
    let html = ask("/page.html", &[("Accept", "text/html")]);
    assert_eq!(html.status, 429);
    assert!(html.text().contains("Please wait 2:4"), "{}", html.text());
    assert_eq!(html.header("cache-control"), Some("no-store, private"));
    assert_eq!(
        html.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!((9_900..=10_000).contains(&retry_after(&html)));
    let ja = ask("/page.html", &[("Accept-Language", "ja")]);
    assert!(ja.text().contains("お待ちください"), "{}", ja.text());
    let json = ask("/page.html", &[("Accept", "application/json")]);
    for answer in [&ja, &json] {
        assert_eq!(answer.header("cache-control"), Some("no-store, private"));
    }
    let problem = json.json();
    assert_eq!(
        (&problem["status"], &problem["reason"]),
        (&429.into(), &"files".into())
    );
    assert_eq!(problem["retry_after"], retry_after(&json));
    assert!(html.text().contains("data-return-ms"), "{}", html.text());
    let head = [("X-Forwarded-For", "192.0.2.1"), ("Accept", "text/html")];
    let posted = httpd
        .request("POST", "/page.html", &head, b"name=value")
        .text();
    assert!(
        posted.contains("send it again") && !posted.contains("data-return-ms"),
        "{posted}"
    );
    for (path, status) in [("/old", 200), ("/busy", 503)] {
        let answer = ask(path, &[]);
        assert_eq!(answer.status, status);
        assert!((9_900..=10_000).contains(&retry_after(&answer)));
        let kept = answer.header("cache-control");
        assert_eq!(kept, Some("no-store, private"), "{path}");
    }
    let own = ask("/own", &[]);
    assert_eq!((own.status, own.text().as_str()), (429, "our own words"));
    assert!(retry_after(&own) >= 9_900);
    assert_eq!(own.header("cache-control"), Some("no-store, private"));
    // Its style is not refused, and the page requested by itself shows nothing.
    assert_eq!(ask("/nap-ticket/nap.css", &[]).status, 200);
    assert_eq!(ask("/nap-ticket/slow-down", &[]).status, 404);
}

/// An administrator who looks for refusals in the log finds them, however they were answered.
#[test]
fn the_log_says_for_which_debt_a_request_was_refused() {
    let httpd = site(
        "BwShareFiles 1 0.0001\nAlias /dry {root}/htdocs\n\
         <Location /dry>\nBwShare DryRun\n</Location>\n\
         <Location /own>\nErrorDocument 429 \"our own words\"\n</Location>\n\
         <Location /made>\nErrorDocument 429 /cgi-bin/slowly\n</Location>",
    )
    .access_log_format("%U %>s %{bwshare}n")
    .start();
    let asked = [
        "/page.html",
        "/page.html",
        "/own",
        "/made",
        "/dry/page.html",
    ];
    for (lines, path) in (1..).zip(asked) {
        get(&httpd, "192.0.2.1", path);
        // A request is logged a moment after its answer, perhaps after the next one.
        wait_until("it is logged", Duration::from_secs(20), || {
            httpd.access_log().lines().count() == lines
        });
    }
    let log = httpd.access_log();
    let said: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with("/bwshare"))
        .collect();
    let expected = [
        "/page.html 200 -",
        "/page.html 429 files",
        "/own 429 files",
        "/made 429 files",
        "/dry/page.html 200 files",
    ];
    assert_eq!(said, expected, "{log}");
}

#[test]
fn the_trace_shows_who_is_red() {
    let httpd = site(LIMITS).start();
    passes(&httpd, "192.0.2.1", "/page.html", 13);
    passes(&httpd, "192.0.2.2", "/page.html", 1);
    let html = httpd.get("/bwshare-trace/").text();
    assert_eq!(html.matches("class=\"red\"").count(), 1, "{html}");
    assert!(
        html.contains("over the limit: files") && html.contains("192.0.2.2"),
        "{html}"
    );
    let row = trace(&httpd, "192.0.2.1");
    assert_eq!((&row["files"], &row["refused"]), (&12.into(), &1.into()));
    assert_eq!(
        (&row["over_limit"], &row["file_debt_max"]),
        (&true.into(), &12.0.into())
    );
    let csv = httpd.get("/bwshare-trace?csv&client=192.0.2.2").text();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert!(
        httpd.get("/bwshare-info").text().contains("2 of 131"),
        "two clients in debt"
    );
}

#[test]
fn pages_have_either_spelling_and_names_only_when_asked_for() {
    let httpd = site(LIMITS)
        .config(
            "<Location /bwshare_trace>\nSetHandler bwshare_trace\nBwShare Off\n</Location>\n\
             <Location /bwshare_info>\nSetHandler bwshare_info\nBwShare Off\n</Location>",
        )
        .start();
    passes(&httpd, "127.0.0.1", "/page.html", 1);
    for path in [
        "/bwshare_trace",
        "/bwshare-trace/",
        "/bwshare_trace/by/path",
    ] {
        let html = httpd.get(path).text();
        assert!(
            html.contains("127.0.0.1") && !html.contains("localhost"),
            "{path}: {html}"
        );
    }
    let html = httpd.get("/bwshare-trace?names&sort=files").text();
    assert!(
        html.contains("<small>localhost"),
        "as the hosts file has it: {html}"
    );
    assert_eq!(trace(&httpd, "127.0.0.1")["name"], Value::Null);
    for path in ["/bwshare_info/", "/bwshare-info/x"] {
        assert!(
            httpd.get(path).text().contains("Limits of a client"),
            "{path}"
        );
    }
    assert_eq!(
        httpd.get("/bwshare_trace/x?csv").header("content-type"),
        Some("text/csv; charset=utf-8")
    );
}

#[test]
fn a_visitor_sees_what_he_owes_himself() {
    let httpd = site("BwShareFiles 12 0.0001")
        .config("<Location /mine>\nSetHandler bwshare-mine\nBwShare Off\n</Location>")
        .start();
    passes(&httpd, "192.0.2.1", "/page.html", 3);
    passes(&httpd, "192.0.2.2", "/page.html", 13);
    let own = get(&httpd, "192.0.2.1", "/mine");
    assert_eq!(own.header("cache-control"), Some("no-store, private"));
    let text = own.text();
    assert!(
        text.contains("3.0 of 12") && text.contains("need not wait"),
        "{text}"
    );
    let json = get(&httpd, "192.0.2.2", "/mine?json").json();
    assert_eq!(json["files"]["max"], 12.0);
    assert!(json["wait_s"].as_u64() > Some(9_900), "{json}");
    assert!(
        get(&httpd, "192.0.2.3", "/mine")
            .text()
            .contains("0.0 of 12")
    );
}

#[test]
fn horizons_limit_and_their_service_is_shown() {
    let horizons = "BwShareFiles 1000 1000\nBwShareBytes 1G 1G\nBwShareLink 1M\n\
                    BwShareHorizon 400000 1s 0.95\nBwShareHorizon 100 1h 0.9\n\
                    BwShareHorizon 50 8h 0.5";
    let httpd = site(horizons).start();
    // 180,000 bytes in the one-hour bucket and 720,000 in the eight-hour one: four of 50,000 and a little.
    let mut answers = (0..20).map(|_| get(&httpd, "192.0.2.1", "/large.bin"));
    let refused = answers.find(|answer| answer.status == 429);
    let refused = refused.expect("refused in the end");
    assert!(refused.text().contains("more data"), "{refused:?}");
    let row = trace(&httpd, "192.0.2.1");
    assert_eq!(
        (&row["files"], &row["reason"]),
        (&4.into(), &"horizon-2".into()),
        "{row}"
    );
    // The one-hour rate is 100 a second; its bucket pays off half of that.
    let owed = row["bytes"].as_f64().expect("a number") - 180_000.0;
    let (wait, most) = (retry_after(&refused) as f64, (owed / 50.0).ceil());
    assert!((most - 5.0..=most).contains(&wait), "{wait} s of {most}");
    let info = httpd.get("/bwshare-info?json").json();
    let limits = &info["limits"][0];
    assert_eq!(limits["link_bytes_per_s"], 1_048_576.0);
    assert_eq!(limits["horizons"][1]["steered_to"], 100.0);
    // Refused by the second: inside the third with all requests, inside the second with all but the last.
    let asked = info["requests"].as_f64().expect("a number");
    assert_eq!(info["horizon_shares"][2], 1.0);
    assert_eq!(info["horizon_shares"][1], (asked - 1.0) / asked);
    let html = httpd.get("/bwshare-info").text();
    assert!(
        html.contains("Share achieved") && html.contains("1.0 MB a second"),
        "{html}"
    );
    // A test of the line takes ten seconds: a megabyte is enough for the one client that came.
    nap_testkit::wait_until("a test is over", Duration::from_secs(30), || {
        let info = httpd.get("/bwshare-info?json").json();
        let achieved = &info["limits"][0]["horizons"];
        (0..3).all(|i| achieved[i]["achieved_share"] == 1.0)
    });
    // An IPv6 client's network does not count as another request.
    let before = httpd.get("/bwshare-info?json").json();
    for _ in 0..asked as usize {
        get(&httpd, "2001:db8:7:1::1", "/page.html");
    }
    let after = httpd.get("/bwshare-info?json").json();
    let missed = |info: &Value| {
        let share = info["horizon_shares"][1].as_f64().expect("a share");
        (1.0 - share) * info["requests"].as_f64().expect("a number")
    };
    assert!(
        (missed(&before) - missed(&after)).abs() < 1e-6,
        "{before} {after}"
    );
}
