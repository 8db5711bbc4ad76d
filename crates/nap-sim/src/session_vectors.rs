//! Reference vectors of SQS's session scheduler: the session interval under a script of page queues.

use serde::Deserialize;
use serde_json::{Value, json};

use super::vectors::{Refused, read};
use nap_core::sqs::interval::{Interval, RateLaw, StartLaw};

/// Our code's answer to a case whose law is "session_aimd".
pub(super) fn compute(input: &Value) -> Result<Value, Refused> {
    Ok(session_rate(&read(input)?))
}

#[derive(Deserialize)]
struct SessionRate {
    rate: f64,
    lo: f64,
    hi: f64,
    add: f64,
    mul: f64,
    r_min: f64,
    r_max: f64,
    hold: u32,
    /// For each second: the length of every page queue, and how many wait to start.
    queues_backlog: Vec<(Vec<u32>, u32)>,
}

fn session_rate(input: &SessionRate) -> Value {
    let law = StartLaw::Rate(RateLaw {
        lo: input.lo,
        hi: input.hi,
        add: input.add,
        mul: input.mul,
        min: input.r_min,
        max: input.r_max,
        hold: input.hold,
    });
    let mut interval = Interval::of(1.0 / input.rate);
    let step = |(queues, backlog): &(Vec<u32>, u32)| {
        let sum: f64 = queues.iter().copied().map(f64::from).sum();
        interval.step(&law, sum / queues.len().max(1) as f64, *backlog > 0);
        interval.seconds()
    };
    let intervals: Vec<f64> = input.queues_backlog.iter().map(step).collect();
    json!({"interval": intervals})
}

#[cfg(test)]
mod tests {
    use crate::vectors;
    use serde_json::Value;

    #[test]
    fn the_session_rate_of_the_reference_holds() {
        let text = include_str!("../../../tests/vectors/sqs.json");
        let mut file: Value = serde_json::from_str(text).expect("a file of vectors");
        let cases = file["cases"].as_array_mut().expect("its cases");
        cases.retain(|case| case["input"]["law"] == "session_aimd");
        assert_eq!(cases.len(), 1);
        let results = vectors::run(&file.to_string()).expect("all are built");
        assert!(results.iter().all(|result| result.ok), "{results:#?}");
    }
}
