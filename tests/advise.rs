//! `/nap-info?advise`: makes a configuration that httpd accepts from what DryRun has seen.

use nap_testkit::Httpd;

const SITE: &str = "<NapRoom site>
NapRunReady 10
</NapRoom>
<Location />
NapUse site
</Location>
<Location /nap-info>
NapUse None
</Location>
NapEngine DryRun";

fn site() -> Httpd {
    let small = "this room wants MaxRequestWorkers";
    Httpd::builder()
        .nap()
        .holding()
        .workers(2, 16)
        .config(SITE)
        .expect_log(small, "the test's server is small")
        .start()
}

fn advice(httpd: &Httpd) -> String {
    let answer = httpd.get("/nap-info?advise");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    answer.text()
}

fn line<'a>(text: &'a str, begins: &str) -> &'a str {
    let found = text.lines().find(|line| line.trim().starts_with(begins));
    found.unwrap_or_else(|| panic!("no {begins} in:\n{text}"))
}

#[test]
fn it_advises_what_was_seen_and_httpd_takes_it() {
    let httpd = site();
    let said = advice(&httpd);
    line(
        &said,
        "# Room site: 0 accesses were seen, and advice needs 100",
    );
    assert!(!said.contains("<NapRoom"), "{said}");

    // Six at once at least, and 106 in all.
    httpd.hold("a", 6).release();
    for _ in 0..100 {
        assert_eq!(httpd.get("/counter").status, 200);
    }
    let said = advice(&httpd);
    line(&said, "# Room site: 106 accesses were seen");
    line(&said, "# at most ");
    let n: u32 = line(&said, "NapRunReady").trim()["NapRunReady ".len()..]
        .parse()
        .expect("a number");
    assert!((4..=10).contains(&n), "{said}");
    line(&said, "NapWaitMax 4s");
    line(&said, "NapEngine On");
    Httpd::configtest(&said).unwrap_or_else(|why| panic!("{why}\n{said}"));
}

#[test]
fn what_would_have_waited_is_told() {
    let httpd = site();
    for _ in 0..100 {
        httpd.get("/counter");
    }
    let held = httpd.hold("a", 12);
    let said = advice(&httpd);
    line(
        &said,
        "# 2 more would have waited or been refused, as 10 ran.",
    );
    line(&said, "NapRunReady 10");
    held.release();
}

#[test]
fn pages_and_sessions_are_advised_of_in_one_room() {
    let pages = "NapPage heavy /counter/heavy\nNapPage unused /nothing\nNapSession start=/counter\n</NapRoom>";
    let small = "this room wants MaxRequestWorkers";
    let httpd = Httpd::builder()
        .nap()
        .holding()
        .workers(2, 64)
        .config(&SITE.replace("</NapRoom>", pages))
        .expect_log(small, "the test has a small server")
        .start();
    for _ in 0..100 {
        assert_eq!(httpd.get("/counter").status, 200);
        assert_eq!(httpd.get("/counter/heavy").status, 200);
    }
    let said = advice(&httpd);
    line(&said, "# Room site: 100 accesses were seen");
    line(&said, "# Room site, page heavy: 100 accesses were seen");
    line(&said, "# Room site, page unused: 0 accesses were seen");
    line(&said, "# In its <NapPage heavy ...>:");
    line(&said, "#   NapRunReady 4");
    assert_eq!(said.matches("<NapRoom site>").count(), 1, "{said}");
    assert!(!said.contains("session"), "{said}");
    line(
        &said,
        "# Leave NapEngine DryRun until every room has been used.",
    );
    Httpd::configtest(&said).unwrap_or_else(|why| panic!("{why}\n{said}"));
}
