//! Those who stand outside: the kernel has their connections, and no worker has taken them up yet
//! (docs/promise.md). They are a queue from which X is learnt, and newcomers are told to come later
//! while it is too long.

use super::GateView;
use crate::micros::Micros;
use crate::nap::whole;
use crate::room::arrival::Arrival;

/// Connections seen outside this long ago may have left since.
const STALE: Micros = Micros::from_secs(1);

impl GateView<'_> {
    /// Workers are short, and newcomers would wait too long together with those outside: they are
    /// told to come later, until few enough stand outside.
    pub(super) fn is_beyond(&self, arrival: &Arrival<'_>) -> bool {
        let gate = &*self.gate;
        let outside = self.permits.outside();
        outside > arrival.left
            && gate.sells()
            && gate.is_by_law()
            && gate.decided != 0
            && self.met(arrival.kind).saturating_add(outside) > self.few_enough()
    }

    /// The same for a newcomer who finds a permit free: some go on, so that no permits stand empty.
    pub(super) fn makes_way(&self, arrival: &Arrival<'_>) -> bool {
        self.permits.outside() != 0
            && self.permits.running() >= self.few_running()
            && self.is_beyond(arrival)
    }

    /// How many of those outside will be told to come later.
    pub(in crate::room) fn beyond_outside(&self) -> u32 {
        let outside = self.permits.outside();
        let inside = self.met(0).saturating_sub(self.gate.beyond);
        let all = inside.saturating_add(outside);
        outside.min(all.saturating_sub(self.few_enough()))
    }

    /// How many may stand outside, those in the queue included.
    pub(super) fn few_enough(&self) -> u32 {
        let bound_s = self.gate.terms.bound.as_secs_f64();
        whole(self.gate.rate(self.permits) * bound_s * self.laws.sale.hold)
    }

    /// `n` stand outside now: this too is a queue from which X is learnt.
    pub fn note_outside(&mut self, n: u32) {
        // A queue seen long ago has not necessarily lasted since then.
        let queued = !self.gate.queue.is_empty();
        if self.permits.outside() != 0 && !self.are_outside() && !queued {
            self.permits.set_outside(0);
            self.publish_waiting();
        }
        let before = self.permits.outside();
        self.gate.looked_outside = self.now;
        self.permits
            .set_outside(if self.gate.sells() { n } else { 0 });
        match (before, self.permits.outside()) {
            (0, 1..) if !queued => {
                // If not all permits run, this is not yet a cold server's first round.
                let running = self.permits.running();
                let all = running >= self.permits.limit();
                self.begin_to_wait(if all { running } else { 0 });
            }
            (1.., 0) if !queued => self.publish_waiting(),
            _ => {}
        }
    }

    pub(super) fn are_outside(&self) -> bool {
        self.permits.outside() != 0 && self.now - self.gate.looked_outside <= STALE
    }

    /// Those outside are a queue, but departures while few run tell nothing of the server: either
    /// those outside are another room's, or newcomers are being told to come later, or workers that
    /// would run more are `absent`.
    pub(super) fn runs_few(&self, absent: u32) -> bool {
        let outside = self.gate.queue.is_empty() && self.permits.outside() != 0;
        let running = self.permits.running();
        let could = running.saturating_add(absent).min(self.permits.limit());
        outside && (running <= self.few_running() || running < could - could.div_ceil(8))
    }

    /// How many run while newcomers are told to come later.
    fn few_running(&self) -> u32 {
        self.permits.limit() / 4 + 1
    }
}
