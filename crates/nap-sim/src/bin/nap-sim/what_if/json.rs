//! A run as JSON, under the names that `nap-load --json` has for the same figures of a real server, so that
//! the two can be compared.

use std::path::Path;

use nap_sim::figures::{Figures, Sample};
use serde_json::{Value, json};

/// Writes a world's figures into a file; `-`: to standard output.
pub fn write(figures: &Figures, file: &Path) -> Result<(), String> {
    put(&report(figures), file)
}

/// Writes any report in the same way.
pub fn put(report: &Value, file: &Path) -> Result<(), String> {
    let text = format!("{report:#}");
    if file == Path::new("-") {
        println!("{text}");
        return Ok(());
    }
    std::fs::write(file, text + "\n").map_err(|e| format!("{}: {e}", file.display()))
}

fn report(f: &Figures) -> Value {
    json!({
        "throughput": { "whole": f.throughput() },
        "response": summary(&f.served),
        "residence": summary(&f.residence),
        "total": summary(&f.total),
        "wait_told": summary(&f.ticket_wait),
        "posts": { "served": f.total.n(), "abandoned": f.abandoned },
        "tries": { "total": f.tries, "per_post": f.tries_per_post() },
        "tickets": { "issued": f.tickets },
        "refusals": { "without_ticket": f.without },
        "promises": {
            "presented": f.presented,
            "kept": f.kept,
            "over_bound": f.slow,
            "deferred": f.deferred,
            "broken": f.broken,
        },
        "fairness": { "jain_finish": f.finished.jain() },
    })
}

/// Mean, percentiles and so on, in seconds.
fn summary(sample: &Sample) -> Value {
    json!({
        "count": sample.n(),
        "mean": sample.mean(),
        "variance": sample.variance(),
        "median": sample.quantile(0.5),
        "p90": sample.quantile(0.9),
        "p95": sample.quantile(0.95),
        "p99": sample.quantile(0.99),
        "p999": sample.quantile(0.999),
        "max": sample.max(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::micros::Micros;

    #[test]
    fn figures_stand_under_nap_loads_names() {
        let mut figures = Figures {
            tries: 6,
            tickets: 2,
            span: Micros::from_secs(2),
            ..Figures::default()
        };
        for seconds in [1, 3, 2, 2] {
            figures.served.push(Micros::from_secs(seconds));
            figures.total.push(Micros::from_secs(seconds));
        }
        let report = report(&figures);
        for (pointer, value) in [
            ("/throughput/whole", 2.0),
            ("/response/mean", 2.0),
            ("/response/p95", 3.0),
            ("/tries/per_post", 1.5),
            ("/tickets/issued", 2.0),
            ("/posts/served", 4.0),
        ] {
            let told = report.pointer(pointer).and_then(Value::as_f64);
            assert_eq!(told, Some(value), "{pointer}");
        }
    }
}
