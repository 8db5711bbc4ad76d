//! The state of a gate in a word and a sentence, and what wants an administrator's attention.

use std::fmt::Write as _;

use super::minutes::Minutes;
use super::report::{GateLine, Means, Report};

/// How a gate stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GateState {
    /// Nobody here, nor in the last minute.
    Quiet,
    /// Somebody runs or has just run; more may come in at once.
    Open,
    /// All permits are taken; nobody waits.
    Busy,
    /// Some wait; newcomers may still.
    Waiting,
    /// Newcomers are sent away with a ticket.
    Full,
}

impl GateState {
    pub fn of(gate: &GateLine) -> GateState {
        let (run, wait, minutes) = (&gate.run_ready, &gate.wait, &gate.recent);
        if Minutes::rate_now(&minutes.refused) > 0.0 || (wait.queue > 0 && wait.queue >= wait.limit)
        {
            GateState::Full
        } else if wait.queue > 0 {
            GateState::Waiting
        } else if run.running >= run.limit {
            GateState::Busy
        } else if run.running > 0 || Minutes::lately(&minutes.finished) > 0 {
            GateState::Open
        } else {
            GateState::Quiet
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            GateState::Quiet => "Quiet",
            GateState::Open => "Open",
            GateState::Busy => "Busy",
            GateState::Waiting => "Waiting",
            GateState::Full => "Full",
        }
    }
}

impl GateLine {
    /// Do some wait there, or are newcomers sent away?
    pub(super) fn has_crowd(&self) -> bool {
        matches!(GateState::of(self), GateState::Waiting | GateState::Full)
    }
}

/// The gate in a sentence, its word before a colon.
pub(super) fn sentence(state: GateState, gate: &GateLine) -> String {
    let (run, wait) = (&gate.run_ready, &gate.wait);
    let mut said = format!("{}: ", state.word());
    // Writing to a string does not fail.
    let wrote = match state {
        // Nothing runs there: a visitor whose turn has come goes on to a page.
        GateState::Waiting | GateState::Full if gate.name == "session" => write!(
            said,
            "{} wait to start a session, of {}",
            wait.queue, wait.limit
        ),
        _ if gate.name == "session" => write!(said, "nobody waits to start a session"),
        GateState::Quiet => write!(
            said,
            "nobody is here or was in the last minute; {} may run at once",
            run.limit
        ),
        GateState::Open | GateState::Busy => {
            write!(said, "{} of {} run, nobody waits", run.running, run.limit)
        }
        GateState::Waiting | GateState::Full => write!(
            said,
            "{} of {} run, {} wait of {}",
            run.running, run.limit, wait.queue, wait.limit
        ),
    };
    wrote.ok();
    if let (true, Some(s)) = (wait.queue > 0, wait.expected_s) {
        write!(said, "; the wait is {s:.1} s").ok();
    }
    let refused = Minutes::lately(&gate.recent.refused);
    if refused > 0 {
        write!(said, "; {refused} refused in the last minute").ok();
    }
    promises(&mut said, gate);
    said.push('.');
    said
}

fn promises(said: &mut String, gate: &GateLine) {
    let promise = &gate.promise;
    if promise.sold == 0 {
        return;
    }
    let tickets = match promise.outstanding {
        1 => "ticket",
        _ => "tickets",
    };
    write!(said, "; {} {tickets} out", promise.outstanding).ok();
    match (promise.settled(), promise.kept) {
        (0, _) => said.push_str(", none presented in time so far"),
        (1, 1) => said.push_str(", the one presented so far was kept"),
        (n, kept) if kept >= n => {
            write!(said, ", all {n} presented so far were kept").unwrap_or(())
        }
        (n, kept) => write!(said, ", {kept} of {n} presented so far were kept").unwrap_or(()),
    }
}

/// What an administrator should look at, a sentence each.
pub(super) fn attention(report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    for (room, gate) in report.gates() {
        found.extend(of_gate(&format!("Room {}", gate.title(room, ", ")), gate));
    }
    let full = |child: &&super::report::ChildLine| child.free == 0;
    if report.workers.per_child > 1 {
        found.extend(report.children.iter().filter(full).map(|child| {
            format!(
                "Child {} has no free worker: other connections that it has accepted must wait.",
                child.pid
            )
        }));
    } else if report.workers.free == 0 && report.workers.max_request_workers > 0 {
        found.push("No worker is free: new requests must wait.".to_owned());
    }
    found
}

fn of_gate(name: &str, gate: &GateLine) -> Vec<String> {
    let mut found = Vec::new();
    let (wait, promise, counts) = (&gate.wait, &gate.promise, &gate.counts);
    match gate.by_hand.admits {
        "closed" => found.push(format!("{name} is closed by hand: nobody is let in.")),
        "tickets" => found.push(format!(
            "{name} lets in ticket holders only, by hand: everybody else is given a ticket."
        )),
        _ => {}
    }
    if promise.broken > 0 {
        found.push(format!(
            "{name}: {} of {} tickets presented in time were turned away, because no worker was \
             left to wait on.",
            promise.broken,
            promise.settled()
        ));
    }
    if promise.deferred > 0 {
        found.push(format!(
            "{name}: {} of {} tickets presented in time were put off, with a ticket that goes \
             before all others: the server has become slower than it was when they were sold.",
            promise.deferred,
            promise.settled()
        ));
    }
    if gate.sale.is_long
        && !gate.sale.by_hand
        && let Some(why) = &gate.sale.empty_why
    {
        found.push(format!("{name}: {why}"));
    }
    if let Some(wanted) = wait.wanted.filter(|&wanted| wanted > wait.workers_allow) {
        let Means { allowed, raise } = &wait.means;
        found.push(format!(
            "{name}: {wanted} could wait, but {allowed}: {raise}."
        ));
    }
    if counts.mended > 0 {
        found.push(format!(
            "{name}: its tables were mended {} times after a process died; see the error log.",
            counts.mended
        ));
    }
    found
}
