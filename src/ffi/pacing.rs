//! Logs, at level debug, the limits that the module moves itself. The parent calls this every few
//! seconds.

use super::contract::NAP_LOG_DEBUG;
use super::process::Process;
use nap_core::sqs::moves::{Move, Why};

/// Moves logged at a time; the rest is logged the next time.
const BATCH: usize = 64;

/// Logs the limits that have been set since the last time.
pub fn log_moves(process: &Process) {
    let mut moves: Vec<(u32, Move)> = Vec::with_capacity(BATCH);
    process.segment.locked(|tables| {
        for (at, page) in (0_u32..).zip(tables.pacing.iter_mut()) {
            let most = BATCH - moves.len().min(BATCH);
            moves.extend(page.tell(most).map(|step| (at, step)));
        }
    });
    for (at, step) in moves {
        let title = process.segment.locked(|tables| {
            let gate = tables.gates.get(at as usize)?;
            let room = *tables.rooms.get(gate.room as usize)?;
            Some((room, *tables.pages.get(at as usize)?))
        });
        let Some((room, page)) = title.flatten() else {
            continue;
        };
        let page = match page.name() {
            "" => String::new(),
            name => format!(" page {name}"),
        };
        let why = Why::of(step.why).word();
        let gains = step
            .elasticity()
            .map_or(String::new(), |e| format!(", elasticity {e:.2}"));
        let line = format!(
            "room {}{page}: run ready {} ({why}{gains}, {:.1}/s before) {:.1} s ago",
            room.name(),
            step.limit,
            f64::from(step.per_ks) / 1e3,
            (process.segment.now() - step.at).as_secs_f64()
        );
        process.host.log(NAP_LOG_DEBUG, &line);
    }
}
