//! [`Client`]: who owes a debt: an address, or a prefix where one client has many addresses.
//!
//! An IPv4 address is written as ::ffff:a.b.c.d, and one mapped into IPv6 so is the same client. An
//! IPv6 client is a /64 unless said otherwise. Who owns a /48 has 65,536 of those, so the wider
//! prefix has a debt of its own, with [`WIDE`] times the limits. Keys are SipHash-1-3 over a secret:
//! nobody outside can choose clients that collide.

use std::hash::Hasher;

/// Clients of one wider prefix that may use all of their limits at a time.
pub const WIDE: f64 = 8.0;

/// How much of an address is one client: `BwShareClient`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// Bits of an IPv4 address, 8 to 32.
    pub v4: u8,
    /// Bits of an IPv6 address, 16 to 128.
    pub v6: u8,
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its prefix, the other bits zero; v4 as ::ffff:a.b.c.d.
    pub address: [u8; 16],
    /// Bits of the prefix, counted from those 16 bytes' beginning.
    pub bits: u8,
    /// Where its debt is kept; the lowest bit is always 0.
    pub key: u64,
    /// Where its wider prefix's is; None: it has none.
    pub wide: Option<u64>,
}

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Prefixes {
    /// One IPv4 address, one /64.
    pub const DEFAULT: Prefixes = Prefixes { v4: 32, v6: 64 };
}

impl Client {
    /// The client with this address (v4 as ::ffff:a.b.c.d) among those of `scope`, a virtual host
    /// with limits of its own.
    pub fn of(address: [u8; 16], prefixes: Prefixes, scope: u32, secret: &[u8; 16]) -> Client {
        let v4 = address.starts_with(&MAPPED);
        let bits = match v4 {
            true => 96 + prefixes.v4.min(32),
            false => prefixes.v6.min(128),
        };
        let key = |bits: u8| {
            let mut hasher = std::collections::hash_map::DefaultHasher::new();
            hasher.write(secret);
            hasher.write_u64(u64::from(scope) << 8 | u64::from(bits));
            hasher.write_u128(prefix(&address, bits));
            // Zero is an empty entry, the lowest bit tells horizons from debts.
            hasher.finish().max(2) & !1
        };
        Client {
            address: prefix(&address, bits).to_be_bytes(),
            bits,
            key: key(bits),
            wide: (!v4 && bits > 48).then(|| key(48)),
        }
    }
}

fn prefix(address: &[u8; 16], bits: u8) -> u128 {
    let all = u128::from_be_bytes(*address);
    let spare = 128u32.saturating_sub(u32::from(bits));
    all.checked_shr(spare)
        .and_then(|kept| kept.checked_shl(spare))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn client(address: &str, prefixes: Prefixes) -> Client {
        let address: Ipv6Addr = address.parse().expect("an address");
        Client::of(address.octets(), prefixes, 0, &[7; 16])
    }

    #[test]
    fn clients_are_told_apart_by_their_prefix_alone() {
        let is_one =
            |a, b, v4, v6| client(a, Prefixes { v4, v6 }).key == client(b, Prefixes { v4, v6 }).key;
        for (a, b, v4, v6, one) in [
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1", 32, 64, true),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", 32, 64, false),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", 24, 64, true),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::2", 32, 64, true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", 32, 64, false),
            ("2001:db8:1:2::1", "2001:db8:1:2::2", 32, 128, false),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", 32, 48, true),
        ] {
            assert_eq!(is_one(a, b, v4, v6), one, "{a} {b} {v4} {v6}");
        }
    }

    #[test]
    fn a_wider_prefix_owes_too_unless_it_is_the_client_itself() {
        let wide = |address, v6| client(address, Prefixes { v4: 32, v6 }).wide;
        assert_eq!(wide("2001:db8:1:2::1", 64), wide("2001:db8:1:3::1", 64));
        assert_ne!(wide("2001:db8:1:2::1", 64), wide("2001:db8:2:2::1", 64));
        assert_eq!(wide("2001:db8:1:2::1", 48), None);
        assert_eq!(wide("::ffff:192.0.2.1", 64), None);
    }

    #[test]
    fn the_key_depends_on_secret_and_scope_and_is_never_empty() {
        let address = [1; 16];
        let key = |scope, secret| Client::of(address, Prefixes::DEFAULT, scope, &[secret; 16]).key;
        assert_ne!(key(0, 1), key(0, 2));
        assert_ne!(key(0, 1), key(1, 1));
        for secret in 0..=255 {
            assert!(key(0, secret) > 1 && key(0, secret) & 1 == 0);
        }
    }

    #[test]
    fn the_address_shown_is_the_prefix() {
        let client = client("2001:db8:1:2:3:4:5:6", Prefixes::DEFAULT);
        let shown: Ipv6Addr = "2001:db8:1:2::".parse().expect("an address");
        assert_eq!((client.address, client.bits), (shown.octets(), 64));
    }
}
