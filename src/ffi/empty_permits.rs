//! Logs permits that stand empty while tickets are out. The parent calls this every few seconds; each
//! gate is logged once a minute at most.

use std::sync::Mutex;

use super::contract::NAP_LOG_NOTICE;
use super::guard::lock;
use super::process::Process;
use nap_core::micros::Micros;

/// Short times within so long are added up and logged together; nothing is logged more often.
const MINUTE: Micros = Micros::from_secs(60);

/// What has been logged of a gate.
#[derive(Clone, Copy)]
struct Told {
    /// All the time that permits had stood empty
    empty: Micros,
    /// by then.
    at: Micros,
    /// It may be logged again from then on.
    again: Micros,
}

/// By the gate's index. None: not looked at since the module was loaded; what was before has been logged.
static TOLD: Mutex<Vec<Option<Told>>> = Mutex::new(Vec::new());

/// Logs where permits have stood empty for so long that somebody should know.
pub fn log(process: &Process) {
    let mut told = lock(&TOLD);
    let mut seen = Vec::with_capacity(process.segment.room_counts()[1]);
    let now = process.segment.locked(|tables| {
        seen.extend(tables.gates.iter().map(|gate| Micros(gate.counts.empty_us)));
        tables.now
    });
    let Some(now) = now else { return };
    told.resize(seen.len(), None);
    let mut report = None;
    for ((at, told), empty) in (0_u32..).zip(told.iter_mut()).zip(seen) {
        let before = told.get_or_insert(Told {
            empty,
            at: now,
            again: Micros::ZERO,
        });
        // Another room has the gate now.
        if before.empty > empty {
            (before.empty, before.at) = (empty, now);
        }
        if now >= before.again && empty > before.empty {
            let report = report.get_or_insert_with(|| super::pages::report(process));
            if let Some(line) = report.line_for_empty(at, empty - before.empty) {
                process.host.log(NAP_LOG_NOTICE, &line);
                *before = Told {
                    empty,
                    at: now,
                    again: now + MINUTE,
                };
            }
        }
        // What was longer ago is not logged any more.
        if now >= before.at + MINUTE {
            (before.empty, before.at) = (empty, now);
        }
    }
}
