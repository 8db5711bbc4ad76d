//! [`LastClient`]: the client that asked last on a connection.

use crate::bwshare::client::Client;

/// The client that asked last on a connection, so that its address need not be hashed again. All zero: nobody has
/// asked. nap.h has the same struct for the shim.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct LastClient {
    /// Its address.
    pub address: [u8; 16],
    /// Who that is.
    pub client: Client,
    /// The number + 1 of the limits it is charged by; 0: nobody has asked.
    pub limits: u32,
}

impl LastClient {
    /// From now on it is the client of this address. `client` is asked only where that is another than before.
    #[inline]
    pub(super) fn look_at(
        &mut self,
        address: [u8; 16],
        limits: u32,
        client: impl FnOnce() -> Client,
    ) {
        let limits = limits.wrapping_add(1);
        if self.limits != limits || self.address != address {
            *self = LastClient {
                address,
                client: client(),
                limits,
            };
        }
    }
}
