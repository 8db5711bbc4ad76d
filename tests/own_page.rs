//! An administrator's own ticket page on a real httpd: the examples of docs/own-page.md, a template that is
//! or becomes wrong, and the preview.

use nap_testkit::{Answer, Httpd, example_of};

fn example(part: &str) -> String {
    example_of("docs/own-page.md", part)
}

#[track_caller]
fn assert_refused(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(
        answer.header("nap-ticket").map(str::len),
        Some(107),
        "{answer:?}"
    );
}

#[test]
fn a_template_of_ones_own_is_the_page_where_it_is_configured() {
    let httpd = Httpd::builder()
        .app()
        .file("conf/layout.html", example("{{ main }}"))
        .file("conf/words.html", example("We are sold out of time"))
        .config(
            "<Location /cgi-bin/app>\nNapTicketPage conf/layout.html\n</Location>
             <Location /cgi-bin/app/words>\nNapTicketPage conf/words.html\n</Location>
             <Location /cgi-bin/app/none>\nNapTicketPage None\n</Location>",
        )
        .start();
    let _held = httpd.hold("full", 1);
    let layout = httpd.request("GET", "/cgi-bin/app", &[("Accept-Language", "ja")], b"");
    assert_refused(&layout);
    let text = layout.text();
    assert!(
        text.contains("<html lang=\"ja\">") && text.contains("Example Shop</title>"),
        "{text}"
    );
    assert!(
        text.contains("<main id=\"nap\" data-mark=") && text.contains("整理券を発行"),
        "{text}"
    );
    assert_eq!(layout.header("content-security-policy"), None);
    assert_eq!(
        layout.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let words = httpd.get("/cgi-bin/app/words");
    assert_refused(&words);
    let text = words.text();
    assert!(
        text.contains("<h1>Your place is kept</h1>") && text.contains("nap-stop"),
        "{text}"
    );
    let none = httpd.get("/cgi-bin/app/none").text();
    assert!(
        none.contains("The server is overloaded") && !none.contains("Example Shop"),
        "{none}"
    );
    // Only the page is custom: programs get the usual answer.
    let json = httpd.request(
        "GET",
        "/cgi-bin/app",
        &[("Accept", "application/json")],
        b"",
    );
    assert_eq!(json.json()["reason"], "full");
    // A kept form comes back in it.
    let head = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let posted = httpd
        .request("POST", "/cgi-bin/app/words", &head, b"a=%3Cb%3E")
        .text();
    assert!(
        posted.contains("name=\"a\" value=\"&#60;b&#62;\""),
        "{posted}"
    );
}

#[test]
fn a_room_has_its_page_everywhere_and_a_location_outranks_it() {
    let httpd = Httpd::builder()
        .nap()
        .holding()
        .config(
            "<NapRoom site>\nNapRunReady 1\nNapWaitLimit 0\nNapReAccess 4\nNapSlotPeriod 1s
             NapTicketPage {root}/room.html\n</NapRoom>
             <Location /cgi-bin>\nNapUse site\n</Location>
             <Location /cgi-bin/hold/other>\nNapTicketPage {root}/other.html\n</Location>",
        )
        .file("room.html", "of the room {{ room }}")
        .file("other.html", "of the location, {{ status }}")
        .start();
    let _held = httpd.hold("full", 1);
    assert_eq!(httpd.get("/cgi-bin/hold").text(), "of the room site");
    assert_eq!(
        httpd.get("/cgi-bin/hold/other").text(),
        "of the location, 503"
    );
}

#[test]
fn a_wrong_template_stops_a_start_with_file_and_line_but_not_a_restart() {
    let room = "<NapRoom site>\nNapRunReady 1\nNapWaitLimit 0\nNapReAccess 4\nNapSlotPeriod 1s\n\
        NapTicketPage {root}/htdocs/busy.html\n</NapRoom>\n<Location /cgi-bin>\nNapUse site\n</Location>";
    let site = |page: &str| {
        let site = Httpd::builder().nap().holding().config(room);
        site.file("htdocs/busy.html", page)
    };
    let said = site("\n{{ wiat }}").configtest().expect_err("it is wrong");
    let words = "busy.html line 2: there is no value named \"wiat\"";
    assert!(
        said.contains(words) && said.contains("httpd.conf line "),
        "{said}"
    );
    let said = site("{% if new %}")
        .try_start()
        .err()
        .expect("it does not start");
    assert!(said.contains("busy.html line 1: "), "{said}");
    let none = Httpd::configtest("<NapRoom a>\nNapTicketPage {root}/none.html\n</NapRoom>");
    assert!(none.is_err_and(|said| said.contains("none.html: No such file")));

    let mut httpd = site("first").start();
    let page = |httpd: &Httpd| {
        let _held = httpd.hold("full", 1);
        httpd.get("/cgi-bin/hold").text()
    };
    assert_eq!(page(&httpd), "first");
    let put = |httpd: &Httpd, text: &str| {
        std::fs::write(httpd.root().join("htdocs/busy.html"), text).expect("our own");
    };
    let renew = |httpd: &mut Httpd| {
        httpd.until_idle();
        let _ = std::fs::remove_file(httpd.root().join("data/go-full"));
        httpd.graceful();
    };
    put(&httpd, "second");
    renew(&mut httpd);
    assert_eq!(page(&httpd), "second");
    put(&httpd, "\n{{ wiat }}");
    httpd.expect_log("visitors see the built-in page", "that is what is tested");
    renew(&mut httpd);
    let built_in = page(&httpd);
    assert!(built_in.contains("The server is overloaded"), "{built_in}");
    assert!(httpd.error_log().contains(words));
}

#[test]
fn an_error_document_of_ones_own_is_told_what_the_page_would_say() {
    let httpd = Httpd::builder()
        .app()
        .modules(&["include"])
        .file("htdocs/busy.shtml", example("<!--#echo"))
        .cgi("busy", &example("REDIRECT_NAP_TITLE"))
        .cgi("all", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'; cat >/dev/null; env\n")
        .config(
            "<Directory {root}/htdocs>\nOptions +Includes\n<Files *.shtml>\nSetOutputFilter INCLUDES\n</Files>\n</Directory>
             <Location /cgi-bin/app>\nErrorDocument 503 /busy.shtml\n</Location>
             <Location /cgi-bin/app/cgi>\nErrorDocument 503 /cgi-bin/busy\n</Location>
             <Location /cgi-bin/app/all>\nErrorDocument 503 /cgi-bin/all\n</Location>",
        )
        .start();
    let _held = httpd.hold("full", 1);
    let ssi = httpd.get("/cgi-bin/app");
    assert_refused(&ssi);
    let text = ssi.text();
    assert!(
        text.contains("<p>Your time is ") && text.contains("<main id=\"nap\""),
        "{text}"
    );
    assert!(
        text.contains("nap.js?v=") && !text.contains("(none)"),
        "{text}"
    );
    let cgi = httpd.get("/cgi-bin/app/cgi");
    assert_refused(&cgi);
    let text = cgi.text();
    assert!(text.starts_with("Your turn comes in 0:0"), "{text}");
    assert!(
        text.contains("\nThe server is overloaded") && text.contains("\nCome from "),
        "{text}"
    );
    let all = httpd.request("POST", "/cgi-bin/app/all", &[], b"a=1");
    assert_refused(&all);
    let text = all.text();
    let token = all.header("nap-ticket").expect("one");
    for line in [
        "REDIRECT_NAP_REASON=full",
        "REDIRECT_NAP_PROMISE=soon",
        "REDIRECT_NAP_NEW=True",
        "REDIRECT_NAP_FORM=lost",
        "REDIRECT_NAP_ROOM=site",
        &format!("REDIRECT_NAP_TOKEN={token}"),
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    // An image is sold no ticket, so its time is empty.
    let image = [("Sec-Fetch-Dest", "image")];
    let text = httpd.request("GET", "/cgi-bin/app/all", &image, b"").text();
    assert!(text.lines().any(|l| l == "REDIRECT_NAP_FROM="), "{text}");
}

#[test]
fn the_preview_shows_each_state_and_sells_nothing() {
    let httpd = Httpd::builder()
        .app()
        .config(
            "<Location /nap-preview>\nSetHandler nap-preview\nRequire local\n</Location>
             <Location />\nNapUse site\n</Location>
             <Location /nap-info>\nNapUse None\n</Location>
             <Location /mine>\nNapTicketPage {root}/mine.html\n</Location>",
        )
        .file(
            "mine.html",
            "my page: {{ reason }} {{ promise }} {{ form }} {{ language }}",
        )
        .start();
    let _held = httpd.hold("full", 1);
    let list = httpd.get("/nap-preview");
    assert_eq!(list.status, 200);
    assert!(list.text().contains("mine.html"), "{}", list.text());
    let page = httpd.get("/nap-preview?reason=broken&promise=soon&language=ja");
    assert_eq!(page.status, 200);
    assert!(
        page.text().contains("あってはならないこと"),
        "{}",
        page.text()
    );
    assert!(page.header("set-cookie").is_none() && page.header("nap-ticket").is_none());
    let mine = "/nap-preview?reason=late&promise=now&form=kept&page=0";
    assert_eq!(httpd.get(mine).text(), "my page: late now kept en");
    // A form sent from the preview does nothing.
    assert_eq!(httpd.request("POST", mine, &[], b"a=1").status, 200);
    let info = httpd.get("/nap-info?json").json();
    assert_eq!(info["rooms"][0]["gates"][0]["promise"]["sold"], 0, "{info}");
    assert_eq!(
        httpd.request("DELETE", "/nap-preview", &[], b"").status,
        405
    );
}
