//! Permits that stand empty while tickets are out, told to the error log: by the parent, every few
//! seconds, and once a minute of each gate.

use std::sync::Mutex;

use super::contract::NAP_LOG_NOTICE;
use super::process::Process;
use nap_core::micros::Micros;

/// Short times that come together within so long are told together; and nothing is told oftener.
const MINUTE: Micros = Micros::from_secs(60);

/// What has been told of a gate.
#[derive(Clone, Copy)]
struct Told {
    /// All the time that permits had stood empty
    empty: Micros,
    /// by then.
    at: Micros,
    /// It may be told again from then on.
    again: Micros,
}

/// By index. None: it has not been looked at since the module was loaded, and what was before has been told.
static TOLD: Mutex<Vec<Option<Told>>> = Mutex::new(Vec::new());

/// Tell where permits have stood empty for so long that somebody should know.
pub fn log(process: &Process) {
    let mut told = TOLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut seen = Vec::with_capacity(process.segment.room_counts()[1]);
    let now = process.segment.locked(|tables, now, _| {
        seen.extend(tables.gates.iter().map(|gate| Micros(gate.counts.empty_us)));
        now
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
        // What was longer ago is told no more.
        if now >= before.at + MINUTE {
            (before.empty, before.at) = (empty, now);
        }
    }
}
