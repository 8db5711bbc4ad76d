//! Forms that were refused, in a real Chromium: a kept form arrives as it was sent, once. Only in `make
//! test-all` (NAP_TEST=all).

use nap_testkit::app::hostile_addresses;
use nap_testkit::browser::Browser;
use nap_testkit::{Httpd, Mpm, long, wait_until};
use serde_json::json;
use std::time::Duration;

const KEPT: &str = "The form you sent is kept in this page";
const LOST: &str = "Your form could not be kept";

const URLENCODED: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

/// A form that sends itself; the address's hash names its fields.
const SENDER: &str = "<script>
var told = JSON.parse(decodeURIComponent(location.hash.slice(1)));
var form = document.createElement('form');
form.method = 'post'; form.enctype = told.type;
form.action = location.origin + (told.address || '/cgi-bin/app?kept=1');
told.fields.forEach(function (field) {
  var area = document.createElement('textarea');
  area.name = field[0]; area.value = field[1];
  form.append(area);
});
document.documentElement.append(form);
HTMLFormElement.prototype.submit.call(form);
</script>";

/// A form that waits for its button.
const BUTTON: &str = "<form method=post action='/cgi-bin/app?kept=1'>
<textarea name=text>\u{3042}&amp;\ntwo</textarea><button id=send>send</button></form>";

/// Opens the sender with these fields.
fn send(browser: &Browser, httpd: &Httpd, kind: &str, fields: &serde_json::Value) {
    tell(browser, httpd, &json!({"type": kind, "fields": fields}));
}

/// Opens the sender with these instructions.
fn tell(browser: &Browser, httpd: &Httpd, told: &serde_json::Value) {
    let told = told.to_string();
    let hash: String = form_urlencoded::byte_serialize(told.as_bytes()).collect();
    browser.open("about:blank");
    browser.open(&format!(
        "{}/form/#{}",
        httpd.url(),
        hash.replace('+', "%20")
    ));
}

/// The requests, with each multipart boundary given the same name.
fn without_boundaries(asked: &[String]) -> Vec<String> {
    let all = asked
        .iter()
        .map(|line| match line.find("WebKitFormBoundary") {
            Some(at) => format!("{}WebKitFormBoundary{}", &line[..at], &line[at + 34..]),
            None => line.clone(),
        });
    all.collect()
}

#[test]
fn whatever_its_fields_are_a_form_arrives_once_and_as_it_was_sent() {
    if !long() {
        return;
    }
    let fields = json!([
        ["submit", "<script>document.title='hacked'</script>"],
        ["action", "\"//evil.example"],
        ["setAttribute", "1"],
        ["addEventListener", "1"],
        ["elements", "javascript:document.title='hacked'"],
        [
            "nap-form",
            "'\"><img src=x onerror=document.title='hacked'>"
        ],
        ["\"><script>document.title='hacked'</script>", "in a name"],
        ["a name\nof two lines", "\nfirst line empty\r\n\r\nend\n"],
        ["rtl", "\u{202e}evil\u{202c} \u{5d0}\u{200f}"],
        ["other", "\t&amp;&#0; %00 +=\u{3042}\u{1f600} {{ wait }}"],
        ["_charset_", "UTF-8"],
        ["same", "1"],
        ["same", "2"],
        ["empty", ""],
        [
            "long",
            format!(
                "{}<script>document.title='hacked'</script>",
                "x".repeat(8000)
            )
        ],
    ]);
    nap_testkit::for_each_mpm(|mpm| {
        // Each encoding under one MPM: they are the same to all.
        let kind = if mpm == Mpm::Worker {
            MULTIPART
        } else {
            URLENCODED
        };
        let httpd = Httpd::builder().app().mpm(mpm).form(SENDER).start();
        let browser = Browser::start(&[], &json!({}));
        send(&browser, &httpd, kind, &fields);
        browser.until_shows("the application");
        let straight = without_boundaries(&httpd.asked());
        assert!(straight[0].starts_with("POST kept=1 "), "{straight:?}");
        let held = httpd.hold("full", 1);
        send(&browser, &httpd, kind, &fields);
        browser.until_shows(KEPT);
        assert_eq!(httpd.asked().len(), straight.len(), "{kind}");
        let title = browser.run("return document.title").to_string();
        assert!(title.contains("Your turn"), "{title}");
        held.release();
        browser.until_shows("the application");
        let url = browser.run("return location.href");
        assert_eq!(url, format!("{}/cgi-bin/app?kept=1", httpd.url()));
        // No cache keeps the page that the visitor left: Chromium asks before it sends again.
        browser.back();
        wait_until("the visitor is back", Duration::from_secs(20), || {
            !browser.text().contains("the application")
        });
        let twice = without_boundaries(&httpd.asked());
        assert_eq!(twice.len(), 2 * straight.len(), "{twice:?}");
        assert_eq!(twice[straight.len()..], straight, "{kind}");
    });
}

#[test]
fn a_form_posted_to_a_hostile_address_goes_there_again_and_nowhere_else() {
    if !long() {
        return;
    }
    // The room stays full for as long as it takes: a minute on a machine that is busy with other things.
    let site = Httpd::builder().app().everywhere().form(SENDER);
    let httpd = site.config("Timeout 300").start();
    let _held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    for address in hostile_addresses() {
        let fields = [["a", "\"><script>document.title='hacked'</script>"]];
        tell(
            &browser,
            &httpd,
            &json!({"type": URLENCODED, "fields": fields, "address": address}),
        );
        browser.until_shows(KEPT);
        let opened = browser.run(HERE);
        browser.run("window.before = true");
        let host = format!("http://127.0.0.1:{}/", httpd.port());
        assert!(opened.to_string().contains(&host), "{opened}");
        browser.click("#nap-form button[type=submit]");
        wait_until("it is refused again", Duration::from_secs(20), || {
            browser.run("return window.before !== true && document.readyState === 'complete'")
                == true
        });
        browser.until_shows(KEPT);
        assert_eq!(browser.run(HERE), opened);
        let title = browser.run("return document.title").to_string();
        assert!(title.contains("Your turn"), "{address}: {title}");
    }
    assert!(httpd.asked().is_empty());
}

/// The address without its fragment, which a submitted form leaves behind.
const HERE: &str = "return location.href.split('#')[0]";

/// A page of a site that still uses Shift_JIS; it sends itself.
const IN_SHIFT_JIS: &[u8] = b"<!DOCTYPE html><meta charset=shift_jis><title>form</title>
<form method=post action='/cgi-bin/app?kept=1'><textarea name='\x96\x5c'>\x82\xa0\x5c&amp;\n\xc3\xb7</textarea>
<input type=hidden name=_charset_><input name=other value='&#128512;'></form>
<script>document.forms[0].submit()</script>";

#[test]
fn a_form_in_the_sites_own_charset_arrives_as_it_was_sent() {
    if !long() {
        return;
    }
    for (kind, configured) in [(URLENCODED, true), (MULTIPART, true), (URLENCODED, false)] {
        let encoded = format!("<form enctype='{kind}' ");
        let page = String::from_utf8_lossy(IN_SHIFT_JIS).find("<form ");
        let (before, after) = IN_SHIFT_JIS.split_at(page.expect("there is a form"));
        let page = [before, encoded.as_bytes(), &after["<form ".len()..]].concat();
        let room = if configured {
            "NapKeepForm 64k shift_jis"
        } else {
            ""
        };
        let site = Httpd::builder().app_with(room);
        let httpd = site.file("htdocs/form/index.html", page).start();
        let browser = Browser::start(&[], &json!({}));
        let form = format!("{}/form/", httpd.url());
        browser.open(&form);
        browser.until_shows("the application");
        let straight = without_boundaries(&httpd.asked_in_bytes());
        let held = httpd.hold("full", 1);
        browser.open(&form);
        if !configured {
            browser.until_shows(LOST);
            continue;
        }
        browser.until_shows(KEPT);
        held.release();
        browser.until_shows("the application");
        let twice = without_boundaries(&httpd.asked_in_bytes());
        assert_eq!(twice[straight.len()..], straight, "{kind}");
        assert!(
            twice.iter().any(|line| line.contains("Shift_JIS")),
            "{twice:?}"
        );
    }
}

#[test]
fn what_cannot_be_given_back_is_not_kept_and_the_page_says_so() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder().app().form(SENDER).start();
    let _held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    for (kind, value) in [
        (URLENCODED, "a\0b".to_owned()),
        (MULTIPART, "a\0b".to_owned()),
        (URLENCODED, "\u{1b}[2J".to_owned()),
        (URLENCODED, "\u{fffe}".to_owned()),
        (URLENCODED, "x".repeat(66_000)),
        ("text/plain", "x".to_owned()),
        (URLENCODED, "Shift_JIS".to_owned()),
    ] {
        let name = if value == "Shift_JIS" {
            "_charset_"
        } else {
            "field"
        };
        send(&browser, &httpd, kind, &json!([[name, value]]));
        browser.until_shows(LOST);
        assert_eq!(browser.run("return document.forms.length"), 0, "{kind}");
    }
    assert!(httpd.asked().is_empty());
}

#[test]
fn a_form_from_another_site_is_not_sent_on_from_our_page() {
    if !long() {
        return;
    }
    nap_testkit::for_each_mpm(|mpm| {
        let httpd = Httpd::builder().app().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let browser = Browser::start(&[], &json!({}));
        // localhost and 127.0.0.1 are two sites; the form's action is the whole address here.
        let target = format!("http://localhost:{}/cgi-bin/app", httpd.port());
        browser.open(&format!("{}/nap-info?json", httpd.url()));
        browser.run(&format!(
            "var f = document.createElement('form'); f.method = 'post'; f.action = '{target}';
             f.innerHTML = '<input name=a value=1>'; document.body.append(f); f.submit();"
        ));
        browser.until_shows(LOST);
        assert_eq!(browser.run("return document.forms.length"), 0);
        // There is room, and the ticket's time comes.
        held.release();
        wait_until("its time has come", Duration::from_secs(20), || {
            browser.run("return document.querySelector('strong[data-clock]').textContent") == "0:00"
        });
        browser.until_shows(LOST);
        assert!(httpd.asked().is_empty(), "{:?}", httpd.asked());
    });
}

#[test]
fn without_javascript_a_button_sends_the_form_and_nothing_is_lost_by_itself() {
    if !long() {
        return;
    }
    nap_testkit::for_each_mpm(|mpm| {
        let httpd = Httpd::builder().app().mpm(mpm).form(BUTTON).start();
        let held = httpd.hold("full", 1);
        let no_scripts = json!({"profile.managed_default_content_settings.javascript": 2});
        let browser = Browser::start(&[], &no_scripts);
        browser.open(&format!("{}/form/", httpd.url()));
        browser.click("#send");
        browser.until_shows("send it with the button below");
        assert_eq!(browser.text_of("meta[http-equiv]"), None);
        assert!(httpd.asked().is_empty());
        held.release();
        browser.click("#nap-form button[type=submit]");
        browser.until_shows("the application");
        assert_eq!(httpd.asked(), ["POST kept=1 text=%E3%81%82%26%0D%0Atwo"]);
    });
}

#[test]
fn gone_back_to_a_page_that_has_sent_its_form_it_is_not_sent_again_by_itself() {
    if !long() {
        return;
    }
    let httpd = Httpd::builder().app().form(BUTTON).start();
    let held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    browser.open(&format!("{}/form/", httpd.url()));
    browser.click("#send");
    browser.until_shows(KEPT);
    // As in a browser that keeps the page: it is shown again as it was.
    browser.run(
        "window.addEventListener('pagehide', function (event) { event.stopImmediatePropagation(); });
         HTMLFormElement.prototype.submit = function () { window.sent = (window.sent || 0) + 1; };",
    );
    wait_until("it is sent", Duration::from_secs(20), || {
        browser.run("return window.sent") == 1
    });
    browser.run("window.dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))");
    browser.until_shows("it is not known whether it arrived");
    assert_eq!(browser.run("return window.sent"), 1);
    assert_eq!(
        browser.run("return document.getElementById('nap-stop').hidden"),
        true
    );
    // The visitor may still send it themselves; pressed twice, it is sent once.
    held.release();
    browser.run("var b = document.querySelector('#nap-form button'); b.click(); b.click();");
    browser.until_shows("the application");
    assert_eq!(httpd.asked().len(), 1);
}

#[test]
fn a_form_under_tls_and_http2_arrives_once() {
    if !long() {
        return;
    }
    let tls = nap_testkit::free_port();
    let httpd = Httpd::builder().app().form(SENDER).tls(tls).start();
    let held = httpd.hold("full", 1);
    let browser = Browser::start(&[], &json!({}));
    let told = json!({"type": "application/x-www-form-urlencoded", "fields": [["a", "1 & 2"]]});
    let hash: String = form_urlencoded::byte_serialize(told.to_string().as_bytes()).collect();
    browser.open(&format!(
        "https://localhost:{tls}/form/#{}",
        hash.replace('+', "%20")
    ));
    browser.until_shows(KEPT);
    let spoken = "return performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(browser.run(spoken), "h2");
    held.release();
    browser.until_shows("the application");
    assert_eq!(httpd.asked(), ["POST kept=1 a=1+%26+2"]);
}
