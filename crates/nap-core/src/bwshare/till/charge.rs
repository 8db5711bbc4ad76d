//! [`Charge`]: a request that is charged to a client; [`Reservation`]: bytes that it is charged for before they are sent.

use crate::bwshare::account::Reserved;
use crate::bwshare::horizons::HORIZONS;
use crate::bwshare::limits::Debt;

/// Bits of [`Charge::flags`].
pub mod flag {
    /// Charge and count, but let everything pass.
    pub const DRY_RUN: u32 = 1;
    /// Charged, but never refused.
    pub const EXCUSED: u32 = 2;
}

/// A request that is charged to a client. nap.h has the same struct for the shim.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Charge {
    /// The number of the limits it is charged by.
    pub limits: u32,
    /// [`flag`]s, or-ed.
    pub flags: u32,
    /// Its client's key; 0: nobody is charged.
    pub key: u64,
    /// Of one that owes too much: the caller's own, what it is answered with.
    pub status: u32,
    /// ... why: [`Debt`].
    pub debt: u32,
    /// ... how long to wait, microseconds.
    pub wait_us: u64,
    /// The key of the client's network; 0: it has none.
    pub wide: u64,
    /// The horizons' rates as it began, in millionths off.
    pub lowered: [u32; HORIZONS],
    /// Nothing.
    pub spare: u32,
}

impl Charge {
    /// Is this [`flag`] set?
    #[inline]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Why it owes too much.
    pub fn reason(&self) -> Debt {
        Debt::of(self.debt)
    }
}

/// Bytes that a client is charged for before they are sent. nap.h has the same struct for the shim.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Reservation {
    /// How many.
    pub bytes: u64,
    /// How long a byte took then by the limits in force, nanoseconds.
    pub byte_unit: f64,
    /// Of the client's own debts, and of its network's.
    pub both: [Reserved; 2],
}
