//! Which member is chosen, and in which order the rules apply.
//!
//! 1. **Probe**: a member that has plainly failed gets one piece of idempotent work after a pause.
//! 2. **Unseen**: a member of which nothing is known for this activity gets one piece at a time.
//!    (The paper begins with a thousand steps of random choices: seconds of bad service.)
//! 3. **Exploration**: one piece in a hundred goes to any member, and one in fifty to a member that
//!    has had no work for long: what is not tried is not known.
//! 4. **The law**, among members that have not plainly failed: `oxthas` ranks them by c' and takes
//!    the one whose band the size lies in; `nap` takes the least (W + s) / c'.
//! 5. If all have failed, the law among all: some work must find out.
//!
//! W is what this engine has under way there. Work of other activities counts with the time that it
//! was expected to take, as its size would mean nothing beside this activity's capacity.

use super::MEMBERS;
use super::engine::{Engine, EngineTerms, Law};
use super::executor::Executor;
use crate::micros::Micros;

/// At most one in this many of an activity's choices goes to a member that had no work for long.
const STALE_EVERY: u32 = 50;
/// Work that cannot be repeated elsewhere is a probe only this many pauses after one was due.
const LAST_RESORT_PAUSES: u64 = 32;

/// A member that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Index of its executor.
    pub executor: u32,
    /// The administrator's factor for its capacity, in per cent.
    pub factor: u32,
}

/// Work that needs an executor.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The members that may do it. Those beyond the first [`MEMBERS`] are ignored.
    pub members: &'a [Member],
    /// What kind of work it is.
    pub activity: u32,
    /// s.
    pub size: u64,
    /// The law that chooses.
    pub law: Law,
    /// Settings.
    pub terms: &'a EngineTerms,
    /// It may be sent where it may fail, as it can be repeated elsewhere.
    pub may_probe: bool,
    /// The owner of its flight.
    pub owner: u64,
    /// Now.
    pub now: Micros,
    /// Random bits.
    pub random: u64,
}

/// What the laws see of a member.
#[derive(Clone, Copy, Default)]
struct Looked {
    member: u16,
    /// c'; 0: nothing is known.
    capacity: f64,
    /// (W + s) / c', seconds.
    seconds: f64,
}

/// Members that may be chosen by a law.
struct Looks {
    all: [Looked; MEMBERS],
    n: usize,
}

impl Looks {
    fn push(&mut self, looked: Looked) {
        if let Some(place) = self.all.get_mut(self.n) {
            *place = looked;
            self.n += 1;
        }
    }
}

/// The index of the member that is to do it, and whether as a probe.
pub(super) fn choose(engine: &mut Engine<'_>, ask: &Ask<'_>) -> Option<(usize, bool)> {
    let mut good = Looks {
        all: [Looked::default(); MEMBERS],
        n: 0,
    };
    let (mut unseen, mut stale) = (None, None);
    let mut oldest = ask.now - ask.terms.stale;
    for (at, member) in ask.members.iter().enumerate().take(MEMBERS) {
        let Some(executor) = engine.executors.get(member.executor as usize) else {
            continue;
        };
        if ask.terms.pause != Micros::ZERO && is_barred(executor, ask) {
            if probe_is_due(engine, executor, ask) {
                return Some((at, true));
            }
            continue;
        }
        let cell = executor.cell(ask.activity);
        let known = cell.history.made() > 0;
        if !known && ask.terms.unseen_first {
            if cell.open == 0 {
                unseen = unseen.or(Some(at));
            }
            continue;
        }
        if ask.terms.stale != Micros::ZERO && cell.open == 0 && cell.observed_at < oldest {
            (oldest, stale) = (cell.observed_at, Some(at));
        }
        good.push(look(executor, member, at, ask));
    }
    if let Some(at) = unseen {
        return Some((at, false));
    }
    if let Some(at) = stale.filter(|_| good.n > 1) {
        let since = &mut engine.about(ask.activity).since;
        *since = since.saturating_add(1);
        if *since >= STALE_EVERY {
            *since = 0;
            return Some((at, false));
        }
    }
    if good.n == 0 {
        let members = ask.members.iter().enumerate().take(MEMBERS);
        for (at, member) in members {
            if let Some(executor) = engine.executors.get(member.executor as usize) {
                good.push(look(executor, member, at, ask));
            }
        }
    }
    let s_max = engine.about(ask.activity).sizes.max();
    let good = &mut good.all[..good.n];
    let chance = (ask.random >> 44) as u32;
    let explores = u64::from(chance) * 1_000_000 < u64::from(ask.terms.explore_ppm) << 20;
    let chosen = match ask.law {
        _ if explores => anybody(good, ask.random),
        Law::Random => anybody(good, ask.random),
        Law::Nap => least(good, ask.random),
        Law::Oxthas => by_band(good, ask, s_max),
    }?;
    Some((chosen.member.into(), false))
}

/// Has it plainly failed for this activity?
fn is_barred(executor: &Executor, ask: &Ask<'_>) -> bool {
    let cell = executor.cell(ask.activity);
    let never_answered = cell.history.made() == 0 && cell.penalty.failures > 0;
    executor.penalty.bars() || cell.penalty.bars() || never_answered
}

/// Is this access to try the executor? Work that cannot be repeated elsewhere only if none that can
/// has come for long: where there is no other work, nobody would ever find out that it is well.
fn probe_is_due(engine: &Engine<'_>, executor: &Executor, ask: &Ask<'_>) -> bool {
    let cell = executor.cell(ask.activity);
    let now = match ask.may_probe {
        true => ask.now,
        false => ask.now - Micros(ask.terms.pause.0.saturating_mul(LAST_RESORT_PAUSES)),
    };
    [&executor.penalty, &cell.penalty].iter().all(|penalty| {
        let mut penalty = **penalty;
        if penalty.probe != 0 && !engine.probe_is_out(penalty.probe) {
            penalty.probe = 0;
        }
        penalty.is_due(now)
    })
}

fn look(executor: &Executor, member: &Member, at: usize, ask: &Ask<'_>) -> Looked {
    let cell = executor.cell(ask.activity);
    let failures = f64::from(executor.failures(ask.activity));
    let factor = f64::from(member.factor.clamp(1, 10_000)) / 100.0;
    let known = cell.history.capacity().unwrap_or(0.0);
    let capacity = known * factor / (1.0 + ask.terms.alpha * failures);
    let others = executor.expected_us.saturating_sub(cell.expected_us) as f64 / 1e6;
    let own = cell.work.saturating_add(ask.size) as f64;
    Looked {
        member: at as u16,
        capacity,
        seconds: if capacity > 0.0 {
            own / capacity + others
        } else {
            f64::INFINITY
        },
    }
}

fn anybody(good: &[Looked], random: u64) -> Option<Looked> {
    let n = good.len() as u64;
    let at = (random & 0xffff_ffff) % n.max(1);
    good.get(at as usize).copied()
}

/// The least (W + s) / c'; among equals a random one.
fn least(good: &[Looked], random: u64) -> Option<Looked> {
    let least = good.iter().map(|l| l.seconds).fold(f64::INFINITY, f64::min);
    let equals = good.iter().filter(|l| l.seconds <= least);
    let n = equals.clone().count() as u64;
    let at = (random & 0xffff_ffff) % n.max(1);
    equals.copied().nth(at as usize)
}

/// OXTHAS-N: the best N by c', and of them the one whose band the size lies in.
fn by_band(good: &mut [Looked], ask: &Ask<'_>, s_max: u64) -> Option<Looked> {
    good.sort_unstable_by(|a, b| (b.capacity.total_cmp(&a.capacity)).then(a.member.cmp(&b.member)));
    let n = good.len().min(ask.terms.bands.max(1) as usize);
    let capacity = |rank: usize| good.get(rank).map_or(0.0, |l| l.capacity);
    let split = ask.terms.split;
    let rank = split.rank(ask.size as f64, n, s_max as f64, capacity);
    good.get(rank).copied()
}
