//! [`LastClient`]: the client that asked last on a connection.

use crate::bwshare::client::Client;

/// The client that asked last on a connection, so that its address need not be hashed again. All zero: nobody has
/// asked. nap.h has the same struct for the shim.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct LastClient {
    /// Its address.
    pub address: [u8; 16],
    /// The part of it that is the client.
    pub prefix: [u8; 16],
    /// Bits of that.
    pub bits: u32,
    /// The number + 1 of the limits it is charged by; 0: nobody has asked.
    pub limits: u32,
    /// Its key.
    pub key: u64,
    /// The key of its network; 0: it has none.
    pub wide: u64,
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
        let is_known = self.limits == limits.wrapping_add(1) && self.address == address;
        if !is_known {
            self.meet(address, limits, client());
        }
    }

    #[inline(never)]
    fn meet(&mut self, address: [u8; 16], limits: u32, client: Client) {
        *self = LastClient {
            address,
            prefix: client.address,
            bits: client.bits.into(),
            limits: limits.wrapping_add(1),
            key: client.key,
            wide: client.wide.unwrap_or(0),
        };
    }

    /// Who that is.
    pub(super) fn client(&self) -> Client {
        Client {
            address: self.prefix,
            bits: self.bits as u8,
            key: self.key,
            wide: (self.wide != 0).then_some(self.wide),
        }
    }
}
