//! How the ticket page brings its visitor back, in a real Chromium: called before their time, hidden, after a
//! sleep, without a network, and used up by another tab. Only in `make test-all` (NAP_TEST=all): under each
//! MPM, all three at a time.

use nap_testkit::browser::Browser;
use nap_testkit::{Builder, Httpd, Mpm, example_of, long, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// One permit, nobody waits; a ticket begins one bound from now.
fn site(mpm: Mpm, bound: &str) -> Builder {
    let room = format!(
        "Timeout 900\n<NapRoom site>\nNapRunReady 1\nNapWaitMax {bound}\nNapWaitLimit 0\nNapReAccess 4\n\
         NapTicketPrime 30s\nNapTicketsPerClient 100000\nNapPoll base=1s\n</NapRoom>\n\
         <Location /cgi-bin>\nNapUse site\n</Location>"
    );
    // An icon of its own, or the browser requests one that does not exist.
    Httpd::builder().mpm(mpm).nap().access_log_format("%t %r %>s %D").holding().config(&room).cgi(
        "app",
        "#!/bin/sh\nprintf 'Content-Type: text/html\\r\\n\\r\\n<link rel=icon href=data:,><p>served'\n",
    )
}

fn under_each(test: fn(Mpm)) {
    if !long() {
        return;
    }
    std::thread::scope(|scope| {
        for mpm in Mpm::ALL {
            scope.spawn(move || test(mpm));
        }
    });
}

fn asked(httpd: &Httpd) -> u64 {
    httpd.gate()["calls"]["asked"].as_u64().expect("a number")
}

/// The page of a ticket is open, and asks.
fn open(browser: &Browser, httpd: &Httpd) {
    browser.open(&format!("{}/cgi-bin/app", httpd.url()));
    browser.until_shows("as soon as there is room");
}

fn until_served(browser: &Browser) {
    wait_until("it is served", PATIENCE, || {
        browser.text().contains("served")
    });
}

/// The visitor was served once, and the page is the site's: nothing asks or comes again.
fn stays(browser: &Browser, httpd: &Httpd) {
    assert_eq!(browser.run("return document.scripts.length"), 0);
    let asked_then = asked(httpd);
    browser.run_async("setTimeout(arguments[arguments.length - 1], 5000)");
    assert_eq!(asked(httpd), asked_then);
    let served = httpd.access_log();
    let served = served
        .lines()
        .filter(|line| line.contains("GET /cgi-bin/app HTTP/1.1 200"));
    assert_eq!(served.count(), 1);
    // Chromium reports the refusal's own status as an error, and also that a network interface has come or
    // gone: containers in the other lane of `make test-all` have some.
    let theirs = ["status of 503", "ERR_NETWORK_CHANGED"];
    let said = browser.console();
    let other: Vec<_> = said
        .iter()
        .filter(|line| !theirs.iter().any(|part| line.contains(part)))
        .collect();
    assert_eq!(other, [] as [&String; 0]);
}

#[test]
fn a_page_is_called_and_comes_back_before_its_time_also_when_it_is_hidden() {
    under_each(|mpm| {
        let httpd = site(mpm, "2min").start();
        let browser = Browser::start(&[], &json!({}));
        let held = httpd.hold("full", 1);
        open(&browser, &httpd);
        let before = asked(&httpd);
        // Its tab is behind another one now.
        let waits = browser.handle();
        browser.new_tab();
        wait_until("it asks while it is hidden", PATIENCE, || {
            asked(&httpd) > before
        });
        held.release();
        let begin = Instant::now();
        while httpd.gate()["calls"]["came"] != 1 {
            let log = || {
                httpd
                    .access_log()
                    .lines()
                    .filter(|line| !line.contains("nap-info"))
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            assert!(
                begin.elapsed() < PATIENCE,
                "{mpm}: not called: {}\n{}",
                httpd.gate(),
                log()
            );
        }
        browser.switch_to(&waits);
        until_served(&browser);
        let gate = httpd.gate();
        assert_eq!(
            (&gate["calls"]["called"], &gate["promise"]["broken"]),
            (&json!(1), &json!(0)),
            "{mpm}"
        );
        stays(&browser, &httpd);
    });
}

#[test]
fn a_page_that_is_hidden_for_six_minutes_comes_back_at_its_time() {
    under_each(|mpm| {
        let httpd = site(mpm, "6min").start();
        let browser = Browser::start(&[], &json!({}));
        let held = httpd.hold("full", 1);
        open(&browser, &httpd);
        let left = browser.run("return Number(document.getElementById('nap').dataset.returnMs)");
        let start = Instant::now() + Duration::from_millis(left.as_u64().expect("a number"));
        let waits = browser.handle();
        browser.new_tab();
        assert!(start > Instant::now() + Duration::from_secs(350), "{left}");
        let minute = Duration::from_secs(60);
        wait_until("it has come", start + minute - Instant::now(), || {
            httpd.waiting() == 1
        });
        let late = Instant::now().saturating_duration_since(start);
        eprintln!("{mpm}: after {left} ms, hidden, it came {late:?} after its start");
        held.release();
        browser.switch_to(&waits);
        until_served(&browser);
        assert_eq!(httpd.gate()["promise"]["broken"], 0, "{mpm}");
        stays(&browser, &httpd);
    });
}

/// The script does not run: the site's policy, or a front end that denies its path, prevents it.
#[test]
fn a_page_whose_script_is_blocked_comes_back_at_its_time() {
    under_each(|mpm| {
        let policy = "<LocationMatch ^/(cgi-bin|nap-ticket)>\nHeader always set Content-Security-Policy \
                      \"script-src 'nonce-x' 'strict-dynamic'\"\n</LocationMatch>";
        for policy in [Some(policy), None] {
            let httpd = site(mpm, "8s").modules(&["headers"]);
            let httpd = httpd.config(policy.unwrap_or_default()).start();
            let front = Httpd::builder().modules(&["proxy", "proxy_http"]).config(&format!(
                "<LocationMatch /nap-ticket/>\nRequire all denied\n</LocationMatch>\nProxyPass / {}/",
                httpd.url()
            ));
            let front = front
                .expect_log("client denied", "the script's path is")
                .start();
            let browser = Browser::start(&[], &json!({}));
            let held = httpd.hold("full", 1);
            let site = if policy.is_some() { &httpd } else { &front };
            browser.open(&format!("{}/cgi-bin/app", site.url()));
            browser.until_shows("Your turn comes");
            assert_eq!(
                browser.run("return document.getElementById('nap-stop').hidden"),
                true
            );
            wait_until("it has come", PATIENCE, || httpd.waiting() == 1);
            held.release();
            until_served(&browser);
            let promise = &httpd.gate()["promise"];
            assert_eq!(
                (&promise["sold"], &promise["broken"]),
                (&json!(1), &json!(0)),
                "{mpm}"
            );
        }
    });
}

/// The script cancels the page's Refresh and waits for the network instead.
#[test]
fn a_page_that_was_told_to_stop_stays_when_its_time_comes() {
    under_each(|mpm| {
        let httpd = site(mpm, "8s").start();
        let browser = Browser::start(&[], &json!({}));
        let _held = httpd.hold("full", 1);
        open(&browser, &httpd);
        let left = browser.run("return Number(document.getElementById('nap').dataset.returnMs)");
        let left = left.as_u64().expect("milliseconds") / 1000;
        browser.click("#nap-stop");
        browser.run_async(&format!(
            "setTimeout(arguments[arguments.length - 1], {})",
            1000 * (left + 3)
        ));
        assert_eq!(httpd.waiting(), 0, "{mpm}");
        assert!(
            browser
                .text()
                .contains("Nothing happens by itself any more")
        );
    });
}

#[test]
fn a_page_whose_computer_slept_over_its_time_comes_back_when_it_wakes() {
    under_each(|mpm| {
        let httpd = site(mpm, "20s").start();
        let browser = Browser::start(&[], &json!({}));
        let held = httpd.hold("full", 1);
        open(&browser, &httpd);
        let left = browser.run("return Number(document.getElementById('nap').dataset.returnMs)");
        let start = Instant::now() + Duration::from_millis(left.as_u64().expect("a number"));
        let asleep = browser.sleep();
        wait_until("its time has come", PATIENCE, || Instant::now() > start);
        assert_eq!(httpd.waiting(), 0, "it slept");
        drop(asleep);
        wait_until("it has come", PATIENCE, || httpd.waiting() == 1);
        held.release();
        until_served(&browser);
        stays(&browser, &httpd);
    });
}

#[test]
fn without_a_network_the_page_stays_and_goes_on_when_it_is_back() {
    under_each(|mpm| {
        let httpd = site(mpm, "20s").start();
        let browser = Browser::start(&[], &json!({}));
        let held = httpd.hold("full", 1);
        open(&browser, &httpd);
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
        assert_eq!(httpd.gate()["promise"]["broken"], 0, "{mpm}");
    });
}

#[test]
fn a_tab_whose_ticket_another_has_used_says_so_and_stays() {
    under_each(|mpm| {
        let httpd = site(mpm, "20s").start();
        let browser = Browser::start(&[], &json!({}));
        let held = httpd.hold("full", 1);
        let url = format!("{}/cgi-bin/app", httpd.url());
        browser.open(&url);
        browser.until_shows("as soon as there is room");
        let one = browser.handle();
        let other = browser.new_tab();
        browser.open(&url);
        browser.until_shows("as soon as there is room");
        // This tab no longer asks; the other is called and served.
        browser.run("document.getElementById('nap').dataset.stopped = '1'; window.since = performance.now()");
        browser.switch_to(&one);
        held.release();
        until_served(&browser);
        browser.switch_to(&other);
        // News from long ago is no reason to come without asking (FRESH in nap.js).
        let long_ago = "return performance.now() - window.since > 20000";
        wait_until("it has heard nothing for long", PATIENCE, || {
            browser.run(long_ago) == true
        });
        browser.run("delete document.getElementById('nap').dataset.stopped; window.dispatchEvent(new Event('online'))");
        browser.until_shows("probably in another window");
        assert!(browser.text().contains("overloaded"), "it has stayed");
    });
}

/// The place's own headers; with a cookie and a header from the site, the browser asks first (OPTIONS).
#[test]
fn another_sites_script_may_read_when_to_come_back() {
    const ALLOWED: &str = "<IfModule headers_module>
<Location /cgi-bin>
Header always set Access-Control-Allow-Origin \"expr=%{req:Origin}\"
Header always set Access-Control-Allow-Credentials true
Header always set Access-Control-Allow-Headers X-Asked
</Location>
</IfModule>";
    under_each(|mpm| {
        let httpd = site(mpm, "20s")
            .config(ALLOWED)
            .modules(&["headers"])
            .start();
        let other = site(mpm, "20s").start();
        let browser = Browser::start(&[], &json!({}));
        let held = httpd.hold("full", 1);
        browser.open(&format!("{}/cgi-bin/app", other.url()));
        let read = browser.run_async(&format!(
            "var done = arguments[arguments.length - 1];
             fetch('{}/cgi-bin/app', {{ credentials: 'include', headers: {{ 'X-Asked': '1' }} }})
             .then(function (r) {{
               return r.text().then(function (text) {{
                 done([r.status, Number(r.headers.get('Retry-After')),
                       r.headers.get('Nap-Ticket').length, text.length]);
               }});
             }}).catch(function (e) {{ done(String(e)); }});",
            httpd.url()
        ));
        assert_eq!(read[0], 503, "{read}");
        let more_than = [10, 100, 100];
        for (at, least) in more_than.into_iter().enumerate() {
            assert!(read[at + 1].as_u64() > Some(least), "{read}");
        }
        // On another connection, it may be logged after what came behind it.
        wait_until("the browser has asked first", PATIENCE, || {
            httpd.access_log().contains("OPTIONS /cgi-bin/app")
        });
        drop(held);
    });
}

/// docs/coming-back.md: a page without a script of ours.
#[test]
fn a_page_of_ones_own_comes_back_by_the_documented_script() {
    under_each(|mpm| {
        let script = example_of("docs/coming-back.md", "function ask()");
        let page = format!(
            "<!doctype html>\n<title>Wait</title><p>our own page\n<script>{script}</script>\n"
        );
        let httpd = site(mpm, "2min")
            .file("own.html", page)
            .config("<Location /cgi-bin>\nNapTicketPage own.html\n</Location>")
            .start();
        let browser = Browser::start(&[], &json!({}));
        let held = httpd.hold("full", 1);
        browser.open(&format!("{}/cgi-bin/app", httpd.url()));
        browser.until_shows("our own page");
        held.release();
        until_served(&browser);
        let gate = httpd.gate();
        assert_eq!(
            (&gate["calls"]["came"], &gate["promise"]["broken"]),
            (&json!(1), &json!(0)),
            "{mpm}"
        );
    });
}

/// docs/telepoll.md and docs/api-clients.md.
#[test]
fn the_documented_scripts_poll_when_they_are_told_and_come_when_they_may() {
    under_each(|mpm| {
        let httpd = site(mpm, "2s")
            .file("htdocs/event/score.json", "{\"score\": 7}")
            .file(
                "htdocs/empty.html",
                "<!doctype html>\n<link rel=icon href=data:,>\n",
            )
            .config("<Location /event>\nTelePoll score base=1s rate=10\n</Location>")
            .start();
        let browser = Browser::start(&[], &json!({}));
        browser.open(&format!("{}/empty.html", httpd.url()));
        let poll = example_of("docs/telepoll.md", "async function poll()");
        browser.run(&format!(
            "window.shown = []; window.show = function (score) {{ shown.push(score.score); }};
             {poll}; poll(); return 1;"
        ));
        wait_until("it has polled three times", PATIENCE, || {
            browser.run("return shown.length").as_u64() >= Some(3)
        });
        let times = "return performance.getEntriesByType('resource').filter(function (e) {
            return e.name.indexOf('score') > 0; }).map(function (e) { return e.startTime; })";
        let times: Vec<f64> = serde_json::from_value(browser.run(times)).expect("numbers");
        assert!(
            times.windows(2).all(|two| two[1] - two[0] >= 999.0),
            "{times:?}"
        );

        let held = httpd.hold("full", 1);
        let patient = example_of("docs/api-clients.md", "async function patient");
        browser.run(&format!(
            "window.patientAnswer = null; {patient};
             patient('/cgi-bin/app').then(function (r) {{ patientAnswer = r.status; }}); return 1;"
        ));
        wait_until("it has been refused", PATIENCE, || {
            httpd.gate()["promise"]["sold"].as_u64() >= Some(1)
        });
        held.release();
        wait_until("it is served", PATIENCE, || {
            browser.run("return patientAnswer") == 200
        });
        assert_eq!(httpd.gate()["promise"]["broken"], 0, "{mpm}");
    });
}
