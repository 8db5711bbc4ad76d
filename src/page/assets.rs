//! The files a page needs: its style and its script, served under the ticket page's own path.
//!
//! Files of their own, so that a page works under `Content-Security-Policy: default-src 'self'`.
//! Their addresses carry a hash of what is in them, so they may be kept for a year.

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its name behind the ticket page's path and a slash.
    pub name: &'static str,
    /// Content-Type.
    pub content_type: &'static str,
    /// What is in it.
    pub body: &'static str,
    version: [u8; 16],
}

/// The ticket page's style.
pub static STYLE: Asset = Asset::new(
    "nap.css",
    "text/css; charset=utf-8",
    include_str!("../../templates/assets/nap.css"),
);
/// The ticket page's script.
pub static SCRIPT: Asset = Asset::new(
    "nap.js",
    "text/javascript; charset=utf-8",
    include_str!("../../templates/assets/nap.js"),
);

impl Asset {
    const fn new(name: &'static str, content_type: &'static str, body: &'static str) -> Asset {
        Asset {
            name,
            content_type,
            body,
            version: digits(fnv(body.as_bytes())),
        }
    }

    /// The file of that name.
    pub fn named(name: &[u8]) -> Option<&'static Asset> {
        [&STYLE, &SCRIPT]
            .into_iter()
            .find(|asset| asset.name.as_bytes() == name)
    }

    /// Cache-Control for a request with this query: a year, if it asked for what is here now.
    pub fn cache_control(&self, query: &[u8]) -> &'static str {
        match query.strip_prefix(b"v=") {
            Some(version) if version == self.version => "public, max-age=31536000, immutable",
            _ => "no-cache",
        }
    }

    /// A hash of what is in it: sixteen hexadecimal digits.
    pub fn version(&self) -> &str {
        std::str::from_utf8(&self.version).unwrap_or("")
    }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: it tells versions apart and protects nothing.
const fn fnv(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

const fn digits(hash: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let mut at = 0;
    while at < digits.len() {
        digits[at] = b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 15];
        at += 1;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_only_under_the_address_of_what_is_in_it() {
        for asset in [&STYLE, &SCRIPT] {
            assert_eq!(Asset::named(asset.name.as_bytes()), Some(asset));
            let query = format!("v={}", asset.version());
            assert!(asset.cache_control(query.as_bytes()).contains("immutable"));
            assert_eq!(asset.cache_control(b"v=0"), "no-cache");
            assert_eq!(asset.cache_control(b""), "no-cache");
        }
        assert_ne!(STYLE.version, SCRIPT.version);
        assert_eq!(Asset::named(b"nap.html"), None);
        assert_eq!(&digits(fnv(b"a")), b"af63dc4c8601ec8c");
    }
}
