//! TelePolling of a site's own URLs on a real httpd: what each answer says, what the application is told, and
//! that nothing else is affected.

use nap_testkit::{Answer, Builder, Httpd, for_each_mpm, wait_until};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Reports what it was told and what it was sent.
const SCORE: &str = "#!/bin/sh
body=$(head -c \"${CONTENT_LENGTH:-0}\")
printf 'Content-Type: text/html\\r\\n\\r\\n%s %s %s\\n' \"$TELEPOLL_PHASE\" \"$TELEPOLL_PERIOD\" \"$body\"
";
/// Sets an interval of its own.
const PROUD: &str = "#!/bin/sh
printf 'Content-Type: text/html\\r\\nRetry-After: 7\\r\\nRefresh: 8; url=/next\\r\\n'
printf 'TelePoll-Interval: 9.000\\r\\n\\r\\nproud\\n'
";
const MOVED: &str = "#!/bin/sh
printf 'Status: 302 Found\\r\\nLocation: /page.html\\r\\n\\r\\n'
";

/// One access in ten seconds: each further one is told ten seconds more.
fn site(options: &str) -> Builder {
    Httpd::builder()
        .nap()
        .info()
        .cgi("score", SCORE)
        .cgi("proud", PROUD)
        .cgi("moved", MOVED)
        .file("htdocs/page.html", "a page\n")
        .file("htdocs/score.json", "{}")
        .file("htdocs/event/page.html", "a page\n")
        .file("htdocs/event/score.json", "{}")
        .config(&format!(
            "<Files page.html>\nForceType text/html\n</Files>\n\
             <Location /cgi-bin>\nTelePoll score {options}\n</Location>\n\
             <Location /event>\nTelePoll score {options}\n</Location>\n\
             <Location /event/quiet>\nTelePoll None\n</Location>"
        ))
}

const SLOW: &str = "base=1min rate=0.11";

fn event(httpd: &Httpd) -> Value {
    httpd.get("/nap-info?json").json()["events"][0].clone()
}

/// Milliseconds.
fn interval(answer: &Answer) -> u64 {
    let value = answer.header("telepoll-interval");
    let (seconds, ms) = value
        .and_then(|value| value.split_once('.'))
        .expect("an interval");
    assert_eq!(ms.len(), 3, "{answer:?}");
    seconds.parse::<u64>().expect("seconds") * 1000 + ms.parse::<u64>().expect("milliseconds")
}

/// The seconds that two answers were told, each on top of the one before.
fn told(answer: &Answer, least: u64, most: u64) {
    let ms = interval(answer);
    assert!((least * 1000..=most * 1000).contains(&ms), "{answer:?}");
    let whole = ms.div_ceil(1000).to_string();
    assert_eq!(
        answer.header("retry-after"),
        Some(whole.as_str()),
        "{answer:?}"
    );
}

#[test]
fn each_answer_is_told_ten_seconds_more_than_the_one_before() {
    for_each_mpm(|mpm| {
        let httpd = site(SLOW).mpm(mpm).start();
        let begin = Instant::now();
        for n in 0..4 {
            let answer = httpd.get("/cgi-bin/score");
            // The server may have been slow: then time has counted down.
            let passed = begin.elapsed().as_secs() + 1;
            told(
                &answer,
                (60 + 10 * n - passed.min(10 * n)).max(60),
                60 + 10 * n,
            );
        }
        let all = event(&httpd);
        assert_eq!(all["name"], "score", "under {mpm}");
        assert_eq!((&all["polls"], &all["unit_s"]), (&4.into(), &10.0.into()));
        let r = all["reservations"].as_u64().expect("R");
        assert!((1..=4).contains(&r), "{all}");
    });
}

#[test]
fn the_papers_form_counts_in_whole_units() {
    let httpd = site(&format!("{SLOW} form=paper")).start();
    for _ in 0..5 {
        let ms = interval(&httpd.get("/event/score.json"));
        assert_eq!(ms % 10_000, 0, "Ta + T0 R");
    }
    assert_eq!(event(&httpd)["settings"]["form"], "paper");
}

#[test]
fn pages_refresh_and_what_scripts_fetch_does_not() {
    let httpd = site(SLOW).start();
    let page = httpd.get("/event/page.html");
    assert_eq!(page.header("refresh"), page.header("retry-after"));
    assert!(page.header("refresh").is_some());
    let fetched = httpd.request(
        "GET",
        "/event/page.html",
        &[("Sec-Fetch-Dest", "empty")],
        b"",
    );
    assert_eq!(fetched.header("refresh"), None);
    assert!(fetched.header("telepoll-interval").is_some());
    let json = httpd.get("/event/score.json");
    assert_eq!(json.header("refresh"), None);
    assert_eq!(json.header("access-control-expose-headers"), None);
    told(&json, 60, 80);
    let posted = httpd.request("POST", "/cgi-bin/score", &[], b"vote=3");
    assert_eq!(posted.header("refresh"), None);
    assert!(posted.text().ends_with("vote=3\n"), "{}", posted.text());
    let head = httpd.request("HEAD", "/event/score.json", &[], b"");
    assert!(head.header("telepoll-interval").is_some());
    let origin = [("Origin", "https://elsewhere.example")];
    let cross = httpd.request("GET", "/event/score.json", &origin, b"");
    assert_eq!(
        cross.header("access-control-expose-headers"),
        Some("TelePoll-Interval, Retry-After")
    );
    assert_eq!(event(&httpd)["polls"], 6);
}

/// A client that is answered 304 goes on by the interval of the answer it has.
#[test]
fn a_poll_that_revalidates_is_answered_anew() {
    let cached = "<Location /event/page.html>\nHeader set Cache-Control max-age=1\n</Location>";
    let httpd = site(SLOW).modules(&["headers"]).config(cached).start();
    let first = httpd.get("/event/score.json");
    let [tag, modified] =
        ["etag", "last-modified"].map(|name| first.header(name).expect("a file's"));
    for (name, value) in [("If-None-Match", tag), ("If-Modified-Since", modified)] {
        let again = httpd.request("GET", "/event/score.json", &[(name, value)], b"");
        assert_eq!((again.status, again.text().as_str()), (200, "{}"));
        assert!(interval(&again) > interval(&first), "{name}: {again:?}");
        assert_eq!(again.header("cache-control"), Some("no-store"));
    }
    let own = httpd.get("/event/page.html");
    assert_eq!(own.header("cache-control"), Some("max-age=1"));
    let unpolled = [("If-None-Match", tag)];
    let file = httpd.request("GET", "/score.json", &unpolled, b"");
    let tag = file.header("etag").expect("a file's").to_owned();
    let unpolled = httpd.request("GET", "/score.json", &[("If-None-Match", &tag)], b"");
    assert_eq!(unpolled.status, 304, "others are as they were");
}

/// Its condition keeps it from overwriting somebody else's work.
#[test]
fn a_put_keeps_its_condition() {
    let httpd = site(SLOW)
        .cgi(
            "put",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s' \"$HTTP_IF_NONE_MATCH\"\n",
        )
        .start();
    let condition = [("If-None-Match", "*")];
    for (method, seen) in [("PUT", "*"), ("GET", "")] {
        let answer = httpd.request(method, "/cgi-bin/put", &condition, b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, seen));
        assert!(answer.header("telepoll-interval").is_some(), "{answer:?}");
    }
}

#[test]
fn other_answers_are_left_as_they_are() {
    let httpd = site(SLOW)
        .config("<Location /event/closed>\nRequire all denied\n</Location>")
        .expect_log("client denied by server configuration", "it is")
        .start();
    for path in ["/page.html", "/event/quiet/x", "/event/closed/x"] {
        let answer = httpd.get(path);
        for name in ["telepoll-interval", "retry-after", "refresh"] {
            assert_eq!(answer.header(name), None, "{path}");
        }
    }
    let options = httpd.request("OPTIONS", "/event/score.json", &[], b"");
    assert_eq!(options.header("telepoll-interval"), None);
    assert_eq!(event(&httpd)["polls"], 0, "nobody has polled");
    let proud = httpd.get("/cgi-bin/proud");
    for (name, own) in [
        ("retry-after", "7"),
        ("refresh", "8; url=/next"),
        ("telepoll-interval", "9.000"),
    ] {
        let all: Vec<&str> = proud.headers_named(name).collect();
        assert_eq!(all, [own], "the application's own");
    }
    // A redirect is followed at once; an error is told when to come again.
    let moved = httpd.get("/cgi-bin/moved");
    assert_eq!((moved.status, moved.header("retry-after")), (302, None));
    let missing = httpd.get("/event/missing");
    assert_eq!(missing.status, 404);
    told(&missing, 60, 80);
    assert_eq!(event(&httpd)["polls"], 3);
}

#[test]
fn an_error_document_and_a_directory_index_are_one_access() {
    let httpd = site(SLOW)
        .file("htdocs/event/index.html", "all of it\n")
        .config("ErrorDocument 404 /event/page.html\nDirectoryIndex index.html")
        .start();
    let missing = httpd.get("/event/missing");
    assert_eq!((missing.status, missing.text().as_str()), (404, "a page\n"));
    told(&missing, 60, 60);
    assert_eq!(
        missing.header("refresh"),
        None,
        "an error is no page to look at"
    );
    told(&httpd.get("/event/"), 60, 70);
    // The document of an error outside the event is not a poll either.
    let outside = httpd.get("/missing");
    assert_eq!(
        (outside.status, outside.header("telepoll-interval")),
        (404, None)
    );
    assert_eq!(event(&httpd)["polls"], 2);
}

#[test]
fn the_application_is_told_the_phase_and_the_period() {
    // Each second is a period, whose first half collects.
    let httpd = site("base=1s rate=1000 mode=concentrate k=2").start();
    let asked = || {
        let text = httpd.get("/cgi-bin/score").text();
        let mut words = text.split_whitespace().map(str::to_owned);
        let phase = words.next().expect("a phase");
        let period: u64 = words.next().and_then(|n| n.parse().ok()).expect("a period");
        (phase, period)
    };
    let (_, first) = asked();
    let (mut collected, mut tallied, mut last) = (false, false, first);
    wait_until(
        "both phases and three periods have been seen",
        Duration::from_secs(30),
        || {
            let (phase, period) = asked();
            assert!(period >= last, "{period} after {last}");
            last = period;
            match phase.as_str() {
                "collect" => collected = true,
                "tally" => tallied = true,
                other => panic!("{other}"),
            }
            collected && tallied && period >= first + 3
        },
    );
    let level = httpd.get("/nap-info?json").json()["events"][0].clone();
    assert_eq!(level["settings"]["mode"], "concentrate");
    // A file knows nothing of phases, and outside the event nobody is told one.
    let outside = Httpd::builder()
        .nap()
        .cgi("score", SCORE)
        .config("<Location /else>\nTelePoll score\n</Location>")
        .start();
    assert_eq!(outside.get("/cgi-bin/score").text().trim(), "");
}

#[test]
fn several_events_take_turns() {
    let lines: String = (0..3)
        .map(|m| {
            format!(
                "<Location /event/{m}>\nTelePoll e{m} base=3s mode=concentrate phase={m}/3\n</Location>\n"
            )
        })
        .collect();
    let mut builder = Httpd::builder().nap().info().config(&lines);
    for m in 0..3 {
        builder = builder.file(&format!("htdocs/event/{m}"), "x");
    }
    let httpd = builder.start();
    // Each is told a time in its own third of its period: the starts are a second apart.
    let due = |m: u64| {
        let before = Instant::now();
        let wait = interval(&httpd.get(&format!("/event/{m}")));
        (before, Duration::from_millis(wait))
    };
    let begin = Instant::now();
    let starts = [0, 1, 2].map(|m| {
        let (before, wait) = due(m);
        (before + wait - begin).as_secs_f64() % 3.0
    });
    let gap = |a: f64, b: f64| (b - a).rem_euclid(3.0);
    // Only the time of the requests in between may be added.
    let took = begin.elapsed().as_secs_f64();
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        let gap = gap(starts[a], starts[b]);
        assert!((gap - 1.0).abs() <= took + 0.01, "{starts:?} took {took}");
    }
    let events = httpd.get("/nap-info?json").json()["events"].clone();
    let phases: Vec<u64> = (0..3)
        .map(|m| events[m]["settings"]["phase"].as_u64().expect("a phase"))
        .collect();
    assert_eq!(phases, [0, 1, 2]);
}

#[test]
fn what_is_reserved_outlives_a_graceful_restart() {
    for_each_mpm(|mpm| {
        let mut httpd = site(SLOW).mpm(mpm).start();
        for _ in 0..6 {
            httpd.get("/event/score.json");
        }
        httpd.graceful();
        let answer = httpd.get("/event/score.json");
        assert!(interval(&answer) > 60_000, "under {mpm}: {answer:?}");
        assert_eq!(event(&httpd)["polls"], 7);
    });
}

/// Slow while a file exists.
const TROUBLED: &str = "#!/bin/sh
[ -e \"$BOARD_DIR/slow\" ] && sleep 0.5
printf 'Content-Type: text/plain\\r\\n\\r\\nok\\n'
";

#[test]
fn slow_answers_lengthen_the_unit_and_quick_ones_shorten_it_again() {
    let httpd = Httpd::builder()
        .nap()
        .info()
        .cgi("score", TROUBLED)
        .config("<Location /cgi-bin>\nTelePoll score base=1s rate=100000\n</Location>")
        .start();
    let slow = httpd.root().join("data/slow");
    let stretched = || event(&httpd)["stretched"].as_f64().expect("a factor");
    let crowd = || {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..10).for_each(|_| drop(httpd.get("/cgi-bin/score"))));
            }
        });
    };
    let settle = |what: &str, holds: &dyn Fn(f64) -> bool| {
        wait_until(what, Duration::from_secs(120), || {
            crowd();
            holds(stretched())
        });
    };
    (0..4).for_each(|_| crowd());
    std::fs::write(&slow, "").expect("written");
    settle("slow answers are noticed", &|times| times >= 2.0);
    std::fs::remove_file(&slow).expect("removed");
    settle("and are over", &|times| times == 1.0);
}

#[test]
fn a_refusal_of_the_room_is_no_poll() {
    let httpd = Httpd::builder()
        .app()
        .config("<Location /cgi-bin/app>\nTelePoll score\n</Location>")
        .start();
    assert!(
        httpd
            .get("/cgi-bin/app")
            .header("telepoll-interval")
            .is_some()
    );
    let held = httpd.hold("one", 1);
    let refused = httpd.get("/cgi-bin/app");
    assert_eq!(
        (refused.status, refused.header("telepoll-interval")),
        (503, None)
    );
    assert!(refused.header("retry-after").is_some() && refused.header("nap-ticket").is_some());
    drop(held);
    assert_eq!(event(&httpd)["polls"], 1);
}

#[test]
fn wrong_events_stop_configtest() {
    let complaint = |lines: &str| match Httpd::configtest(lines) {
        Ok(()) => panic!("it passes: {lines}"),
        Err(said) => said,
    };
    for (line, words) in [
        ("TelePoll", "wants an event's name"),
        ("TelePoll e base=0", "\"base=0\" is out of range; use e.g."),
        ("TelePoll e base=5h", "from 1s to 1h"),
        ("TelePoll e rate=0.001", "from 0.01 to 1000000"),
        (
            "TelePoll e rate=0.1 base=5s",
            "one access takes 11 s, more than base=5s",
        ),
        ("TelePoll e mode=up", "use level, relevel, or concentrate"),
        (
            "TelePoll e mode=concentrate phase=4/3",
            "is not a phase; use m/M",
        ),
        ("TelePoll e phase=1/3", "phase= needs mode=concentrate"),
        ("TelePoll e form=square", "use smooth, or paper"),
        ("TelePoll e k=3", "k= needs mode=concentrate"),
    ] {
        let said = complaint(&format!("<Location /event>\n{line}\n</Location>"));
        assert!(
            said.contains("TelePoll: ") && said.contains(words),
            "{line}: {said}"
        );
    }
    let twice =
        "<Location /a>\nTelePoll e\n</Location>\n<Location /b>\nTelePoll e rate=3\n</Location>";
    let said = complaint(twice);
    assert!(said.contains("event e has other settings in"), "{said}");
    let many: String = (0..65)
        .map(|n| format!("<Location /{n}>\nTelePoll e{n}\n</Location>\n"))
        .collect();
    assert!(complaint(&many).contains("event e64 is one too many; use at most 64"));
    let here = Httpd::builder()
        .nap()
        .config("<Directory {root}/htdocs>\nAllowOverride All\n</Directory>")
        .file("htdocs/.htaccess", "TelePoll e\n")
        .file("htdocs/x", "x")
        .expect_log("TelePoll not allowed here", "that is what is tested")
        .start();
    assert_eq!(here.get("/x").status, 500);
}
