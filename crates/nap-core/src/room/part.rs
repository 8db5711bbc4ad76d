//! [`Part`]: what a request is to the visit. It tells who is sold a ticket, and who may use one.
//!
//! A ticket is for something that comes back: a navigation or an API call. An image, a style sheet
//! or a prefetch does not; a page of thirty images would book thirty places that nobody uses. Nor
//! may these, or a script's heartbeat, use up the ticket that the page itself was sold: a browser
//! sends its cookie along with all that it fetches.
//!
//! Browsers say what a request is for in Sec-Fetch-Dest and Sec-Purpose, but only to trustworthy
//! origins (https, localhost). Over plain http, and for what a service worker passes on, only
//! Accept tells it.

use crate::nap::ticket::Ticket;

/// What a request is to the visit; a greater part may use what a smaller was sold, not vice versa.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A part of a page, or fetched ahead of time: it is sold no ticket.
    Beside,
    /// An API call, or a script's request; also any HEAD request.
    Call,
    /// A page within another.
    Frame,
    /// The page that the visitor asked for.
    Navigation,
}

impl Part {
    /// The part of a request; absent headers are empty; `purpose` is Sec-Purpose, else Purpose.
    pub fn of(fetch_dest: &[u8], purpose: &[u8], method: &[u8], accept: &[u8]) -> Part {
        let is = |dest: &[u8]| fetch_dest.eq_ignore_ascii_case(dest);
        let shown = fetch_dest.is_empty() && method == b"GET" && begins(accept, &PARTS);
        let part = if shown || ahead_of_time(purpose) {
            Part::Beside
        } else if fetch_dest.is_empty() || is(b"empty") {
            match begins(accept, &PAGES) {
                true => Part::Navigation,
                false => Part::Call,
            }
        } else if is(b"document") {
            Part::Navigation
        } else if is(b"iframe") || is(b"frame") || is(b"fencedframe") {
            Part::Frame
        } else {
            Part::Beside
        };
        match method {
            b"HEAD" => part.min(Part::Call),
            _ => part,
        }
    }

    /// The part that the ticket was sold to.
    pub fn of_ticket(ticket: &Ticket) -> Part {
        match () {
            () if ticket.has(Ticket::NAVIGATION) => Part::Navigation,
            () if ticket.has(Ticket::FRAME) => Part::Frame,
            () => Part::Call,
        }
    }

    /// The flag of a ticket sold to it.
    pub fn flag(self) -> u8 {
        match self {
            Part::Navigation => Ticket::NAVIGATION,
            Part::Frame => Ticket::FRAME,
            Part::Call | Part::Beside => 0,
        }
    }

    /// May it use a ticket that merely came along with it, in a cookie?
    pub fn may_use(self, ticket: &Ticket) -> bool {
        self >= Part::of_ticket(ticket)
    }

    /// Is it sold a ticket when it is refused?
    pub fn buys(self) -> bool {
        self != Part::Beside
    }
}

/// How Accept begins for a page.
const PAGES: [&[u8]; 2] = [b"text/html", b"application/xhtml+xml"];
/// How it begins for a part of one.
const PARTS: [&[u8]; 5] = [b"image/", b"text/css", b"font/", b"audio/", b"video/"];

/// A prefetch, prerender or preview: nobody looks at it yet, and perhaps nobody ever will.
fn ahead_of_time(purpose: &[u8]) -> bool {
    let is_early = |word: &[u8]| {
        [&b"prefetch"[..], b"prerender", b"preview"]
            .into_iter()
            .any(|early| word.eq_ignore_ascii_case(early))
    };
    !purpose.is_empty() && purpose.split(|b| b";, ".contains(b)).any(is_early)
}

/// Is the first thing that Accept names one of these?
fn begins(accept: &[u8], with: &[&[u8]]) -> bool {
    let first = accept.trim_ascii_start();
    with.iter().any(|part| {
        first
            .get(..part.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(part))
    })
}

#[cfg(test)]
mod tests {
    use super::Part::{Beside, Call, Frame, Navigation};
    use super::*;

    #[test]
    fn what_a_request_is_to_the_visit() {
        const PAGE: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
        const IMAGE: &str = "image/avif,image/webp,image/*,*/*;q=0.8";
        let cases = [
            ("", "", "GET", "", Call),
            ("document", "", "GET", PAGE, Navigation),
            ("Document", "", "POST", PAGE, Navigation),
            ("document", "", "POST", "", Navigation),
            ("document", "", "HEAD", PAGE, Call),
            ("iframe", "", "GET", PAGE, Frame),
            ("frame", "", "GET", PAGE, Frame),
            ("iframe", "", "HEAD", PAGE, Call),
            ("empty", "", "GET", "application/json", Call),
            ("empty", "", "POST", "*/*", Call),
            ("empty", "", "GET", "image/png", Call),
            // A service worker passes a navigation on; a script that changes pages asks for one.
            ("empty", "", "GET", PAGE, Navigation),
            ("image", "", "GET", IMAGE, Beside),
            ("style", "", "GET", "text/css,*/*;q=0.1", Beside),
            ("script", "", "GET", "*/*", Beside),
            ("font", "", "GET", "*/*", Beside),
            ("video", "", "GET", "*/*", Beside),
            ("serviceworker", "", "GET", "*/*", Beside),
            ("something-new", "", "GET", "*/*", Beside),
            ("document", "prefetch", "GET", PAGE, Beside),
            ("document", "prefetch;prerender", "GET", PAGE, Beside),
            (
                "document",
                "Prefetch; anonymous-client-ip",
                "GET",
                PAGE,
                Beside,
            ),
            ("", "preview", "GET", PAGE, Beside),
            ("document", "prefetched", "GET", PAGE, Navigation),
            ("", "", "GET", "*/*", Call),
            ("", "", "GET", PAGE, Navigation),
            ("", "", "GET", " Application/XHTML+xml", Navigation),
            ("", "", "GET", "application/json, text/html", Call),
            ("", "", "GET", IMAGE, Beside),
            ("", "", "GET", " Text/CSS,*/*;q=0.1", Beside),
            ("", "", "GET", "text/plain", Call),
            ("", "", "POST", "image/png", Call),
            ("", "", "HEAD", "", Call),
            ("", "", "HEAD", PAGE, Call),
        ];
        for (dest, purpose, method, accept, part) in cases {
            let told = Part::of(
                dest.as_bytes(),
                purpose.as_bytes(),
                method.as_bytes(),
                accept.as_bytes(),
            );
            assert_eq!(told, part, "{dest:?} {purpose:?} {method} {accept:?}");
        }
    }
}
