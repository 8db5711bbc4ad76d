//! Limits that find themselves, and the places beside them.
//!
//! The [`Pacer`](crate::sqs::page_scheduler::Pacer) decides; this file shows it what the gates have
//! counted, and puts its limits in force. An access that runs takes a worker from those that wait,
//! and a place promised by one gate's ticket must not be promised by another's. So once a second
//! the places that workers allow are shared out among the gates. Each keeps what its queue and its
//! tickets claim; the rest is divided evenly, so a gate with a crowd has most of it within seconds.
//! The pages of a room with sessions sell no tickets, and no limit keeps a member out there: all
//! such pages together have a quarter, or what waits there if that is more, and the session gate
//! the rest. Beside what runs only as much again is kept back for a limit to grow into, not the
//! most it might ever have: nearly as many can wait as with a fixed limit. In return the limit
//! grows only into workers on which nobody waits and which no ticket claims.

use super::control::Control;
use std::sync::atomic::Ordering::Relaxed;

use super::gate::{Gate, SESSION};
use super::page::Page;
use super::permits::Permits;
use super::terms::{Choice, how};
use super::{Room, Tables};
use crate::micros::Micros;
use crate::sqs::page_scheduler::{Look, PageScheduler};

/// Permits that limits which find themselves have together at most, unless set (`max=`): half of
/// the workers, and no more than this (docs/dev/algorithms.md 3.3).
const MOST: u32 = 256;
/// The least number of permits kept free for limits to grow into; otherwise as many as they have.
const GROWTH: u32 = 4;
/// One place in this many is kept for members, and for those who wait beside them, at all pages of
/// rooms with sessions together.
const MEMBERS: u32 = 4;

impl Tables<'_> {
    /// Moves limits, if it is time to.
    pub fn pace_if_due(&mut self) {
        let due = self
            .pacer
            .as_ref()
            .is_some_and(|pacer| pacer.is_due(self.now));
        if due && self.pace() {
            self.each_gate(|view| view.serve());
        }
    }

    /// Moves limits. True: a limit has changed.
    fn pace(&mut self) -> bool {
        let budget = self.budget().min(self.unpromised().max(self.in_force()));
        let Some(pacer) = self.pacer.as_mut() else {
            return false;
        };
        pacer.budget = budget;
        let (generation, pages) = (generation(self.rooms), &*self.pages);
        let (gates, permits, controls) = (&*self.gates, self.permits, self.controls);
        let look = |at: usize| {
            let (gate, permits) = (gates.get(at)?, permits.get(at)?);
            let by_hand = controls.get(at).and_then(Control::limit);
            let counted = || look_at(gate, permits, by_hand);
            (gate.kind != 0 && is_named(pages, generation, at)).then(counted)
        };
        let mut moved = false;
        pacer.look(self.pacing, self.now, look, |at, limit| {
            let by_hand = controls.get(at).and_then(Control::limit).is_some();
            if let Some(permits) = permits.get(at).filter(|_| !by_hand) {
                permits.set_limit(limit);
                moved = true;
            }
        });
        moved
    }

    /// How many permits the limits that find themselves may have together.
    fn budget(&self) -> u32 {
        let workers = self.workers.per_pool.saturating_mul(self.workers.pools);
        let generation = generation(self.rooms);
        let moving = self.pacing.iter().enumerate();
        let moving = moving
            .filter(|(at, page)| page.moves_itself() && is_named(self.pages, generation, *at));
        let (begins, told) = moving.fold((0_u32, 0), |(begins, told), (_, page)| {
            let begins = begins.saturating_add(page.pace.start);
            (begins, page.pace.hi.max(told))
        });
        match workers {
            0 => 0,
            workers => MOST.min(workers / 2).max(begins).max(told),
        }
    }

    /// The sum of the limits in force that find themselves.
    fn in_force(&self) -> u32 {
        let moving = self
            .in_use()
            .filter(|it| it.named && it.page.moves_itself());
        let limits = moving.map(|it| it.permits.limit());
        limits.fold(0, u32::saturating_add)
    }

    /// The gates in use that may have a limit which finds itself.
    fn in_use(&self) -> impl Iterator<Item = InUse<'_>> {
        let generation = generation(self.rooms);
        let gates = self.gates.iter().zip(self.permits).zip(self.pacing.iter());
        gates
            .enumerate()
            .filter_map(move |(at, ((gate, permits), page))| {
                let named = is_named(self.pages, generation, at);
                (gate.kind != 0).then_some(InUse {
                    gate,
                    permits,
                    page,
                    named,
                })
            })
    }

    /// Workers on which nobody waits, which no ticket claims, and which no fixed limit has.
    fn unpromised(&self) -> u32 {
        if self.workers.per_pool == 0 {
            return u32::MAX;
        }
        let taken = self.in_use().map(|it| {
            let fixed = match it.page.moves_itself() || it.gate.kind == SESSION {
                // What children of the generation before still run there.
                _ if !it.named => it.permits.running(),
                true => 0,
                false => it.permits.limit(),
            };
            let waiting = match self.workers.hold_who_waits() {
                true => it.gate.places_taken(it.permits),
                false => 0,
            };
            waiting.saturating_add(fixed)
        });
        self.workers.unused(taken.fold(0, u32::saturating_add))
    }

    /// Shares out the places that workers allow.
    pub fn share_places(&mut self) {
        if self.workers.per_pool == 0 {
            return;
        }
        let generation = generation(self.rooms);
        let (mut running, mut moving) = (0_u32, false);
        // How many gates sell, and how many hold members; and what places they need.
        let (mut n, mut needed) = ([0_u32; 2], [0_u32; 2]);
        for it in self.in_use() {
            let kind = holds_members(it.gate);
            needed[kind] = needed[kind].saturating_add(it.gate.places_needed(it.permits));
            if it.named {
                n[kind] += 1;
                match it.page.moves_itself() {
                    true => moving = true,
                    false => running = running.saturating_add(it.page.pace.start),
                }
            }
        }
        if n == [0; 2] {
            return;
        }
        if moving {
            let now = self.in_force();
            let kept = now.saturating_add(now.max(GROWTH));
            running = running.saturating_add(kept.min(self.budget()));
        }
        let places = self.workers.places(running);
        let members = match n[1] {
            0 => needed[1],
            _ => needed[1].max(places / MEMBERS),
        };
        let left = [
            places.saturating_sub(needed[0].saturating_add(members)),
            members - needed[1],
        ];
        let each = [0, 1].map(|kind: usize| left[kind] / n[kind].max(1));
        for (at, (gate, permits)) in self.gates.iter_mut().zip(self.permits).enumerate() {
            if gate.kind != 0 {
                let more = match is_named(self.pages, generation, at) {
                    true => each[holds_members(gate)],
                    false => 0,
                };
                gate.terms.parked = gate.places_needed(permits).saturating_add(more).min(places);
            }
        }
    }
}

/// A gate in use.
struct InUse<'t> {
    gate: &'t Gate,
    permits: &'t Permits,
    page: &'t PageScheduler,
    /// The configuration of this generation names it.
    named: bool,
}

/// 1: it is a page of a room with sessions, which sells no tickets; 0: it sells.
fn holds_members(gate: &Gate) -> usize {
    usize::from(gate.kind != SESSION && gate.lobby != 0)
}

/// The generation of the configuration in force.
fn generation(rooms: &[Room]) -> Option<u32> {
    rooms.iter().map(|room| room.generation).max()
}

/// Does the configuration of this generation name the gate at `at`? A gate that it does not name
/// keeps its entry and its limit until it comes back, and takes no worker from the others.
fn is_named(pages: &[Page], generation: Option<u32>, at: usize) -> bool {
    let page = pages.get(at);
    page.is_some_and(|page| Some(page.generation) == generation)
}

impl Gate {
    /// Places that its queue takes and its tickets may claim, and those that a fixed wait limit
    /// needs.
    fn places_needed(&self, permits: &Permits) -> u32 {
        let fixed = |choice: Choice| match choice.how {
            how::FIXED => choice.n,
            _ => 0,
        };
        let told = fixed(self.terms.wait_limit).saturating_add(fixed(self.terms.re_access));
        self.places_taken(permits).max(told)
    }

    /// Places that its queue takes and its tickets may claim.
    fn places_taken(&self, permits: &Permits) -> u32 {
        let claims = match permits.outstanding() {
            0 => 0,
            _ => self.claims_ahead(),
        };
        self.queue.len().saturating_add(claims)
    }

    /// The most claims at any time to come.
    pub(super) fn claims_ahead(&self) -> u32 {
        let end = self.slots.open_slots().map(|slot| slot.end()).max();
        let end = end.unwrap_or(Micros::ZERO) + self.terms.lifetime + self.terms.bound;
        self.ledger.max_claims(Micros::ZERO, end)
    }
}

fn look_at(gate: &Gate, permits: &Permits, by_hand: Option<u32>) -> Look {
    Look {
        finished: permits.residence.recorded(),
        passed: permits.passed.load(Relaxed) as u32,
        running: permits.running(),
        // Not what the permits say: where an administrator keeps newcomers out they say one waits.
        waiting: gate.queue.len(),
        residence_s: permits.residence.mean_s().unwrap_or(0.0),
        by_hand,
    }
}
