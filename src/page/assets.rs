//! The files a page needs: its style, its script and its icon, served under the ticket page's own path.
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
    /// What pages call it behind the ticket page's path and a slash: name and version.
    pub address: &'static str,
}

/// The file of this name under `templates/assets/`.
macro_rules! asset {
    ($name:literal, $content_type:literal) => {
        Asset {
            name: $name,
            content_type: $content_type,
            body: include_str!(concat!("../../templates/assets/", $name)),
            address: text(
                &const {
                    const BODY: &str = include_str!(concat!("../../templates/assets/", $name));
                    address::<{ $name.len() + 19 }>($name, BODY)
                },
            ),
        }
    };
}

/// The ticket page's style.
pub static STYLE: Asset = asset!("nap.css", "text/css; charset=utf-8");
/// The ticket page's script.
pub static SCRIPT: Asset = asset!("nap.js", "text/javascript; charset=utf-8");
/// The icon of all pages.
pub static ICON: Asset = asset!("icon.svg", "image/svg+xml");
/// The clock of the ticket page's script: hidden tabs stop their own.
pub static WORKER: Asset = asset!("nap-worker.js", "text/javascript; charset=utf-8");
/// `/nap-info`'s style.
pub static INFO_STYLE: Asset = asset!("info.css", "text/css; charset=utf-8");
/// `/nap-info`'s script.
pub static INFO_SCRIPT: Asset = asset!("info.js", "text/javascript; charset=utf-8");

const ASSETS: [&Asset; 6] = [&STYLE, &SCRIPT, &WORKER, &ICON, &INFO_STYLE, &INFO_SCRIPT];

impl Asset {
    /// The file of that name.
    pub fn named(name: &[u8]) -> Option<&'static Asset> {
        ASSETS
            .into_iter()
            .find(|asset| asset.name.as_bytes() == name)
    }

    /// Cache-Control for a request with this query: a year, if it asked for what is here now.
    pub fn cache_control(&self, query: &[u8]) -> &'static str {
        match self.address.split_once('?') {
            Some((_, now)) if query == now.as_bytes() => "public, max-age=31536000, immutable",
            _ => "no-cache",
        }
    }
}

/// `name?v=`, and behind it a hash of `body` in sixteen hexadecimal digits.
const fn address<const N: usize>(name: &str, body: &str) -> [u8; N] {
    let mut address = [0; N];
    let (start, rest) = address.split_at_mut(name.len());
    start.copy_from_slice(name.as_bytes());
    let (version, digits) = rest.split_at_mut(3);
    version.copy_from_slice(b"?v=");
    let hash = fnv(body.as_bytes());
    let mut at = 0;
    while at < 16 {
        digits[at] = b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 15];
        at += 1;
    }
    address
}

const fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("names and digits are ASCII"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_only_under_the_address_of_what_is_in_it() {
        for asset in ASSETS {
            assert_eq!(Asset::named(asset.name.as_bytes()), Some(asset));
            let (name, query) = asset.address.split_once('?').expect("a version");
            assert_eq!(name, asset.name);
            assert!(asset.cache_control(query.as_bytes()).contains("immutable"));
            assert_eq!(asset.cache_control(b"v=0"), "no-cache");
            assert_eq!(asset.cache_control(b""), "no-cache");
        }
        assert_eq!(Asset::named(b"nap.html"), None);
        assert_eq!(&address::<20>("x", "a"), b"x?v=af63dc4c8601ec8c");
    }
}
