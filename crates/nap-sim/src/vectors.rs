//! Reference vectors: files of inputs and expected outputs (`tests/vectors/*.json`), computed by an
//! independent implementation; `nap-sim vectors FILE...` runs any file of that form.
//!
//! A file is `{"name", "tolerance", "cases": [{"case", "input", "expect"}]}`. The input's `law` or `op` says
//! what a case tests, together with the file's `name` where systems share a word. Numbers agree within the
//! relative tolerance. The code under test counts whole units of time and whole cells, so scripts run on a
//! finer scale than microseconds, until their times come out even.

use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::ledger_script::Script;
use nap_core::micros::Micros;
use nap_core::nap::ledger;
use nap_core::nap::slots::{SlotTerms, Slots};
use nap_core::nap::wait_limit::{self, Facts, NoLimit, RhoSettings, WaitSettings};
use nap_core::nap::{returns, slots::capacity};

/// The result of one case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// Its title.
    pub case: String,
    /// What the file expects.
    pub expected: Value,
    /// What our code returns.
    pub got: Value,
    /// Whether they agree.
    pub ok: bool,
}

/// Why a file cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not of the form above; the text says what is wrong.
    Malformed(String),
    /// Of that form, but about something that is not implemented; the text names it.
    Unsupported(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Malformed(what) => write!(f, "malformed: {what}"),
            Refused::Unsupported(what) => write!(f, "unsupported: {what}"),
        }
    }
}

/// Runs all cases of a file's text.
pub fn run(text: &str) -> Result<Vec<CaseResult>, Refused> {
    let file: File = serde_json::from_str(text).map_err(|e| Refused::Malformed(e.to_string()))?;
    if !(0.0..1.0).contains(&file.tolerance) {
        return Err(Refused::Malformed(format!(
            "tolerance {} not in 0..1",
            file.tolerance
        )));
    }
    if file.cases.is_empty() {
        return Err(Refused::Malformed("no cases".into()));
    }
    file.cases
        .iter()
        .map(|case| run_case(&file, case))
        .collect()
}

#[derive(Deserialize)]
struct File {
    name: String,
    #[serde(default = "default_tolerance")]
    tolerance: f64,
    cases: Vec<Case>,
}

fn default_tolerance() -> f64 {
    1e-9
}

#[derive(Deserialize)]
struct Case {
    case: String,
    input: Value,
    expect: serde_json::Map<String, Value>,
}

fn run_case(file: &File, case: &Case) -> Result<CaseResult, Refused> {
    let named = |refused| match refused {
        Refused::Malformed(what) => Refused::Malformed(format!("case \"{}\": {what}", case.case)),
        Refused::Unsupported(what) => Refused::Unsupported(what),
    };
    if case.expect.is_empty() {
        return Err(named(Refused::Malformed("it expects nothing".into())));
    }
    let got = compute(&file.name, &case.input).map_err(named)?;
    let expected = Value::Object(case.expect.clone());
    let ok = agree(&expected, &got, file.tolerance);
    Ok(CaseResult {
        case: case.case.clone(),
        expected,
        got,
        ok,
    })
}

fn compute(name: &str, input: &Value) -> Result<Value, Refused> {
    if name == "bwshare" {
        return super::bwshare_vectors::compute(input);
    }
    if name == "oxthas" {
        return super::oxthas_vectors::compute(input);
    }
    if name == "telepolling" {
        return super::telepoll_vectors::compute(input);
    }
    if name == "sqs" {
        return super::sqs_vectors::compute(input);
    }
    let word = |key| input.get(key).and_then(Value::as_str);
    match (word("law"), word("op")) {
        (Some("paper"), None) => read(input).map(paper),
        (Some("robust"), None) => read(input).map(robust),
        (Some("rho"), None) => read(input).map(rho),
        (None, Some("capacity")) => read(input).map(
            |Capacity {
                 period,
                 service_mean,
                 concurrency,
                 margin,
                 share,
             }| {
                json!({"capacity": capacity(period, service_mean, concurrency, margin, share)})
            },
        ),
        (None, Some("first")) => read(input).map(
            |First {
                 now,
                 queue,
                 throughput,
                 service_mean,
             }| { json!({"start": first_start(now, queue, throughput, service_mean)}) },
        ),
        (None, Some("slots")) => read(input).map(book),
        (None, Some("return_rate")) => read(input).map(
            |ReturnRate {
                 returned,
                 closed,
                 z,
                 closed_min,
             }| { json!({"r": returns::return_rate(returned, closed, z, closed_min)}) },
        ),
        (None, Some("issue_limit")) => read(input).map(
            |IssueLimit {
                 capacity,
                 r_upper,
                 eps,
                 cap_factor,
             }| {
                json!({"n": returns::issue_limit(capacity, r_upper, eps, cap_factor)})
            },
        ),
        (None, Some("ledger")) => promise(&read(input)?),
        (law, op) => {
            let asked = law.or(op).unwrap_or("neither law nor op");
            Err(Refused::Unsupported(format!(
                "\"{asked}\" in a file named \"{name}\""
            )))
        }
    }
}

pub(super) fn read<T: DeserializeOwned>(input: &Value) -> Result<T, Refused> {
    T::deserialize(input).map_err(|e| Refused::Malformed(e.to_string()))
}

/// When the last of `queue` waiting is expected to finish (Little's law), in seconds; the paper's
/// start of the first slot.
fn first_start(now_s: f64, queue: u32, throughput: f64, service_mean: f64) -> f64 {
    now_s + service_mean + f64::from(queue) / throughput
}

#[derive(Deserialize)]
struct Paper {
    samples: Vec<(f64, f64)>,
    bound: f64,
}

fn paper(input: Paper) -> Value {
    let newest = newest(&input.samples, WaitSettings::default().window);
    let limit = wait_limit::paper(newest.copied(), input.bound);
    let reason = match limit {
        Ok(_) => "ok",
        Err(NoLimit::NoVariance) => "no_variance",
        Err(NoLimit::SlopeNotPositive) => "slope_not_positive",
        Err(NoLimit::TooFew) => "too_few",
    };
    json!({"limit": limit.ok(), "reason": reason})
}

/// The last `window` samples.
fn newest<T>(samples: &[T], window: usize) -> std::slice::Iter<'_, T> {
    samples[samples.len().saturating_sub(window)..].iter()
}

#[derive(Deserialize)]
struct Robust {
    samples: Vec<(f64, f64, f64)>,
    now: f64,
    bound: f64,
    throughput: Option<f64>,
    service_mean: Option<f64>,
    rho: f64,
    prev_limit: Option<u32>,
    cold_limit: u32,
    cfg: RobustSettings,
}

#[derive(Deserialize)]
struct RobustSettings {
    window: usize,
    n_min: usize,
    kappa: f64,
    slope_lo: f64,
    slope_hi: f64,
    limit_min: u32,
    limit_max: u32,
    max_age: f64,
    growth: f64,
}

fn robust(input: Robust) -> Value {
    let facts = Facts {
        bound_s: input.bound,
        throughput: input.throughput,
        service_mean: input.service_mean,
        rho: input.rho,
        previous: input.prev_limit,
        cold_limit: input.cold_limit,
    };
    let cfg = input.cfg;
    let settings = WaitSettings {
        window: cfg.window,
        n_min: cfg.n_min,
        kappa: cfg.kappa,
        slope_lo: cfg.slope_lo,
        slope_hi: cfg.slope_hi,
        limit_min: cfg.limit_min,
        limit_max: cfg.limit_max,
        max_age_s: cfg.max_age,
        growth: cfg.growth,
    };
    let newest = newest(&input.samples, settings.window);
    let fresh = newest.filter(|(at, ..)| input.now - at <= settings.max_age_s);
    let pairs = fresh.map(|&(_, queue, response)| (queue, response));
    let decision = wait_limit::shrunk(pairs, &facts, &settings);
    json!({
        "limit": decision.limit,
        "slope": decision.line.map(|line| line.slope),
        "intercept": decision.line.map(|line| line.intercept),
        "source": decision.source.word(),
    })
}

#[derive(Deserialize)]
struct Rho {
    p: f64,
    eta: f64,
    rho: f64,
    rho_min: f64,
    rho_max: f64,
    y_yhat: Vec<(f64, f64)>,
}

fn rho(input: Rho) -> Value {
    let settings = RhoSettings {
        p: input.p,
        eta: input.eta,
        min: input.rho_min,
        max: input.rho_max,
    };
    let steps = input.y_yhat.iter().scan(input.rho, |rho, &(y, yhat)| {
        *rho = wait_limit::rho_step(*rho, y, yhat, &settings);
        Some(*rho)
    });
    json!({"rho": steps.collect::<Vec<_>>()})
}

#[derive(Deserialize)]
struct Capacity {
    period: f64,
    service_mean: f64,
    concurrency: u32,
    margin: f64,
    share: f64,
}

#[derive(Deserialize)]
struct First {
    now: f64,
    queue: u32,
    throughput: f64,
    service_mean: f64,
}

#[derive(Deserialize)]
struct ReturnRate {
    returned: u32,
    closed: u32,
    z: f64,
    closed_min: u32,
}

#[derive(Deserialize)]
struct IssueLimit {
    capacity: u32,
    r_upper: f64,
    eps: f64,
    cap_factor: f64,
}

#[derive(Deserialize)]
struct Book {
    period: f64,
    validity: f64,
    /// (now, first start, capacity for a slot that opens)
    issues: Vec<(f64, f64, u32)>,
}

fn book(input: Book) -> Value {
    // Picoseconds for scripts of days, nanoseconds for dates: starts like 10/3 s then agree.
    let latest = input
        .issues
        .iter()
        .fold(0.0, |latest, issue| f64::max(latest, issue.1));
    let scale = if latest < 1e6 { 1e12 } else { 1e9 };
    let units = |s: f64| Micros((s * scale).round() as u64);
    let seconds = |t: Micros| t.0 as f64 / scale;
    let mut slots = Box::new(Slots::EMPTY);
    let tickets = input.issues.iter().map(|&(now, first, capacity)| {
        let terms = SlotTerms {
            period: units(input.period),
            capacity,
            issue_limit: capacity,
            late_share_ppm: 0,
            horizon: Micros::MAX,
            bound: Micros::ZERO,
            prime: Micros::from_secs(5),
            lifetime: Micros::ZERO,
        };
        let booking = slots.book(units(now), units(first), &terms, &mut |_, _| true)?;
        Some(json!({
            "slot_start": seconds(booking.slot_start),
            "index": booking.index,
            "start": seconds(booking.start),
            "end": seconds(booking.start) + input.validity,
        }))
    });
    json!({"tickets": tickets.collect::<Vec<_>>()})
}

#[derive(Deserialize)]
struct Promise {
    places: u32,
    bound: f64,
    psi: f64,
    /// `[word, now, number...]`
    script: Vec<Value>,
}

fn promise(input: &Promise) -> Result<Value, Refused> {
    let lines = input
        .script
        .iter()
        .map(line)
        .collect::<Result<Vec<_>, _>>()?;
    let cells = cells_a_second(input.bound, &lines);
    let time = |s: f64| {
        let cell = s * cells;
        // Whole cells exactly: 4.1 is no binary number.
        let near = if (cell - cell.round()).abs() < 1e-6 {
            cell.round()
        } else {
            cell
        };
        Micros::from_secs_f64(near)
    };
    let sellable = nap_core::nap::whole(input.psi * f64::from(input.places));
    let mut script = Script::new(input.places, sellable, time(input.bound));
    let results: Vec<Value> = lines
        .iter()
        .map(|line| match *line {
            Line::Fresh(now) => json!(script.fresh(time(now))),
            Line::Issue(now, start, end) => {
                json!(script.issue(time(now), time(start), time(end)))
            }
            Line::Leave => {
                script.leave();
                Value::Null
            }
            Line::Redeem(now, number) => json!(script.redeem(time(now), number)),
            Line::Share(now) => json!(script.share(time(now))),
        })
        .collect();
    Ok(json!({"results": results, "q": script.queued()}))
}

#[derive(Clone, Copy)]
enum Line {
    Fresh(f64),
    Issue(f64, f64, f64),
    Leave,
    Redeem(f64, usize),
    Share(f64),
}

fn line(value: &Value) -> Result<Line, Refused> {
    let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let word = parts.first().and_then(Value::as_str);
    let numbers: Vec<f64> = parts.iter().skip(1).filter_map(Value::as_f64).collect();
    match (word, numbers.as_slice()) {
        (Some("fresh"), &[now]) => Ok(Line::Fresh(now)),
        (Some("issue"), &[now, start, end]) => Ok(Line::Issue(now, start, end)),
        (Some("leave"), &[_]) => Ok(Line::Leave),
        (Some("redeem"), &[now, number]) => Ok(Line::Redeem(now, number as usize)),
        (Some("share"), &[now]) => Ok(Line::Share(now)),
        _ => Err(Refused::Malformed(format!("script line {value}"))),
    }
}

/// Cells to a second of the script. The ledger counts by cells and rounds outwards; the vectors do not. So
/// the script's second is stretched until its times come out even and the ledger can hold them.
fn cells_a_second(bound: f64, lines: &[Line]) -> f64 {
    let mut times = vec![bound];
    for line in lines {
        match *line {
            Line::Fresh(now) | Line::Share(now) | Line::Redeem(now, _) => times.push(now),
            Line::Issue(now, start, end) => times.extend([now, start, end]),
            Line::Leave => {}
        }
    }
    let longest = times.iter().copied().fold(0.0, f64::max) + bound;
    let even = |cells: f64| {
        times
            .iter()
            .all(|t| (t * cells - (t * cells).round()).abs() < 1e-6)
    };
    let reach_s = ledger::CELLS as f64 * ledger::CELL.as_secs_f64();
    let fits = |cells: &f64| longest * cells < reach_s;
    let scales = || {
        [1.0, 10.0, 100.0, 1000.0, 10_000.0]
            .into_iter()
            .filter(fits)
    };
    scales()
        .find(|cells| even(*cells))
        .or(scales().next_back())
        .unwrap_or(1.0)
}

/// Whether everything expected is there, numbers within the relative tolerance.
fn agree(expected: &Value, got: &Value, tolerance: f64) -> bool {
    match (expected, got) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= (tolerance * a.abs().max(b.abs())).max(1e-12),
            _ => false,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| agree(a, b, tolerance))
        }
        (Value::Object(a), Value::Object(b)) => a
            .iter()
            .all(|(key, a)| b.get(key).is_some_and(|b| agree(a, b, tolerance))),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: &str = include_str!("../../../tests/vectors/nap_wait.json");
    const TICKET: &str = include_str!("../../../tests/vectors/nap_ticket.json");

    fn one(name: &str, input: &str, expect: &str) -> Result<Vec<CaseResult>, Refused> {
        run(&format!(
            r#"{{"name": "{name}", "tolerance": 1e-9,
                "cases": [{{"case": "c", "input": {input}, "expect": {expect}}}]}}"#
        ))
    }

    fn is_ok(name: &str, input: &str, expect: &str) -> bool {
        let results = one(name, input, expect).expect("it can be run");
        results.iter().all(|result| result.ok)
    }

    #[test]
    fn the_reference_vectors_of_nap_web_agree() {
        for (text, cases) in [(WAIT, 10), (TICKET, 12)] {
            let results = run(text).expect("it can be run");
            let wrong: Vec<_> = results.iter().filter(|result| !result.ok).collect();
            assert!(wrong.is_empty(), "{wrong:#?}");
            assert_eq!(results.len(), cases);
        }
    }

    #[test]
    fn another_number_is_a_mismatch() {
        let input = r#"{"op": "first", "now": 1000.0, "queue": 250,
            "throughput": 67.6, "service_mean": 0.148}"#;
        assert!(is_ok(
            "nap_ticket",
            input,
            r#"{"start": 1003.846224852071}"#
        ));
        assert!(!is_ok("nap_ticket", input, r#"{"start": 1003.84623}"#));
        assert!(!is_ok(
            "nap_ticket",
            input,
            r#"{"start": 1003.846224852071, "other": 1}"#
        ));
    }

    #[test]
    fn starts_that_are_no_whole_microseconds_agree_all_the_same() {
        let input = r#"{"op": "slots", "period": 10.0, "validity": 5.0,
            "issues": [[0.0, 0.0, 3], [0.0, 0.0, 3], [0.0, 0.0, 3]]}"#;
        let ticket = |index: u32, start: f64| {
            format!(
                r#"{{"slot_start": 0.0, "index": {index}, "start": {start}, "end": {}}}"#,
                start + 5.0
            )
        };
        let tickets = [ticket(0, 0.0), ticket(1, 10.0 / 3.0), ticket(2, 20.0 / 3.0)].join(", ");
        assert!(is_ok(
            "nap_ticket",
            input,
            &format!(r#"{{"tickets": [{tickets}]}}"#)
        ));
    }

    #[test]
    fn a_ledger_script_within_one_second_agrees_too() {
        let input = r#"{"op": "ledger", "places": 1, "bound": 0.25, "psi": 1.0, "script":
            [["issue", 0.0, 0.5, 0.6], ["fresh", 0.2], ["leave", 0.21], ["fresh", 0.3],
             ["redeem", 0.55, 1], ["fresh", 0.56]]}"#;
        let expect = r#"{"results": [1, true, null, false, true, false], "q": 1}"#;
        assert!(is_ok("nap_ticket", input, expect));
    }

    #[test]
    fn what_is_not_built_is_unsupported_and_what_is_broken_malformed() {
        let unsupported = [
            one("sqs", r#"{"law": "newer"}"#, r#"{"limit": []}"#),
            one("telepolling", r#"{"mode": "push"}"#, r#"{"tw": []}"#),
            one("nap_wait", r#"{"law": "newer"}"#, r#"{"limit": 1}"#),
            one("nap_wait", r#"{"a": 1}"#, r#"{"limit": 1}"#),
        ];
        for refused in unsupported {
            assert!(
                matches!(refused, Err(Refused::Unsupported(_))),
                "{refused:?}"
            );
        }
        let malformed = [
            run("{"),
            run(r#"{"name": "nap_wait"}"#),
            run(r#"{"name": "nap_wait", "cases": []}"#),
            run(r#"{"name": "nap_wait", "tolerance": 2, "cases": []}"#),
            one(
                "nap_wait",
                r#"{"law": "paper", "samples": [[1]], "bound": 4}"#,
                r#"{"limit": 1}"#,
            ),
            one(
                "nap_wait",
                r#"{"law": "paper", "samples": [], "bound": 4}"#,
                "{}",
            ),
            one(
                "nap_ticket",
                r#"{"op": "ledger", "places": 1, "bound": 4, "psi": 1, "script": [["jump", 1]]}"#,
                r#"{"q": 0}"#,
            ),
        ];
        for refused in malformed {
            assert!(matches!(refused, Err(Refused::Malformed(_))), "{refused:?}");
        }
    }
}
