//! What the oracle looks at from time to time: permits, places, tickets and the ledger against what it knows.

use std::collections::BTreeMap;

use super::{LEDGER_EVERY, Oracle, SLACK, State, Waiter};
use nap_core::micros::Micros;
use nap_core::nap::ledger::CELL;
use nap_core::room::places::wake;
use nap_core::room::terms::how;

impl Oracle {
    /// Accesses that got a permit since the last look: nobody ahead of them may still wait.
    pub fn grants(&mut self, state: &State) {
        for waiter in self.waiters.values_mut() {
            waiter.shed |= state.wake_word(waiter.place) == wake::SHED;
        }
        let newly = |w: &Waiter| !w.granted && state.wake_word(w.place) == wake::GRANTED;
        let granted: Vec<u32> = self
            .waiters
            .iter()
            .filter(|(_, w)| newly(w))
            .map(|(id, _)| *id)
            .collect();
        if granted.is_empty() {
            return;
        }
        for id in &granted {
            if let Some(waiter) = self.waiters.get_mut(id) {
                waiter.granted = true;
            }
        }
        let last = granted
            .iter()
            .filter_map(|id| self.waiters.get(id).copied());
        let (mut passed, apart) = (None, self.terms.re_access.how == how::FIXED);
        for g in last {
            for (id, w) in &self.waiters {
                let linked = !w.granted && !w.replaced && state.wake_word(w.place) == wake::WAITING;
                let same = w.re_access == g.re_access;
                let in_turn = (w.deadline < g.deadline && !self.rebound)
                    || ((w.deadline == g.deadline || self.rebound)
                        && same
                        && w.turn < g.turn
                        && !self.mended);
                let before = match (w.guard, g.guard) {
                    (true, false) => true,
                    (false, true) => false,
                    _ => in_turn && (same || !apart),
                };
                if linked && before {
                    passed = Some((*id, *w, g));
                }
            }
        }
        self.must(passed.is_none(), || {
            format!("served out of turn: {passed:?}")
        });
    }

    /// Checks all that can be checked at any time.
    pub fn audit(&mut self, state: &State, now: Micros, wake_up_to: Micros) {
        self.grants(state);
        let (gate, permits) = (state.gate(), state.permits());
        let (ran, limit) = (permits.running(), permits.limit());
        let before = self.ran;
        self.must(ran <= limit.max(before), || {
            format!("{ran} permits are held of {limit}, {before} before")
        });
        self.ran = ran;
        let waiting = self
            .waiters
            .values()
            .filter(|w| !w.replaced && state.wake_word(w.place) == wake::WAITING);
        let waiting = waiting.count() as u32;
        let (queued, told) = (gate.queue.len(), permits.waiting());
        self.must((waiting, told) == (queued, queued), || {
            format!("{waiting} wait, {queued} are queued, {told} are published")
        });
        self.must(queued == 0 || ran >= limit || self.raised, || {
            format!("{queued} wait while {ran} of {limit} permits are held")
        });
        let good_by = |w: &Waiter| w.until.max(self.slept) + wake_up_to + SLACK;
        let asleep = self
            .waiters
            .iter()
            .find(|(_, w)| !w.dead && now > good_by(w));
        let asleep = asleep.map(|(id, w)| (*id, *w));
        self.must(asleep.is_none(), || {
            format!("still waiting at {now:?}: {asleep:?}")
        });
        let out = self
            .sold
            .iter()
            .filter(|key| gate.slots.position(key.0, key.1).is_some());
        let (out, outstanding) = (out.count() as u32, permits.outstanding());
        self.must(out == outstanding, || {
            format!("{out} tickets are out, {outstanding} are counted")
        });
        self.invariant(gate.depth(gate.rate(permits)), now);
        self.audits += 1;
        if self.audits.is_multiple_of(LEDGER_EVERY) {
            self.ledger(state, now);
        }
    }

    /// No more windows of holders who have not come yet are open than L, for all tau. L is the greatest it
    /// was while they were sold.
    fn invariant(&mut self, depth: u32, now: Micros) {
        self.highest = self.highest.max(depth);
        if self.terms.re_access.how == how::FIXED {
            return;
        }
        let windows: Vec<(Micros, Micros)> = self
            .sold
            .iter()
            .filter_map(|key| self.facts.get(key))
            .filter(|fact| !fact.returned)
            .map(|fact| self.claim(&fact.ticket))
            .filter(|&(_, end)| now < end)
            .collect();
        let mut ends: Vec<Micros> = windows.iter().map(|window| window.1).collect();
        let mut starts: Vec<Micros> = windows.iter().map(|window| window.0.max(now)).collect();
        ends.sort_unstable();
        starts.sort_unstable();
        let open = starts.iter().enumerate().map(|(nth, tau)| {
            let over = ends.partition_point(|end| end <= tau);
            (nth + 1 - over, *tau)
        });
        let highest = self.highest as usize;
        if let Some((most, tau)) = open.max() {
            self.must(most <= highest, || {
                format!("{most} windows are open of {highest} at {tau:?}, now {now:?}")
            });
        }
    }

    /// The ledger's cells equal what the tickets that are out claim.
    fn ledger(&mut self, state: &State, now: Micros) {
        let first = now.0 / CELL.0;
        let (cell_of, cell_from) = (|t: Micros| t.0 / CELL.0, |t: Micros| t.0.div_ceil(CELL.0));
        let mut claims: BTreeMap<u64, u32> = BTreeMap::new();
        for fact in self.sold.iter().filter_map(|key| self.facts.get(key)) {
            let (from, to) = self.claim(&fact.ticket);
            let cells = cell_of(from).max(first)..cell_from(to);
            cells.for_each(|cell| *claims.entry(cell).or_default() += 1);
        }
        let last = claims.keys().next_back().copied().unwrap_or(first) + 3;
        for cell in first..last {
            let at = Micros(cell * CELL.0);
            let (has, should) = (
                state.gate().ledger.max_claims(at, at),
                claims.get(&cell).copied().unwrap_or(0),
            );
            self.must(has == should, || {
                format!("the ledger has {has} claims for {at:?}, the tickets {should}")
            });
        }
    }

    /// Everybody has left: nothing may be held any more.
    pub fn all_gone(&mut self, state: &State, now: Micros) {
        self.audit(state, now, Micros::MAX);
        self.ledger(state, now);
        let held = state
            .places()
            .iter()
            .filter(|place| place.owner.is_some())
            .count();
        let running = state.permits().running();
        let waiting = state.gate().queue.len();
        let left = self.waiters.len();
        self.must((held, running, waiting, left) == (0, 0, 0, 0), || {
            format!("left over: {held} places, {running} permits, {waiting} queued, {left} waiting")
        });
        let (counted, seen) = (state.gate().counts.broken, self.unparked);
        self.must(counted == seen, || {
            format!("{counted} broken promises counted, {seen} seen")
        });
    }
}
