//! What this node says of itself with a beat, out of the segment.

use std::sync::atomic::Ordering::Relaxed;

use mod_nap::shm::segment::Segment;
use nap_core::fleet::member::Figures;
use nap_core::room::Tables;
use nap_core::room::gate::PAGE;

/// Sums over all pages; who waits for the start of a session waits, too. None: the lock cannot be taken.
pub fn of(segment: &Segment) -> Option<Figures> {
    // Set aside before: nothing is allocated under the lock.
    let mut pages = Vec::with_capacity(segment.room_counts()[1]);
    let mut all = segment.locked(|tables| sums(tables, &mut pages))?;
    all.places = segment.places();
    for permits in pages.into_iter().filter_map(|gate| segment.permits(gate)) {
        all.running = all.running.saturating_add(permits.running());
        all.limit = all.limit.saturating_add(permits.limit());
    }
    Some(all)
}

fn sums(tables: &Tables<'_>, pages: &mut Vec<u32>) -> Figures {
    let mut all = Figures::default();
    let gates = tables.gates.iter().zip(tables.permits).zip(0_u32..);
    for ((gate, permits), at) in gates.filter(|((gate, _), _)| gate.kind != 0) {
        if gate.kind == PAGE {
            pages.push(at);
        }
        all.waiting = all.waiting.saturating_add(gate.queue.len());
        let counts = &gate.counts;
        let passed = permits.passed.load(Relaxed);
        let queued = counts.waited.saturating_add(counts.re_access);
        let refused = counts.refused.iter().copied().fold(0, u64::saturating_add);
        for (sum, more) in [
            (&mut all.arrivals, [passed, queued, refused].as_slice()),
            (&mut all.served, &[passed, counts.granted]),
            (&mut all.sold, &[counts.sold]),
            (&mut all.redeemed, &[counts.redeemed_early, counts.kept]),
            (&mut all.broken, &[counts.broken]),
        ] {
            *sum = more.iter().copied().fold(*sum, u64::saturating_add);
        }
    }
    all
}
