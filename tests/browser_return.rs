//! How the ticket page brings its visitor back, in a real Chromium: called before his time, hidden,
//! without a network, and used up by another tab. Only in `make test-all` (NAP_TEST=all).

mod httpd;

use httpd::browser::Browser;
use httpd::{Builder, Httpd, long, wait_until};
use serde_json::json;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(40);

const ROOM: &str = "<NapRoom site>
NapRunReady 1
NapWaitMax 20s
NapWaitLimit 0
NapReAccess 4
NapTicketPrime 3s
NapTicketsPerClient 100000
NapPoll base=1s
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>";

fn site() -> Builder {
    Httpd::builder().nap().holding().config(ROOM).cgi(
        "app",
        "#!/bin/sh\nprintf 'Content-Type: text/html\\r\\n\\r\\n<p>served'\n",
    )
}

fn asked(httpd: &Httpd) -> u64 {
    httpd.gate()["calls"]["asked"].as_u64().expect("a number")
}

/// Waits as a visitor who cannot wait for twenty seconds.
fn until_served(browser: &Browser) {
    wait_until("it is served", PATIENCE, || {
        browser.text().contains("served")
    });
}

#[test]
fn a_page_is_called_and_comes_back_before_its_time_also_when_it_is_hidden() {
    if !long() {
        return;
    }
    let httpd = site().start();
    let browser = Browser::start(&[], &json!({}));
    let held = httpd.hold("full", 1);
    browser.open(&format!("{}/cgi-bin/app", httpd.url()));
    browser.until_shows("as soon as there is room");
    let first = browser.run("return window.name = 'waits', 1");
    assert_eq!(first, 1);
    let before = asked(&httpd);
    // Its tab is behind another now.
    let waits = browser.handle();
    browser.new_tab();
    wait_until("it asks while it is hidden", PATIENCE, || {
        asked(&httpd) > before + 2
    });
    held.release();
    wait_until("it has been called and has come", PATIENCE, || {
        httpd.gate()["calls"]["came"] == 1
    });
    browser.switch_to(&waits);
    until_served(&browser);
    let gate = httpd.gate();
    assert_eq!(
        (&gate["calls"]["called"], &gate["promise"]["broken"]),
        (&json!(1), &json!(0))
    );
    // Nothing comes back any more: the page is the site's.
    let asked_then = asked(&httpd);
    assert_eq!(browser.run("return document.scripts.length"), 0);
    assert_eq!(asked(&httpd), asked_then);
    assert_eq!(browser.console(), [] as [String; 0]);
}

#[test]
fn without_a_network_the_page_stays_and_goes_on_when_it_is_back() {
    if !long() {
        return;
    }
    let httpd = site().start();
    let browser = Browser::start(&[], &json!({}));
    let held = httpd.hold("full", 1);
    browser.open(&format!("{}/cgi-bin/app", httpd.url()));
    browser.until_shows("as soon as there is room");
    browser.network(false);
    held.release();
    // It asks in vain: its time comes only later, and it would have been called at once.
    let failures = "return performance.getEntriesByType('resource').filter(function (e) {
        return e.name.indexOf('/status') > 0; }).length";
    wait_until("it has asked in vain", PATIENCE, || {
        browser.run(failures).as_u64() >= Some(2)
    });
    assert!(browser.text().contains("as soon as there is room"));
    browser.network(true);
    until_served(&browser);
}

#[test]
fn a_tab_whose_ticket_another_has_used_says_so_and_stays() {
    if !long() {
        return;
    }
    let httpd = site().start();
    let browser = Browser::start(&[], &json!({}));
    let held = httpd.hold("full", 1);
    let url = format!("{}/cgi-bin/app", httpd.url());
    browser.open(&url);
    browser.until_shows("as soon as there is room");
    let one = browser.handle();
    let other = browser.new_tab();
    browser.open(&url);
    browser.until_shows("as soon as there is room");
    // This one asks no more; the other is called and served.
    browser.run("document.getElementById('nap').dataset.stopped = '1'");
    browser.switch_to(&one);
    held.release();
    until_served(&browser);
    browser.switch_to(&other);
    browser.run("delete document.getElementById('nap').dataset.stopped; window.dispatchEvent(new Event('online'))");
    browser.until_shows("probably in another window");
    assert!(browser.text().contains("overloaded"), "it has stayed");
}

#[test]
fn another_sites_script_may_read_when_to_come_back() {
    if !long() {
        return;
    }
    let httpd = site()
        .config("<IfModule headers_module>\nHeader always set Access-Control-Allow-Origin *\n</IfModule>")
        .modules(&["headers"])
        .start();
    let other = site().start();
    let browser = Browser::start(&[], &json!({}));
    let held = httpd.hold("full", 1);
    browser.open(&format!("{}/cgi-bin/app", other.url()));
    let read = browser.run_async(&format!(
        "var done = arguments[arguments.length - 1];
         fetch('{}/cgi-bin/app').then(function (r) {{
           done([r.status, Number(r.headers.get('Retry-After')), r.headers.get('Nap-Ticket').length]);
         }}, function (e) {{ done(String(e)); }});",
        httpd.url()
    ));
    assert_eq!(read[0], 503, "{read}");
    assert!(
        read[1].as_u64() > Some(10) && read[2].as_u64() > Some(100),
        "{read}"
    );
    drop(held);
}
