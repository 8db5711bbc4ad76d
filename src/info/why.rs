//! Why a limit is what it is, in a sentence for somebody woken at three in the morning.

use super::report::{Means, Wanted, sum};
use super::snapshot::GateShot;
use nap_core::micros::Micros;
use nap_core::nap::wait_limit::WaitLine;
use nap_core::room::children::Workers;
use nap_core::room::terms::how;

/// How many may wait, all rooms together, and what would raise that number.
pub(super) fn means(places: u32, wanted: &Wanted, workers: &Workers) -> Means {
    if !workers.hold_who_waits() {
        return Means {
            allowed: format!("there are places for {places}"),
            raise: "raise NapTables waiters=, with a full restart (or what the log's line on NapPark names)"
                .to_owned(),
        };
    }
    Means {
        allowed: format!("workers allow {places}"),
        raise: match wanted.max_request_workers {
            Some(workers) => format!("raise MaxRequestWorkers to {workers}"),
            None => "raise MaxRequestWorkers".to_owned(),
        },
    }
}

/// Where the wait limit comes from.
pub(super) fn wait_limit(gate: &GateShot, means: &Means) -> String {
    let Means { allowed, raise } = means;
    let parked = gate.terms.parked;
    let Some(limit) = gate.wanted else {
        return format!(
            "wait limit {parked}: how fast the server is will be known once a queue has lasted for \
             a dozen departures (more with many permits), or for half of the bound; until then \
             everybody may wait while there are places, and {allowed}."
        );
    };
    let rule = rule(gate, limit);
    let used = gate.limit;
    if limit <= parked {
        return format!("wait limit {used}: {rule}; {allowed}.");
    }
    format!("wait limit {used}: {rule}; {allowed}, so {used} are used: {raise}.")
}

fn rule(gate: &GateShot, limit: u32) -> String {
    let bound = seconds(gate.terms.bound);
    let within = format!(
        "the bound of {bound} (divided by rho {:.2}, so that it holds for 99 in 100)",
        gate.rho
    );
    let speed = match (gate.throughput, gate.service_mean_s) {
        (Some(x), Some(s)) => {
            format!("the server finishes {x:.1} accesses/s, each in {s:.3} s")
        }
        (None, Some(s)) => {
            format!("few accesses have finished so far, and each takes {s:.3} s")
        }
        _ => "the server's speed is not known".to_owned(),
    };
    match gate.source {
        "fixed" => format!("NapWaitLimit fixes it at {limit}"),
        "paper" => format!(
            "NapWaitLimit paper: the line through the last {} accesses that waited meets the bound \
             of {bound} at {limit} (8 until there is a line)",
            gate.terms.history
        ),
        "little" => format!("{speed}, so {limit} can be answered within {within} (little)"),
        "shrunk" => format!(
            "{speed}; for those who waited lately the response was {}, which meets {within} at \
             {limit} (shrunk)",
            formula(gate.line)
        ),
        "plain" => format!(
            "for those who waited lately the response was {}, which meets {within} at {limit} \
             (plain)",
            formula(gate.line)
        ),
        other => format!("{speed}; the last limit, {limit}, stays in force ({other})"),
    }
}

fn formula(line: Option<WaitLine>) -> String {
    line.map_or("unknown".to_owned(), |line| {
        format!(
            "{:.3} s + {:.4} s for each access ahead",
            line.intercept, line.slope
        )
    })
}

/// What becomes of the limit when tickets are out.
pub(super) fn re_access(gate: &GateShot) -> String {
    let choice = gate.terms.re_access;
    if choice.how == how::FIXED {
        return format!(
            "NapReAccess gives ticket holders {} places on top of Wait.",
            choice.n
        );
    }
    let (limit, claims) = (gate.limit, gate.claims);
    format!(
        "{claims} tickets may be presented within the bound; a newcomer is let in if these \
         {limit} places hold them and all whose tickets come due before they are served."
    )
}

/// Where the tickets of a slot come from.
pub(super) fn slot_tickets(gate: &GateShot) -> String {
    let (terms, period) = (&gate.terms, seconds(gate.terms.slot_period));
    match (terms.slot_tickets.how, gate.throughput, gate.service_mean_s) {
        (how::FIXED, ..) => format!("NapSlotTickets fixes it at {}", terms.slot_tickets.n),
        (how::PAPER, _, Some(s)) => {
            format!("NapSlotTickets paper: {period} divided by {s:.3} s, a mean access")
        }
        (how::PAPER, ..) => "NapSlotTickets paper: no access has finished yet".to_owned(),
        (_, Some(_), _) | (_, None, Some(_)) => format!(
            "what is sold in its time at {:.1} tickets/s",
            gate.offer.sold
        ),
        (_, None, None) => "guessed from the bound: no access has finished yet".to_owned(),
    }
}

/// How many workers there should be, and why.
pub(super) fn workers(gates: &[GateShot], workers: &Workers) -> Wanted {
    let run_ready = sum(gates, |gate| gate.permits);
    let wait: Option<u32> = gates
        .iter()
        .filter(|_| workers.hold_who_waits())
        .map(|gate| {
            let on_top = match gate.terms.re_access.how {
                how::FIXED => gate.terms.re_access.n,
                _ => 0,
            };
            Some(gate.wanted?.saturating_add(on_top))
        })
        .try_fold(0_u32, |sum, one| Some(sum.saturating_add(one?)));
    let configured = workers.per_pool.saturating_mul(workers.pools);
    let Some(wait) = wait else {
        return Wanted {
            max_request_workers: None,
            why: format!(
                "MaxRequestWorkers is {configured}; how many are wanted is known once a queue has \
                 formed in each room: run ready + wait limit + reserve."
            ),
        };
    };
    let busy = run_ready.saturating_add(wait);
    let (usable, reserve) = (
        workers.per_pool.saturating_sub(workers.reserve),
        workers.reserve,
    );
    let (needed, reserve) = if workers.threaded != 0 && usable > 0 {
        let children = busy.div_ceil(usable).max(1);
        let needed = children.saturating_mul(workers.per_pool);
        (
            needed,
            format!("reserve ({reserve} of each child's {})", workers.per_pool),
        )
    } else {
        (
            busy.saturating_add(reserve),
            format!("{reserve} in reserve"),
        )
    };
    let waiting = match workers.hold_who_waits() {
        true => format!(" + {wait} to wait"),
        false => String::new(),
    };
    let enough = if needed <= configured {
        ", which is enough"
    } else {
        ""
    };
    Wanted {
        max_request_workers: Some(needed),
        why: format!(
            "MaxRequestWorkers wanted: {needed} = {run_ready} run ready{waiting} + {reserve}; it \
             is {configured}{enough}."
        ),
    }
}

/// `4 s`, `0.5 s`.
pub(super) fn seconds(span: Micros) -> String {
    format!("{} s", span.as_secs_f64())
}
