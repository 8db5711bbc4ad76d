//! [`CountsLine`]: what has become of a gate's accesses so far.

use std::collections::BTreeMap;

use super::line::line;
use super::snapshot::GateShot;
use nap_core::room::counts::Counts;
use nap_core::room::verdict::Reason;

line! {
    pub(super) struct CountsLine of(gate: &GateShot) {
        passed: u64 = gate.passed,
        waited: u64 = gate.counts.waited,
        re_access: u64 = gate.counts.re_access,
        granted: u64 = gate.counts.granted,
        refused: BTreeMap<&'static str, u64> = refused(&gate.counts),
        refused_in_all: u64 = gate.counts.refused.into_iter().fold(0, u64::saturating_add),
        guard_fired: u64 = gate.counts.guard_fired,
        shed: u64 = gate.counts.shed,
        gone: u64 = gate.counts.gone,
        swept_permits: u64 = gate.counts.swept_permits,
        swept_places: u64 = gate.counts.swept_places,
        long_answers: u64 = gate.counts.long,
        mended: u64 = gate.counts.mended,
        dry_run: u64 = gate.counts.dry,
    }
}

/// By the reason's name.
fn refused(counts: &Counts) -> BTreeMap<&'static str, u64> {
    let refused = (0_u32..).zip(counts.refused);
    let named = refused.map(|(reason, n)| (Reason::of(reason).name(), n));
    named.filter(|(name, _)| !name.is_empty()).collect()
}
