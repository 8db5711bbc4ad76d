//! [`TraceSet`]: what clients have done, for the administrator.
//!
//! A debt's entry has no room for this, and forgets clients that owe nothing. So a smaller table
//! beside it keeps a row for each client: counts stay when the debt is gone. A key has eight rows;
//! the one used longest ago is given up for a new client, but never one that is over its limit.

use super::client::Client;

/// Rows of a set.
pub const ROWS: usize = 8;

/// What one client has done. Times are inside time in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRow {
    /// Its prefix; v4 as ::ffff:a.b.c.d.
    pub address: [u8; 16],
    /// How many bits of it count.
    pub bits: u32,
    /// The limits it is under: 0, or the number of a virtual host with its own.
    pub scope: u32,
    /// Requests let through.
    pub files: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Requests refused.
    pub refused: u64,
    /// First seen.
    pub first_ns: u64,
    /// Last seen.
    pub last_ns: u64,
    /// Over its limit until then; past: it is not.
    pub over_ns: u64,
}

/// Eight rows, found by the client's key.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceSet {
    /// 0: the row is not used yet.
    keys: [u64; ROWS],
    rows: [TraceRow; ROWS],
    /// Rows given up for another client, and requests of clients that found none.
    pub hidden: u64,
}

/// Which of `n` sets of a stripe has a key.
pub fn set_of(key: u64, n: usize) -> usize {
    (((key & 0xffff_ffff) * n as u64) >> 32) as usize
}

impl TraceSet {
    /// The row of the client of this key; if it has none, a new one, for which the client and the
    /// number of its limits are asked. None: all other rows' clients are over their limits.
    #[inline]
    pub fn row(
        &mut self,
        key: u64,
        whose: impl FnOnce() -> (Client, u32),
        now_ns: u64,
    ) -> Option<&mut TraceRow> {
        let known = self.keys.iter().position(|known| *known == key);
        let at = match known {
            Some(at) => at,
            None => {
                let (client, scope) = whose();
                self.begin(&client, scope, now_ns)?
            }
        };
        let row = self.rows.get_mut(at)?;
        row.last_ns = now_ns;
        Some(row)
    }

    /// Its row, if it has one.
    #[inline]
    pub fn known(&mut self, key: u64) -> Option<&mut TraceRow> {
        let at = self.keys.iter().position(|known| *known == key)?;
        self.rows.get_mut(at)
    }

    /// The rows in use.
    pub fn rows(&self) -> impl Iterator<Item = (u64, &TraceRow)> {
        let all = self.keys.iter().copied().zip(&self.rows);
        all.filter(|(key, _)| *key != 0)
    }

    /// Takes over a row from a table of another size; false: there is no unused one.
    pub fn adopt(&mut self, key: u64, row: &TraceRow) -> bool {
        let unused = self.keys.iter().position(|known| *known == 0);
        let Some(at) = unused else { return false };
        (self.keys[at], self.rows[at]) = (key, *row);
        true
    }

    #[inline(never)]
    fn begin(&mut self, client: &Client, scope: u32, now_ns: u64) -> Option<usize> {
        let unused = self.keys.iter().position(|key| *key == 0);
        let oldest = || {
            let rows = self.rows.iter().enumerate();
            rows.filter(|(_, row)| row.over_ns <= now_ns)
                .min_by_key(|(_, row)| row.last_ns)
                .map(|(at, _)| at)
        };
        let at = unused.or_else(oldest);
        if unused.is_none() {
            self.hidden = self.hidden.saturating_add(1);
        }
        *self.keys.get_mut(at?)? = client.key;
        *self.rows.get_mut(at?)? = TraceRow {
            address: client.address,
            bits: client.bits,
            scope,
            first_ns: now_ns,
            last_ns: now_ns,
            ..TraceRow::default()
        };
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bwshare::client::Prefixes;

    fn client(n: u8) -> Client {
        Client::of([n; 16], Prefixes::DEFAULT, 0, &[1; 16])
    }

    #[test]
    fn the_row_used_longest_ago_is_given_up_but_none_over_its_limit() {
        let mut set = TraceSet::default();
        for n in 1..=8 {
            let row = set
                .row(client(n).key, || (client(n), 0), u64::from(n))
                .expect("a row");
            row.files = u64::from(n);
            row.over_ns = if n < 3 { 1000 } else { 0 };
        }
        set.row(client(3).key, || (client(3), 0), 50)
            .expect("its own");
        set.row(client(9).key, || (client(9), 0), 60)
            .expect("that of the fourth");
        assert_eq!(set.hidden, 1);
        assert!(set.known(client(4).key).is_none());
        for n in [1, 2, 3, 5, 9] {
            assert!(set.known(client(n).key).is_some(), "{n}");
        }
        for row in &mut set.rows {
            row.over_ns = 1000;
        }
        assert!(set.row(client(10).key, || (client(10), 0), 70).is_none());
        assert!(
            set.row(client(10).key, || (client(10), 0), 1000).is_some(),
            "they have paid"
        );
    }

    #[test]
    fn a_row_takes_at_most_96_bytes_with_its_key() {
        assert_eq!(size_of::<TraceRow>(), 72);
        assert!(size_of::<TraceSet>() <= ROWS * 96);
    }
}
