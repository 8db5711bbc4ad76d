//! The headers of a refusal, and the cookie that carries its ticket.
//!
//! They are told one by one to a closure, each in the same buffer: a refusal must cost little
//! more than httpd's own, and httpd copies them anyway.

use std::fmt::Write as _;

use super::{Page, Seconds, Ticket};
use crate::micros::Micros;

/// One header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: &'a str,
    /// Goes beside others of that name rather than in their place.
    pub add: bool,
}

/// The ticket's cookie, as configured.
#[derive(Clone, Copy, Debug)]
pub struct Cookie<'a> {
    /// Its name.
    pub name: &'a str,
    /// Further attributes as configured, joined by "; "; they outrank ours.
    pub attributes: &'a str,
    /// The request came under TLS.
    pub tls: bool,
    /// How long it is of use after the ticket's end.
    pub grace: Micros,
}

/// Tells `put` each header of a refusal. `cross_origin`: the request has an Origin header.
pub fn headers(
    page: &Page<'_>,
    cookie: &Cookie<'_>,
    cross_origin: bool,
    mut put: impl FnMut(Header<'_>),
) {
    let mut buffer = String::with_capacity(256);
    let mut told = |name, add, value: std::fmt::Arguments<'_>| {
        let value = match value.as_str() {
            Some(plain) => plain,
            None => {
                buffer.clear();
                // Writing to a string does not fail.
                buffer.write_fmt(value).ok();
                &buffer
            }
        };
        put(Header { name, value, add });
    };
    let retry_after = page.retry_after.secs_ceil().max(1);
    told("Retry-After", false, format_args!("{retry_after}"));
    if let Some(ticket) = &page.ticket {
        let (from, prime) = (Seconds::ceil(ticket.from), Seconds::floor(ticket.prime));
        let until = Seconds::floor(ticket.until);
        told("Nap-Ticket", false, format_args!("{}", ticket.token));
        told(
            "Nap-Ticket-Window",
            false,
            format_args!("from={from}, prime={prime}, until={until}"),
        );
        let set = Set {
            cookie,
            ticket: Some(ticket),
        };
        told("Set-Cookie", true, format_args!("{set}"));
    }
    if !page.reason.name().is_empty() {
        told("Nap-Reason", false, format_args!("{}", page.reason.name()));
    }
    told("Cache-Control", false, format_args!("no-store, private"));
    told(
        "Vary",
        true,
        format_args!("Cookie, Accept, Accept-Language"),
    );
    told("X-Robots-Tag", false, format_args!("noindex"));
    told("Referrer-Policy", false, format_args!("same-origin"));
    if cross_origin {
        told(
            "Access-Control-Expose-Headers",
            true,
            format_args!("Retry-After, Nap-Ticket, Nap-Ticket-Window, Nap-Reason"),
        );
    }
}

/// Tells `put` the header that deletes the cookie of a redeemed ticket.
pub fn delete_cookie(cookie: &Cookie<'_>, mut put: impl FnMut(Header<'_>)) {
    let set = Set {
        cookie,
        ticket: None,
    };
    put(Header {
        name: "Set-Cookie",
        value: &set.to_string(),
        add: true,
    });
}

/// A Set-Cookie value; without a ticket the cookie is deleted, for which name, domain and path
/// must be the same.
struct Set<'a> {
    cookie: &'a Cookie<'a>,
    ticket: Option<&'a Ticket<'a>>,
}

impl std::fmt::Display for Set<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cookie {
            name,
            attributes,
            tls,
            grace,
        } = *self.cookie;
        match self.ticket {
            Some(Ticket { token, until, .. }) => {
                write!(
                    f,
                    "{name}={token}; Max-Age={}",
                    (*until + grace).secs_ceil()
                )?;
            }
            None => write!(f, "{name}=; Max-Age=0")?,
        }
        let configured = |wanted: &str| {
            attributes.split("; ").any(|attribute| {
                let name = attribute.split('=').next().unwrap_or(attribute);
                name.eq_ignore_ascii_case(wanted)
            })
        };
        for (attribute, ours) in [
            ("Path", "; Path=/"),
            ("HttpOnly", "; HttpOnly"),
            ("SameSite", "; SameSite=Lax"),
        ] {
            if !configured(attribute) {
                f.write_str(ours)?;
            }
        }
        if (tls || name.starts_with("__")) && !configured("Secure") {
            f.write_str("; Secure")?;
        }
        if !attributes.is_empty() {
            write!(f, "; {attributes}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::verdict::Reason;
    use crate::wall::Wall;

    const COOKIE: Cookie<'_> = Cookie {
        name: "nap-board",
        attributes: "",
        tls: false,
        grace: Micros::from_secs(60),
    };

    fn page(reason: Reason, ticket: Option<Ticket<'_>>, retry_after: Micros) -> Page<'_> {
        let wall = Wall::default();
        Page {
            reason,
            ticket,
            retry_after,
            status: 503,
            wall,
            room: "board",
            path: "/.nap/ticket",
            sent: crate::page::form::Sent::Nothing,
        }
    }

    fn ticket() -> Ticket<'static> {
        let [from, prime, until] = [3_214_001, 8_214_999, 303_215_999].map(Micros);
        Ticket {
            token: "AbC_-9",
            id: 7,
            from,
            prime,
            until,
        }
    }

    fn told(
        page: &Page<'_>,
        cookie: &Cookie<'_>,
        cross_origin: bool,
    ) -> Vec<(String, String, bool)> {
        let mut all = Vec::new();
        headers(page, cookie, cross_origin, |header| {
            all.push((
                header.name.to_string(),
                header.value.to_string(),
                header.add,
            ));
        });
        all
    }

    #[test]
    fn a_refusal_with_a_ticket_has_all_headers() {
        let page = page(Reason::Full, Some(ticket()), Micros(3_214_001));
        let expected = [
            ("Retry-After", "4", false),
            ("Nap-Ticket", "AbC_-9", false),
            (
                "Nap-Ticket-Window",
                "from=3.215, prime=8.214, until=303.215",
                false,
            ),
            (
                "Set-Cookie",
                "nap-board=AbC_-9; Max-Age=364; Path=/; HttpOnly; SameSite=Lax",
                true,
            ),
            ("Nap-Reason", "full", false),
            ("Cache-Control", "no-store, private", false),
            ("Vary", "Cookie, Accept, Accept-Language", true),
            ("X-Robots-Tag", "noindex", false),
            ("Referrer-Policy", "same-origin", false),
            (
                "Access-Control-Expose-Headers",
                "Retry-After, Nap-Ticket, Nap-Ticket-Window, Nap-Reason",
                true,
            ),
        ]
        .map(|(name, value, add)| (name.to_string(), value.to_string(), add));
        assert_eq!(told(&page, &COOKIE, true), expected);
        assert_eq!(told(&page, &COOKIE, false), expected[..9]);
    }

    #[test]
    fn without_a_ticket_there_is_none_in_the_headers() {
        let all = told(&page(Reason::Cap, None, Micros(1)), &COOKIE, false);
        let names: Vec<_> = all.iter().map(|(name, ..)| name.as_str()).collect();
        let expected = [
            "Retry-After",
            "Nap-Reason",
            "Cache-Control",
            "Vary",
            "X-Robots-Tag",
            "Referrer-Policy",
        ];
        assert_eq!(names, expected);
        let own = told(&page(Reason::None, None, Micros(1)), &COOKIE, false);
        assert!(own.iter().all(|(name, ..)| name != "Nap-Reason"));
    }

    #[test]
    fn retry_after_is_rounded_up_and_never_zero() {
        for (us, expected) in [
            (0, "1"),
            (1, "1"),
            (1_000_000, "1"),
            (1_000_001, "2"),
            (86_400_000_000, "86400"),
            (u64::MAX, "18446744073710"),
        ] {
            let all = told(&page(Reason::Full, None, Micros(us)), &COOKIE, false);
            assert_eq!(
                all[0],
                ("Retry-After".to_string(), expected.to_string(), false),
                "{us}"
            );
        }
    }

    #[test]
    fn a_cookie_has_our_attributes_where_none_are_configured() {
        let cases = [
            (
                "nap-a",
                "",
                true,
                "; Path=/; HttpOnly; SameSite=Lax; Secure",
            ),
            (
                "__Host-nap-a",
                "",
                false,
                "; Path=/; HttpOnly; SameSite=Lax; Secure",
            ),
            (
                "nap-a",
                "SameSite=None; Secure",
                true,
                "; Path=/; HttpOnly; SameSite=None; Secure",
            ),
            (
                "nap-a",
                "domain=example.org; path=/shop",
                false,
                "; HttpOnly; SameSite=Lax; domain=example.org; path=/shop",
            ),
            (
                "nap-a",
                "httponly",
                false,
                "; Path=/; SameSite=Lax; httponly",
            ),
        ];
        for (name, attributes, tls, expected) in cases {
            let cookie = Cookie {
                name,
                attributes,
                tls,
                ..COOKIE
            };
            let ticket = ticket();
            let set = Set {
                cookie: &cookie,
                ticket: Some(&ticket),
            }
            .to_string();
            assert_eq!(set, format!("{name}=AbC_-9; Max-Age=364{expected}"));
            let mut deleted = String::new();
            delete_cookie(&cookie, |header| deleted = header.value.to_string());
            assert_eq!(deleted, format!("{name}=; Max-Age=0{expected}"));
        }
    }
}
