//! Reference vectors of mod_bwshare: scripts of requests and bytes, horizons, eviction.

use serde::Deserialize;
use serde_json::{Value, json};

use super::vectors::{Refused, read};
use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::account::Account;
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::limits::{DebtAnswer, Lane, Limits, Rule};
use nap_core::bwshare::table::{Stripe, WAYS, worth};

/// Our code's answer to a case of a file named "bwshare".
pub(super) fn compute(input: &Value) -> Result<Value, Refused> {
    match input.get("op").and_then(Value::as_str) {
        None if input.get("script").is_some() => script(&read(input)?),
        Some("horizons") => Ok(horizons(&read(input)?)),
        Some("evict") => evict(&read(input)?),
        other => Err(Refused::Unsupported(format!(
            "\"{}\" in a file named \"bwshare\"",
            other.unwrap_or("neither op nor script")
        ))),
    }
}

#[derive(Deserialize)]
struct DebtScript {
    params: DebtParams,
    /// `[word, now, number...]`
    script: Vec<Value>,
}

#[derive(Deserialize)]
struct DebtParams {
    max1: f64,
    rate1: f64,
    max2: f64,
    rate2: f64,
    mode: String,
    refused_cost: f64,
}

fn ns(seconds: f64) -> u64 {
    (seconds * SECOND_NS as f64).round() as u64
}

fn script(input: &DebtScript) -> Result<Value, Refused> {
    let params = &input.params;
    let limits = Limits {
        files: Lane::new(params.max1, params.rate1, true),
        bytes: Lane::new(params.max2, params.rate2, false),
        rule: match params.mode.as_str() {
            "exact" => Rule::Exact,
            "literal" => Rule::Literal,
            other => return Err(Refused::Unsupported(format!("mode \"{other}\""))),
        },
        refused: params.refused_cost,
        horizons: Horizons::NONE,
    };
    let (mut account, mut latest) = (Account::default(), 0);
    let mut results = Vec::new();
    for line in &input.script {
        let parts = line.as_array().map(Vec::as_slice).unwrap_or_default();
        let word = parts.first().and_then(Value::as_str);
        let numbers: Vec<f64> = parts.iter().skip(1).filter_map(Value::as_f64).collect();
        latest = latest.max(ns(numbers.first().copied().unwrap_or(0.0)));
        let said = match (word, numbers.as_slice()) {
            (Some("req"), [_]) => json!(account.enter(&limits, latest) == DebtAnswer::Pass),
            (Some("sent"), &[_, bytes]) => {
                account.charge_bytes(&limits, bytes as u64, latest);
                Value::Null
            }
            (Some("retry"), [_]) => json!(
                limits
                    .answer(&account, latest)
                    .wait_ns()
                    .div_ceil(SECOND_NS)
            ),
            _ => return Err(Refused::Malformed(format!("script line {line}"))),
        };
        results.push(json!([
            said,
            limits.files.units(account.files_ns(latest)),
            limits.bytes.units(account.bytes_ns(latest)),
        ]));
    }
    Ok(json!({"results": results}))
}

#[derive(Deserialize)]
struct Windows {
    /// (bytes a second, seconds)
    limits: Vec<(f64, f64)>,
    beta: f64,
    time_bytes: Vec<(f64, f64)>,
}

fn horizons(input: &Windows) -> Value {
    let horizons = Horizons::new(&input.limits, input.beta);
    let mut account = Account::default();
    let mut latest = 0;
    let mut ok = Vec::new();
    for &(time, bytes) in &input.time_bytes {
        latest = latest.max(ns(time));
        // Where lengths are known beforehand no window carries more than its limit: docs/dev/algorithms.md 6.
        let fits = horizons.lanes().iter().enumerate().all(|(i, lane)| {
            let owed_ns = account.owed_ns(i, latest);
            owed_ns.saturating_add(lane.cost_ns(bytes)) <= lane.room_ns
        });
        if fits {
            horizons.charge(&mut account, bytes as u64, latest);
        }
        ok.push(fits);
    }
    let lanes = horizons.lanes().iter().enumerate();
    let debt: Vec<f64> = lanes
        .map(|(i, lane)| lane.units(account.owed_ns(i, latest)))
        .collect();
    json!({"ok": ok, "debt": debt})
}

#[derive(Deserialize)]
struct Full {
    now: f64,
    /// For each entry of a set: tat1, tat2, tau1, tau2.
    sets: Vec<Vec<(f64, f64, f64, f64)>>,
}

fn evict(input: &Full) -> Result<Value, Refused> {
    let choices = input.sets.iter().map(|set| evicted(set, ns(input.now)));
    let choices = choices.collect::<Result<Vec<_>, _>>()?;
    Ok(json!({"choice": choices}))
}

/// The key of any client, without the bits that tell clients apart.
const KEY: u64 = 2;

/// Which entry of the set a new client replaces, and what that entry was worth. Both buckets of the entry are
/// full: the others are heavy debtors.
fn evicted(set: &[(f64, f64, f64, f64)], now: u64) -> Result<(usize, f64), Refused> {
    let malformed = |what: &str| Refused::Malformed(format!("a set {what}"));
    let &(.., tau1, tau2) = set.first().ok_or(malformed("of nobody"))?;
    if set.len() > 2 * WAYS || set.iter().any(|&(.., a, b)| (a, b) != (tau1, tau2)) {
        return Err(malformed("of too many, or of several limits"));
    }
    let limits = Limits {
        files: Lane::new(tau1, 1.0, true),
        bytes: Lane::new(tau2, 1.0, false),
        rule: Rule::Exact,
        refused: 0.0,
        horizons: Horizons::NONE,
    };
    // These bits say nothing about a key's buckets.
    let key = |n: usize| (n as u64 + 1) << 48 | KEY;
    let heavy = ns(tau1.max(tau2)).saturating_mul(1000);
    let account = |n: usize| Account {
        paid_ns: match set.get(n) {
            Some(&(tat1, tat2, ..)) => [ns(tat1), ns(tat2), 0],
            None => [now.saturating_add(heavy); 3],
        },
    };
    let mut stripe = Box::new(Stripe::default());
    for n in 0..2 * WAYS {
        // At the beginning of time all of them are in debt.
        stripe.adopt(key(n), account(n), 0);
    }
    stripe.visit(key(2 * WAYS), &limits, now).ask(false);
    let gone = (0..set.len()).find(|n| stripe.account(key(*n)) == Account::default());
    let gone = gone.ok_or(malformed("that is worth more than heavy debtors"))?;
    let shares = [
        limits.files.share(account(gone).files_ns(now)),
        limits.bytes.share(account(gone).bytes_ns(now)),
    ];
    Ok((gone, worth(shares)))
}

#[cfg(test)]
mod tests {
    use crate::vectors::{Refused, run};

    #[test]
    fn the_reference_vectors_of_bwshare_agree() {
        let results =
            run(include_str!("../../../tests/vectors/bwshare.json")).expect("it can be run");
        let wrong: Vec<_> = results.iter().filter(|result| !result.ok).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(results.len(), 5);
    }

    #[test]
    fn the_literal_rule_and_the_hammer_charge_are_run_too() {
        let case = |mode: &str, results: &str| {
            let text = format!(
                r#"{{"name": "bwshare", "cases": [{{"case": "c", "expect": {{"results": {results}}},
                "input": {{"script": [["req", 1], ["req", 1], ["req", 1]], "params": {{"max1": 1,
                "rate1": 0.5, "max2": 9, "rate2": 9, "mode": "{mode}", "refused_cost": 0.25}}}}}}]}}"#
            );
            run(&text).map(|cases| cases.iter().all(|case| case.ok))
        };
        let exact = "[[true, 1.0, 0.0], [false, 1.0, 0.0], [false, 1.0, 0.0]]";
        let literal = "[[true, 1.0, 0.0], [true, 2.0, 0.0], [false, 2.0, 0.0]]";
        assert_eq!(case("exact", exact), Ok(true));
        assert_eq!(case("literal", literal), Ok(true));
        assert_eq!(case("exact", literal), Ok(false));
        assert!(matches!(case("vague", exact), Err(Refused::Unsupported(_))));
    }
}
