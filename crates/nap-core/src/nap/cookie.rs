//! Reads cookies of one name from requests and from answers.

use memchr::memchr2;

/// The values of all cookies of these names in a `Cookie` header (RFC 6265), without quotes, each
/// cookie once. A comma separates like a semicolon: httpd joins several such headers with it; no
/// ticket contains one.
pub fn cookies<'a, const N: usize>(
    header: &'a [u8],
    names: [&[u8]; N],
) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(header);
    let pairs = std::iter::from_fn(move || {
        let left = rest?;
        let end = memchr2(b';', b',', left).unwrap_or(left.len());
        rest = left.get(end + 1..);
        left.get(..end)
    });
    pairs.filter_map(move |pair| {
        let pair = pair.trim_ascii_start();
        let after = names.iter().find_map(|name| {
            let after = pair.strip_prefix(*name)?.trim_ascii_start();
            after.strip_prefix(b"=")
        })?;
        let value = after.trim_ascii();
        let unquoted = value
            .strip_prefix(b"\"")
            .and_then(|v| v.strip_suffix(b"\""));
        Some(unquoted.unwrap_or(value))
    })
}

/// The value that a client has under this name after these `Set-Cookie` headers: the last one.
/// A cookie that is emptied, or set to "deleted" as PHP does, is passed over. None: no value is set.
pub fn given<'a>(set: impl Iterator<Item = &'a [u8]>, name: &[u8]) -> Option<&'a [u8]> {
    set.filter_map(|header| {
        let pair = header.split(|byte| *byte == b';').next()?;
        cookies(pair, [name]).next()
    })
    .filter(|value| !value.is_empty() && *value != b"deleted")
    .last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cookies_of_the_name_are_found_and_no_others() {
        let cases: [(&str, &[&str]); 10] = [
            ("nap=1", &["1"]),
            ("nap=1, a=b,nap=2; nap=3", &["1", "2", "3"]),
            ("a=b; nap=1; nap=2;nap=3", &["1", "2", "3"]),
            ("xnap=1; napx=2; NAP=3", &[]),
            ("nap = \"1\" ; nap=\"2", &["1", "\"2"]),
            ("nap; =; nap=", &[""]),
            ("", &[]),
            (";;;", &[]),
            ("nap=a=b", &["a=b"]),
            ("nap=\"", &["\""]),
        ];
        for (header, expected) in cases {
            let found: Vec<_> = cookies(header.as_bytes(), [b"nap"]).collect();
            let expected: Vec<_> = expected.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(found, expected, "{header}");
        }
    }

    #[test]
    fn a_cookie_of_either_name_is_found_once() {
        let found = |header: &'static str, names: [&str; 2]| {
            let names = names.map(str::as_bytes);
            cookies(header.as_bytes(), names).collect::<Vec<_>>()
        };
        let header = "__Host-nap=1; nap=2; napx=3; x=4";
        assert_eq!(found(header, ["nap", "__Host-nap"]), [b"1", b"2"]);
        assert_eq!(found(header, ["nap", "nap"]), [b"2"]);
        assert_eq!(found(header, ["nap", "napx"]), [b"2", b"3"]);
    }

    #[test]
    fn an_answer_gives_the_last_cookie_of_the_name_that_it_sets() {
        let cases: [(&[&str], Option<&str>); 7] = [
            (&["nap=1; Path=/; HttpOnly"], Some("1")),
            (&["nap=1", "nap=2", "other=3"], Some("2")),
            (&["nap=1", "nap=deleted; Max-Age=0"], Some("1")),
            (&["nap=; Max-Age=0"], None),
            (&["other=3; nap=1"], None),
            (
                &["nap=\"1\"; Expires=Thu, 01 Jan 2026 00:00:00 GMT"],
                Some("1"),
            ),
            (&[], None),
        ];
        for (headers, expected) in cases {
            let set = headers.iter().map(|header| header.as_bytes());
            assert_eq!(
                given(set, b"nap"),
                expected.map(str::as_bytes),
                "{headers:?}"
            );
        }
    }
}
