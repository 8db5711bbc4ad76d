//! The vectors of OXTHAS: thresholds, ranks, and scripts of one engine.

use serde::Deserialize;
use serde_json::{Value, json};

use super::vectors::{Refused, read};
use crate::workflow::paper_terms;
use nap_core::micros::Micros;
use nap_core::oxthas::bands::Split;
use nap_core::oxthas::choice::{Ask, Member};
use nap_core::oxthas::engine::{End, Engine, EngineTerms, Head, Law};
use nap_core::oxthas::executor::Executor;
use nap_core::oxthas::flight::Flight;
use nap_core::oxthas::history::{HISTORY, Span};
use nap_core::oxthas::penalty::Failure;

pub(super) fn compute(input: &Value) -> Result<Value, Refused> {
    match input.get("op").and_then(Value::as_str) {
        Some("thresholds") => read(input).map(|Thresholds { n, smax }| {
            let ends = Split::Integer.ends(n, smax, |_| 1.0);
            json!({"w": ends.collect::<Vec<_>>()})
        }),
        Some("rank") => read(input).map(|Rank { n, smax, sizes }| {
            let rank = |size: &f64| Split::Integer.rank(*size, n, smax, |_| 1.0);
            json!({"rank": sizes.iter().map(rank).collect::<Vec<_>>()})
        }),
        Some("engine") => script(&read(input)?),
        op => Err(Refused::Unsupported(format!(
            "\"{}\" of an executor",
            op.unwrap_or("no op")
        ))),
    }
}

#[derive(Deserialize)]
struct Thresholds {
    n: usize,
    smax: f64,
}

#[derive(Deserialize)]
struct Rank {
    n: usize,
    smax: f64,
    sizes: Vec<f64>,
}

#[derive(Deserialize)]
struct ChoiceScript {
    params: ChoiceParams,
    /// `[word, ...]`
    script: Vec<Vec<Value>>,
}

#[derive(Deserialize)]
struct ChoiceParams {
    executors: Vec<String>,
    n: u32,
    #[serde(default)]
    beta: f64,
    #[serde(default = "never")]
    t_init: f64,
    #[serde(default)]
    t_min: f64,
    #[serde(default = "all")]
    history: u32,
}

fn never() -> f64 {
    1e9
}

fn all() -> u32 {
    HISTORY as u32
}

/// Sizes are whole numbers in the engine: each is taken a thousandfold.
const SCALE: f64 = 1000.0;
const OWNER: u64 = 1;

fn script(input: &ChoiceScript) -> Result<Value, Refused> {
    let params = &input.params;
    let n = params.executors.len();
    let (mut head, mut executors) = (Box::new(Head::default()), vec![Executor::default(); n]);
    let mut flights = vec![Flight::default(); input.script.len()];
    let mut engine = Engine {
        head: &mut head,
        executors: &mut executors,
        flights: &mut flights,
    };
    let seconds = Micros::from_secs_f64;
    let terms = EngineTerms {
        bands: params.n,
        span: Span {
            window: params.history,
            age: Micros::ZERO,
        },
        alpha: 1.0,
        timeout: seconds(params.t_init),
        step: seconds(params.beta),
        min: seconds(params.t_min),
        unseen_first: true,
        ..paper_terms()
    };
    let now = Micros::from_secs(1);
    let mut results = Vec::new();
    for line in &input.script {
        let malformed = || Refused::Malformed(format!("script line {}", json!(line)));
        let word = |at: usize| line.get(at).and_then(Value::as_str).ok_or_else(malformed);
        let number = |at: usize| line.get(at).and_then(Value::as_f64).ok_or_else(malformed);
        let executor = |at: usize| {
            let known = |name: &str| params.executors.iter().position(|known| known == name);
            known(word(at)?).map(|at| at as u32).ok_or_else(malformed)
        };
        let size = |at: usize| Ok((number(at)? * SCALE).round() as u64);
        let ask = |activity: f64, size| Ask {
            members: &[],
            activity: activity as u32,
            size,
            law: Law::Oxthas,
            terms: &terms,
            may_probe: false,
            owner: OWNER,
            now,
            random: 0,
        };
        let mut ends = |end: End| {
            let (flight, _) = engine.go_to(executor(1)?, &ask(number(2)?, size(3)?));
            engine.end(flight, OWNER, end, &terms, now);
            Ok(Value::Null)
        };
        results.push(match word(0)? {
            "observe" => ends(End::Answered(seconds(number(4)?), 0))?,
            "timeout" => ends(End::Failed(Failure::Timeout, seconds(number(4)?)))?,
            "late" => {
                let own = executor(1)?;
                engine.restore(own);
                Value::Null
            }
            "T" => json!(engine.timeout(executor(1)?, 0, &terms).as_secs_f64()),
            "cap" => {
                let own = &engine.executors[executor(1)? as usize];
                let capacity = own.cell(number(2)? as u32).history.capacity();
                json!(capacity.map(|c| c / SCALE))
            }
            "choose" => {
                let tried = line
                    .get(3)
                    .and_then(Value::as_array)
                    .ok_or_else(malformed)?;
                let left = |at: &u32| !tried.contains(&json!(params.executors[*at as usize]));
                let members: Vec<Member> = (0..n as u32)
                    .filter(left)
                    .map(|executor| Member {
                        executor,
                        factor: 100,
                    })
                    .collect();
                let chosen = engine.choose(&Ask {
                    members: &members,
                    ..ask(number(1)?, size(2)?)
                });
                let name = |at: usize| &params.executors[members[at].executor as usize];
                json!(chosen.map(|chosen| name(chosen.member)))
            }
            _ => return Err(malformed()),
        });
    }
    Ok(json!({"results": results}))
}
