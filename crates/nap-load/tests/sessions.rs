//! `nap-load sessions`, the real binary, against a shop that follows a script.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A request as the shop saw it.
#[derive(Clone, Debug, PartialEq)]
struct Ask {
    method: String,
    path: String,
    query: String,
    cookie: String,
    body: String,
}

/// What the shop does with a request.
enum Say {
    /// 200 with this header line, if it is not empty.
    Page(&'static str),
    /// Refused, with a ticket good in 50 ms.
    Ticket(&'static str),
    /// Refused, with a ticket good in an hour.
    Later(&'static str),
    /// 200 with this JSON.
    Json(&'static str),
    /// Refused, and nothing else.
    Plain,
    Status(u16),
    /// Never answer.
    Silence,
}

const PAGE: Say = Say::Page("");

type Asked = Arc<Mutex<Vec<Ask>>>;

/// The shop's address, and what it was asked.
fn shop(mut script: impl FnMut(&Ask) -> Say + Send + 'static) -> (String, Asked) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let site = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Asked::default();
    let seen = asked.clone();
    let script = Arc::new(Mutex::new(move |ask: &Ask| {
        seen.lock().expect("seen").push(ask.clone());
        script(ask)
    }));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = script.clone();
            std::thread::spawn(move || converse(stream, &script));
        }
    });
    (site, asked)
}

fn converse(mut stream: TcpStream, script: &Mutex<impl FnMut(&Ask) -> Say>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let ask = read(&mut reader)?;
        let head = match (script.lock().ok()?)(&ask) {
            Say::Page(header) => format!("200 OK\r\n{header}"),
            Say::Ticket(token) => ticket(token, "0.050"),
            Say::Later(token) => ticket(token, "3600.000"),
            Say::Json(body) => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
                let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).ok()?;
                continue;
            }
            Say::Plain => "503 Busy\r\n".to_owned(),
            Say::Status(status) => format!("{status} Whatever\r\n"),
            Say::Silence => {
                // The client closes first.
                let _ = reader.read(&mut [0]);
                return None;
            }
        };
        let head = head.trim_end();
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 2\r\n\r\nok");
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

/// The head of a refusal with a ticket that is good in `from` seconds.
fn ticket(token: &str, from: &str) -> String {
    format!(
        "503 Busy\r\nRetry-After: 60\r\nNap-Reason: full\r\nNap-Ticket: {token}\r\n\
         Nap-Ticket-Window: from={from}, prime=3660.000, until=3900.000\r\n\
         Set-Cookie: nap-shop={token}; Max-Age=3960"
    )
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Ask> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let mut pairs = lines.iter().filter_map(|line| line.split_once(": "));
        pairs.find_map(|(n, value)| n.eq_ignore_ascii_case(name).then(|| value.to_owned()))
    };
    let first: Vec<&str> = lines.first()?.split(' ').collect();
    let (path, query) = first.get(1)?.split_once('?').unwrap_or((first[1], ""));
    let length = header("content-length").map_or(0, |n| n.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Ask {
        method: first[0].to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        cookie: header("cookie").unwrap_or_default(),
        body: String::from_utf8(body).expect("a form in ASCII"),
    })
}

const PAGES: [&str; 4] = [
    "/login",
    "/list",
    "/search?q={number}",
    "POST:/buy?article={number}",
];

fn nap_load(site: &str, options: &[&str]) -> Output {
    let quick = ["--think", "10ms", "--retry", "10ms", "--stop", "60s"];
    Command::new(env!("CARGO_BIN_EXE_nap-load"))
        .arg("sessions")
        .args(["--clients", "1"])
        .args(quick.iter().filter(|_| !options.contains(&"--stop")))
        .args(options)
        .arg(site)
        .args(PAGES)
        .env("NAP_SEED", "7")
        .output()
        .expect("nap-load starts")
}

/// Runs it and returns the JSON report.
fn report(site: &str, options: &[&str]) -> Value {
    let output = nap_load(site, &[options, &["--json", "-"]].concat());
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

/// The pages in the order in which they were asked for.
fn paths(asked: &Asked) -> Vec<String> {
    let asked = asked.lock().expect("asked");
    asked.iter().map(|ask| ask.path.clone()).collect()
}

#[test]
fn a_session_goes_through_its_pages_with_its_cookies() {
    let (site, asked) = shop(|ask| match ask.path.as_str() {
        "/login" => Say::Page("Set-Cookie: shop=abc; Path=/"),
        _ => PAGE,
    });
    let report = report(&site, &["--sessions", "2"]);
    check(
        &report,
        &[
            ("sessions.started", 2),
            ("sessions.completed", 2),
            ("sessions.completed_at_once", 2),
            ("sessions.unfinished", 0),
            ("mid_session_failures", 0),
            ("first_page_failures", 0),
            ("completion.count", 2),
            ("completion_curve.1.1", 2),
            ("pages.3.page", 4),
            ("pages.3.response.count", 2),
        ],
    );
    assert!(report["throughput"]["whole"].as_f64().expect("a rate") > 0.0);
    let pages = ["/login", "/list", "/search", "/buy"];
    assert_eq!(paths(&asked), [pages, pages].concat());
    let asked = asked.lock().expect("asked");
    // Each session belongs to a new client.
    assert_eq!(asked[0].cookie, "");
    assert_eq!(asked[4].cookie, "");
    assert!(asked[1..4].iter().all(|ask| ask.cookie == "shop=abc"));
    let number = asked[2].query.strip_prefix("q=").expect("a query");
    assert!(number.parse::<u32>().is_ok_and(|n| n < 10_000), "{number}");
    assert_eq!((&*asked[3].method, &*asked[3].query), ("POST", ""));
    assert!(asked[3].body.starts_with("article="), "{:?}", asked[3]);
    assert_ne!(asked[2].query, asked[6].query);
}

#[test]
fn who_is_refused_at_the_first_page_comes_when_his_ticket_says() {
    let (site, asked) = shop(|ask| match (ask.path.as_str(), ask.cookie.as_str()) {
        ("/login", "") => Say::Ticket("A"),
        ("/login", "nap-shop=A") => Say::Page("Set-Cookie: nap-shop=; Max-Age=0"),
        ("/login", _) => Say::Status(500),
        _ => PAGE,
    });
    let report = report(&site, &[]);
    check(
        &report,
        &[
            ("first_page_failures", 1),
            ("pages.0.failures.tickets", 1),
            ("mid_session_failures", 0),
            ("tickets.issued", 1),
            ("promises.presented", 1),
            ("promises.kept", 1),
            ("sessions.completed_at_once", 1),
        ],
    );
    assert_eq!(
        paths(&asked),
        ["/login", "/login", "/list", "/search", "/buy"]
    );
}

#[test]
fn who_asks_where_he_stands_comes_when_he_is_called() {
    let mut asks = 0;
    let (site, asked) = shop(move |ask| match (ask.path.as_str(), ask.cookie.as_str()) {
        ("/login", "") => Say::Later("A"),
        ("/status", "nap-shop=A") => {
            asks += 1;
            match asks {
                1 | 2 => Say::Json(r#"{"state": "wait", "ask": 0.010}"#),
                _ => Say::Json(r#"{"state": "now"}"#),
            }
        }
        ("/login", "nap-shop=A") => Say::Page("Set-Cookie: nap-shop=; Max-Age=0"),
        _ => PAGE,
    });
    let report = report(&site, &["--status", "/status"]);
    check(&report, &[("sessions.completed", 1), ("tickets.issued", 1)]);
    let [login, status] = ["/login", "/status"];
    let wanted = [
        login, status, status, status, login, "/list", "/search", "/buy",
    ];
    assert_eq!(paths(&asked), wanted);
}

/// One session in which the search page answers this once: the report, and the pages asked for.
fn a_search_that_says(
    say: impl Fn() -> Say + Send + 'static,
    options: &[&str],
) -> (Value, Vec<String>) {
    let mut first = true;
    let (site, asked) = shop(move |ask| match ask.path.as_str() {
        "/search" if std::mem::take(&mut first) => say(),
        _ => PAGE,
    });
    let report = report(&site, options);
    check(
        &report,
        &[
            ("sessions.completed", 1),
            ("mid_session_failures", 1),
            ("first_page_failures", 0),
        ],
    );
    (report, paths(&asked))
}

#[test]
fn a_page_that_does_not_come_sends_him_back_to_the_second() {
    let back = ["/login", "/list", "/search", "/list", "/search", "/buy"];
    for kind in ["timeouts", "errors", "refused"] {
        let say = move || match kind {
            "timeouts" => Say::Silence,
            "errors" => Say::Status(500),
            _ => Say::Plain,
        };
        let (report, paths) = a_search_that_says(say, &["--timeout", "2s"]);
        check(
            &report,
            &[
                (&format!("pages.2.failures.{kind}"), 1),
                ("sessions.completed_at_once", 0),
            ],
        );
        assert_eq!(paths, back, "{kind}");
    }
}

#[test]
fn he_goes_back_to_the_page_that_was_named() {
    let (_, paths) = a_search_that_says(|| Say::Plain, &["--restart", "1"]);
    assert_eq!(paths[2..4], ["/search", "/login"]);
    // The client has not yet reached the page it would go back to.
    let (_, paths) = a_search_that_says(|| Say::Plain, &["--restart", "4"]);
    assert_eq!(paths[2..4], ["/search", "/search"]);
}

#[test]
fn a_ticket_within_a_session_is_a_failure_but_obeyed() {
    let (report, paths) = a_search_that_says(|| Say::Ticket("B"), &[]);
    check(
        &report,
        &[
            ("pages.2.failures.tickets", 1),
            ("sessions.completed_at_once", 1),
            ("tickets.issued", 0),
        ],
    );
    assert_eq!(paths, ["/login", "/list", "/search", "/search", "/buy"]);
}

#[test]
fn whose_session_the_shop_has_forgotten_logs_in_again() {
    let (report, paths) = a_search_that_says(|| Say::Status(403), &[]);
    check(&report, &[("pages.2.failures.lost", 1)]);
    let again = ["/login", "/list", "/search"];
    assert_eq!(paths, [&again[..], &again, &["/buy"]].concat());
}

#[test]
fn a_first_page_that_is_none_ends_the_session() {
    let (site, asked) = shop(|_| Say::Status(404));
    let output = nap_load(&site, &["--json", "-"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    check(
        &report,
        &[("sessions.failed", 1), ("sessions.completed", 0)],
    );
    assert_eq!(paths(&asked), ["/login"]);
}

#[test]
fn a_run_that_is_stopped_says_what_is_unfinished() {
    let (site, _) = shop(|ask| match ask.path.as_str() {
        "/search" => Say::Silence,
        _ => PAGE,
    });
    let stop = ["--stop", "500ms", "--think", "10ms", "--json", "-"];
    let output = nap_load(&site, &stop);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["ended"], "stopped");
    check(
        &report,
        &[("sessions.unfinished", 1), ("sessions.completed", 0)],
    );
}

#[test]
fn rows_tell_every_try() {
    let mut first = true;
    let (site, _) = shop(move |ask| match ask.path.as_str() {
        "/search" if std::mem::take(&mut first) => Say::Plain,
        _ => PAGE,
    });
    let name = format!("nap-load-sessions-{}.csv", std::process::id());
    let csv = std::env::temp_dir().join(name);
    let output = nap_load(&site, &["--csv", csv.to_str().expect("UTF-8")]);
    let rows = std::fs::read_to_string(&csv).expect("rows");
    std::fs::remove_file(&csv).expect("our own file");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 within sessions"), "{text}");
    assert!(text.contains("3 /search"), "{text}");
    let mut rows = rows.lines();
    let head = "t,client,session,page,try,status,reason,response_s,group,ticket,from";
    assert_eq!(rows.next(), Some(head));
    let told: Vec<String> = rows
        .map(|row| row.split(',').collect::<Vec<_>>()[3..7].join(","))
        .collect();
    let want = [
        "1,1,200,served",
        "2,2,200,served",
        "3,3,503,plain",
        "2,4,200,served",
        "3,5,200,served",
        "4,6,200,served",
    ];
    assert_eq!(told, want);
}

#[test]
fn wrong_use_is_refused_with_a_reason() {
    for (words, want) in [
        (&["http://192.0.2.1", "/a", "/b"][..], "--allow-remote"),
        (&["http://127.0.0.1:1", "/a"], "PAGE"),
        (&["http://127.0.0.1:1", "/a", "b"], "a page is /path"),
        (
            &["http://127.0.0.1:1", "/a", "/b", "--restart", "9"],
            "2 pages",
        ),
        (&["http://127.0.0.1:1/x", "/a", "/b"], "the site alone"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nap-load"));
        let output = command.arg("sessions").args(words).output();
        let output = output.expect("nap-load starts");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(want), "{words:?}: {errors}");
    }
}
