//! How the ticket page looks and reads in a real Chromium: each state in each language, narrow and wide,
//! light and dark. Only in `make test-all` (NAP_TEST=all). Pictures go to target/pages.

use nap_testkit::browser::Browser;
use nap_testkit::{Httpd, long};
use serde_json::json;

const PREVIEW: &str = "<Location /nap-preview>
SetHandler nap-preview
NapUse None
Require local
</Location>";

/// The links in the preview's list.
fn states(browser: &Browser, httpd: &Httpd) -> Vec<String> {
    browser.open(&format!("{}/nap-preview", httpd.url()));
    let links = browser.run("return [].map.call(document.links, function (a) { return a.href; })");
    let links = links.as_array().expect("a list").iter();
    let links: Vec<String> = links
        .filter_map(|l| l.as_str().map(str::to_owned))
        .collect();
    assert!(links.len() >= 30, "{links:?}");
    links
}

#[test]
fn every_state_is_accessible_and_fits_a_narrow_screen() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder().app().config(PREVIEW).start();
    let browser = Browser::start(&[], &json!({}));
    let looks = [
        (320, 640, false),
        (320, 640, true),
        (1280, 800, false),
        (1280, 800, true),
    ];
    let links = states(&browser, &httpd);
    // A page whose time has come would leave while it is examined.
    browser.on_each_page(
        "document.addEventListener('readystatechange', function () {
           document.getElementById('nap').dataset.stopped = '1';
         });",
    );
    for link in links {
        browser.open(&link);
        for (width, height, dark) in looks {
            browser.look_like(width, height, dark);
            let wide = browser.run("return document.documentElement.scrollWidth");
            // Narrower if a scroll bar stands beside it.
            assert!(
                wide.as_u64() <= Some(width.into()),
                "{link}: {wide} of {width}"
            );
            let found = browser.axe();
            assert_eq!(found["violations"], json!([]), "{link} {width} {dark}");
            assert!(found["passes"].as_u64() >= Some(15), "{link}: {found}");
        }
    }
}

/// Name, query, width, height, dark.
const PICTURES: &[(&str, &str, u32, u32, bool)] = &[
    ("ticket-en-500", "promise=soon&language=en", 500, 760, false),
    ("ticket-ja-500", "promise=soon&language=ja", 500, 760, false),
    ("ticket-en-320", "promise=soon&language=en", 320, 640, false),
    (
        "ticket-ja-320-dark",
        "promise=soon&language=ja",
        320,
        640,
        true,
    ),
    (
        "ticket-en-1280-dark",
        "promise=soon&language=en",
        1280,
        800,
        true,
    ),
    (
        "ticket-ja-1280",
        "promise=soon&language=ja",
        1280,
        800,
        false,
    ),
    (
        "form-en-500",
        "promise=soon&form=kept&language=en",
        500,
        760,
        false,
    ),
    (
        "form-ja-320",
        "promise=soon&form=kept&language=ja",
        320,
        640,
        false,
    ),
    (
        "lost-en-500-dark",
        "promise=soon&form=lost&language=en",
        500,
        760,
        true,
    ),
    (
        "none-en-500",
        "reason=cap&promise=none&language=en",
        500,
        760,
        false,
    ),
    (
        "now-en-500",
        "reason=early&promise=now&language=en",
        500,
        760,
        false,
    ),
];

#[test]
fn pictures_of_the_page() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder().app().config(PREVIEW).start();
    let browser = Browser::start(&["--hide-scrollbars"], &json!({}));
    let folder = nap_testkit::made::directory("pages");
    for (name, query, width, height, dark) in PICTURES {
        browser.look_like(*width, *height, *dark);
        browser.open(&format!("{}/nap-preview?{query}", httpd.url()));
        let picture = browser.picture();
        assert!(picture.len() > 5_000, "{name}: {} bytes", picture.len());
        std::fs::write(folder.join(format!("{name}.png")), picture).expect("target takes a file");
    }
}

#[test]
fn nothing_is_blocked_under_the_strictest_policy_that_allows_its_own_files() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder()
        .app()
        .modules(&["headers"])
        .config("Header always set Content-Security-Policy \"default-src 'self'\"")
        .config(PREVIEW)
        .start();
    let held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    let mut said = Vec::new();
    for link in states(&browser, &httpd) {
        browser.open(&link);
        said.extend(browser.console());
    }
    browser.open(&format!("{}/cgi-bin/app", httpd.url()));
    browser.until_shows("A ticket was issued to you");
    said.extend(browser.console());
    held.release();
    browser.until_shows("the application");
    // Chromium reports the refusal's own status as an error.
    said.retain(|line| !line.contains("status of 503"));
    assert_eq!(said, Vec::<String>::new());
    let policy = httpd.get("/nap-preview?promise=soon");
    assert_eq!(
        policy.header("content-security-policy"),
        Some("default-src 'self'")
    );
}

/// The last two examples of docs/own-page.md.
#[test]
fn a_static_page_learns_its_time_from_the_ticket_page() {
    if !long() {
        return;
    }
    let example = |start| nap_testkit::example_of("docs/own-page.md", start);
    let (page, script) = (example("<p>We are busy"), example("fetch(\"/nap-ticket\""));
    let httpd = Httpd::builder()
        .app()
        .config("<Location /cgi-bin/app>\nErrorDocument 503 /busy.html\n</Location>")
        .file("htdocs/busy.html", page)
        .file("htdocs/busy.js", script)
        .start();
    let held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    browser.open(&format!("{}/cgi-bin/app", httpd.url()));
    browser.until_shows("Your turn comes in ");
    held.release();
    browser.until_shows("the application");
    assert_eq!(httpd.asked(), ["GET  "]);
}
