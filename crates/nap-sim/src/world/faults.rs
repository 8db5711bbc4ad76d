//! Children of a world, and its faults: deaths, restarts, a limit that changes, a slow server, a machine that
//! sleeps. At last everybody goes home.

use std::sync::atomic::Ordering::Relaxed;

use super::{BEGINNING, World};
use crate::events::Event;
use nap_core::micros::Micros;
use nap_core::room::children::Child;

impl World {
    pub(super) fn foretell(&mut self) {
        self.events
            .at(BEGINNING + Micros::from_secs(1), Event::Tick);
        if let Some((at, _)) = self.setup.shift {
            self.events.at(BEGINNING + at, Event::Speed);
        }
        for (n, (at, _)) in (0..).zip(&self.setup.verbs) {
            self.events.at(BEGINNING + *at, Event::Verb(n));
        }
        for event in [
            Event::Kill,
            Event::Restart,
            Event::Limit,
            Event::Suspend,
            Event::Mend,
            Event::Speed,
        ] {
            self.again(event);
        }
    }

    /// Schedules when a fault of this kind strikes next.
    pub(super) fn again(&mut self, event: Event) {
        let faults = self.setup.faults;
        let rate = match event {
            Event::Kill => faults.kills,
            Event::Restart => faults.restarts,
            Event::Limit => faults.limits,
            Event::Suspend => faults.suspends,
            Event::Mend => faults.mends,
            Event::Speed => faults.speeds,
            _ => 0.0,
        };
        if let Some(after) = self.faults.until_next(rate) {
            self.events.at(self.now + after, event);
        }
    }

    /// Kills some child.
    pub(super) fn kill(&mut self) {
        let n = self.faults.below(self.alive.len() as u64) as usize;
        if let Some(&child) = self.alive.get(n)
            && let Some(life) = self.state.life(child)
        {
            self.alive.swap_remove(n);
            self.dies(child);
            let noticed = self.now + Micros(self.faults.below(1_000_000));
            self.events.at(noticed, Event::Buried(child, life.epoch));
        }
    }

    /// Changes the limit to between half and twice what was configured, and half of the time the bound too.
    pub(super) fn limit_changes(&mut self) {
        let c = f64::from(self.setup.terms.run_ready);
        let limit = (c * (0.5 + 1.5 * self.faults.unit())).round().max(1.0) as u32;
        let parked = self.setup.workers.places(limit);
        let bound = match self.faults.chance(0.5) {
            true => self.setup.terms.bound.as_secs_f64() * (0.3 + 2.0 * self.faults.unit()),
            false => self.setup.terms.bound.as_secs_f64(),
        };
        let bound = Micros::from_millis((1000.0 * bound) as u64);
        if let Some(oracle) = &mut self.oracle {
            oracle.bound_changed(bound, &self.state);
        }
        let terms = self.state.terms_mut();
        (terms.run_ready, terms.parked) = (limit, parked);
        terms.bound = bound;
        self.state.permits().set_limit(limit);
        if let Some(oracle) = &mut self.oracle {
            oracle.limit_changed(limit);
        }
    }

    pub(super) fn runs_at(&mut self, speed: f64) {
        self.server.set_speed(speed, self.now);
        self.reckon();
    }

    /// The clock advances and nothing runs.
    pub(super) fn sleeps(&mut self, span: Micros) {
        self.now = self.now + span;
        self.server.sleep(self.now);
        self.reckon();
        if let Some(oracle) = &mut self.oracle {
            oracle.slept = self.now;
        }
    }

    pub(super) fn child(&self, at: u16) -> &Child {
        &self.state.children[at as usize]
    }

    pub(super) fn child_begins(&mut self) {
        if let Some(child) = self.state.child_starts() {
            self.alive.push(child);
        }
    }

    /// The child that takes a connection: one of those with an idle worker, by chance.
    pub(super) fn idle_child(&mut self) -> Option<u16> {
        let workers = self.setup.workers;
        let threads = if workers.threaded != 0 {
            workers.per_pool
        } else {
            1
        };
        if self.setup.uncontrolled {
            return self.alive.first().copied();
        }
        let idle = |child: &u16| {
            let child = &self.state.children[*child as usize];
            child.running.load(Relaxed) + child.waiting.load(Relaxed) < threads
        };
        let n = self.alive.len();
        let from = self.delays.below(n as u64) as usize;
        (0..n)
            .map(|i| self.alive[(from + i) % n])
            .find(|child| idle(child))
    }

    /// A child is killed: what it had in hand is gone, without a word to anybody.
    fn dies(&mut self, child: u16) {
        let gone: Vec<u32> = self
            .accesses
            .iter()
            .filter(|(_, a)| a.child == child)
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            if let Some(access) = self.accesses.remove(&id) {
                self.server.abort(id, self.now);
                if let Some(oracle) = &mut self.oracle {
                    oracle.dead(id);
                }
                self.cut_off(id, &access.request);
            }
        }
        self.reckon();
    }

    /// The parent has noticed the child's death.
    pub(super) fn buried(&mut self, child: u16) {
        let wakes = self.state.child_ends(child, self.now);
        if let Some(oracle) = &mut self.oracle {
            oracle.swept(&self.state);
        }
        self.wake(&wakes);
    }

    pub(super) fn restarts(&mut self) {
        for child in std::mem::take(&mut self.alive) {
            self.dies(child);
        }
        let now = self.now;
        if let Some(oracle) = &mut self.oracle {
            oracle.restarted(&self.state);
        }
        let ((), _) = self.state.locked(now, |tables| tables.begin_anew());
        for child in &self.state.children {
            child.pid.store(0, Relaxed);
        }
        let workers = self.setup.workers;
        let pools = if workers.threaded != 0 {
            workers.pools
        } else {
            workers.per_pool
        };
        (0..pools).for_each(|_| self.child_begins());
    }

    /// Everybody leaves at once, and the time of all tickets passes: nothing may be left.
    pub fn send_home(&mut self) {
        self.here = 0;
        self.backlog.clear();
        for visitor in &mut self.visitors {
            visitor.client.finished = Some(self.now);
        }
        for child in 0..self.state.children.len() as u16 {
            if self.state.life(child).is_some() && !self.alive.contains(&child) {
                self.buried(child);
            }
        }
        while let Some((&id, access)) = self.accesses.iter().next() {
            match access.is_running() {
                true => {
                    self.server.abort(id, self.now);
                    self.finishes(id);
                }
                false => self.gives_up(id),
            }
            if let Some(oracle) = &mut self.oracle {
                oracle.grants(&self.state);
            }
        }
        self.locked_tick();
        if let Some(oracle) = &mut self.oracle {
            oracle.all_gone(&self.state, self.now);
        }
        self.now = self.now + Micros::from_secs(3 * 24 * 3600);
        self.locked_tick();
        if let Some(oracle) = &mut self.oracle {
            oracle.all_gone(&self.state, self.now);
        }
    }
}
