//! Refusals: 503, ErrorDocument, ticket page, and what interferes with them on real sites.
//!
//! The room here has one permit, which a held access has, and nobody may wait: every other access
//! is refused with a ticket (the paper's static form, NapReAccess n).

use nap_testkit::app::ROOM;
use nap_testkit::held::Held;
use nap_testkit::{Answer, Builder, Httpd};

fn site(config: &str) -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .config(ROOM)
        .config("<Location /cgi-bin>\nNapUse site\n</Location>")
        .cgi(
            "app",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe application\\n'\n",
        )
        .config(config)
}

fn full(httpd: &Httpd) -> Held<'_> {
    httpd.hold("full", 1)
}

/// A refusal with a ticket, judged by its headers.
#[track_caller]
fn assert_ticket(answer: &Answer) {
    let ticket = answer.header("nap-ticket");
    assert_eq!(ticket.map(str::len), Some(107), "{answer:?}");
    let cookie = answer.header("set-cookie").expect("a cookie");
    assert!(
        cookie.starts_with(&format!("nap-site={}; Max-Age=", ticket.expect("one"))),
        "{cookie}"
    );
    let retry: u64 = answer
        .header("retry-after")
        .and_then(|seconds| seconds.parse().ok())
        .expect("whole seconds");
    assert!((1..=3600).contains(&retry), "{retry}");
}

/// Our ticket page, in English.
#[track_caller]
fn assert_page(answer: &Answer) {
    assert_ticket(answer);
    let text = answer.text();
    assert!(
        text.contains("The server is overloaded") && text.contains("A ticket was issued to you"),
        "{text}"
    );
}

/// Neither a refusal of ours nor any text of one.
#[track_caller]
fn assert_not_ours(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    let ours = |(name, value): &(String, String)| {
        name.starts_with("nap-") || (name == "set-cookie" && value.starts_with("nap-"))
    };
    assert!(!answer.headers.iter().any(ours), "{answer:?}");
    assert!(!answer.text().contains("overloaded"), "{answer:?}");
}

#[test]
fn a_refusal_has_every_header_and_the_page_in_the_form_asked_for() {
    let httpd = site("").start();
    let held = full(&httpd);
    let html = httpd.request(
        "GET",
        "/cgi-bin/app?a=%3Cb%3E",
        &[("Accept", "text/html")],
        b"",
    );
    assert_eq!(html.status, 503);
    assert_page(&html);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store, private"),
        ("vary", "Cookie,Accept,Accept-Language"),
        ("x-robots-tag", "noindex"),
        ("referrer-policy", "same-origin"),
        ("nap-reason", "full"),
    ] {
        // httpd rewrites some lists without spaces.
        let all: Vec<_> = html
            .headers_named(name)
            .map(|v| v.replace(", ", ","))
            .collect();
        assert_eq!(all, [value.replace(", ", ",")], "{name}");
    }
    assert!(html.header("access-control-expose-headers").is_none());
    let page = html.text();
    assert!(page.contains("http-equiv=\"refresh\""), "{page}");
    for address in ["cgi-bin", "127.0.0.1", "localhost"] {
        assert!(!page.contains(address), "{address} in {page}");
    }
    let token = html.header("nap-ticket").expect("one");
    assert!(page.contains(&format!("data-ticket=\"{token}\"")), "{page}");
    let policy = html.header("content-security-policy").expect("one");
    assert!(policy.starts_with("default-src 'self'"), "{policy}");

    let json = httpd.request(
        "GET",
        "/cgi-bin/app",
        &[
            ("Accept", "application/json"),
            ("Origin", "http://elsewhere.example"),
        ],
        b"",
    );
    assert_eq!(json.status, 503);
    assert_ticket(&json);
    assert_eq!(
        json.header("content-type"),
        Some("application/problem+json")
    );
    let exposed = json
        .header("access-control-expose-headers")
        .expect("with an Origin");
    assert!(
        exposed.contains("Retry-After") && exposed.contains("Nap-Ticket"),
        "{exposed}"
    );
    let problem = json.json();
    assert_eq!(problem["status"], 503);
    assert_eq!(problem["reason"], "full");
    assert_eq!(
        problem["ticket"]["token"],
        json.header("nap-ticket").expect("one")
    );

    let text = httpd.request("GET", "/cgi-bin/app", &[("Accept", "text/plain")], b"");
    assert_eq!(
        text.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_page(&text);
    let japanese = httpd.request("GET", "/cgi-bin/app", &[("Accept-Language", "ja")], b"");
    assert!(japanese.text().contains("<html lang=\"ja\">"));

    let head = httpd.request("HEAD", "/cgi-bin/app", &[], b"");
    assert_eq!((head.status, head.body.len()), (503, 0));
    assert_ticket(&head);
    let posted = httpd.request("POST", "/cgi-bin/app", &[], &vec![b'x'; 300_000]);
    assert_eq!(posted.status, 503);
    assert_page(&posted);

    let image = httpd.request("GET", "/cgi-bin/app", &[("Sec-Fetch-Dest", "image")], b"");
    assert_eq!(image.status, 503);
    assert!(image.header("retry-after").is_some() && image.header("nap-ticket").is_none());
    assert!(image.header("set-cookie").is_none(), "{image:?}");
    assert_eq!(image.header("nap-reason"), Some("not-sold"));
    drop(held);
}

/// The page's address for its style or script.
fn address_of(page: &str, name: &str) -> String {
    let start = format!("/nap-ticket/{name}?v=");
    let at = page
        .find(&start)
        .unwrap_or_else(|| panic!("{name} in {page}"));
    page[at..]
        .split('"')
        .next()
        .expect("a quote ends it")
        .into()
}

#[test]
fn style_and_script_are_served_past_everything_that_guards_the_site() {
    let httpd = site(
        "<Location />\nNapUse site\nRequire all denied\n</Location>
         <Location /cgi-bin>\nRequire all granted\n</Location>
         RewriteEngine On
         RewriteCond %{REQUEST_URI} !^/(cgi-bin|nap-info)
         RewriteRule ^ /cgi-bin/app [PT]
         <Location /nap-info>\nNapUse None\nRequire all granted\n</Location>",
    )
    .modules(&["rewrite"])
    .start();
    let _held = full(&httpd);
    let page = httpd.get("/cgi-bin/app").text();
    for (name, kind) in [
        ("nap.css", "text/css; charset=utf-8"),
        ("nap.js", "text/javascript; charset=utf-8"),
    ] {
        let address = address_of(&page, name);
        let file = httpd.get(&address);
        assert_eq!(file.status, 200, "{address}");
        assert_eq!(file.header("content-type"), Some(kind));
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        let kept = file.header("cache-control").expect("one");
        assert!(kept.contains("immutable"), "{kept}");
        assert!(file.header("set-cookie").is_none() && file.body.len() > 500);
        let old = httpd.get(&format!("/nap-ticket/{name}?v=0"));
        assert_eq!(old.header("cache-control"), Some("no-cache"));
        let head = httpd.request("HEAD", &address, &[], b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(httpd.request("POST", &address, &[], b"x").status, 405);
    }
    assert_eq!(httpd.get("/nap-ticket/other.js").status, 404);
    // Addresses that pages used before 2026.
    assert_eq!(httpd.get("/.nap/ticket/nap.css").status, 200);
    let status = httpd.get("/.nap/ticket/status").text();
    assert!(status.contains("\"none\""), "{status}");
}

#[test]
fn each_client_is_told_another_time() {
    let httpd = site("").start();
    let _held = full(&httpd);
    let begins = |_| {
        let answer = httpd.get("/cgi-bin/app");
        let window = answer
            .header("nap-ticket-window")
            .expect("a window")
            .to_string();
        let from = window
            .strip_prefix("from=")
            .and_then(|w| w.split(',').next());
        from.and_then(|f| f.parse::<f64>().ok()).expect("seconds")
    };
    let all: Vec<f64> = (0..8).map(begins).collect();
    // Each time is relative to its own answer; places are at least a tenth of a second apart here.
    assert!(all.iter().all(|&from| from > 1.5), "{all:?}");
    assert!(all[7] > all[0], "{all:?}");
}

#[test]
fn the_status_of_the_page_is_what_was_configured() {
    let httpd = site(
        "<Location /cgi-bin/app/429>\nNapTicketStatus 429\n</Location>
         <Location /cgi-bin/app/200>\nNapTicketStatus 200\n</Location>",
    )
    .start();
    let _held = full(&httpd);
    for status in [503, 429, 200] {
        for method in ["GET", "HEAD", "POST"] {
            let answer = httpd.request(method, &format!("/cgi-bin/app/{status}"), &[], b"");
            assert_eq!(answer.status, status, "{method}");
            assert_ticket(&answer);
        }
        let json = [("Accept", "application/json")];
        let answer = httpd.request("GET", &format!("/cgi-bin/app/{status}"), &json, b"");
        assert_eq!(answer.json()["status"], status);
    }
}

#[test]
fn headers_that_the_site_sets_for_a_place_are_on_its_refusals_and_the_page_is_not_kept() {
    let httpd = site(
        "Header always set Cache-Control \"public, max-age=3600\"
         Header always set X-Site all
         Header set Expires \"Thu, 01 Jan 2099 00:00:00 GMT\"
         <Location /cgi-bin/app/here>
         Header always set Access-Control-Allow-Origin https://other.example
         Header always append X-Frame-Options DENY
         Header set Content-Disposition attachment
         Header set ETag tag
         </Location>
         <Location /nap-ticket>\nHeader always set X-Page ticket\n</Location>",
    )
    .modules(&["headers"])
    .start();
    let _held = full(&httpd);
    let here = httpd.get("/cgi-bin/app/here");
    assert_eq!(here.status, 503);
    assert_page(&here);
    let all = |answer: &Answer, name| answer.headers_named(name).collect::<Vec<_>>().join("|");
    for (name, value) in [
        ("cache-control", "no-store, private"),
        ("x-site", "all"),
        ("access-control-allow-origin", "https://other.example"),
        ("x-frame-options", "DENY"),
        ("content-disposition", ""),
        ("etag", ""),
    ] {
        assert_eq!(all(&here, name), value, "{name}");
    }
    let expires = here.header("expires").expect("httpd's own, now");
    assert!(!expires.contains("2099"), "{expires}");
    let there = httpd.get("/cgi-bin/app/there");
    assert_page(&there);
    for (name, value) in [
        ("cache-control", "no-store, private"),
        ("x-site", "all"),
        ("access-control-allow-origin", ""),
        ("x-page", "ticket"),
    ] {
        assert_eq!(all(&there, name), value, "{name}");
    }
}

/// The page is neither a part nor a version of the requested document.
#[test]
fn a_refusal_is_whole_and_has_no_tag_whatever_range_or_version_was_asked_for() {
    let httpd = site(
        "<LocationMatch 429>\nNapTicketStatus 429\n</LocationMatch>
         <LocationMatch 200>\nNapTicketStatus 200\n</LocationMatch>",
    )
    .start();
    let _held = full(&httpd);
    let asked = [
        ("Range", "bytes=0-9"),
        ("Range", "bytes=0-9,20-29"),
        ("Range", "bytes=999999-"),
        ("Request-Range", "bytes=0-9"),
        ("If-None-Match", "*"),
        ("If-Modified-Since", "Fri, 01 Jan 2100 00:00:01 GMT"),
        ("If-Range", "\"tag\""),
        ("If-Match", "\"other\""),
        ("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:01 GMT"),
    ];
    for (path, status) in [
        ("/cgi-bin/app/503", 503),
        ("/cgi-bin/app/429", 429),
        ("/cgi-bin/app/200", 200),
    ] {
        for head in asked {
            let answer = httpd.request("GET", path, &[head, ("Accept", "text/html")], b"");
            assert_eq!(answer.status, status, "{path} {head:?}");
            assert_page(&answer);
            assert!(answer.text().trim_end().ends_with("</html>"), "{head:?}");
            for gone in ["content-range", "etag", "last-modified", "accept-ranges"] {
                assert_eq!(answer.header(gone), None, "{path} {head:?} {gone}");
            }
        }
    }
}

#[test]
fn an_administrators_own_page_carries_the_ticket() {
    let own = "<Location /cgi-bin/app/static>\nErrorDocument 503 /busy.html\n</Location>
        <Location /cgi-bin/app/text>\nErrorDocument 503 \"come later\"\n</Location>
        <Location /cgi-bin/app/program>\nErrorDocument 503 /cgi-bin/busy\n</Location>
        <Location /cgi-bin/app/missing>\nErrorDocument 503 /none.html\n</Location>";
    let httpd = site(own)
        .file("htdocs/busy.html", "my own words")
        .cgi(
            "busy",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nmy own program\\n'\n",
        )
        .start();
    let _held = full(&httpd);
    for (path, words) in [
        ("static", "my own words"),
        ("text", "come later"),
        ("program", "my own program"),
        ("missing", "Service Unavailable"),
    ] {
        let answer = httpd.get(&format!("/cgi-bin/app/{path}"));
        assert_eq!(answer.status, 503, "{path}");
        assert_ticket(&answer);
        assert_eq!(
            answer.header("cache-control"),
            Some("no-store, private"),
            "{path}"
        );
        assert!(answer.text().contains(words), "{path}: {}", answer.text());
    }
}

#[test]
fn a_proxy_of_everything_does_not_take_the_page() {
    let httpd = site("ProxyPass /cgi-bin/hold !\nProxyPass /server-status !\nProxyPass / http://127.0.0.1:9/\n<Location />\nNapUse site\n</Location>")
        .modules(&["proxy", "proxy_http"])
        .expect_log("AH00957", "nobody is behind the proxy")
        .expect_log("AH01114", "nobody is behind the proxy")
        .expect_log("AH00959", "nobody is behind the proxy")
        .start();
    {
        let _held = full(&httpd);
        let answer = httpd.get("/anything");
        assert_eq!(answer.status, 503);
        assert_page(&answer);
        assert!(
            !httpd.error_log().contains("AH00957"),
            "nobody asked the backend"
        );
    }
    nap_testkit::wait_until(
        "the room is free",
        std::time::Duration::from_secs(10),
        || httpd.get("/anything").header("nap-ticket").is_none(),
    );
    assert_not_ours(&httpd.get("/anything"), 503);
}

#[test]
fn a_front_controller_does_not_take_the_page() {
    let server = "RewriteEngine On
        RewriteCond %{REQUEST_URI} !^/(cgi-bin|server-status)
        RewriteRule ^ /cgi-bin/app [PT]";
    let directory = "<Directory {root}/htdocs>
        RewriteEngine On
        RewriteRule ^ /cgi-bin/app
        </Directory>
        <Location />\nNapUse site\n</Location>";
    for config in [server, directory] {
        let httpd = site(config).modules(&["rewrite"]).start();
        assert_eq!(httpd.get("/any/thing").text(), "the application\n");
        let _held = full(&httpd);
        for path in ["/any/thing", "/", "/cgi-bin/app"] {
            // mod_dir before 2.4.69 crashes there by itself (PR68527).
            if path == "/" && config == directory && nap_testkit::version() < (2, 4, 69) {
                continue;
            }
            let answer = httpd.get(path);
            assert_eq!(answer.status, 503, "{path}");
            assert_page(&answer);
        }
    }
}

#[test]
fn who_may_not_come_in_is_told_so_and_takes_no_ticket() {
    let httpd = site(
        "<Location /cgi-bin/app/login>
         AuthType Basic\nAuthName us\nAuthBasicProvider file\nAuthUserFile {root}/users\nRequire valid-user
         </Location>
         <Location /cgi-bin/app/denied>\nRequire all denied\n</Location>
         <Location /nap-ticket>\nRequire valid-user\nAuthType Basic\nAuthName us\nAuthUserFile {root}/users\n</Location>",
    )
    .modules(&["auth_basic", "authn_core", "authn_file", "authz_user"])
    // alice's password is "secret"
    .file("users", "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
    .expect_log("AH01617", "a wrong password is tried")
    .expect_log("AH01630", "a denied URL is asked for")
    .start();
    let login: (&str, &str) = ("Authorization", "Basic YWxpY2U6c2VjcmV0");
    let wrong = ("Authorization", "Basic YWxpY2U6d3Jvbmc=");
    let ask = |path: &str, head: &[(&str, &str)]| httpd.request("GET", path, head, b"");
    assert_eq!(ask("/cgi-bin/app/login", &[login]).status, 200);
    let _held = full(&httpd);
    assert_not_ours(&ask("/cgi-bin/app/login", &[]), 401);
    assert_not_ours(&ask("/cgi-bin/app/login", &[wrong]), 401);
    assert_not_ours(&ask("/cgi-bin/app/denied", &[]), 403);
    let refused = ask("/cgi-bin/app/login", &[login]);
    assert_eq!(refused.status, 503);
    assert_page(&refused);
    // The page itself requires a login: a refused visitor sees it, but requesting it needs the login.
    let open = ask("/cgi-bin/app", &[]);
    assert_eq!(open.status, 503);
    assert_page(&open);
    assert_not_ours(&ask("/nap-ticket", &[]), 401);
    assert_not_ours(&ask("/nap-ticket", &[wrong]), 401);
    assert_eq!(ask("/nap-ticket", &[login]).status, 404);
}

#[test]
fn a_503_of_somebody_else_passes_unchanged() {
    let httpd = site(
        "Redirect 503 /cgi-bin/app/alias
         <Location /cgi-bin/app/ours>\nErrorDocument 503 /nap-ticket\n</Location>
         Redirect 503 /cgi-bin/app/ours",
    )
    .cgi(
        "sick",
        "#!/bin/sh\nprintf 'Status: 503\\r\\nRetry-After: 77\\r\\nContent-Type: text/plain\\r\\n\\r\\nI am sick\\n'\n",
    )
    .start();
    for path in ["/cgi-bin/app/alias", "/cgi-bin/app/ours"] {
        assert_not_ours(&httpd.get(path), 503);
    }
    let sick = httpd.get("/cgi-bin/sick");
    assert_not_ours(&sick, 503);
    assert_eq!(sick.header("retry-after"), Some("77"));
    assert_eq!(sick.text(), "I am sick\n");
    let _held = full(&httpd);
    assert_not_ours(&httpd.get("/cgi-bin/app/alias"), 503);
}

#[test]
fn the_page_asked_for_directly_shows_ones_own_ticket_and_sells_none() {
    let httpd = site("").start();
    let held = full(&httpd);
    let refused = httpd.get("/cgi-bin/app");
    let token = refused.header("nap-ticket").expect("a ticket");
    let json = ("Accept", "application/json");
    let cookie = format!("nap-site={token}");
    let own = httpd.request("GET", "/nap-ticket", &[json, ("Cookie", &cookie)], b"");
    assert_eq!(own.status, 200);
    assert_eq!(own.header("content-type"), Some("application/json"));
    assert_eq!(own.json()["ticket"]["token"], token);
    let retry = own.json()["retry_after"].as_f64().expect("seconds");
    assert!(retry > 0.5, "as long as the ticket says: {retry}");
    assert_eq!(own.header("cache-control"), Some("no-store, private"));
    let header = httpd.request("GET", "/nap-ticket", &[json, ("Nap-Ticket", token)], b"");
    assert_eq!(header.json()["ticket"]["token"], token);
    let query = httpd.request(
        "GET",
        &format!("/nap-ticket?nap-ticket={token}"),
        &[json],
        b"",
    );
    assert_eq!(query.json()["ticket"]["token"], token);
    for head in [&[json][..], &[json, ("Cookie", "nap-site=nonsense")]] {
        let none = httpd.request("GET", "/nap-ticket", head, b"");
        assert_eq!(none.status, 404);
        let told = none.json();
        assert!(
            told["ticket"].is_null() && told["retry_after"].is_null(),
            "{told}"
        );
        assert!(none.header("set-cookie").is_none() && none.header("nap-ticket").is_none());
    }
    let html = httpd.get("/nap-ticket");
    assert_eq!(html.status, 404);
    let html = html.text();
    assert!(
        html.contains("no ticket") && !html.contains("http-equiv"),
        "nowhere to return to: {html}"
    );
    assert_eq!(httpd.request("POST", "/nap-ticket", &[], b"x").status, 405);
    drop(held);
}

#[test]
fn a_form_that_does_not_arrive_is_not_waited_for_and_the_page_says_so() {
    use std::io::{Read as _, Write as _};
    let httpd = (Httpd::builder().nap().holding().config(ROOM))
        .config("<Location /cgi-bin>\nNapUse site\n</Location>")
        .start();
    let _held = full(&httpd);
    let mut stream = httpd.connect();
    // Two of the six promised bytes come; the page does not wait for the others.
    write!(
        stream,
        "POST /cgi-bin/app HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Sec-Fetch-Site: same-origin\r\nContent-Length: 6\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\na="
    )
    .expect("httpd listens");
    let (mut page, mut part) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&page).contains("</html>") {
        let bytes = stream.read(&mut part).expect("the page, in time");
        assert!(bytes > 0, "{}", String::from_utf8_lossy(&page));
        page.extend_from_slice(&part[..bytes]);
    }
    let page = String::from_utf8_lossy(&page);
    assert!(page.starts_with("HTTP/1.1 503 "), "{page}");
    assert!(page.contains("Your form could not be kept"), "{page}");
    assert!(!page.contains("<form"), "{page}");
}

#[test]
fn mod_cache_never_stores_a_ticket_page() {
    for quick in ["On", "Off"] {
        let httpd = site(&format!(
            "CacheQuickHandler {quick}
             CacheRoot {{root}}/data/cache
             CacheEnable disk /cgi-bin/fresh
             CacheEnable disk /nap-ticket
             CacheStoreNoStore On\nCacheStorePrivate On\nCacheIgnoreCacheControl On
             CacheIgnoreNoLastMod On\nCacheIgnoreHeaders Set-Cookie\nCacheDefaultExpire 600
             <Location /cgi-bin/fresh>\nNapTicketStatus 200\n</Location>"
        ))
        .modules(&["cache", "cache_disk"])
        .cgi(
            "fresh",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\nCache-Control: max-age=600\\r\\n\\r\\nfresh %s\\n' $$\n",
        )
        .start();
        std::fs::create_dir(httpd.root().join("data/cache")).expect("a directory");
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(
            httpd.root().join("data/cache"),
            std::fs::Permissions::from_mode(0o777),
        )
        .expect("our own");
        let held = full(&httpd);
        let page = || {
            let answer = httpd.get("/cgi-bin/fresh");
            assert_eq!(answer.status, 200);
            assert_page(&answer);
            answer.header("nap-ticket").expect("a ticket").to_string()
        };
        assert_ne!(
            page(),
            page(),
            "a ticket for each, CacheQuickHandler {quick}"
        );
        assert_eq!(httpd.get("/nap-ticket").status, 404);
        held.release();
        let fresh = || httpd.get("/cgi-bin/fresh").text();
        nap_testkit::wait_until(
            "the room is free",
            std::time::Duration::from_secs(10),
            || fresh().starts_with("fresh"),
        );
        let (first, second) = (fresh(), fresh());
        assert_eq!(first, second, "the application's own answer is cached");
    }
}
