//! [`Reservation`]: bytes that a client and its network are charged for before they are sent.

use crate::bwshare::account::Reserved;
use crate::bwshare::horizons::HORIZONS;

/// Bytes that a client is charged for before they are sent. nap.h has the same struct for the shim.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Reservation {
    /// How many.
    pub bytes: u64,
    /// When, inside time in nanoseconds.
    pub at_ns: u64,
    /// From when on they are paid off, of the client's own debts and of the network's: bytes, and each horizon's.
    pub from_ns: [[u64; 1 + HORIZONS]; 2],
    /// What had been given back to each by then.
    pub returned: [u32; 2],
    /// How long a byte took then by the limits in force, nanoseconds.
    pub byte_unit: f64,
}

impl Reservation {
    /// Of the client's own debts, and of its network's.
    pub(super) fn of(bytes: u64, both: [Reserved; 2], byte_unit: f64) -> Reservation {
        Reservation {
            bytes,
            at_ns: both[0].at_ns,
            from_ns: both.map(|reserved| reserved.from_ns),
            returned: both.map(|reserved| reserved.returned),
            byte_unit,
        }
    }

    /// The same for each.
    pub(super) fn both(&self) -> [Reserved; 2] {
        [0, 1].map(|i: usize| Reserved {
            bytes: self.bytes,
            at_ns: self.at_ns,
            returned: self.returned[i],
            from_ns: self.from_ns[i],
        })
    }
}
