//! `nap-metrics` and our section of `/server-status` on a real httpd: an independent parser reads them, they
//! agree with `/nap-info`, and the docs and the dashboard name what exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nap_testkit::backends::Backend;
use nap_testkit::{Builder, Httpd};
use serde::Deserialize;

const SITE: &str = r#"
<NapRoom site>
NapRunReady 1
NapWaitLimit 1
NapTicketsPerClient 1000
</NapRoom>
<NapRoom other>
NapRunReady 1
NapWaitLimit 1
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>
<Location /counter>
NapUse other
</Location>
BwShare On
BwShareFiles 1000 10
<LocationMatch "^/(nap-metrics|nap-info|server-status)">
BwShare Off
</LocationMatch>
<Location /nap-metrics>
SetHandler nap-metrics
</Location>
<Location /server-status>
SetHandler server-status
</Location>
"#;

/// Prefixes of our metrics' names.
const SYSTEMS: [&str; 4] = ["nap_", "bwshare_", "telepoll_", "oxthas_"];

/// Prints what python3-prometheus-client reads; the system's Python has it.
const PARSER: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families as families
print(json.dumps([{'name': f.name, 'kind': f.type, 'help': f.documentation,
  'samples': [[s.name, s.labels, s.value] for s in f.samples]} for f in families(sys.stdin.read())]))
";

#[derive(Deserialize)]
struct Family {
    /// The name, without `_total` for a counter.
    name: String,
    kind: String,
    help: String,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

fn site() -> Builder {
    Httpd::builder().nap().holding().config(SITE)
}

/// The same with everything there can be, some of it used.
fn all_there_is(backends: &[Backend]) -> Httpd {
    let store = "NapTicketKey {root}/keys\nNapStore redis://127.0.0.1:1 sticky agent={root}/none\nNapNode web2";
    let httpd = site()
        .modules(&["status"])
        .everything(backends)
        .secret("keys", "1 00112233445566778899aabbccddeeff\n")
        .config(store)
        .expect_log(
            "/none: No such file or directory; this server runs alone",
            "no agent is there",
        )
        .start();
    httpd.use_everything();
    httpd
}

fn fed(program: &str, args: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e}; `make setup` installs it"));
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}\n{input}");
    String::from_utf8(output.stdout).expect("text")
}

fn scrape(httpd: &Httpd) -> Vec<Family> {
    let answer = httpd.get("/nap-metrics");
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").expect("a type");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let text = answer.text();
    // From Debian's package `prometheus`; it checks names and units against conventions, too.
    if Command::new("promtool").arg("--version").output().is_ok() {
        let said = fed("promtool", &["check", "metrics"], &text);
        assert_eq!(said, "");
    }
    let parsed = fed("/usr/bin/python3", &["-c", PARSER], &text);
    serde_json::from_str(&parsed).expect("what PARSER prints")
}

/// The sample of this name whose labels hold these.
fn sample(families: &[Family], name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |own: &BTreeMap<String, String>| {
        let own = |label| own.get(label).map(String::as_str);
        labels
            .iter()
            .all(|(label, value)| own(*label) == Some(*value))
    };
    let samples = families.iter().flat_map(|family| &family.samples);
    let mut found = samples.filter(|(own, labels, _)| own == name && fits(labels));
    let one = found
        .next()
        .unwrap_or_else(|| panic!("no {name} {labels:?}"));
    assert!(found.next().is_none(), "several {name} {labels:?}");
    one.2
}

/// One runs, one waits, one is refused with a ticket.
fn fill(httpd: &Httpd) -> [nap_testkit::held::Held<'_>; 2] {
    let runs = httpd.hold("a", 1);
    let waits = httpd.ask_to_hold("a", 1);
    httpd.until_waiting(1);
    assert_eq!(httpd.get("/cgi-bin/hold?a").status, 503);
    assert_eq!(httpd.get("/counter").status, 200);
    [runs, waits]
}

#[test]
fn the_figures_are_read_by_a_parser_and_are_those_of_nap_info() {
    let httpd = site().start();
    let held = fill(&httpd);
    let families = scrape(&httpd);
    for family in &families {
        assert!(
            ["gauge", "counter"].contains(&&*family.kind),
            "{}",
            family.name
        );
        assert!(
            family.help.ends_with('.'),
            "{}: {}",
            family.name,
            family.help
        );
    }
    let of = |name| sample(&families, name, &[("room", "site")]);
    assert_eq!(of("nap_run_ready"), 1.0);
    assert_eq!(of("nap_wait"), 1.0);
    assert_eq!(of("nap_wait_limit"), 1.0);
    assert_eq!(of("nap_tickets_outstanding"), 1.0);
    let full = [("room", "site"), ("reason", "full")];
    assert_eq!(sample(&families, "nap_refused_total", &full), 1.0);
    let passed = sample(&families, "nap_passed_total", &[("room", "other")]);
    assert_eq!(passed, 1.0);
    // Two that hold, the refused one, the counter's; our own requests are not charged.
    assert_eq!(sample(&families, "bwshare_requests_total", &[]), 4.0);

    let room = httpd.gate();
    assert_eq!(
        Some(of("nap_bound_seconds")),
        room["settings"]["bound_s"].as_f64()
    );
    assert_eq!(
        Some(of("nap_tickets_sold_total")),
        room["promise"]["sold"].as_f64()
    );

    for held in held {
        held.release();
    }
    httpd.until_idle();
    let later = scrape(&httpd);
    assert_eq!(
        sample(&later, "nap_granted_total", &[("room", "site")]),
        1.0
    );
    for (before, after) in families.iter().zip(&later) {
        assert_eq!(before.name, after.name, "the families are always the same");
        for (name, labels, value) in before.samples.iter().filter(|_| before.kind == "counter") {
            let all: Vec<(&str, &str)> = labels.iter().map(|(l, v)| (&**l, &**v)).collect();
            assert!(sample(&later, name, &all) >= *value, "{name} stepped back");
        }
    }
}

#[test]
fn pages_sessions_events_and_members_are_told_of_by_name() {
    let backends = Backend::all(&[100_000]);
    let httpd = all_there_is(&backends);
    // A visitor names activities by the first segment of a path.
    assert_eq!(httpd.get("/a%22%5C%7D%0A1/x?size=100").status, 200);
    let families = scrape(&httpd);
    let of = |name, labels: &[(&str, &str)]| sample(&families, name, labels);
    let shop = [("room", "shop")];
    assert_eq!(of("nap_sessions", &shop), 1.0);
    assert_eq!(of("nap_sessions_started_total", &shop), 1.0);
    assert_eq!(of("nap_session_accesses_total", &shop), 1.0);
    assert_eq!(of("nap_session_interval_seconds", &shop), 0.001);
    let page = [("room", "shop"), ("gate", "page search")];
    assert_eq!(of("nap_passed_total", &page), 1.0);
    of("nap_wait", &[("room", "shop"), ("gate", "session")]);
    assert_eq!(of("nap_node_info", &[("node", "web2")]), 1.0);
    assert_eq!(of("nap_store_up", &[]), 0.0);
    assert_eq!(of("nap_fleet_nodes", &[("state", "silent")]), 0.0);
    assert_eq!(
        of("nap_store_round_trip_seconds_bucket", &[("le", "0.00025")]),
        0.0
    );
    assert_eq!(
        of("nap_store_round_trip_seconds_bucket", &[("le", "+Inf")]),
        0.0
    );
    let score = [("event", "score")];
    assert_eq!(of("telepoll_polls_total", &score), 2.0);
    assert_eq!(of("telepoll_base_interval_seconds", &score), 10.0);
    let event = httpd.get("/nap-info?json").json()["events"][0].clone();
    let unit = of("telepoll_unit_interval_seconds", &score);
    assert_eq!(Some(unit), event["unit_s"].as_f64());
    let url = backends[0].url();
    let work = [("balancer", "balancer://work"), ("member", url.as_str())];
    for (activity, answers) in [("work", 2.0), ("a\"\\}\n1", 1.0)] {
        let of_member = [work[0], work[1], ("activity", activity)];
        assert_eq!(of("oxthas_answers_total", &of_member), answers);
        assert_eq!(of("oxthas_failures_total", &of_member), 0.0);
    }
}

#[test]
fn docs_and_dashboard_name_the_metrics_there_are() {
    let families = scrape(&all_there_is(&Backend::all(&[100_000])));
    let names: BTreeSet<String> = families
        .iter()
        .map(|family| match &*family.kind {
            "counter" => format!("{}_total", family.name),
            _ => family.name.clone(),
        })
        .collect();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let read = |name| fs::read_to_string(docs.join(name)).expect("a file of the docs");
    let rows: BTreeSet<String> = read("metrics.md")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    assert_eq!(
        rows, names,
        "docs/metrics.md (left) and the handler (right)"
    );

    let histograms: Vec<&str> = families
        .iter()
        .filter(|family| family.kind == "histogram")
        .map(|family| family.name.as_str())
        .collect();
    let named = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| SYSTEMS.iter().any(|system| word.starts_with(system)))
            .map(|word| match word.strip_suffix("_bucket") {
                Some(histogram) if histograms.contains(&histogram) => histogram.to_owned(),
                _ => word.to_owned(),
            })
            .collect()
    };
    let dashboard = read("grafana.json");
    serde_json::from_str::<serde_json::Value>(&dashboard).expect("JSON");
    for text in [dashboard, read("metrics.md")] {
        let unknown: Vec<String> = named(&text).difference(&names).cloned().collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

#[test]
fn server_status_has_our_section_in_both_forms() {
    let backends = Backend::all(&[100_000]);
    let httpd = all_there_is(&backends);
    let _held = fill(&httpd);
    let page = httpd.get("/server-status");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=ISO-8859-1")
    );
    let page = page.text();
    assert!(page.contains("<h2>mod_nap</h2>"), "{page}");
    assert!(
        page.contains("<tr><td>site </td><td>Full</td><td>1</td><td>1</td>"),
        "{page}"
    );
    assert!(page.contains("<h2>mod_bwshare</h2>"), "{page}");
    for words in [
        "<td>shop page search</td>",
        "<p>shop: 1 sessions under way, 1 started; one may start each 0.001 s.</p>",
        "<p>score: polled 2 times;",
    ] {
        assert!(page.contains(words), "no {words} in {page}");
    }
    assert!(
        page.contains("</body></html>"),
        "the page goes on behind us: {page}"
    );

    let auto = httpd.get("/server-status?auto");
    let said: BTreeMap<String, String> = auto
        .text()
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    for (key, value) in [
        ("NapState-site", "Full"),
        ("NapRunReady-site", "1"),
        ("NapWaiting-site", "1"),
        ("NapRefused-site", "1"),
        ("NapPassed-other", "1"),
        ("NapPassed-shop-page-search", "1"),
        ("NapSessions-shop", "1"),
        ("NapSessionsStarted-shop", "1"),
        ("NapSessionInterval-shop", "0.001"),
        ("TelePollPolls-score", "2"),
    ] {
        assert_eq!(said.get(key).map(String::as_str), Some(value), "{said:?}");
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let docs = fs::read_to_string(docs).expect("the docs");
    for key in said.keys().filter(|key| {
        ["Nap", "BwShare", "TelePoll"]
            .iter()
            .any(|own| key.starts_with(own))
    }) {
        let figure = key.split('-').next().expect("a first part");
        assert!(
            docs.contains(&format!("`{figure}`")),
            "docs/metrics.md lacks {figure}"
        );
    }
}
