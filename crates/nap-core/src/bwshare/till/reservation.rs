//! [`Reservation`]: bytes that a client and its network are charged for before they are sent.

use crate::bwshare::account::Reserved;

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
