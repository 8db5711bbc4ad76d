//! Return from another site, in a real Chromium: a buyer signs in at a shop, pays at another site and is sent
//! back from there by a form's POST, while the shop is full. Only in `make test-all` (NAP_TEST=all).

use nap_testkit::browser::Browser;
use nap_testkit::{Builder, Httpd, comes_true, example_of, free_port, long, wait_until};
use serde_json::json;
use std::time::Duration;

/// Two sites without a common registrable domain. Both names lead to the test's own server.
const NAMES: &str = "--host-resolver-rules=MAP shop.example 127.0.0.1, MAP pay.example 127.0.0.1";

/// One access runs at a time, and only members wait for it.
const TERMS: &str = "<NapRoom shop>
NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 4
NapTicketsPerClient 1000
NapSessionStart 1ms";

const PAGE: &str = "#!/bin/sh
head -c \"${CONTENT_LENGTH:-0}\" > /dev/null
printf 'Content-Type: text/html\\r\\n\\r\\n<!doctype html><link rel=icon href=data:,><p>the shop\\n'
";

/// Records what was sent and the cookies with it, and sends the buyer on.
const PAID: &str = "#!/bin/sh
body=$(head -c \"${CONTENT_LENGTH:-0}\")
printf '%s %s %s\\n' \"$REQUEST_METHOD\" \"$body\" \"${HTTP_COOKIE:-without a cookie}\" >> \"$BOARD_DIR/asked\"
printf 'Status: 303\\r\\nLocation: /shop/thanks\\r\\n\\r\\n'
";

/// Sends its form to the address after its own `#`, or shows the answer in its frame.
const PROVIDER: &str = "<!doctype html><link rel=icon href=data:,><iframe name=frame></iframe>
<form method=post><input name=order value=7><button>pay</button></form>
<script>document.forms[0].action = location.hash.slice(1)</script>";

/// Lines of the documented shop, and their replacements.
type Changes<'a> = &'a [(&'a str, &'a str)];

const UNPROTECTED: (&str, &str) = ("NapExempt", "# NapExempt");
const FOR_OTHER_SITES: (&str, &str) = ("NapSession", "NapSession SameSite=None");

/// The shop of docs/sqs.md; the provider is on the same server.
fn shop(changes: Changes<'_>) -> Builder {
    let mut room = example_of("docs/sqs.md", "/shop/paid");
    for (line, otherwise) in changes.iter().chain(&[("<NapRoom shop>", TERMS)]) {
        assert!(room.contains(line), "{room}");
        room = room.replace(line, otherwise);
    }
    Httpd::builder()
        .nap()
        .holding()
        .config(&room)
        .config("<Location /cgi-bin>\nNapUse shop\n</Location>")
        .config("ScriptAlias /shop/paid {root}/cgi-bin/paid\nScriptAlias /shop {root}/cgi-bin/page")
        .cgi("paid", PAID)
        .cgi("page", PAGE)
        .file("htdocs/pay/index.html", PROVIDER)
}

/// Signs in at the shop, and goes to the other site, with this scheme and port.
fn buyer((scheme, port): (&str, u16)) -> Browser {
    let browser = Browser::start(&[NAMES], &json!({}));
    let shop = format!("{scheme}://shop.example:{port}");
    browser.open(&format!("{shop}/shop/login"));
    browser.until_shows("the shop");
    browser.open(&format!(
        "{scheme}://pay.example:{port}/pay/#{shop}/shop/paid"
    ));
    browser
}

/// Sends the buyer back, who has to wait until the shop has room again; returns the shop's requests until
/// then.
fn comes_back_and_waits(httpd: &Httpd, browser: &Browser) -> Vec<String> {
    let held = httpd.hold("full", 1);
    let asked = std::thread::scope(|scope| {
        // The driver answers when the page has loaded.
        scope.spawn(|| browser.click("button"));
        httpd.until_waiting(1);
        let asked = httpd.asked();
        held.release();
        asked
    });
    browser.until_shows("the shop");
    let here = browser.run("return location.pathname");
    assert_eq!(here, "/shop/thanks");
    asked
}

/// Sends the other site's form to a page of the shop, whose answer appears in its frame.
fn ask_in_frame(browser: &Browser, url: &str) {
    let is_there = || browser.run("return document.forms.length") == 1;
    if !comes_true(Duration::from_secs(20), is_there) {
        let shown =
            browser.run("return location.href + '\\n' + document.documentElement.outerHTML");
        panic!("no form in {shown}");
    }
    let asks = || {
        browser.run(&format!(
            "document.title = 'asks'; document.forms[0].action = '{url}'; document.forms[0].target = 'frame';
             document.querySelector('iframe').onload = function () {{ document.title = 'shown'; }};"
        ));
        browser.click("button");
        wait_until("the frame shows it", Duration::from_secs(20), || {
            browser.run("return document.title") == "shown"
        });
    };
    wait_until("the network is as it was", Duration::from_secs(20), || {
        asks();
        !browser.has_given_up_frame()
    });
}

fn started(httpd: &Httpd) -> serde_json::Value {
    let info = httpd.get("/nap-info?json").json();
    info["rooms"][0]["sessions"]["started"].clone()
}

#[test]
fn by_the_documented_way_a_buyers_post_arrives_and_behind_it_he_is_the_member_he_was() {
    if !long() {
        return;
    }
    let httpd = shop(&[]).start();
    let browser = buyer(("http", httpd.port()));
    let asked = comes_back_and_waits(&httpd, &browser);
    assert_eq!(asked, ["POST order=7 without a cookie"]);
    assert_eq!(httpd.asked(), asked);
    assert_eq!(started(&httpd), 1);
}

#[test]
fn without_it_he_is_a_stranger_and_his_post_is_lost() {
    if !long() {
        return;
    }
    // Over plain http there is no cookie for other sites either.
    for changes in [&[UNPROTECTED][..], &[UNPROTECTED, FOR_OTHER_SITES]] {
        let httpd = shop(changes).start();
        let browser = buyer(("http", httpd.port()));
        let _held = httpd.hold("full", 1);
        browser.click("button");
        browser.until_shows("Your form could not be kept");
        assert_eq!(httpd.asked(), [""; 0], "{changes:?}");
    }
}

#[test]
fn with_a_cookie_for_other_sites_he_comes_back_as_the_member_he_was() {
    if !long() {
        return;
    }
    let port = free_port();
    let httpd = shop(&[UNPROTECTED, FOR_OTHER_SITES]).tls(port).start();
    let browser = buyer(("https", port));
    let asked = comes_back_and_waits(&httpd, &browser);
    assert_eq!(asked, [""; 0], "a member waits for their turn");
    let asked = httpd.asked();
    let [post] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert!(post.starts_with("POST order=7 __Host-naps~shop="), "{post}");
    assert_eq!(started(&httpd), 1);
}

#[test]
fn in_another_sites_frame_he_is_a_member_by_the_attributes_that_his_browser_wants() {
    if !long() {
        return;
    }
    for (attributes, blocks_others, known) in [
        ("SameSite=Lax", false, false),
        ("SameSite=None", false, true),
        ("SameSite=None", true, false),
        ("SameSite=None Partitioned", true, true),
    ] {
        let port = free_port();
        let session = format!("NapSession {attributes}");
        let httpd = shop(&[("NapSession", &session)])
            .tls(port)
            .expect_log(
                "AH01270",
                "a page in the frame may ask when the browser ends",
            )
            .start();
        // Headless, it blocks other sites' cookies unless it is told not to.
        let wants = json!({"profile.cookie_controls_mode": i32::from(blocks_others)});
        let browser = Browser::start(&[NAMES], &wants);
        browser.open(&format!("https://pay.example:{port}/pay/#"));
        for page in ["login", "paid"] {
            let url = format!("https://shop.example:{port}/shop/{page}");
            ask_in_frame(&browser, &url);
        }
        let asked = httpd.asked();
        let came = asked.len() == 1 && asked[0].contains(" __Host-naps~shop=");
        assert_eq!(came, known, "{attributes}, {blocks_others}: {asked:?}");
    }
}
