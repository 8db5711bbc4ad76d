//! The demo's shop, with PHP and PostgreSQL behind a real httpd. Long form only: `make setup-all` installs
//! both.

use nap_testkit::shop::{PAGES, Shop};
use nap_testkit::{Answer, Httpd, long, made};
use serde_json::Value;
use std::process::Command;

/// Requests a page with the shop's cookie, or without.
fn ask(httpd: &Httpd, page: &str, cookie: &str) -> Answer {
    httpd.request("GET", &format!("/shop/{page}"), &[("Cookie", cookie)], b"")
}

/// Logs in; returns the cookie.
fn log_in(httpd: &Httpd) -> String {
    let answer = ask(httpd, "login", "");
    assert_eq!(answer.status, 200);
    let cookie = answer.header("set-cookie").expect("a cookie");
    cookie.split(';').next().expect("a pair").to_string()
}

#[test]
fn a_visit_begins_at_the_login_and_ends_at_the_logout() {
    if !long() {
        return;
    }
    let shop = Shop::start(&[("SHOP_SESSIONS", "1"), ("SHOP_ROUNDS", "1")]);
    let httpd = Httpd::builder().shop(&shop).start();
    assert_eq!(ask(&httpd, "new", "").status, 403);
    assert_eq!(
        ask(&httpd, "new", "shop=0123456789abcdef0123456789abcdef").status,
        403
    );
    let cookie = log_in(&httpd);
    for page in [
        "new",
        "list?category=3",
        "article?article=77",
        "search?q=77",
    ] {
        let answer = ask(&httpd, page, &cookie);
        assert_eq!(answer.status, 200, "{page}");
        assert!(answer.text().contains("Model"), "{page}: {}", answer.text());
    }
    assert!(
        ask(&httpd, "search?q=77", &cookie)
            .text()
            .contains("Model 0077")
    );
    let order = httpd.request("POST", "/shop/buy", &[("Cookie", &cookie)], b"article=77");
    assert_eq!(order.status, 200);
    // One visit at once is allowed, and that one is here.
    assert_eq!(ask(&httpd, "login", "").status, 503);
    assert_eq!(ask(&httpd, "logout", &cookie).status, 200);
    assert_eq!(ask(&httpd, "new", &cookie).status, 403);
    log_in(&httpd);
}

#[test]
fn sessions_of_a_crowd_come_to_their_end() {
    if !long() {
        return;
    }
    let shop = Shop::start(&[("SHOP_ROUNDS", "1")]);
    let room = "<NapRoom shop>\n<NapPage search ^/shop/search$>\nNapRunReady 1\n</NapPage>\n\
                NapSession cookie=shop start=^/shop/login$ end=^/shop/logout$ idle=2min\n\
                NapSessionStart 100ms\nNapWaitMax 1s\n</NapRoom>\n\
                <Location /shop>\nNapUse shop\n</Location>\n\
                <Location /nap-info>\nSetHandler nap-info\n</Location>";
    let httpd = Httpd::builder()
        .workers(2, 32)
        .nap()
        .config(room)
        .expect_log(
            "NapWaitMax 1s: tickets are sold for at most",
            "the bound is short",
        )
        .shop(&shop)
        .start();
    let output = Command::new(made::file("release/nap-load"))
        .args([
            "sessions",
            "--clients",
            "24",
            "--sessions",
            "2",
            "--think",
            "10ms",
            "--timeout",
            "1min",
        ])
        .args(["--json", "-", &httpd.url()])
        .args(PAGES)
        .output()
        .expect("nap-load runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["sessions"]["completed"], 48, "{report:#}");
    assert_eq!(report["mid_session_failures"], 0, "{report:#}");
    // Ten a second may start: some of a crowd are told when to come, and each of them is let in then.
    assert_ne!(report["tickets"]["issued"], 0, "{report:#}");
    assert_eq!(report["promises"]["broken"], 0, "{report:#}");
    let info = httpd.get("/nap-info?json").json();
    let sessions = &info["rooms"][0]["sessions"];
    assert_eq!(
        (&sessions["started"], &sessions["finished"]),
        (&48.into(), &48.into())
    );
    assert_eq!(sessions["refused_members"], 0);
}
