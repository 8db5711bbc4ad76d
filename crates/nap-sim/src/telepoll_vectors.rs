//! Reference vectors of TelePolling: scripts of accesses, the interval of a ticket's page.

use serde::Deserialize;
use serde_json::{Value, json};

use super::vectors::{Refused, read};
use nap_core::micros::Micros;
use nap_core::telepoll::{Event, Form, Mode, PollTerms, ticket_interval};

/// Our code's answer to a case of a file named "telepolling".
pub(super) fn compute(input: &Value) -> Result<Value, Refused> {
    let mode = input.get("mode").and_then(Value::as_str);
    let (mode, form) = match mode {
        Some("poll") => return intervals(&read(input)?),
        Some("plain_tick") => (Mode::Level, Form::Paper),
        Some("plain") => (Mode::Level, Form::Smooth),
        Some("relevel") => (Mode::Relevel, Form::Paper),
        Some("concentrate_tick") => (Mode::Concentrate, Form::Paper),
        Some("concentrate") => (Mode::Concentrate, Form::Smooth),
        other => {
            return Err(Refused::Unsupported(format!(
                "mode \"{}\" in a file named \"telepolling\"",
                other.unwrap_or("none")
            )));
        }
    };
    script(&read(input)?, mode, form)
}

#[derive(Deserialize)]
struct PollScript {
    ta: f64,
    /// For modes whose unit interval is given ...
    t0: Option<f64>,
    /// ... and for those where it follows from the accesses.
    n0: Option<f64>,
    slack: Option<f64>,
    times: Vec<f64>,
}

fn script(input: &PollScript, mode: Mode, form: Form) -> Result<Value, Refused> {
    let floor = match (input.t0, input.n0) {
        (Some(t0), None) => t0,
        (None, Some(n0)) => 1.0 / n0,
        _ => return Err(Refused::Malformed("wants t0 or n0".into())),
    };
    let event = Event::default();
    event.set(&PollTerms {
        mode,
        form,
        // A given unit interval is the floor, and no number of accesses raises it.
        k: u16::MAX,
        floor_ns: (floor * 1e9).round() as u64,
        slack_ppm: (input.slack.unwrap_or(1.0) * 1e6).round() as u32,
        ..PollTerms::new(Micros::from_secs_f64(input.ta), 1.0)
    });
    let (mut tw, mut q, mut t0) = (Vec::new(), Vec::new(), Vec::new());
    for &time in &input.times {
        let now = Micros::from_secs_f64(time);
        let told = event
            .poll(now)
            .ok_or(Refused::Malformed("ta is 0".into()))?;
        tw.push(told.wait.as_secs_f64());
        q.push(told.ahead);
        t0.push(event.level(now).map(|level| level.t0_ns as f64 / 1e9));
    }
    Ok(json!({"tw": tw, "q": q, "t0": t0}))
}

#[derive(Deserialize)]
struct Intervals {
    kappa: f64,
    now_start_tw: Vec<(f64, f64, f64)>,
}

fn intervals(input: &Intervals) -> Result<Value, Refused> {
    if input.kappa != 0.25 {
        return Err(Refused::Unsupported(format!("kappa {}", input.kappa)));
    }
    let interval = |&(now, start, tw): &(f64, f64, f64)| {
        ticket_interval(
            Micros::from_secs_f64(start) - Micros::from_secs_f64(now),
            Micros::from_secs_f64(tw),
        )
        .as_secs_f64()
    };
    let intervals: Vec<f64> = input.now_start_tw.iter().map(interval).collect();
    Ok(json!({"interval": intervals}))
}

#[cfg(test)]
mod tests {
    use crate::vectors::{Refused, run};

    #[test]
    fn the_reference_vectors_of_telepolling_agree() {
        let text = include_str!("../../../tests/vectors/telepolling.json");
        let results = run(text).expect("it can be run");
        let wrong: Vec<_> = results.iter().filter(|result| !result.ok).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(results.len(), 8);
    }

    #[test]
    fn the_smooth_forms_have_vectors_too() {
        let case = |mode: &str, times: &str, tw: &str| {
            let text = format!(
                r#"{{"name": "telepolling", "cases": [{{"case": "c", "expect": {{"tw": {tw}}},
                "input": {{"mode": "{mode}", "ta": 60, "t0": 5, "times": {times}}}}}]}}"#
            );
            run(&text).map(|cases| cases.iter().all(|case| case.ok))
        };
        // ALGORITHMS 5
        let slots = case("concentrate", "[3, 11, 29, 47]", "[57, 54, 41, 28]");
        assert_eq!(slots, Ok(true));
        assert_eq!(case("plain", "[0, 0, 2, 4]", "[60, 65, 68, 71]"), Ok(true));
        assert_eq!(case("plain", "[0, 0, 2, 4]", "[60, 65, 70, 75]"), Ok(false));
        let vague = case("vague", "[0]", "[60]");
        assert!(matches!(vague, Err(Refused::Unsupported(_))));
    }
}
