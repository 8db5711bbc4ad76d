//! [`CountsLine`]: what has become of a gate's accesses so far.

use std::collections::BTreeMap;

use serde::Serialize;

use super::snapshot::GateShot;
use nap_core::room::verdict::Reason;

#[derive(Clone, Debug, Serialize)]
pub(super) struct CountsLine {
    pub passed: u64,
    pub waited: u64,
    pub re_access: u64,
    pub granted: u64,
    pub refused: BTreeMap<&'static str, u64>,
    pub refused_in_all: u64,
    pub guard_fired: u64,
    pub shed: u64,
    pub gone: u64,
    pub swept_permits: u64,
    pub swept_places: u64,
    pub long_answers: u64,
    pub mended: u64,
    pub dry_run: u64,
}

impl CountsLine {
    pub fn of(gate: &GateShot) -> CountsLine {
        let counts = &gate.counts;
        let refused = (0_u32..).zip(counts.refused);
        let named = refused.map(|(reason, n)| (Reason::of(reason).name(), n));
        CountsLine {
            passed: gate.passed,
            waited: counts.waited,
            re_access: counts.re_access,
            granted: counts.granted,
            refused: named.filter(|(name, _)| !name.is_empty()).collect(),
            refused_in_all: counts.refused.into_iter().fold(0, u64::saturating_add),
            guard_fired: counts.guard_fired,
            shed: counts.shed,
            gone: counts.gone,
            swept_permits: counts.swept_permits,
            swept_places: counts.swept_places,
            long_answers: counts.long,
            mended: counts.mended,
            dry_run: counts.dry,
        }
    }
}
