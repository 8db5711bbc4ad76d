//! Limits that move themselves, told to the error log at level debug: by the parent, every few
//! seconds.

use std::sync::Mutex;

use super::contract::NAP_LOG_DEBUG;
use super::process::Process;
use crate::micros::Micros;
use crate::sqs::page_scheduler::{Move, Why};

/// Moves told at a time; of more the rest is told the next time.
const BATCH: usize = 64;

/// What is older than that when the module is loaded has been told by the one before.
const LATELY: Micros = Micros::from_secs(10);

/// How many moves of each gate have been told. Empty: the module has just been loaded.
static TOLD: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Tell what limits have been set since the last time.
pub fn log_moves(process: &Process) {
    let mut told = TOLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let gates = process.segment.room_counts()[1];
    let is_first = told.is_empty();
    told.resize(gates, 0);
    let mut moves: Vec<(u32, Move)> = Vec::with_capacity(BATCH);
    process.segment.locked(|tables, now, _| {
        for ((at, page), told) in (0_u32..).zip(tables.pacing.iter()).zip(told.iter_mut()) {
            if is_first {
                let late = page.moves_since(0).filter(|step| step.at + LATELY >= now);
                *told = page.moves().wrapping_sub(late.count() as u32);
            }
            let new = page.moves_since(*told).count();
            let now = new.min(BATCH - moves.len().min(BATCH));
            moves.extend(page.moves_since(*told).take(now).map(|step| (at, step)));
            *told = page.moves().wrapping_sub((new - now) as u32);
        }
    });
    for (at, step) in moves {
        let title = process.segment.locked(|tables, _, _| {
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
