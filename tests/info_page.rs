//! `/nap-info` of a real httpd: the page is complete, agrees with the JSON form, and works under a strict
//! policy; in a Chromium it refreshes itself (NAP_TEST=all).

use nap_testkit::backends::Backend;
use nap_testkit::browser::Browser;
use nap_testkit::{Builder, Httpd, long, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const ROOM: &str = "<NapRoom site>
NapRunReady 1
NapWaitMax 4s
NapWaitLimit 2
NapTicketsPerClient 1000
</NapRoom>
<Location />
NapUse site
</Location>
<Location /nap-info>
NapUse None
</Location>";

/// A front controller's rules in .htaccess: whatever is not a file goes to the application.
#[test]
fn pages_for_the_administrator_are_there_behind_a_front_controller() {
    let rules = "RewriteEngine On\nRewriteBase /\nRewriteCond %{REQUEST_FILENAME} !-f\n\
                 RewriteRule . /index.txt [L]\n";
    let places = [
        "nap-info",
        "nap-metrics",
        "nap-preview",
        "bwshare-info",
        "bwshare-trace",
        "nap-status",
    ];
    let set = places.map(|name| format!("<Location /{name}>\nSetHandler {name}\n</Location>\n"));
    let httpd = site()
        .modules(&["rewrite"])
        .config("BwShare On\n<Directory {root}/htdocs>\nAllowOverride All\n</Directory>")
        .config(&set.concat())
        .config("<Location /closed>\nSetHandler nap-info\nRequire all denied\n</Location>")
        .config("<Location /within/>\nSetHandler nap-info\n</Location>")
        .file("htdocs/.htaccess", rules)
        .file("htdocs/within/.htaccess", "Require all denied\n")
        .file("htdocs/index.txt", "the application")
        .expect_log(
            "client denied by server configuration",
            "two places are closed",
        )
        .start();
    assert_eq!(httpd.get("/no/such/file").text(), "the application");
    for place in places {
        let answer = httpd.get(&format!("/{place}"));
        assert_eq!(answer.status, 200, "{place}");
        assert_ne!(answer.text(), "the application", "{place}");
    }
    assert!(httpd.get("/nap-info?json").json()["rooms"].is_array());
    // Clients that the place excludes, or the directory in which a file of this name would lie.
    assert_eq!(httpd.get("/closed").status, 403);
    assert_eq!(httpd.get("/within/info").status, 403);
    assert_eq!(httpd.request("POST", "/nap-info", &[], b"x").status, 405);
}

/// Elements without an end tag.
const VOID: [&str; 4] = ["meta", "link", "br", "input"];

const CONTROL: &str = "NapControl /nap-control
<Location /nap-control>
SetHandler nap-control
</Location>";

fn site() -> Builder {
    Httpd::builder().nap().holding().config(ROOM)
}

/// The tags of a page in order: name, attributes, whether it closes itself.
fn tags(html: &str) -> Vec<(String, String)> {
    let parts = html.split('<').skip(1);
    let mut found = Vec::new();
    for part in parts.filter(|part| !part.starts_with('!')) {
        let (tag, _) = part.split_once('>').expect("a tag ends");
        let end = tag.find(|c: char| c.is_whitespace()).unwrap_or(tag.len());
        let (name, attributes) = tag.split_at(end);
        let name = name.trim_end_matches('/').to_owned();
        let name = match tag.starts_with('/') {
            true => tag.to_owned(),
            false => name,
        };
        found.push((name, attributes.to_owned()));
    }
    found
}

/// Panics unless every element ends where it should, and no id occurs twice.
fn check_structure(html: &str) {
    let (mut open, mut ids) = (Vec::new(), Vec::new());
    for (name, attributes) in tags(html) {
        if let Some(ended) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(ended), "{open:?}");
            continue;
        }
        if let Some((_, id)) = attributes.split_once(" id=\"") {
            ids.push(id.split_once('"').expect("it ends").0.to_owned());
        }
        if !attributes.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} never end");
    let n = ids.len();
    ids.sort();
    ids.dedup();
    assert!(n > 10 && ids.len() == n, "an id comes twice: {ids:?}");
    // Every reference leads somewhere.
    for (before, after) in [
        ("href=\"#", '"'),
        ("url(#", ')'),
        ("aria-labelledby=\"", '"'),
    ] {
        for part in html.split(before).skip(1) {
            let id = part.split(after).next().expect("a part").to_owned();
            assert!(ids.contains(&id), "{before}{id}");
        }
    }
}

#[test]
fn the_page_is_whole_and_says_what_the_json_form_says() {
    let httpd = site().start();
    check_structure(&httpd.get("/nap-info").text());
    let held = httpd.hold("full", 1);
    let waiting = httpd.ask_to_hold("wait", 2);
    wait_until("two wait", Duration::from_secs(20), || httpd.waiting() == 2);
    let refused = httpd.get("/cgi-bin/hold?none");
    assert_eq!(refused.status, 503);

    let page = httpd.get("/nap-info");
    let html = page.text().replace("&#39;", "'");
    let told = httpd.get("/nap-info?json").json();
    let gate = &told["rooms"][0]["gates"][0];
    check_structure(&html);
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let summary = gate["summary"].as_str().expect("a sentence");
    assert!(
        summary.starts_with("Full: 1 of 1 run, 2 wait of 2") && summary.contains("; 1 ticket out"),
        "{summary}"
    );
    for part in [
        "<p class=\"state Full\">Full: 1 of 1 run, 2 wait of 2",
        "<title>Full: site – mod_nap</title>",
        gate["wait"]["why"].as_str().expect("a sentence"),
        told["tickets"][0]["id"].as_str().expect("an id"),
        told["workers"]["wanted"]["why"]
            .as_str()
            .expect("a sentence"),
        "GET /cgi-bin/hold?none",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let lists = ["refused", "sold", "queue"].map(|key| numbers(&gate["recent"][key]));
    // The present second is not shown before it is over.
    assert!(lists.iter().all(|list| list.len() == 300));
    wait_until("the second is over", Duration::from_secs(20), || {
        let told = httpd.get("/nap-info?json").json();
        let recent = &told["rooms"][0]["gates"][0]["recent"];
        let sum = |key| numbers(&recent[key]).iter().sum::<u64>();
        let most = numbers(&recent["queue"]).into_iter().max();
        (sum("refused"), sum("sold"), most) == (1, 1, Some(2))
    });
    drop((held, waiting));
}

fn rooms(n: usize) -> String {
    let room = |n| {
        format!(
            "<NapRoom r{n}>\nNapRunReady 2\n</NapRoom>\n<Location /r{n}/>\nNapUse r{n}\n</Location>\n"
        )
    };
    (1..=n).map(room).collect()
}

#[test]
fn of_many_rooms_each_has_a_line_that_leads_to_its_page() {
    let httpd = site()
        .config(&rooms(250))
        .config(CONTROL)
        .expect_log("[nap:warn]", "so many rooms want more workers")
        .start();
    let all = httpd.get("/nap-info").text();
    check_structure(&all);
    assert!(all.len() < 250_000, "{}", all.len());
    assert!(all.contains("<title>Nobody waits – mod_nap</title>"));
    assert!(all.contains("<a href=\"?room=r250\">r250</a>"));
    let one = httpd.get("/nap-info?room=r250").text();
    check_structure(&one);
    assert!(one.contains("<title>Quiet: r250 – mod_nap</title>"));
    assert!(one.contains("</span> r250</h2>") && !one.contains("</span> r249</h2>"));
    assert!(one.contains("<a href=\"?\">All rooms</a>"));
    assert!(one.contains("name=\"back\" value=\"/nap-info?room=r250\""));
    let named = |query: &str| {
        let told = httpd.get(&format!("/nap-info?json{query}")).json();
        told["rooms"].as_array().expect("a list").len()
    };
    assert_eq!(["", "&room=r7", "&room=nobody"].map(named), [251, 1, 0]);
    let held = httpd.hold("full", 1);
    let waits = httpd.ask_to_hold("second", 1);
    let crowded = || {
        httpd
            .get("/nap-info")
            .text()
            .contains("<title>site: a queue – mod_nap</title>")
    };
    wait_until("it is told", Duration::from_secs(20), crowded);
    held.release();
    waits.release();
}

/// One permit, two places, and a ticket every ten seconds. Long after the others are served most holders have
/// yet to come, and the page and the error log say so.
#[test]
fn permits_that_stand_empty_and_settings_that_cost_rate_are_told() {
    let prime = "room other: NapTicketPrime 30s with NapWaitMax 4s: tickets are sold for at most 11 % of what \
                 the server does; 2s or auto sells all of it";
    let httpd = Httpd::builder()
        .nap()
        .holding()
        .config(&ROOM.replace("</NapRoom>", "NapSlotTickets 1\n</NapRoom>"))
        .config("<NapRoom other>\nNapTicketPrime 30s\nNapWaitLimit 2\nNapRunReady 1\n</NapRoom>")
        .config("<Location /other>\nNapUse other\n</Location>")
        .expect_log(prime, "it is so long that it costs rate")
        .start();
    assert!(httpd.error_log().contains(prime), "{}", httpd.error_log());
    let running = httpd.hold("one", 1);
    let waiting = httpd.ask_to_hold("one", 2);
    httpd.until_waiting(2);
    for _ in 0..12 {
        let refused = httpd.get("/");
        assert!(refused.header("nap-ticket").is_some(), "{refused:?}");
    }
    running.release();
    waiting.release();
    let why = "NapSlotTickets 1 in each NapSlotPeriod of 10 s; ";
    wait_until("the page says why", Duration::from_secs(20), || {
        let sale = httpd.gate()["sale"].take();
        (sale["empty_why"].as_str()).is_some_and(|said| {
            said.contains(" 1 of 1 permits has stood empty while 12 tickets are out")
                && said.contains(why)
        })
    });
    wait_until("the log says so", Duration::from_secs(40), || {
        let log = httpd.error_log();
        let mut lines = log.lines();
        lines.any(|line| {
            line.contains("nap:notice") && line.contains("room site: Since") && line.contains(why)
        })
    });
    assert!(httpd.get("/nap-info").text().contains(why));
    let metrics = httpd.gate()["sale"]["empty_s"].as_f64();
    assert!(metrics > Some(5.0), "{metrics:?}");
}

fn numbers(list: &Value) -> Vec<u64> {
    let list = list.as_array().expect("a list");
    list.iter().map(|n| n.as_u64().expect("a number")).collect()
}

#[test]
fn it_needs_nothing_inline_and_its_files_are_there_though_the_room_is_full() {
    let httpd = site().start();
    let _held = httpd.hold("full", 1);
    let page = httpd.get("/nap-info");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'self'"), "{policy}");
    let html = page.text();
    let mut files = Vec::new();
    for (name, attributes) in tags(&html) {
        assert_ne!(name, "style");
        for inline in [" style=", " onclick=", " onload="] {
            assert!(!attributes.contains(inline), "{name}{attributes}");
        }
        let address = [" src=\"", " href=\"/"];
        let found = address.iter().find_map(|a| attributes.split_once(a));
        if let Some((_, rest)) = found.filter(|_| ["script", "link"].contains(&name.as_str())) {
            let path = rest.split('"').next().expect("an address");
            files.push(format!("/{}", path.trim_start_matches('/')));
        }
    }
    assert_eq!(files.len(), 3, "{files:?}");
    for path in files {
        let file = httpd.get(&path);
        assert_eq!(file.status, 200, "{path}");
        let kept = file.header("cache-control").expect("a header");
        assert!(kept.contains("immutable"), "{path}: {kept}");
        assert!(file.body.len() > 200, "{path}");
    }
}

#[test]
fn the_page_refreshes_itself_where_it_stands_and_pauses() {
    if !long() {
        return;
    }
    let httpd = site().start();
    let browser = Browser::start(&[], &json!({}));
    browser.open(&format!("{}/nap-info", httpd.url()));
    browser.until_shows("Quiet: nobody is here");
    browser.run(
        "window.kept = document.getElementById('tickets'); window.kept.focus();
         document.querySelector('.state').mark = 1; window.scrollTo(0, 200);
         window.scrolled = window.scrollY;",
    );
    let held = httpd.hold("full", 1);
    browser.until_shows("Busy: 1 of 1 run");
    // The browser keeps its scroll position when lines above come or go: it does not return to the top.
    let same = "return [document.activeElement === window.kept, window.scrolled > 0,
                Math.abs(window.scrollY - window.scrolled) < 100,
                document.querySelector('.state').mark]";
    assert_eq!(
        browser.run(same),
        json!([true, true, true, 1]),
        "it was not replaced"
    );
    browser.run("document.getElementById('pause').click()");
    held.release();
    wait_until("nobody runs", Duration::from_secs(20), || {
        httpd.holding("full") == 0
    });
    let frozen = browser.run_async(
        "var done = arguments[0]; setTimeout(function () {
         done(document.querySelector('.state').textContent); }, 3000)",
    );
    assert_eq!(frozen, "Busy: 1 of 1 run, nobody waits.");
    browser.run("document.getElementById('pause').click()");
    browser.until_shows("Open: 0 of 1 run");
}

/// Views the page as on phones and desktops, light and dark: axe-core finds nothing wrong with it, and it is
/// no wider than the screen. Pictures go to target/pages.
fn look_at(httpd: &Httpd, state: &str) {
    let browser = Browser::start(&["--hide-scrollbars"], &json!({}));
    let folder = nap_testkit::made::directory("pages");
    for (width, height, dark) in [
        (1000, 960, false),
        (1000, 960, true),
        (400, 800, false),
        (400, 800, true),
    ] {
        browser.look_like(width, height, dark);
        browser.open(&format!("{}/nap-info", httpd.url()));
        browser.run("document.getElementById('pause').click()");
        let wide = browser.run("return document.documentElement.scrollWidth");
        assert_eq!(wide, width, "{state}");
        let found = browser.axe();
        assert_eq!(found["violations"], json!([]), "{state} {width} {dark}");
        assert!(found["passes"].as_u64() >= Some(15), "{state}: {found}");
        let name = format!(
            "info-{state}-{width}{}.png",
            if dark { "-dark" } else { "" }
        );
        std::fs::write(folder.join(name), browser.view()).expect("target takes a file");
    }
}

#[test]
fn quiet_or_full_it_is_accessible_and_fits_a_phone() {
    if !long() {
        return;
    }
    let httpd = site()
        .config("<NapRoom other>\nNapWaitLimit 2\n</NapRoom>\n<Location /other>\nNapUse other\n</Location>")
        .start();
    look_at(&httpd, "quiet");
    drop(httpd);
    let httpd = site()
        .config(&rooms(20))
        .expect_log("[nap:warn]", "so many rooms want more workers")
        .start();
    look_at(&httpd, "rooms");
    drop(httpd);
    let httpd = Httpd::builder().crowded_board().start();
    httpd.in_a_crowd(|| {
        wait_until("some tickets were kept", Duration::from_secs(120), || {
            httpd.gate()["promise"]["kept"].as_u64() >= Some(40)
        });
        look_at(&httpd, "full");
    });
    drop(httpd);
    let backends = Backend::all(&[100_000, 400_000]);
    let httpd = site()
        .config(CONTROL)
        .everything(&backends)
        .expect_log("this room wants MaxRequestWorkers", "nobody is to wait")
        .start();
    httpd.use_everything();
    look_at(&httpd, "everything");
}
