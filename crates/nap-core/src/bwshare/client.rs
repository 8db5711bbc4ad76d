//! [`Client`]: the one that owes: an address, or a prefix where one client has many addresses.
//!
//! An IPv4 address is written as ::ffff:a.b.c.d; mapped into IPv6 in this way it is the same
//! client. An IPv6 client is a /64 unless configured otherwise. The owner of a /48 has 65,536 of
//! those, so the wider prefix has a debt of its own, with [`WIDE`] times the limits. Keys are
//! SipHash-1-3 over a secret: nobody outside can choose clients that collide. A byte of the key
//! tells by whose limits its debt is kept ([`tag_of`]): a debt is a time, and means another amount
//! when the limits change.

/// Clients of one wider prefix that may use all of their limits at a time.
pub const WIDE: f64 = 8.0;

/// Where the tag of a key lies. The bits above tell its stripe, those below its buckets and its set.
const TAG: u32 = 32;

/// What the keys of a scope have in common; 0: the server's. Few scopes share one.
pub fn tag(scope: u32) -> u8 {
    match scope {
        0 => 0,
        scope => (scope % 255 + 1) as u8,
    }
}

/// The tag of this key.
pub fn tag_of(key: u64) -> u8 {
    (key >> TAG) as u8
}

/// How much of an address is one client: `BwShareClient`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// Bits of an IPv4 address, 8 to 32.
    pub v4: u8,
    /// Bits of an IPv6 address, 16 to 128.
    pub v6: u8,
}

/// A client.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its prefix, the other bits zero; v4 as ::ffff:a.b.c.d.
    pub address: [u8; 16],
    /// Where its debt is kept; the lowest bit is always 0.
    pub key: u64,
    /// Where the debt of its network, the wider prefix, is kept; 0: it has none.
    pub wide: u64,
    /// Bits of the prefix, counted from the beginning of those 16 bytes.
    pub bits: u32,
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
            true => 96 + u32::from(prefixes.v4.min(32)),
            false => u32::from(prefixes.v6.min(128)),
        };
        let key = |bits: u32| {
            let of = u64::from(scope) << 8 | u64::from(bits);
            let address = prefix(&address, bits);
            // Zero is an empty entry, the lowest bit tells horizons from debts.
            let hash = sip_1_3(secret, [of, address as u64, (address >> 64) as u64]);
            (hash & !(0xff << TAG | 1) | u64::from(tag(scope)) << TAG).max(2)
        };
        Client {
            address: prefix(&address, bits).to_be_bytes(),
            bits,
            key: key(bits),
            wide: if !v4 && bits > 48 { key(48) } else { 0 },
        }
    }
}

/// SipHash-1-3 (Aumasson and Bernstein) of three words; std's has no way to give it a key.
fn sip_1_3(secret: &[u8; 16], words: [u64; 3]) -> u64 {
    let secret = u128::from_le_bytes(*secret);
    let (k0, k1) = (secret as u64, (secret >> 64) as u64);
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    // The last word is the length in bytes, in its highest byte.
    for word in words.into_iter().chain([(8 * words.len() as u64) << 56]) {
        v[3] ^= word;
        sip_round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..3).for_each(|_| sip_round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn sip_round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *c = c.wrapping_add(*d);
    *b = b.rotate_left(13) ^ *a;
    *d = d.rotate_left(16) ^ *c;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*b);
    *a = a.wrapping_add(*d);
    *b = b.rotate_left(17) ^ *c;
    *d = d.rotate_left(21) ^ *a;
    *c = c.rotate_left(32);
}

fn prefix(address: &[u8; 16], bits: u32) -> u128 {
    let all = u128::from_be_bytes(*address);
    let spare = 128u32.saturating_sub(bits);
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
        assert_eq!(wide("2001:db8:1:2::1", 48), 0);
        assert_eq!(wide("::ffff:192.0.2.1", 64), 0);
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
    fn the_key_tells_whose_limits_it_is_kept_by() {
        for scope in [0, 1, 254, 255, 256, u32::MAX] {
            let key = Client::of([3; 16], Prefixes::DEFAULT, scope, &[5; 16]).key;
            assert_eq!(tag_of(key), tag(scope), "{scope}");
            assert_eq!(tag(scope) == 0, scope == 0);
        }
    }

    /// std's hasher is the same function with a secret of zero.
    #[test]
    fn keys_are_siphash_1_3() {
        use std::hash::Hasher as _;
        for words in [
            [0; 3],
            [1, 2, 3],
            [u64::MAX, 7 << 60, 0x0123_4567_89ab_cdef],
        ] {
            let mut known = std::collections::hash_map::DefaultHasher::new();
            words.iter().for_each(|word| known.write_u64(*word));
            assert_eq!(sip_1_3(&[0; 16], words), known.finish());
        }
    }

    #[test]
    fn the_address_shown_is_the_prefix() {
        let client = client("2001:db8:1:2:3:4:5:6", Prefixes::DEFAULT);
        let shown: Ipv6Addr = "2001:db8:1:2::".parse().expect("an address");
        assert_eq!((client.address, client.bits), (shown.octets(), 64));
    }
}
