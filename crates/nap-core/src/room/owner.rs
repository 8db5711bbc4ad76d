//! [`Owner`]: the holder of a permit or a place, in one atomic word.
//!
//! ```text
//!   63      48 47              24 23               0
//!  ┌──────────┬──────────────────┬──────────────────┐
//!  │ child    │ epoch            │ serial           │   0 = nobody
//!  └──────────┴──────────────────┴──────────────────┘
//! ```
//!
//! *child* indexes the children table, *epoch* counts child starts (so that a dead child's things
//! are not taken for its successor's), *serial* counts the accesses of one child (so that a late
//! release cannot free what meanwhile belongs to another access).

/// Holder of a permit or place. Zero is nobody.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
pub struct Owner(pub u64);

/// One life of a child process: its index in the children table and its epoch (never 0).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// Index in the children table.
    pub child: u16,
    /// Number of the child's start, 1..2^24, wraps.
    pub epoch: u32,
}

impl Owner {
    /// The access number `serial` of a child's life.
    pub fn new(life: Life, serial: u32) -> Owner {
        let epoch = u64::from(life.epoch & 0xff_ffff).max(1);
        Owner(u64::from(life.child) << 48 | epoch << 24 | u64::from(serial & 0xff_ffff))
    }

    /// Another access of the same life.
    #[inline]
    pub fn with_serial(self, serial: u32) -> Owner {
        Owner(self.0 & !0xff_ffff | u64::from(serial & 0xff_ffff))
    }

    /// The child's life this access belongs to.
    pub fn life(self) -> Life {
        Life {
            child: (self.0 >> 48) as u16,
            epoch: (self.0 >> 24) as u32 & 0xff_ffff,
        }
    }

    /// Is there an owner?
    pub fn is_some(self) -> bool {
        self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_parts_come_back_and_nobody_is_never_an_owner() {
        for life in [
            Life { child: 0, epoch: 1 },
            Life {
                child: u16::MAX,
                epoch: 0xff_ffff,
            },
            Life {
                child: 7,
                epoch: 42,
            },
        ] {
            for serial in [0, 1, u32::MAX] {
                let owner = Owner::new(life, serial);
                assert_eq!(owner.life(), life);
                assert!(owner.is_some());
            }
        }
    }
}
