//! What a gate counts, ever. Written under the lock; shown by the pages.

use super::verdict::Reason;

/// A million a second for 36,000 years.
const MOST: u64 = 1 << 60;

/// The counters are named once; refusals, by their reason, stand between the two groups.
macro_rules! counts {
    ($($(#[$doc1:meta])* $first:ident,)* ; $($(#[$doc2:meta])* $more:ident,)*) => {
        /// Counters of a gate. All zero = nothing yet.
        #[repr(C)]
        #[derive(Clone, Copy, Default, Debug)]
        pub struct Counts {
            $($(#[$doc1])* pub $first: u64,)*
            /// Refusals, by [`Reason`].
            pub refused: [u64; Reason::COUNT],
            $($(#[$doc2])* pub $more: u64,)*
        }

        impl Counts {
            /// Resets numbers that nobody can have counted up to: they are a stray write.
            pub fn check(&mut self) {
                let one = [$(&mut self.$first,)* $(&mut self.$more,)*];
                for count in one.into_iter().chain(&mut self.refused) {
                    if *count > MOST {
                        *count = 0;
                    }
                }
            }
        }
    };
}

counts! {
    /// Accesses that entered Wait.
    waited,
    /// Accesses that entered Re Access or the guard line.
    re_access,
    /// Accesses that got their permit after waiting.
    granted,
    ;
    /// Tickets sold, re-bookings and guard tickets included.
    sold,
    /// Tickets redeemed before their time, by getting in as a newcomer.
    redeemed_early,
    /// Tickets presented in their prime window.
    presented,
    /// Of these, let in and given a permit within the bound.
    kept,
    /// Of these, put off by the deadline guard, with a guard ticket.
    deferred,
    /// Of these, put off although they held a guard ticket already.
    deferred_twice,
    /// Of these, not let in.
    broken,
    /// Tickets presented after their prime window.
    late,
    /// Tickets whose time ended unused.
    expired,
    /// Newcomers told after the deadline guard fired.
    guard_fired,
    /// Newcomers told when the first rate became known and the queue was too long for it.
    shed,
    /// Waiters who closed their connection.
    gone,
    /// Permits taken back from dead children.
    swept_permits,
    /// Places taken back from dead children.
    swept_places,
    /// Permits taken from long answers.
    long,
    /// Tables mended after a death under the lock.
    mended,
    /// Accesses that would have waited or been refused (DryRun).
    dry,
    /// Microseconds in which permits stood empty while tickets were out that started later.
    empty_us,
}

impl Counts {
    /// Counts a refusal.
    pub fn refuse(&mut self, reason: Reason) {
        self.refused[reason as usize] += 1;
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
            ..Counts::default()
        };
        counts.refused[3] = u64::MAX - 5;
        counts.check();
        assert_eq!((counts.sold, counts.dry, counts.refused[3]), (7, 0, 0));
        assert_eq!(counts.empty_us, 0);
    }
}
