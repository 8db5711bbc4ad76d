//! What mod_bwshare shows in a real Chromium: to visitors who owe too much, and to the administrator.

use nap_testkit::browser::Browser;
use nap_testkit::{Httpd, for_each_mpm, long, made, wait_until};
use serde_json::json;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

const PAGES: &str = "<Location /bwshare-info>\nSetHandler bwshare-info\n</Location>\n\
                     <Location /bwshare-trace>\nSetHandler bwshare-trace\n</Location>";

/// A visitor who has asked too much is told how long to wait and why, and is let in when the page comes back.
/// It comes back no second too early, or they would be refused again.
#[test]
fn who_owes_too_much_is_told_so_and_let_in_when_the_page_comes_back() {
    if !long() {
        return;
    }
    for_each_mpm(|mpm| {
        let page = "<!DOCTYPE html><link rel=icon href='data:,'><p>what was asked for";
        let httpd = Httpd::builder()
            .nap()
            .modules(&["mime"])
            .file("htdocs/page.html", page)
            .config("TypesConfig /dev/null\nAddType text/html .html\nBwShareFiles 2 0.25")
            .config("<Location /page.html>\nBwShare On\n</Location>")
            .config(PAGES)
            .mpm(mpm)
            .start();
        let browser = Browser::start(&["--lang=en"], &json!({}));
        // None of them is in Chromium's cache.
        let open = |n| browser.open(&format!("{}/page.html?{n}", httpd.url()));
        for n in 0..2 {
            open(n);
            browser.until_shows("what was asked for");
        }
        open(2);
        let text = browser.text();
        for words in [
            "Please wait 0:0",
            "Your address has asked for more pages and files than its share in a short time.",
            "Nothing else is wrong: you need only wait.",
            "This page comes back by itself when it is time.",
        ] {
            assert!(text.contains(words), "{mpm}: {words:?} in {text}");
        }
        browser.until_shows("what was asked for");
        let info = httpd.get("/bwshare-info?json").json();
        let counts = (&info["requests"], &info["refused_in_all"]);
        assert_eq!(counts, (&json!(4), &json!(1)), "{mpm}");
    });
}

/// Sixty clients, each with their own address; every tenth wants too many files, four want too many bytes.
fn visit(httpd: &Httpd) {
    for n in 1..=60 {
        let from = [("X-Forwarded-For", &*format!("192.0.2.{n}"))];
        let (path, times) = match n {
            n if n % 10 == 0 => ("/page.html", 60 + n),
            n if n % 14 == 0 => ("/large.bin", 12),
            n => ("/page.html", 1 + n % 30),
        };
        for _ in 0..times {
            httpd.request("GET", path, &from, b"");
        }
    }
}

#[test]
fn the_administrators_pages_are_accessible_and_fit_with_sixty_clients() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder()
        .nap()
        .modules(&["remoteip"])
        .file("htdocs/page.html", "a page\n".repeat(1000))
        .file("htdocs/large.bin", vec![b'x'; 1 << 20])
        .config("RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1")
        .config("BwShareFiles 50 0.01\nBwShareBytes 3500K 5K\nBwShareLink 700M")
        .config("BwShareHorizon 10M 1s 0.95\nBwShareHorizon 100K 1h 0.95")
        .config("BwShareHorizon 50K 8h 0.90")
        .config("<LocationMatch ^/(page|large)>\nBwShare On\n</LocationMatch>")
        .config(PAGES)
        .start();
    visit(&httpd);
    wait_until("a test of the line is over", PATIENCE, || {
        let info = httpd.get("/bwshare-info?json").json();
        info["limits"][0]["horizons"][0]["achieved_share"].is_number()
    });
    let browser = Browser::start(&["--hide-scrollbars"], &json!({}));
    let folder = made::directory("pages");
    for (page, width, height) in [("bwshare-info", 1000, 960), ("bwshare-trace", 1180, 1000)] {
        browser.look_like(width, height, false);
        browser.open(&format!("{}/{page}", httpd.url()));
        let found = browser.axe();
        assert_eq!(found["violations"], json!([]), "{page}");
        let wide = browser.run("return document.documentElement.scrollWidth");
        assert_eq!(wide, width, "{page}");
        let picture = folder.join(format!("{page}-{width}.png"));
        std::fs::write(picture, browser.view()).expect("target takes a file");
    }
    let red = browser.run("return document.querySelectorAll('tr.red').length");
    assert_eq!(red, 10, "over the limit");
}
