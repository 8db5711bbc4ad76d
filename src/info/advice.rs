//! `/nap-info?advise`: a configuration from what was measured, for an administrator who lets the module
//! look on (`NapEngine DryRun`) before it decides.
//!
//! Then it is known how long an access takes, how many ran at once, and how many more there would have
//! been. What a limit would do to the throughput is not known before there is one. So the advice never
//! exceeds what the application has been seen to bear.

use std::fmt::Write as _;

use super::report::{GateLine, Report};

/// Finished accesses before anything is advised.
const ENOUGH: u64 = 100;
/// Run Ready, as a multiple of the most that ran at once.
const MARGIN: f64 = 1.25;
/// The least to run at once.
const RUN_READY_MIN: u32 = 4;
/// Seconds a visitor may wait, unless an access itself takes longer.
const BOUND_S: f64 = 4.0;

/// What to write for one gate.
struct Advice {
    run_ready: u32,
    bound_s: f64,
    /// Accesses a second then.
    throughput: f64,
    /// Places to wait then.
    places: u32,
}

impl Report {
    /// As a part of httpd's configuration, with the reasons as comments.
    pub fn to_advice(&self) -> String {
        let mut text = format!(
            "# mod_nap's advice, {}, from what it has seen.\n",
            self.time
        );
        let mut workers = Some(0_u32);
        // At a session gate nothing runs: the module finds the interval between sessions.
        for (room, gate) in self.gates().filter(|(_, gate)| gate.name != "session") {
            let advice = Advice::of(gate);
            workers = workers.zip(advice.as_ref()).map(|(sum, one)| {
                let waiting = match self.workers.hold_who_waits {
                    true => one.places,
                    false => 0,
                };
                sum.saturating_add(one.run_ready).saturating_add(waiting)
            });
            // Writing to a string does not fail.
            tell(&mut text, room, gate, advice.as_ref()).ok();
        }
        match workers.filter(|_| !self.rooms.is_empty()) {
            Some(busy) => self.tell_workers(&mut text, busy),
            None => text.push_str("\n# Leave NapEngine DryRun until every room has been used.\n"),
        }
        text
    }

    fn tell_workers(&self, text: &mut String, busy: u32) {
        let (own, max) = (&self.workers, self.workers.max_request_workers);
        let usable = own.per_child.saturating_sub(own.reserve).max(1);
        let wanted = match own.per_child {
            0 | 1 => busy.saturating_add(own.reserve),
            per_child => busy.div_ceil(usable).saturating_mul(per_child),
        };
        let words = match wanted <= max {
            true => format!("at least {wanted} workers are wanted; MaxRequestWorkers is {max}."),
            false if own.hold_who_waits => format!(
                "at least {wanted} workers are wanted: raise MaxRequestWorkers from {max}, or fewer may \
                 wait and more are given tickets."
            ),
            false => format!(
                "at least {wanted} workers are wanted: raise MaxRequestWorkers from {max}, or fewer run."
            ),
        };
        let end = "# Tickets outlive a full restart with NapStateFile.\nNapEngine On";
        writeln!(text, "\n# {words}\n{end}").ok();
    }
}

impl Advice {
    /// None: too little has been seen.
    fn of(gate: &GateLine) -> Option<Advice> {
        let seen = gate.counts.passed.saturating_add(gate.counts.granted);
        let mean_s = gate.speed.service_mean_s.filter(|mean_s| *mean_s > 0.0)?;
        if seen < ENOUGH {
            return None;
        }
        let run_ready = match gate.counts.dry_run {
            0 => (f64::from(peak(gate)) * MARGIN).ceil() as u32,
            // The limit was not enough; whether the application would bear more is not known.
            _ => gate.run_ready.limit,
        };
        let run_ready = run_ready.clamp(RUN_READY_MIN, gate.run_ready.limit.max(RUN_READY_MIN));
        let p95_s = gate.speed.service_p95_s.unwrap_or(mean_s);
        let bound_s = (2.0 * p95_s).ceil().clamp(BOUND_S, 600.0);
        let throughput = f64::from(run_ready) / mean_s;
        let places = throughput * (bound_s - p95_s).max(0.0);
        Some(Advice {
            run_ready,
            bound_s,
            throughput,
            places: places.min(1e6) as u32,
        })
    }
}

/// Most that ran at once, as far as the last minutes know.
fn peak(gate: &GateLine) -> u32 {
    let recent = gate.recent.running.iter().copied().max();
    recent.unwrap_or(0).max(gate.run_ready.running)
}

fn tell(
    text: &mut String,
    room: &str,
    gate: &GateLine,
    advice: Option<&Advice>,
) -> std::fmt::Result {
    let (counts, speed) = (&gate.counts, &gate.speed);
    let seen = counts.passed.saturating_add(counts.granted);
    let of = format!("Room {}", gate.title(room, ", "));
    writeln!(text)?;
    let Some(advice) = advice else {
        return writeln!(
            text,
            "# {of}: {seen} accesses were seen, and advice needs {ENOUGH} of them."
        );
    };
    let lasted = |s: Option<f64>| s.map_or("an unknown time".to_owned(), |s| format!("{s:.3} s"));
    writeln!(
        text,
        "# {of}: {seen} accesses were seen, each {} on average, 95 of 100 within {};",
        lasted(speed.service_mean_s),
        lasted(speed.service_p95_s),
    )?;
    match counts.dry_run {
        0 => writeln!(
            text,
            "# at most {} ran at once lately, and none would have had to wait.",
            peak(gate)
        )?,
        more => writeln!(
            text,
            "# {more} more would have waited or been refused, as {} ran. If the application was quick \
             all the same,\n# raise NapRunReady and look again.",
            gate.run_ready.limit
        )?,
    }
    let (least, why) = match counts.dry_run {
        0 => ("up to", ""),
        _ => ("at least", " (each is quicker when fewer run)"),
    };
    writeln!(
        text,
        "# These limits serve {least} {:.0} a second{why} and let {} wait;\n\
         # visitors beyond that are given a ticket.",
        advice.throughput, advice.places
    )?;
    let lines = format!(
        "    NapRunReady {}\n    NapWaitMax {}s\n",
        advice.run_ready, advice.bound_s
    );
    match gate.name.as_str() {
        "" => writeln!(text, "<NapRoom {room}>\n{lines}</NapRoom>"),
        // Only httpd's configuration knows its expression.
        page => writeln!(
            text,
            "# In its <NapPage {} ...>:\n{}",
            page.trim_start_matches("page "),
            lines.trim_end().replace("    ", "#   ")
        ),
    }
}
