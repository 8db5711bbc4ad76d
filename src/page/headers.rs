//! The headers of a refusal, and the cookie that carries its ticket.
//!
//! Each is told to a closure, in the same buffer: a refusal must cost little more than httpd's own,
//! and httpd copies them anyway.

use std::ffi::CStr;

use super::{PageTicket, RefusalPage, Seconds};
use crate::wall::{decimal, thousandths};
use nap_core::micros::Micros;

/// One header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name.
    pub name: &'static CStr,
    /// Its value.
    pub value: &'a str,
    /// It is added to others of that name instead of replacing them.
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
    /// How long it is useful after the ticket's end.
    pub grace: Micros,
}

/// Tells `put` each header of a refusal. `cross_origin`: the request has an Origin header.
pub fn headers(
    page: &RefusalPage<'_>,
    cookie: &Cookie<'_>,
    cross_origin: bool,
    mut put: impl FnMut(Header<'_>),
) {
    let mut buffer = String::with_capacity(256);
    let mut told = |name, value: &str, add| put(Header { name, value, add });
    let retry_after = decimal(page.retry_seconds());
    told(c"Retry-After", retry_after.as_str(), false);
    if let Some(ticket) = &page.ticket {
        told(c"Nap-Ticket", ticket.token, false);
        for (name, time) in [
            ("from=", Seconds::ceil(ticket.from)),
            (", prime=", Seconds::floor(ticket.prime)),
            (", until=", Seconds::floor(ticket.until)),
        ] {
            buffer.push_str(name);
            buffer.push_str(thousandths(time.ms).as_str());
        }
        told(c"Nap-Ticket-Window", &buffer, false);
        buffer.clear();
        cookie.set(Some(ticket), &mut buffer);
        told(c"Set-Cookie", &buffer, true);
    }
    if !page.reason.name().is_empty() {
        told(c"Nap-Reason", page.reason.name(), false);
    }
    told(c"Cache-Control", "no-store, private", false);
    told(c"Vary", "Cookie, Accept, Accept-Language", true);
    told(c"X-Robots-Tag", "noindex", false);
    told(c"Referrer-Policy", "same-origin", false);
    if cross_origin {
        told(
            c"Access-Control-Expose-Headers",
            "Retry-After, Nap-Ticket, Nap-Ticket-Window, Nap-Reason",
            true,
        );
    }
}

/// The Set-Cookie value that sets the cookie of a session, or, without a value, deletes it. It lasts as long as
/// the browser: the server knows when the session is over.
pub fn session_cookie(name: &str, value: Option<&str>, attributes: &str) -> String {
    let mut text = String::with_capacity(96);
    text.push_str(name);
    text.push('=');
    text.push_str(value.unwrap_or(""));
    if value.is_none() {
        text.push_str("; Max-Age=0");
    }
    text.push_str(attributes);
    text
}

impl Cookie<'_> {
    /// The Set-Cookie value that deletes the cookie of a redeemed ticket.
    pub fn deleted(&self) -> String {
        let mut value = String::new();
        self.set(None, &mut value);
        value
    }

    /// Appends a Set-Cookie value; without a ticket the cookie is deleted, for which name, domain
    /// and path must be the same.
    fn set(&self, ticket: Option<&PageTicket<'_>>, to: &mut String) {
        to.push_str(self.name);
        to.push('=');
        to.push_str(ticket.map_or("", |ticket| ticket.token));
        to.push_str("; Max-Age=");
        let max_age = ticket.map_or(0, |ticket| (ticket.until + self.grace).secs_ceil());
        to.push_str(decimal(max_age).as_str());
        for (attribute, ours) in [
            ("Path", "; Path=/"),
            ("HttpOnly", "; HttpOnly"),
            ("SameSite", "; SameSite=Lax"),
        ] {
            if !self.configured(attribute) {
                to.push_str(ours);
            }
        }
        if (self.tls || self.name.starts_with("__")) && !self.configured("Secure") {
            to.push_str("; Secure");
        }
        if !self.attributes.is_empty() {
            to.push_str("; ");
            to.push_str(self.attributes);
        }
    }

    fn configured(&self, wanted: &str) -> bool {
        !self.attributes.is_empty()
            && self.attributes.split("; ").any(|attribute| {
                let name = attribute.split('=').next().unwrap_or(attribute);
                name.eq_ignore_ascii_case(wanted)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wall::Wall;
    use nap_core::room::verdict::Reason;

    const COOKIE: Cookie<'_> = Cookie {
        name: "nap-board",
        attributes: "",
        tls: false,
        grace: Micros::from_secs(60),
    };

    fn page(
        reason: Reason,
        ticket: Option<PageTicket<'_>>,
        retry_after: Micros,
    ) -> RefusalPage<'_> {
        let wall = Wall::default();
        RefusalPage {
            reason,
            ticket,
            retry_after,
            status: 503,
            wall,
            room: "board",
            path: "/nap-ticket",
            sent: crate::page::form::Sent::Nothing,
            notice: "",
            ask: None,
        }
    }

    fn ticket() -> PageTicket<'static> {
        let [from, prime, until] = [3_214_001, 8_214_999, 303_215_999].map(Micros);
        PageTicket {
            token: "AbC_-9",
            id: 7,
            from,
            prime,
            until,
        }
    }

    fn told(
        page: &RefusalPage<'_>,
        cookie: &Cookie<'_>,
        cross_origin: bool,
    ) -> Vec<(String, String, bool)> {
        let mut all = Vec::new();
        headers(page, cookie, cross_origin, |header| {
            all.push((
                header.name.to_str().expect("ASCII").to_string(),
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
            ("Retry-After", "3", false),
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

    /// The page is made a little later than the decision, so that its ticket starts a little sooner.
    #[test]
    fn a_ticket_is_told_for_the_nearest_whole_second_in_its_window() {
        let cases = [
            // from, prime, retry after: milliseconds; seconds told
            (1_200, 3_200, 1_200, "1"),
            (1_200, 3_200, 1_201, "1"),
            (1_470, 3_470, 1_480, "1"),
            (1_500, 3_500, 1_501, "2"),
            (999, 2_999, 1_001, "1"),
            (2_300, 3_000, 2_301, "3"), // a short window: a third of it is early
            (200, 1_700, 201, "1"),
            (0, 1_000, 1, "1"),
            (1_200, 3_200, 6_400, "7"), // another time than the ticket's
        ];
        for (from, prime, retry_after, expected) in cases {
            let ms = Micros::from_millis;
            let ticket = PageTicket {
                token: "t",
                id: 7,
                from: ms(from),
                prime: ms(prime),
                until: ms(prime + 60_000),
            };
            let page = page(Reason::Full, Some(ticket), ms(retry_after));
            let (_, told, _) = &told(&page, &COOKIE, false)[0];
            assert_eq!(told, expected, "{from} {prime} {retry_after}");
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
            let mut set = String::new();
            cookie.set(Some(&ticket), &mut set);
            assert_eq!(set, format!("{name}=AbC_-9; Max-Age=364{expected}"));
            let deleted = cookie.deleted();
            assert_eq!(deleted, format!("{name}=; Max-Age=0{expected}"));
        }
    }
}
