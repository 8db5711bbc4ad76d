//! The ticket page in a real Chromium: with and without JavaScript or cookies, in several tabs, with hostile
//! addresses. Only in `make test-all` (NAP_TEST=all).

use nap_testkit::app::hostile_addresses;
use nap_testkit::browser::Browser;
use nap_testkit::{Httpd, long, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn a_refused_visitor_is_brought_back_in_time_and_let_in() {
    if !long() {
        return;
    }
    nap_testkit::for_each_mpm(|mpm| {
        let httpd = Httpd::builder().app().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let browser = Browser::start(&[], &json!({}));
        browser.open(&format!("{}/cgi-bin/app?x=1", httpd.url()));
        browser.until_shows("A ticket was issued to you");
        assert!(httpd.asked().is_empty());
        held.release();
        browser.until_shows("the application");
        assert_eq!(httpd.asked(), ["GET x=1 "]);
        let promise = &httpd.gate()["promise"];
        assert_eq!(promise["sold"], 1, "{promise}");
        assert_eq!(promise["outstanding"], 0, "{promise}");
    });
}

/// The ticket log's records of a ticket, except that it was sold.
fn fates(httpd: &Httpd, ticket: &str) -> Vec<Value> {
    let log = std::fs::read_to_string(httpd.root().join("tickets")).expect("the log");
    let records = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let own = records.filter(|record: &Value| record["id"] == ticket);
    own.filter(|record| record["event"] != "issued").collect()
}

#[test]
fn in_a_crowd_a_browser_is_refused_and_let_in_with_its_ticket() {
    if !long() {
        return;
    }
    nap_testkit::for_each_mpm(|mpm| {
        let httpd = Httpd::builder()
            .crowded_board()
            .config("NapTicketLog {root}/tickets")
            .mpm(mpm)
            .start();
        let ticket = httpd.in_a_crowd(|| {
            let browser = Browser::start(&[], &json!({}));
            let url = format!("{}/board", httpd.url());
            // Now and then there is room for a newcomer.
            wait_until("the browser is refused", Duration::from_secs(20), || {
                browser.open(&url);
                let shown = browser.text_of("body").unwrap_or_default();
                shown.contains("A ticket was issued to you")
            });
            let ticket = browser.text_of("code").expect("a ticket");
            browser.until_shows("Board");
            ticket
        });
        wait_until("the log has it", Duration::from_secs(30), || {
            !fates(&httpd, &ticket).is_empty()
        });
        let fate = &fates(&httpd, &ticket)[0];
        assert!(
            fate["event"] == "redeemed" || fate["event"] == "early",
            "{fate}"
        );
        let promise = &httpd.gate()["promise"];
        assert_eq!(promise["broken"], 0, "{promise}");
        assert_eq!(promise["deferred_twice"], 0, "{promise}");
    });
}

#[test]
fn without_javascript_the_page_returns_by_itself() {
    if !long() {
        return;
    }
    nap_testkit::for_each_mpm(|mpm| {
        let httpd = Httpd::builder().app().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let no_scripts = json!({"profile.managed_default_content_settings.javascript": 2});
        let browser = Browser::start(&[], &no_scripts);
        browser.open(&format!("{}/cgi-bin/app", httpd.url()));
        held.release();
        wait_until("the page has returned", Duration::from_secs(20), || {
            httpd.asked() == ["GET  "]
        });
        assert!(!httpd.access_log().contains("nap.js"));
    });
}

#[test]
fn with_cookies_blocked_the_ticket_comes_in_the_query_and_the_application_does_not_see_it() {
    if !long() {
        return;
    }
    nap_testkit::for_each_mpm(|mpm| {
        let httpd = Httpd::builder().app().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let no_cookies = json!({"profile.default_content_setting_values.cookies": 2});
        let browser = Browser::start(&[], &no_cookies);
        browser.open(&format!("{}/cgi-bin/app?a=%2Fb&c", httpd.url()));
        browser.until_shows("A ticket was issued to you");
        // The visitor comes while the room is still full: only a ticket lets them wait.
        wait_until("it waits", Duration::from_secs(20), || httpd.waiting() == 1);
        held.release();
        browser.until_shows("the application");
        let query = browser.run("return location.search").to_string();
        assert!(query.contains("&nap-ticket="), "{query}");
        assert_eq!(httpd.asked(), ["GET a=%2Fb&c "]);
    });
}

#[test]
fn hostile_addresses_execute_nothing_and_lead_nowhere_else() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder().app().everywhere().start();
    let _held = httpd.hold("full", 1);
    let browser = Browser::start(
        &[],
        &json!({"profile.default_content_setting_values.cookies": 2}),
    );
    for path in hostile_addresses() {
        browser.open(&format!("{}{path}", httpd.url()));
        let shown = browser.text();
        assert!(shown.contains("overloaded"), "{path}: {shown}");
        check_harmless(&browser, &httpd, &path);
        browser.run("window.before = true; document.querySelector('[data-go]').click()");
        wait_until("the page has come back", Duration::from_secs(20), || {
            browser.run("return window.before !== true && document.readyState === 'complete'")
                == true
        });
        check_harmless(&browser, &httpd, &path);
    }
    assert!(httpd.asked().is_empty());
}

/// The page is the one that was opened, from this server, and nothing in the address was executed.
fn check_harmless(browser: &Browser, httpd: &Httpd, path: &str) {
    let host = browser.run("return location.host");
    assert_eq!(host, format!("127.0.0.1:{}", httpd.port()), "{path}");
    let title = browser.run("return document.title").to_string();
    assert!(title.contains("Your turn"), "{path}: {title}");
}

#[test]
fn without_javascript_hostile_addresses_lead_nowhere_else_either() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder().app().everywhere().start();
    let _held = httpd.hold("full", 1);
    let no_scripts = json!({"profile.managed_default_content_settings.javascript": 2});
    let browser = Browser::start(&[], &no_scripts);
    // With a fragment in the address, a Refresh without one leads nowhere (docs/tickets.md).
    let mut addresses = hostile_addresses();
    addresses.retain(|path| !path.contains('#'));
    for path in &addresses {
        browser.new_tab();
        browser.open(&format!("{}{path}", httpd.url()));
        // One that has just gone for the next has no body.
        wait_until(path, Duration::from_secs(20), || {
            let shown = browser.text_of("body");
            shown.is_some_and(|shown| shown.contains("overloaded"))
        });
    }
    // Each page returns to where it was: the same request line again, and no other.
    wait_until("all have returned", Duration::from_secs(20), || {
        let log = httpd.access_log();
        let lines = log.lines().filter(|line| line.contains("evil"));
        let mut asked: BTreeMap<&str, u32> = BTreeMap::new();
        for line in lines {
            *asked
                .entry(line.split('"').nth(1).unwrap_or(line))
                .or_default() += 1;
        }
        asked.len() == addresses.len() && asked.values().all(|times| *times > 1)
    });
}

#[test]
fn three_tabs_with_one_ticket_are_let_in_once() {
    if !long() {
        return;
    }
    nap_testkit::for_each_mpm(|mpm| {
        // Enough time to open them all before the ticket's time.
        let httpd = Httpd::builder()
            .app_with("NapWaitMax 20s")
            .config("NapTicketLog {root}/tickets")
            .mpm(mpm)
            .start();
        let held = httpd.hold("full", 1);
        let browser = Browser::start(&[], &json!({}));
        // Chromium requests one address in one tab after the other.
        let open = |tab: u32| browser.open(&format!("{}/cgi-bin/app?{tab}", httpd.url()));
        open(0);
        browser.until_shows("A ticket was issued to you");
        let number = |browser: &Browser| browser.text_of("code").expect("a ticket");
        let ticket = number(&browser);
        // Early in the other tabs: the same ticket again.
        let mut tabs = vec![browser.handle()];
        for tab in [1, 2] {
            tabs.push(browser.new_tab());
            open(tab);
            browser.until_shows("You have a ticket");
            assert_eq!(number(&browser), ticket);
        }
        // The tabs ask together at the ticket's time. The first access gets the place. A tab that asks later
        // is told so and waits; a later access takes the place over. That is a bound and two seconds after
        // the sale, or a little more.
        wait_until("one has come", Duration::from_secs(60), || {
            httpd.waiting() == 1
        });
        held.release();
        // Each is let in with the ticket or, as the room is empty then, without it; or it says what became of
        // it. One that came without it while the first was there has to wait for its own ticket's time.
        for tab in tabs {
            browser.switch_to(&tab);
            wait_until("the tab comes to its end", Duration::from_secs(60), || {
                let shown = browser.text();
                shown.contains("the application") || shown.contains("Your ticket has been used")
            });
        }
        // A tab that came without it while the first was there may have been sold its own ticket.
        let promise = &httpd.gate()["promise"];
        let [sold, presented, kept, broken] =
            ["sold", "presented", "kept", "broken"].map(|name| promise[name].as_u64());
        assert!(presented >= Some(1) && presented <= sold, "{promise}");
        assert_eq!((kept, broken), (presented, Some(0)), "{promise}");
        let fates = fates(&httpd, &ticket);
        let used = |fate: &&Value| fate["event"] == "redeemed" || fate["event"] == "early";
        assert_eq!(fates.iter().filter(used).count(), 1, "{fates:?}");
    });
}

#[test]
fn a_reload_while_waiting_keeps_the_place() {
    if !long() {
        return;
    }
    nap_testkit::for_each_mpm(|mpm| {
        let httpd = Httpd::builder().app().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let browser = Browser::start(&[], &json!({}));
        browser.open(&format!("{}/cgi-bin/app", httpd.url()));
        browser.until_shows("A ticket was issued to you");
        httpd.until_waiting(1);
        // The page that waits is the former one; reloading it stops that request and sends another.
        browser.run("location.reload()");
        wait_until("the first was let go", Duration::from_secs(20), || {
            httpd.gate()["counts"]["re_access"] == 2 && httpd.waiting() == 1
        });
        held.release();
        browser.until_shows("the application");
        assert_eq!(httpd.asked(), ["GET  "]);
        let promise = &httpd.gate()["promise"];
        assert_eq!(
            (&promise["kept"], &promise["broken"]),
            (&1.into(), &0.into()),
            "{promise}"
        );
    });
}

#[test]
fn the_stop_button_stops_all_that_happens_by_itself() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder().app().start();
    let held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    browser.open(&format!("{}/cgi-bin/app", httpd.url()));
    browser.until_shows("A ticket was issued to you");
    browser.click("#nap-stop");
    browser.until_shows("Nothing happens by itself any more");
    assert_eq!(
        browser.run("return document.activeElement.id"),
        "nap-stopped"
    );
    held.release();
    // It goes on counting, and nothing happens.
    browser.until_shows("Your turn comes in 0:00");
    assert!(httpd.asked().is_empty());
    browser.click("[data-go]");
    browser.until_shows("the application");
    assert_eq!(httpd.asked(), ["GET  "]);
}
