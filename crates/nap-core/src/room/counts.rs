//! What a gate counts, ever. Written under the lock; shown by the pages.

use super::verdict::Reason;

/// A million a second for 36,000 years.
const MOST: u64 = 1 << 60;

/// Counters of a gate. All zero = nothing yet.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Accesses that entered Wait.
    pub waited: u64,
    /// Accesses that entered Re Access or the guard line.
    pub re_access: u64,
    /// Accesses that got their permit after waiting.
    pub granted: u64,
    /// Refusals, by [`Reason`].
    pub refused: [u64; Reason::COUNT],
    /// Tickets sold, re-bookings and guard tickets included.
    pub sold: u64,
    /// Tickets redeemed before their time, by getting in as a newcomer.
    pub redeemed_early: u64,
    /// Tickets presented in their prime window.
    pub presented: u64,
    /// Of these, let in and given a permit within the bound.
    pub kept: u64,
    /// Of these, put off by the deadline guard, with a guard ticket.
    pub deferred: u64,
    /// Of these, put off although they held a guard ticket already.
    pub deferred_twice: u64,
    /// Of these, not let in.
    pub broken: u64,
    /// Tickets presented after their prime window.
    pub late: u64,
    /// Tickets whose time ended unused.
    pub expired: u64,
    /// Newcomers told after the deadline guard fired.
    pub guard_fired: u64,
    /// Newcomers told when the first rate became known and the queue was too long for it.
    pub shed: u64,
    /// Waiters who closed their connection.
    pub gone: u64,
    /// Permits taken back from dead children.
    pub swept_permits: u64,
    /// Places taken back from dead children.
    pub swept_places: u64,
    /// Permits taken from long answers.
    pub long: u64,
    /// Tables mended after a death under the lock.
    pub mended: u64,
    /// Accesses that would have waited or been refused (DryRun).
    pub dry: u64,
    /// Microseconds in which permits stood empty while tickets were out that started later.
    pub empty_us: u64,
}

impl Counts {
    /// Nothing yet.
    pub const EMPTY: Counts = Counts {
        waited: 0,
        re_access: 0,
        granted: 0,
        refused: [0; Reason::COUNT],
        sold: 0,
        redeemed_early: 0,
        presented: 0,
        kept: 0,
        deferred: 0,
        deferred_twice: 0,
        broken: 0,
        late: 0,
        expired: 0,
        guard_fired: 0,
        shed: 0,
        gone: 0,
        swept_permits: 0,
        swept_places: 0,
        long: 0,
        mended: 0,
        dry: 0,
        empty_us: 0,
    };

    /// Resets numbers that nobody can have counted up to: they are a stray write.
    pub fn check(&mut self) {
        let Counts {
            waited,
            re_access,
            granted,
            refused,
            sold,
            redeemed_early,
            presented,
            kept,
            deferred,
            deferred_twice,
            broken,
            late,
            expired,
            guard_fired,
            shed,
            gone,
            swept_permits,
            swept_places,
            long,
            mended,
            dry,
            empty_us,
        } = self;
        let one = [
            waited,
            re_access,
            granted,
            sold,
            redeemed_early,
            presented,
            kept,
            deferred,
            deferred_twice,
            broken,
            late,
            expired,
            guard_fired,
            shed,
            gone,
            swept_permits,
            swept_places,
            long,
            mended,
            dry,
            empty_us,
        ];
        for count in one.into_iter().chain(refused) {
            if *count > MOST {
                *count = 0;
            }
        }
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, reason: Reason) {
        self.refused[reason as usize] += 1;
    }

    /// Refusals of every reason.
    pub fn refusals(&self) -> u64 {
        self.refused.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_have_counted_begins_anew() {
        let mut counts = Counts {
            sold: 7,
            dry: u64::MAX,
            empty_us: MOST + 1,
            ..Counts::EMPTY
        };
        counts.refused[3] = u64::MAX - 5;
        counts.check();
        assert_eq!((counts.sold, counts.dry, counts.refusals()), (7, 0, 0));
        assert_eq!(counts.empty_us, 0);
    }
}
