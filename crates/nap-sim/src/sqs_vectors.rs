//! Reference vectors of SQS: what the page schedulers' laws make of a script of windows.

use serde::Deserialize;
use serde_json::{Value, json};

use super::vectors::{Refused, read};
use nap_core::sqs::elastic_hill::{ElasticHill, Phase, Settings, Sight};
use nap_core::sqs::paper_hill::{self, PaperHill};

/// Our code's answer to a case of a file named "sqs".
pub(super) fn compute(input: &Value) -> Result<Value, Refused> {
    match input.get("law").and_then(Value::as_str) {
        Some("elastic_hill") => Ok(elastic(&read(input)?)),
        Some("session_aimd") => super::session_vectors::compute(input),
        Some("paper_hill") => Ok(paper(&read(input)?)),
        other => Err(Refused::Unsupported(format!(
            "\"{}\" in a file named \"sqs\"",
            other.unwrap_or("no law")
        ))),
    }
}

#[derive(Deserialize)]
struct Paper {
    limit: u32,
    lo: u32,
    hi: u32,
    hold: u32,
    throughput: Vec<f64>,
}

fn paper(input: &Paper) -> Value {
    let settings = paper_hill::PaperSettings {
        start: input.limit,
        lo: input.lo,
        hi: input.hi,
        hold: input.hold,
        history: paper_hill::HISTORY,
    };
    let mut hill = PaperHill::default();
    let see = |x: &f64| hill.see(*x, &settings);
    json!({"limit": input.throughput.iter().map(see).collect::<Vec<_>>()})
}

#[derive(Deserialize)]
struct Elastic {
    params: PaceParams,
    /// Number finished, seconds, saturated.
    feeds: Vec<(f64, f64, bool)>,
}

#[derive(Deserialize)]
struct PaceParams {
    initial: u32,
    lo: u32,
    hi: u32,
    beta: f64,
    g: f64,
    n_min: f64,
    t_min: f64,
    t_max: f64,
    z: f64,
    k_max: u32,
    k_hist: u32,
    rest: u32,
    start_gain: f64,
}

fn elastic(input: &Elastic) -> Value {
    let p = &input.params;
    let settings = Settings {
        start: p.initial,
        lo: p.lo,
        hi: p.hi,
        beta: p.beta,
        g: p.g,
        n_min: p.n_min,
        t_min: p.t_min,
        t_max: p.t_max,
        z: p.z,
        k_max: p.k_max,
        k_hist: p.k_hist,
        rest: p.rest,
        start_gain: p.start_gain,
        halves: false,
    };
    let mut hill = ElasticHill::default();
    let see = |&(finished, elapsed_s, saturated): &(f64, f64, bool)| {
        let sight = Sight {
            finished,
            progress: finished,
            own: finished,
            elapsed_s,
            saturated,
        };
        hill.see(&sight, &settings);
        hill.limit(&settings)
    };
    let limit: Vec<u32> = input.feeds.iter().map(see).collect();
    let phase: Phase = hill.phase();
    json!({"limit": limit, "b": hill.middle(), "phase": phase.word()})
}

#[cfg(test)]
mod tests {
    use crate::vectors::run;

    /// The file's cases whose law belongs to the page schedulers.
    #[test]
    fn the_page_schedulers_laws_agree_with_the_vectors() {
        let text = include_str!("../../../tests/vectors/sqs.json");
        let mut file: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let cases = file["cases"].as_array_mut().expect("cases");
        cases.retain(|case| case["input"]["law"] != "session_aimd");
        assert_eq!(cases.len(), 4);
        for result in run(&file.to_string()).expect("it runs") {
            assert!(
                result.ok,
                "{}: {} not {}",
                result.case, result.got, result.expected
            );
        }
    }
}
