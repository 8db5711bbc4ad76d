//! nap-load, the real binary, against a server that follows a script, and against a real one where it has to
//! behave like the page that this serves.

mod again;
mod door;
mod server;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nap_testkit::Httpd;
use serde_json::Value;
use server::{Ask, Say, serve};

fn nap_load(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nap-load"));
    command.args(args).env("NAP_SEED", "7");
    // Every run ends by itself, or the test fails instead of hanging.
    if !args.contains(&"--stop") {
        command.args(["--stop", "60s"]);
    }
    command.output().expect("nap-load starts")
}

/// Runs it and returns the JSON report.
fn report(args: &[&str]) -> Value {
    let output = nap_load(&[args, &["--json", "-"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).expect(&errors);
    assert_eq!(report["ended"], "done", "{report:#}");
    report
}

/// Asserts several values of a report by their paths.
fn check(report: &Value, wants: &[(&str, u64)]) {
    for (path, want) in wants {
        let pointer = format!("/{}", path.replace('.', "/"));
        assert_eq!(
            report.pointer(&pointer).and_then(Value::as_u64),
            Some(*want),
            "{path}\n{report:#}"
        );
    }
}

struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        TempFile(std::env::temp_dir().join(format!("nap-load-{}-{name}", std::process::id())))
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("a name in UTF-8")
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const SOON: [f64; 3] = [0.05, 60.0, 300.0];

#[test]
fn kept_broken_and_deferred_promises_are_told_apart() {
    let ticket = |reason, token: &str| Say::Ticket(reason, token.to_owned(), SOON);
    // What must be presented, and the answer to it.
    let mut script = vec![
        (None, Say::Page { redeemed: false }),
        (None, ticket("full", "A")),
        (Some("A"), Say::Page { redeemed: true }),
        (None, ticket("full", "B")),
        (Some("B"), ticket("broken", "G")),
        (Some("G"), Say::Page { redeemed: true }),
        (None, ticket("full", "C")),
        (Some("C"), ticket("deferred", "D")),
        (Some("D"), ticket("deferred", "E")),
        (Some("E"), Say::Page { redeemed: true }),
        (None, Say::Plain),
        (None, Say::Page { redeemed: false }),
    ]
    .into_iter();
    let surprises = Arc::new(Mutex::new(Vec::new()));
    let seen = surprises.clone();
    let url = serve(move |ask| {
        let (want, say) = script.next().expect("no more requests than the script has");
        if ask.ticket_cookie() != want || ask.body.len() != 100 || ask.line != "POST /board" {
            seen.lock()
                .expect("seen")
                .push(format!("{} {:?} for {want:?}", ask.line, ask.headers));
        }
        say
    });
    let csv = TempFile::new("promises.csv");
    let report = report(&[
        &url,
        "-c",
        "1",
        "-n",
        "5",
        "--retry",
        "50ms",
        "--bound",
        "60s",
        "--post-bytes",
        "100",
        "--csv",
        csv.name(),
    ]);
    assert_eq!(*surprises.lock().expect("surprises"), Vec::<String>::new());
    check(
        &report,
        &[
            ("posts.started", 5),
            ("posts.served", 5),
            ("tries.total", 12),
            ("tries.max", 4),
            ("refusals.total", 7),
            ("refusals.by_reason.full.newcomer", 3),
            ("refusals.by_reason.broken.prime", 1),
            ("refusals.by_reason.deferred.prime", 2),
            ("refusals.by_reason.plain.newcomer", 1),
            ("tickets.issued", 6),
            ("tickets.none", 1),
            ("tickets.torn", 0),
            ("promises.presented", 6),
            ("promises.kept", 3),
            ("promises.over_bound", 0),
            ("promises.broken", 1),
            ("promises.deferred", 2),
            ("promises.deferred_twice", 1),
            ("served_by_group.prime", 3),
            ("served_by_group.newcomer", 2),
            ("wait_told.count", 6),
            ("wait_observed.count", 6),
            ("response.count", 5),
            ("seed", 7),
        ],
    );
    assert_eq!(
        report["tries"]["distribution"],
        serde_json::json!([1, 2, 1, 1, 0])
    );
    assert_eq!(report["kept_share"], 0.5);
    assert_eq!(report["errors"], serde_json::json!({}));
    // Nobody came before their time.
    let (told, waited) = (&report["wait_told"]["min"], &report["wait_observed"]["min"]);
    assert!(waited.as_f64() >= told.as_f64(), "{told} {waited}");

    let rows = std::fs::read_to_string(&csv.0).expect("the CSV");
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 13);
    assert!(
        rows.iter().all(|row| row.len() == rows[0].len()),
        "{rows:?}"
    );
    let column = |name| rows[0].iter().position(|head| *head == name).expect(name);
    let of = |name| {
        rows[1..]
            .iter()
            .map(|row| row[column(name)])
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("post"),
        "0 1 1 2 2 2 3 3 3 3 4 4".split(' ').collect::<Vec<_>>()
    );
    assert_eq!(of("reason")[4..6], ["broken", "served"]);
    assert_eq!(of("group")[4..6], ["prime", "prime"]);
    assert_eq!(of("status")[..3], ["200", "503", "200"]);
}

#[test]
fn a_hammering_visitor_shows_the_same_ticket_until_its_time() {
    let mut issued: Option<Instant> = None;
    let url = serve(move |ask| {
        let rest = |at: Instant| 0.5 - at.elapsed().as_secs_f64();
        match (ask.ticket_cookie(), issued) {
            (Some("H"), Some(at)) if rest(at) <= 0.0 => Say::Page { redeemed: true },
            (Some("H"), Some(at)) => {
                let rest = rest(at);
                Say::Ticket("early", "H".to_owned(), [rest, rest + 60.0, rest + 300.0])
            }
            _ => {
                issued = Some(Instant::now());
                Say::Ticket("full", "H".to_owned(), [0.5, 60.5, 300.5])
            }
        }
    });
    let report = report(&[&url, "-c", "1", "-n", "1", "--hammer", "1@50"]);
    check(
        &report,
        &[
            ("posts.served", 1),
            ("tickets.issued", 1),
            ("promises.broken", 0),
        ],
    );
    let count = |path: &str| report.pointer(path).and_then(Value::as_u64).expect(path);
    let early = count("/early/presented");
    assert!(early > 1, "{report:#}");
    // The two clocks may differ by a moment at the window's start, but by no more than one try.
    assert_eq!(
        count("/tickets/shown_again"),
        count("/refusals/by_reason/early/early")
    );
    assert_eq!(
        count("/promises/kept") + count("/early/served"),
        1,
        "{report:#}"
    );
    assert_eq!(report["behaviours"][0]["behaviour"], "hammering");
}

#[test]
fn the_late_are_late_once_and_their_fate_is_told() {
    let url = serve(|ask| match ask.ticket_cookie() {
        None => Say::Ticket("full", "L".to_owned(), [0.0, 0.05, 60.0]),
        Some("L") => Say::Ticket("late", "M".to_owned(), SOON),
        _ => Say::Page { redeemed: true },
    });
    let report = report(&[&url, "-c", "1", "-n", "1", "--late", "1@50ms"]);
    check(
        &report,
        &[
            ("posts.served", 1),
            ("late.presented", 1),
            ("late.rebooked", 1),
            ("refusals.by_reason.late.late", 1),
            ("promises.presented", 1),
            ("promises.kept", 1),
        ],
    );
}

#[test]
fn a_no_show_goes_on_without_its_cookie() {
    let mut asked = 0;
    let url = serve(move |ask| {
        asked += 1;
        match (asked, ask.ticket_cookie()) {
            (1, None) => Say::Ticket("full", "N".to_owned(), SOON),
            (2, None) => Say::Page { redeemed: false },
            _ => Say::Status(400),
        }
    });
    let report = report(&[&url, "-c", "1", "-n", "2", "--no-show", "1"]);
    check(
        &report,
        &[
            ("posts.abandoned", 1),
            ("posts.served", 1),
            ("posts.failed", 0),
            ("promises.presented", 0),
        ],
    );
}

#[test]
fn a_page_asks_as_it_is_told_and_comes_when_it_is_called() {
    let says = [
        r#"{"state":"wait","call":false,"from":59,"prime":69,"until":300,"ask":0.05}"#,
        r#"{"state":"now","call":true,"from":58.9,"prime":68.9,"until":299.9}"#,
    ];
    let mut says = says.into_iter();
    let url = serve(move |ask| match (ask.line.as_str(), ask.ticket_cookie()) {
        ("POST /board", None) => Say::TicketPage("A".to_owned(), [60.0, 70.0, 300.0], [50, 60_000]),
        ("GET /stands", Some("A")) if ask.body.is_empty() => Say::Told(says.next().expect("two")),
        ("POST /board", Some("A")) => Say::Page { redeemed: true },
        _ => Say::Status(400),
    });
    let report = report(&[&url, "-c", "1", "-n", "1", "--asks", "1"]);
    check(
        &report,
        &[
            ("posts.served", 1),
            ("tries.total", 2),
            ("polls.total", 2),
            ("polls.called", 1),
            ("polls.unanswered", 0),
            ("behaviours.0.polls", 2),
            // A called holder comes in time.
            ("promises.presented", 1),
            ("promises.kept", 1),
            ("early.presented", 0),
        ],
    );
    assert_eq!(report["behaviours"][0]["behaviour"], "asking");
    assert_eq!(
        report["requests_per_visitor"],
        serde_json::json!({"tries": 2.0, "with_polls": 4.0})
    );
}

#[test]
fn a_page_that_nobody_answers_comes_at_its_time() {
    let url = serve(|ask| match (ask.line.as_str(), ask.ticket_cookie()) {
        ("POST /board", None) => Say::TicketPage("A".to_owned(), SOON, [20, 100]),
        ("POST /board", Some("A")) => Say::Page { redeemed: true },
        _ => Say::Status(404),
    });
    let report = report(&[&url, "-c", "1", "-n", "1", "--asks", "1"]);
    check(
        &report,
        &[
            ("posts.served", 1),
            ("tries.total", 2),
            ("polls.total", 1),
            ("promises.kept", 1),
        ],
    );
}

#[test]
fn pages_of_a_real_server_bring_their_visitors_back() {
    let httpd = Httpd::builder()
        .workers(2, 16)
        .config("SetEnv BOARD_SLEEP_MS 50\nSetEnv BOARD_CPU_MS 1\nKeepAlive Off")
        .nap()
        .config("<NapRoom board>\nNapRunReady 2\nNapWaitMax 1s\n</NapRoom>")
        .expect_log(
            "NapWaitMax 1s: tickets are sold for at most",
            "the bound is short",
        )
        .config("<Location /board>\nNapUse board\n</Location>")
        .start();
    let url = format!("{}/board", httpd.url());
    let report = report(&[
        &url, "-c", "80", "-n", "1", "--get", "--asks", "1", "--bound", "1s",
    ]);
    check(
        &report,
        &[
            ("posts.served", 80),
            ("posts.abandoned", 0),
            ("promises.broken", 0),
            ("polls.unanswered", 0),
        ],
    );
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64).expect(path);
    let told = number("/time_told/count");
    assert!(told > 0.0, "{report:#}");
    // A page told lately that its ticket waits comes back at its time without asking again.
    assert!(number("/polls/total") < told, "{report:#}");
    assert_eq!(report["errors"], serde_json::json!({}));
}

#[test]
fn a_ticket_is_presented_as_asked_for() {
    type Shown = fn(&Ask) -> bool;
    let cases: [(&str, Shown); 2] = [
        ("header", |ask| ask.header("nap-ticket") == Some("T/+=")),
        ("query", |ask| {
            ask.line == "POST /board?nap-ticket=T%2F%2B%3D"
        }),
    ];
    for (present, shown) in cases {
        let mut asked = 0;
        let url = serve(move |ask| {
            asked += 1;
            match asked {
                1 => Say::Ticket("full", "T/+=".to_owned(), SOON),
                _ if shown(ask) && ask.ticket_cookie().is_none() => Say::Page { redeemed: true },
                _ => Say::Status(400),
            }
        });
        let report = report(&[&url, "-c", "1", "-n", "1", "--present", present]);
        check(
            &report,
            &[
                ("posts.served", 1),
                ("posts.failed", 0),
                ("promises.kept", 1),
            ],
        );
    }
}

#[test]
fn a_ticket_is_read_from_json_alone() {
    let mut asked = 0;
    let url = serve(move |ask| {
        asked += 1;
        match asked {
            1 if ask.header("accept") == Some("application/json") => Say::Json(
                r#"{"status":503,"reason":"full","retry_after":4,
                    "ticket":{"token":"J","id":"id7","from":0.05,"prime":60,"until":300}}"#
                    .to_owned(),
            ),
            2 if ask.header("nap-ticket") == Some("J") => Say::Page { redeemed: true },
            _ => Say::Status(400),
        }
    });
    let csv = TempFile::new("json.csv");
    let args = [
        &url,
        "-c",
        "1",
        "-n",
        "1",
        "--accept",
        "json",
        "--present",
        "header",
        "--csv",
        csv.name(),
    ];
    let report = report(&args);
    check(
        &report,
        &[
            ("posts.served", 1),
            ("refusals.by_reason.full.newcomer", 1),
            ("promises.kept", 1),
        ],
    );
    assert!(
        std::fs::read_to_string(&csv.0)
            .expect("the CSV")
            .contains(",id7,")
    );
}

#[test]
fn a_server_that_leaves_a_kept_connection_costs_no_post() {
    let url = serve(|_| Say::PageAndLeave);
    let report = report(&[&url, "-c", "2", "-n", "20"]);
    check(&report, &[("posts.served", 40), ("tries.total", 40)]);
    assert_eq!(report["errors"], serde_json::json!({}));
}

#[test]
fn one_connection_serves_all_posts_unless_told_otherwise() {
    let url = || serve(|_| Say::Page { redeemed: false });
    check(
        &report(&[&url(), "-c", "1", "-n", "9"]),
        &[("posts.served", 9), ("connections.opened", 1)],
    );
    let each = report(&[&url(), "-c", "1", "-n", "9", "--no-keepalive"]);
    check(&each, &[("posts.served", 9), ("connections.opened", 9)]);
}

#[test]
fn errors_are_counted_by_kind_and_tried_again() {
    let mut says = vec![
        Say::HangUp,
        Say::Status(502),
        Say::Silence,
        Say::Page { redeemed: false },
    ]
    .into_iter();
    let url = serve(move |_| says.next().unwrap_or(Say::Status(404)));
    let report = report(&[
        &url,
        "-c",
        "1",
        "-n",
        "2",
        "--retry",
        "20ms",
        "--timeout",
        "200ms",
    ]);
    check(
        &report,
        &[
            ("posts.served", 1),
            ("posts.failed", 1),
            ("errors.closed", 1),
            ("errors.http 502", 1),
            ("errors.timeout", 1),
            ("errors.http 404", 1),
            ("tries.total", 5),
        ],
    );
}

#[test]
fn an_aborting_visitor_hangs_up_and_goes_on() {
    let mut asked = 0;
    let url = serve(move |_| {
        asked += 1;
        if asked == 1 {
            Say::Silence
        } else {
            Say::Page { redeemed: false }
        }
    });
    let report = report(&[&url, "-c", "1", "-n", "2", "--abort", "1@100ms"]);
    check(
        &report,
        &[
            ("posts.aborted", 1),
            ("posts.served", 1),
            ("posts.unfinished", 0),
        ],
    );
    assert_eq!(report["errors"], serde_json::json!({}));
}

#[test]
fn visitors_come_from_networks_of_their_own_unless_told_otherwise() {
    let peers = |source: &str| {
        let peers = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
        let seen = peers.clone();
        let url = serve(move |ask| {
            seen.lock().expect("seen").insert(ask.peer);
            Say::Page { redeemed: false }
        });
        check(
            &report(&[&url, "-c", "6", "-n", "1", "--source", source]),
            &[("posts.served", 6)],
        );
        peers.lock().expect("peers").len()
    };
    assert_eq!([peers("distinct"), peers("one"), peers("3")], [6, 1, 2]);
}

#[test]
fn open_arrivals_are_as_many_as_the_rate_says() {
    let url = serve(|_| Say::Page { redeemed: false });
    let even = report(&[
        &url,
        "--open",
        "100",
        "--arrivals",
        "even",
        "--duration",
        "1005ms",
    ]);
    check(
        &even,
        &[
            ("posts.served", 100),
            ("clients", 100),
            ("connections.turned_away", 0),
        ],
    );
    let capped = [
        "-c",
        "1",
        "--open",
        "100",
        "--arrivals",
        "even",
        "--duration",
        "305ms",
    ];
    let url = serve(|_| {
        std::thread::sleep(Duration::from_secs(1));
        Say::Page { redeemed: false }
    });
    let capped = report(&[&[url.as_str()], capped.as_slice()].concat());
    check(
        &capped,
        &[("posts.served", 1), ("connections.turned_away", 29)],
    );
}

#[test]
fn the_table_speaks_the_papers_words() {
    let mut asked = 0;
    let url = serve(move |_| {
        asked += 1;
        if asked == 1 {
            Say::Ticket("full", "A".to_owned(), SOON)
        } else {
            Say::Page { redeemed: true }
        }
    });
    let output = nap_load(&[&url, "-c", "1", "-n", "1", "--label", "paper"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success());
    for words in [
        "paper: 1 closed visitors x 1 posts",
        "seed 7",
        "Table 1: response time (s)",
        "Table 2: wait time (s)",
        "variance",
        "incl. waiting",
        "presented in the prime window",
    ] {
        assert!(text.contains(words), "{words:?} is not in:\n{text}");
    }
    assert!(
        output.stderr.is_empty(),
        "a progress bar without a terminal"
    );
}

#[test]
fn wrong_use_is_refused_with_a_reason() {
    for (args, want) in [
        (vec!["http://192.0.2.1/"], "--allow-remote"),
        (vec!["http://127.0.0.1/", "--hamer", "0.3@10"], "--hammer"),
        (vec!["http://127.0.0.1/", "--think", "fast"], "500ms"),
        (
            vec!["http://127.0.0.1/", "--hammer", "0.9@10", "--late", "0.2"],
            "add up",
        ),
        (
            vec!["http://127.0.0.1/", "--csv", "/nonexistent/x"],
            "/nonexistent/x",
        ),
        (vec![], "URL"),
    ] {
        let output = nap_load(&args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(text.contains(want), "{args:?}: {text}");
    }
}

#[test]
fn a_run_that_serves_nobody_fails() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}/", free.local_addr().expect("an address"));
    drop(free);
    let output = nap_load(&[
        &url, "-c", "1", "-n", "1", "--stop", "300ms", "--retry", "50ms",
    ]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("connection refused") && text.contains("1 unfinished"),
        "{text}"
    );
}
