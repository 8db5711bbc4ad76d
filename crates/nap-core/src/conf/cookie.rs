//! What `NapTicketCookie` may contain: the cookie's name and attributes.

use super::text::Text;
use super::values::{shown, wrong};

/// RFC 6265 4.1.1 uses RFC 2616's token. `of`: the directive, and the option if it is one's value.
pub(super) fn cookie_name(of: &str, name: &str) -> Result<Text<64>, String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let good = !name.is_empty() && name.bytes().all(token);
    Text::new(name).filter(|_| good).ok_or_else(|| {
        format!(
            "{of}{} is not a cookie's name; use 1 to 63 letters, digits or any of !#$%&'*+-.^_`|~ (RFC 6265)",
            shown(name)
        )
    })
}

/// Only attributes that cannot contradict what the module itself writes.
pub(super) fn cookie_attribute(cookie: &str, attribute: &str) -> Result<(), String> {
    let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
    let plain = value
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b";,\"\\".contains(&b));
    let name = name.to_ascii_lowercase();
    let known = match name.as_str() {
        "domain" => !value.is_empty(),
        "path" => value.starts_with('/'),
        "samesite" => ["Strict", "Lax", "None"]
            .iter()
            .any(|w| w.eq_ignore_ascii_case(value)),
        "secure" | "httponly" | "partitioned" => !attribute.contains('='),
        _ => false,
    };
    if !known || !plain {
        let what = "is not an attribute; use Domain=, Path=/..., SameSite=Strict, Lax or None, Secure, Partitioned \
                    (Max-Age follows the ticket)";
        return Err(wrong("NapTicketCookie", attribute, what));
    }
    if cookie.starts_with("__Host-") && (name == "domain" || name == "path" && value != "/") {
        return Err(format!(
            "NapTicketCookie: browsers refuse {} on a cookie whose name begins with __Host-",
            shown(attribute)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::conf::directive::Directive::TicketCookie;
    use crate::conf::samples::room;

    #[test]
    fn cookies_are_named_as_rfc_6265_allows() {
        let cookie = |words: &[&str]| {
            let mut room = room();
            room.directive(TicketCookie, words).map(|()| {
                format!(
                    "{}|{}",
                    room.cookie.as_str(),
                    room.cookie_attributes.as_str()
                )
            })
        };
        assert_eq!(cookie(&["kiku"]), Ok("kiku|".into()));
        assert_eq!(
            cookie(&["a", "Domain=example.org", "Secure"]),
            Ok("a|Domain=example.org; Secure".into())
        );
        assert_eq!(
            cookie(&["__Host-a", "Path=/", "SameSite=strict"]),
            Ok("__Host-a|Path=/; SameSite=strict".into())
        );
        let bad: &[&[&str]] = &[
            &[],
            &[""],
            &["a b"],
            &["a=b"],
            &["a;b"],
            &["\u{e4}"],
            &["a\"b"],
            &["a", "Max-Age=3"],
            &["a", "Path=x"],
            &["a", "Domain=x; Secure"],
            &["a", "Secure=1"],
            &["a", "x\r\nSet-Cookie: y"],
            &["a", "Domain=a\r\nb"],
            &["__Host-a", "Domain=example.org"],
            &["__Host-a", "Path=/x"],
            &["a", "SameSite=no"],
        ];
        for words in bad {
            assert!(
                cookie(words)
                    .expect_err("bad")
                    .starts_with("NapTicketCookie: "),
                "{words:?}"
            );
        }
        assert!(cookie(&[&"x".repeat(64)]).is_err());
        assert!(cookie(&["a", &format!("Path=/{}", "x".repeat(300))]).is_err());
    }
}
