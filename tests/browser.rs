//! The ticket page in a real Chromium: with and without JavaScript or cookies, with forms, with
//! hostile addresses. Only in `make test-all` (NAP_TEST=all).

mod httpd;

use httpd::browser::Browser;
use httpd::{Builder, Httpd, long, wait_until};
use serde_json::json;
use std::time::Duration;

/// Tickets begin a few seconds after they are sold, and their holders are let in when `held` is.
const ROOM: &str = "<NapRoom site>
NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 4
NapSlotPeriod 1s
NapTicketsPerClient 1000
</NapRoom>
<Location /cgi-bin>\nNapUse site\n</Location>
# The form itself is not scheduled.
<Location /form>\nNapUse None\n</Location>";

/// What the application has been asked to do, a line each.
const APP: &str = "#!/bin/sh
body=$(head -c \"${CONTENT_LENGTH:-0}\")
printf '%s %s %s\\n' \"$REQUEST_METHOD\" \"$QUERY_STRING\" \"$body\" | tr -d '\\r' >> \"$BOARD_DIR/asked\"
printf 'Content-Type: text/plain\\r\\n\\r\\nthe application\\n'
";

const FORM: &str = "<!DOCTYPE html><meta charset=utf-8><title>form</title>
<form method=post action='/cgi-bin/app?kept=1'>
<input name=submit value='<script>document.title=1</script>'>
<input name=action value='\"//evil.example'>
<textarea name=text>\u{3042}&amp;\ntwo</textarea>
</form><script>HTMLFormElement.prototype.submit.call(document.forms[0])</script>";

fn site() -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .config(ROOM)
        .cgi("app", APP)
        .file("htdocs/form/index.html", FORM)
}

fn asked(httpd: &Httpd) -> Vec<String> {
    let text = std::fs::read_to_string(httpd.root().join("data/asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_refused_visitor_is_brought_back_in_time_and_let_in() {
    if !long() {
        return;
    }
    httpd::for_each_mpm(|mpm| {
        let httpd = site().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let browser = Browser::start(&[], &json!({}));
        browser.open(&format!("{}/cgi-bin/app?x=1", httpd.url()));
        browser.until_shows("A ticket was issued to you");
        assert!(asked(&httpd).is_empty());
        held.release();
        browser.until_shows("the application");
        assert_eq!(asked(&httpd), ["GET x=1 "]);
        let info = httpd.get("/nap-info?json").json();
        let promise = &info["rooms"][0]["gates"][0]["promise"];
        assert_eq!(promise["sold"], 1, "{promise}");
        assert_eq!(promise["outstanding"], 0, "{promise}");
    });
}

#[test]
fn without_javascript_the_page_returns_by_itself() {
    if !long() {
        return;
    }
    let httpd = site().start();
    let held = httpd.hold("full", 1);
    let no_scripts = json!({"profile.managed_default_content_settings.javascript": 2});
    let browser = Browser::start(&[], &no_scripts);
    browser.open(&format!("{}/cgi-bin/app", httpd.url()));
    held.release();
    wait_until("the page has returned", Duration::from_secs(20), || {
        asked(&httpd) == ["GET  "]
    });
    assert!(!httpd.access_log().contains("nap.js"));
}

#[test]
fn with_cookies_blocked_the_ticket_comes_in_the_query_and_the_application_does_not_see_it() {
    if !long() {
        return;
    }
    let httpd = site().start();
    let held = httpd.hold("full", 1);
    let no_cookies = json!({"profile.default_content_setting_values.cookies": 2});
    let browser = Browser::start(&[], &no_cookies);
    browser.open(&format!("{}/cgi-bin/app?a=%2Fb&c", httpd.url()));
    browser.until_shows("A ticket was issued to you");
    // He comes while the room is still full: only a ticket lets him wait.
    wait_until("he waits", Duration::from_secs(20), || httpd.waiting() == 1);
    held.release();
    browser.until_shows("the application");
    let query = browser.run("return location.search").to_string();
    assert!(query.contains("&nap-ticket="), "{query}");
    assert_eq!(asked(&httpd), ["GET a=%2Fb&c "]);
}

#[test]
fn a_refused_form_arrives_exactly_once() {
    if !long() {
        return;
    }
    let httpd = site().start();
    let held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    browser.open(&format!("{}/form/", httpd.url()));
    browser.until_shows("The form you sent is kept in this page");
    assert!(asked(&httpd).is_empty());
    held.release();
    browser.until_shows("the application");
    let body = "submit=%3Cscript%3Edocument.title%3D1%3C%2Fscript%3E&action=%22%2F%2Fevil.example\
                &text=%E3%81%82%26%0D%0Atwo";
    assert_eq!(asked(&httpd), [format!("POST kept=1 {body}")]);
}

#[test]
fn a_form_from_another_site_is_not_sent_on_from_our_page() {
    if !long() {
        return;
    }
    let httpd = site().start();
    let _held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    // localhost and 127.0.0.1 are two sites; the form's action is the whole address here.
    let target = format!("http://localhost:{}/cgi-bin/app", httpd.port());
    browser.open(&format!("{}/nap-info?json", httpd.url()));
    browser.run(&format!(
        "var f = document.createElement('form'); f.method = 'post'; f.action = '{target}';
         f.innerHTML = '<input name=a value=1>'; document.body.append(f); f.submit();"
    ));
    browser.until_shows("Your form could not be kept");
    assert_eq!(browser.run("return document.forms.length"), 0);
    assert!(asked(&httpd).is_empty());
}

#[test]
fn hostile_addresses_execute_nothing_and_lead_nowhere_else() {
    if !long() {
        return;
    }
    let httpd = site()
        .config("<Location />\nNapUse site\n</Location>\n<Location /nap-info>\nNapUse None\n</Location>")
        .config("AliasMatch ^/.*evil {root}/cgi-bin/app")
        .config("<LocationMatch evil>\nSetHandler cgi-script\nOptions +ExecCGI\n</LocationMatch>")
        .start();
    let _held = httpd.hold("full", 1);
    let browser = Browser::start(
        &[],
        &json!({"profile.default_content_setting_values.cookies": 2}),
    );
    let long = format!("/evil?{}", "x".repeat(8000 - 20));
    for path in [
        "//evil.example/evil",
        "/evil?q=%22%3E%3Cscript%3Edocument.title='hacked'%3C/script%3E",
        "/evil?q=\"><img src=x onerror=document.title='hacked'>",
        "/evil?javascript:document.title='hacked'",
        "/evil?%ff%fe=%00%82",
        "/evil?x#//evil.example",
        &long,
    ] {
        browser.open(&format!("{}{path}", httpd.url()));
        let shown = browser.text();
        assert!(shown.contains("overloaded"), "{path}: {shown}");
        let host = |browser: &Browser| browser.run("return location.host");
        let ours = format!("127.0.0.1:{}", httpd.port());
        assert_eq!(host(&browser), ours, "{path}");
        browser.run("window.before = true; document.querySelector('[data-go]').click()");
        wait_until("the page has come back", Duration::from_secs(20), || {
            browser.run("return window.before !== true && document.readyState === 'complete'")
                == true
        });
        assert_eq!(host(&browser), ours, "{path}");
        let title = browser.run("return document.title");
        assert!(!title.to_string().contains("hacked"), "{path}");
    }
}
