//! What a refused visitor gets: headers and a page that say when to come back.
//!
//! | file | what it holds |
//! |---|---|
//! | this | [`Page`] and [`render`]: HTML, JSON (RFC 9457) or text, in the visitor's language |
//! | [`accept`] | which of them the visitor can read |
//! | [`headers`] | the headers of a refusal, and the ticket's cookie |
//! | [`problem`] | the page as JSON |
//! | [`form`] | the form of a refused POST, given back in the page |
//! | [`own`] | a page of the administrator's own: their template, our values |
//! | [`sample`] | the states a page can be in, to look at before anybody is refused |
//! | [`preview`] | a list of them |
//! | [`owed`] | what a visitor sees of their own debts |
//! | [`slow_down`] | the page for a client that owes too much |
//! | [`status`] | what a holder who asks how their ticket stands is told |
//! | [`assets`] | the page's style and script: files of their own |
//!
//! The words are in `templates/`, a folder a language; the template engine escapes all values.
//! Nothing of the request's address is ever written into a page. The module serves script and style as
//! files, so the page works under [`POLICY`]. Without scripts it returns by Refresh without an
//! address.

pub mod accept;
pub mod assets;
pub mod form;
pub mod headers;
pub mod owed;
pub mod own;
pub mod preview;
mod problem;
pub mod sample;
pub mod slow_down;
pub mod status;

use askama::Template;
use serde::{Serialize, Serializer};

use crate::wall::{Wall, Written, countdown, hex, thousandths};
use accept::{Format, Language};
use assets::{ICON, SCRIPT, STYLE, WORKER};
use form::Sent;
use nap_core::micros::Micros;
use nap_core::nap::ticket;
use nap_core::room::verdict::Reason;

/// The Content-Security-Policy a page is sent with.
pub const POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'";

/// Clients that know only whole seconds may be told to come this much before a ticket's start, at most.
/// That lies in the window (a third of the prime).
const HALF: Micros = Micros::from_millis(500);

/// What a page says.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Why the access was refused; [`Reason::None`]: it was not, the visitor opened the ticket page
    /// directly.
    pub reason: Reason,
    /// The visitor's ticket; none: no ticket can be given yet.
    pub ticket: Option<Ticket<'a>>,
    /// Time until the visitor should come back.
    pub retry_after: Micros,
    /// Status of the answer.
    pub status: u16,
    /// Now, on the server's wall.
    pub wall: Wall,
    /// Name of the room.
    pub room: &'a str,
    /// `NapTicketPath`: style and script lie under it.
    pub path: &'a str,
    /// The form that was refused.
    pub sent: Sent<'a>,
    /// The administrator's notice; empty: none.
    pub notice: &'a str,
    /// When its script first asks whether the visitor may come earlier; none: it does not ask.
    pub ask: Option<Micros>,
}

/// A ticket as its holder is shown it. Spans are from now; zero where that time has passed.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ticket<'a> {
    /// Sealed: what the holder presents.
    pub token: &'a str,
    /// Its name in pages and logs.
    pub id: u64,
    /// Until its prime window begins,
    pub from: Micros,
    /// until the prime window ends,
    pub prime: Micros,
    /// until all ends.
    pub until: Micros,
}

impl<'a> Ticket<'a> {
    /// `ticket`, sealed as `token`, seen at `now`.
    pub fn of(ticket: &ticket::Ticket, token: &'a str, now: Micros) -> Ticket<'a> {
        Ticket {
            token,
            id: ticket.id,
            from: ticket.start - now,
            prime: ticket.prime_end - now,
            until: ticket.end - now,
        }
    }

    /// Does the token have only the alphabet of a sealed ticket? Then its characters need not be checked
    /// one by one for escaping.
    fn is_plain(&self) -> bool {
        let plain = |sign: u8| sign.is_ascii_alphanumeric() | (sign == b'-') | (sign == b'_');
        self.token.bytes().fold(true, |all, sign| all & plain(sign))
    }

    /// Its name: 16 hexadecimal digits.
    pub fn name(&self) -> Written {
        hex(self.id)
    }
}

/// A page, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Content-Type.
    pub content_type: &'static str,
    /// The page.
    pub body: String,
}

/// The page in the form and language the visitor prefers.
pub fn render(page: &Page<'_>, format: Format, language: Language) -> Rendered {
    let promise = page.promise();
    let body = match format {
        Format::Html => filled(
            6144,
            &Html {
                page,
                promise,
                language,
            },
        ),
        Format::Text => filled(
            1024,
            &Text {
                page,
                promise,
                language,
            },
        ),
        Format::Json => problem::to_json(page, promise, language),
    };
    Rendered {
        content_type: match (format, page.status) {
            // A ticket shown to its holder is no problem.
            (Format::Json, 200) if !page.returns() => "application/json",
            _ => format.content_type(),
        },
        body,
    }
}

impl Page<'_> {
    /// When to come back, in whole seconds: with a ticket the nearest in its window, else rounded up.
    pub fn retry_seconds(&self) -> u64 {
        let up = self.retry_after.secs_ceil().max(1);
        // The page is made a moment after the ticket was sold, so less time is left until its start.
        let sold = self
            .ticket
            .filter(|ticket| ticket.from > Micros::ZERO && self.retry_after < ticket.from + HALF);
        let sooner = |ticket: Ticket<'_>| {
            let up = ticket.from.secs_ceil();
            let early = Micros((ticket.prime - ticket.from).0 / 3).min(HALF);
            let is_far = Micros::from_secs(up) - ticket.from > HALF;
            let is_early = Micros::from_secs(up - 1) + early >= ticket.from;
            if is_far && is_early { up - 1 } else { up }
        };
        sold.map_or(up, sooner).max(1)
    }

    /// Value of the Refresh header, whole seconds: when the page returns by itself. It has no address, so
    /// the browser repeats the refused request. That would lose a form.
    pub fn refresh_seconds(&self) -> Option<u64> {
        (self.returns() && self.sent == Sent::Nothing).then(|| self.retry_seconds())
    }

    /// The same for a script, in milliseconds.
    fn return_ms(&self) -> u64 {
        self.retry_after.max(HALF).0.div_ceil(1000)
    }

    /// The first time that a script asks, in milliseconds.
    fn ask_ms(&self) -> Option<u64> {
        let ticket = self.ticket.filter(|ticket| ticket.from > Micros::ZERO);
        ticket
            .and(self.ask)
            .filter(|_| self.returns())
            .map(|ask| ask.0.div_ceil(1000))
    }

    /// Does it return by itself? The ticket page opened by hand has nowhere to return to.
    fn returns(&self) -> bool {
        self.reason != Reason::None
    }

    fn promise(&self) -> Promise {
        match &self.ticket {
            Some(ticket) if ticket.from > Micros::ZERO => Promise::Soon,
            Some(ticket) if ticket.prime > Micros::ZERO => Promise::Now,
            Some(ticket) if ticket.until > Micros::ZERO => Promise::Late,
            _ => Promise::None,
        }
    }
}

/// What the visitor has been promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promise {
    /// A ticket whose prime window is to come.
    #[default]
    Soon,
    /// One in its prime window.
    Now,
    /// One in its tail.
    Late,
    /// Nothing.
    None,
}

impl Promise {
    const ALL: [Promise; 4] = [Promise::Soon, Promise::Now, Promise::Late, Promise::None];

    /// Its name in templates.
    fn name(self) -> &'static str {
        match self {
            Promise::Soon => "soon",
            Promise::Now => "now",
            Promise::Late => "late",
            Promise::None => "none",
        }
    }

    fn named(name: &str) -> Option<Promise> {
        Promise::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Templates of this kind, which all use the same values.
macro_rules! template {
    ($(#[$doc:meta])* $name:ident, $path:literal) => {
        $(#[$doc])*
        #[derive(Template)]
        #[template(path = $path)]
        #[allow(dead_code, reason = "not each template says everything")]
        struct $name<'a> {
            page: &'a Page<'a>,
            promise: Promise,
            language: Language,
        }

        impl Said for $name<'_> {
            fn page(&self) -> &Page<'_> {
                self.page
            }
        }
    };
}

template!(Html, "ticket.html");
template!(Text, "ticket.txt");
template!(
    /// Style, script and Refresh.
    Head,
    "head.html"
);
template!(
    /// All that there is to see.
    Main,
    "main.html"
);
template!(
    /// What the script reads from the element it looks after.
    Attributes,
    "attributes.html"
);
template!(
    /// What happens by itself, and the buttons; a kept form.
    Controls,
    "controls.html"
);
template!(Title, "title.txt");
template!(
    /// The reason in a sentence or two.
    Why,
    "why.txt"
);

/// The values that stand in sentences.
trait Said {
    fn page(&self) -> &Page<'_>;

    fn ticket(&self) -> Ticket<'_> {
        self.page().ticket.unwrap_or_default()
    }

    /// The ticket was sold for this refusal, not shown again.
    fn is_new(&self) -> bool {
        !matches!(
            self.page().reason,
            Reason::None | Reason::Early | Reason::SoldOut
        )
    }

    /// When the ticket begins: rounded up to a whole second.
    fn from(&self) -> Wall {
        self.page().wall.after(self.ticket().from).ceil()
    }

    /// A mark that differs for each page that is sent, even for one ticket: a script uses it to remember
    /// what it has done.
    fn mark(&self) -> Written {
        hex(self.page().wall.unix.0)
    }

    /// Until when the place is kept; rounded down to a whole second, as [`Wall`] does.
    fn prime(&self) -> Wall {
        self.page().wall.after(self.ticket().prime)
    }

    fn until(&self) -> Wall {
        self.page().wall.after(self.ticket().until)
    }

    /// When to try again.
    fn again(&self) -> Wall {
        self.page().wall.after(self.page().retry_after).ceil()
    }

    fn clock(&self, time: Wall) -> Written {
        time.time_seen_from(self.page().wall)
    }

    fn element(&self, time: Wall) -> Written<80> {
        time.element(self.page().wall)
    }

    /// Until the ticket begins, or until the next try.
    fn wait(&self) -> Written {
        let page = self.page();
        let begins = self.ticket().from;
        countdown(if begins > Micros::ZERO {
            begins
        } else {
            page.retry_after
        })
    }
}

/// The template in a string that is allocated once.
fn filled(capacity: usize, template: &impl Template) -> String {
    let mut body = String::with_capacity(capacity);
    // Writing to a string does not fail; if a template does, what it has written is sent.
    template.render_into(&mut body).ok();
    body
}

/// Seconds with three decimals: a start is rounded up and an end down, so that a visitor who obeys them
/// is neither early nor late.
#[derive(Clone, Copy, Debug)]
struct Seconds {
    ms: u64,
}

impl Seconds {
    fn ceil(span: Micros) -> Seconds {
        Seconds {
            ms: span.0.div_ceil(1000),
        }
    }

    fn floor(span: Micros) -> Seconds {
        Seconds { ms: span.0 / 1000 }
    }
}

impl Seconds {
    /// `3.214`.
    fn written(self) -> Written {
        thousandths(self.ms)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.ms as f64 / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Format; 3] = [Format::Html, Format::Json, Format::Text];

    /// 2026-01-31 12:00:00.25 in Tokyo.
    fn wall() -> Wall {
        Wall {
            unix: Micros(1_769_828_400_250_000),
            offset_min: 540,
            change: None,
        }
    }

    fn ticket(from: u64, prime: u64, until: u64) -> Ticket<'static> {
        let [from, prime, until] = [from, prime, until].map(Micros::from_millis);
        Ticket {
            token: "AbC_-9",
            id: 0xbead,
            from,
            prime,
            until,
        }
    }

    fn page(reason: Reason, ticket: Option<Ticket<'static>>) -> Page<'static> {
        let retry_after = ticket.map_or(Micros::from_millis(8_500), |ticket| ticket.from);
        Page {
            reason,
            ticket,
            retry_after,
            status: 503,
            wall: wall(),
            room: "board",
            path: "/nap-ticket",
            sent: Sent::Nothing,
            notice: "",
            ask: None,
        }
    }

    fn body(page: &Page<'_>, format: Format, language: Language) -> String {
        render(page, format, language).body
    }

    fn reasons() -> impl Iterator<Item = Reason> {
        (0..Reason::COUNT as u32).map(Reason::of)
    }

    #[test]
    fn the_page_says_when_the_ticket_is_good_and_in_how_long() {
        let page = page(Reason::Full, Some(ticket(195_000, 200_000, 495_000)));
        let text = body(&page, Format::Text, Language::En);
        assert_eq!(
            text,
            "Your turn comes in 3:15\n\n\
             The server is overloaded: more people have come than it can serve at once.\n\n\
             A ticket was issued to you. It is good from 12:03:16 until 12:08:15\n\
             by the server's clock (UTC+09:00). That is in 3:15.\n\
             In time, until 12:03:20: a place is kept for you.\n\
             Earlier: you are let in if there is room, and your ticket stays good.\n\
             Later, until 12:08:15: you are let in, or get a new time ahead of everyone without \
             a ticket.\n\
             Ticket 000000000000bead, board\n"
        );
        for language in Language::ALL {
            let html = body(&page, Format::Html, language);
            for needle in [
                "<meta http-equiv=\"refresh\" content=\"195\">",
                "<time datetime=\"2026-01-31T12:03:16+09:00\">12:03:16</time>",
                ">12:08:15</time>",
                ">12:03:20</time>",
                "<strong data-clock>3:15</strong>",
                "data-return-ms=\"195000\"",
                "data-ticket=\"AbC_-9\"",
                "href=\"/nap-ticket/nap.css?v=",
                "src=\"/nap-ticket/nap.js?v=",
                "000000000000bead",
            ] {
                assert!(html.contains(needle), "{needle} in {html}");
            }
            assert!(
                html.len() <= 6144,
                "{} bytes: raise the capacity",
                html.len()
            );
        }
    }

    #[test]
    fn each_reason_has_its_own_sentence_in_each_language() {
        let mut seen = std::collections::HashSet::new();
        for (reason, language) in
            reasons().flat_map(|reason| Language::ALL.map(|language| (reason, language)))
        {
            for ticket in [None, Some(ticket(5_000, 9_000, 99_000))] {
                let page = page(reason, ticket);
                let why = filled(
                    0,
                    &Why {
                        page: &page,
                        promise: page.promise(),
                        language,
                    },
                );
                assert!(why.len() > 30 && why.trim() == why, "{reason:?}: {why:?}");
                assert!(body(&page, Format::Html, language).contains(&why), "{why}");
                assert!(body(&page, Format::Text, language).contains(&why), "{why}");
                if ticket.is_none() {
                    assert!(seen.insert(why), "{reason:?}, {language:?}");
                }
            }
        }
    }

    #[test]
    fn no_page_is_left_with_gaps_or_without_its_language() {
        let tickets = [
            None,
            Some(ticket(5_000, 9_000, 99_000)),
            Some(ticket(0, 4_000, 94_000)),
            Some(ticket(0, 0, 90_000)),
            Some(ticket(0, 0, 0)),
        ];
        for (reason, ticket) in reasons().flat_map(|reason| tickets.map(|one| (reason, one))) {
            for language in Language::ALL {
                let page = page(reason, ticket);
                let html = body(&page, Format::Html, language);
                assert!(html.starts_with("<!DOCTYPE html>\n<html lang=\""));
                assert!(html.contains(&format!("<html lang=\"{}\">", language.tag())));
                assert!(html.trim_end().ends_with("</html>"));
                assert_eq!(
                    html.matches("http-equiv").count(),
                    usize::from(page.refresh_seconds().is_some())
                );
                let text = body(&page, Format::Text, language);
                for gap in ["\n\n\n", "{{", "{%", "  ", " \n"] {
                    assert!(!text.contains(gap) && !html.contains(gap), "{text}\n{html}");
                }
                assert!(text.ends_with('\n') && !text.contains('<'), "{text}");
            }
        }
    }

    #[test]
    fn elements_close_in_the_order_they_opened() {
        for (reason, language) in
            reasons().flat_map(|reason| Language::ALL.map(|language| (reason, language)))
        {
            for ticket in [
                None,
                Some(ticket(5_000, 9_000, 99_000)),
                Some(ticket(0, 1, 2)),
            ] {
                let html = body(&page(reason, ticket), Format::Html, language);
                let mut open = Vec::new();
                for tag in html
                    .split('<')
                    .skip(1)
                    .filter(|tag| !tag.starts_with(['!']))
                {
                    let name = tag.split([' ', '>']).next().expect("split gives one");
                    match name.strip_prefix('/') {
                        Some(name) => assert_eq!(open.pop(), Some(name), "{html}"),
                        None if ["meta", "link", "input"].contains(&name) => {}
                        None => open.push(name),
                    }
                }
                assert!(open.is_empty(), "{open:?}");
            }
        }
    }

    #[test]
    fn a_kept_form_is_in_the_page_escaped_and_then_there_is_no_refresh() {
        let body = b"q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&submit=%26amp;&na%22me='";
        let form =
            form::Form::parse(b"application/x-www-form-urlencoded", body, None).expect("a form");
        for language in Language::ALL {
            let mut page = page(Reason::Full, Some(ticket(5_000, 9_000, 99_000)));
            page.sent = Sent::Kept(&form);
            let html = super::tests::body(&page, Format::Html, language);
            for needle in [
                "<form id=\"nap-form\" method=\"post\" enctype=\"application/x-www-form-urlencoded\"",
                "name=\"q\" value=\"&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;\"",
                "name=\"submit\" value=\"&#38;amp;\"",
                "name=\"na&#34;me\" value=\"&#39;\"",
            ] {
                assert!(html.contains(needle), "{needle} in {html}");
            }
            assert!(!html.contains("http-equiv") && !html.contains("<script>"));
            page.sent = Sent::Lost;
            let html = super::tests::body(&page, Format::Html, language);
            assert!(!html.contains("http-equiv") && !html.contains("<form"));
            assert!(html.contains("nap-lost"), "{html}");
        }
    }

    #[test]
    fn hostile_names_are_shown_and_never_executed() {
        let hostile = "</p><script>alert('1')</script>\"&\u{202e}\n";
        for language in Language::ALL {
            let mut page = page(Reason::Full, Some(ticket(5_000, 9_000, 99_000)));
            page.room = hostile;
            page.ticket = page.ticket.map(|ticket| Ticket {
                token: hostile,
                ..ticket
            });
            let html = body(&page, Format::Html, language);
            assert!(
                !html.contains("<script>") && !html.contains("alert('1')"),
                "{html}"
            );
            assert!(html.contains("&#60;script&#62;"), "{html}");
            let json: serde_json::Value =
                serde_json::from_str(&body(&page, Format::Json, language)).expect("JSON");
            assert_eq!(json["ticket"]["token"], hostile);
        }
    }

    #[test]
    fn a_page_opened_by_hand_does_not_return_and_a_refusal_does_within_a_second_of_its_time() {
        assert_eq!(page(Reason::None, None).refresh_seconds(), None);
        let cases = [
            (0, 1),
            (1, 1),
            (1_000_000, 1),
            (1_000_001, 2),
            (8_500_000, 9),
        ];
        for (us, expected) in cases {
            let page = Page {
                retry_after: Micros(us),
                ..page(Reason::Full, None)
            };
            assert_eq!(page.refresh_seconds(), Some(expected));
        }
    }

    #[test]
    fn who_has_no_ticket_is_told_when_to_try_again() {
        for reason in [Reason::Cap, Reason::SoldOut] {
            for (language, format) in Language::ALL
                .into_iter()
                .flat_map(|one| ALL.map(|format| (one, format)))
            {
                let body = body(&page(reason, None), format, language);
                match format {
                    Format::Json => assert!(body.contains("\"retry_after\":8.5"), "{body}"),
                    _ => assert!(body.contains("12:00:09") && body.contains("0:09"), "{body}"),
                }
            }
        }
    }

    #[test]
    fn a_ticket_is_seen_from_now() {
        let sold = ticket::Ticket {
            id: 5,
            start: Micros(10),
            prime_end: Micros(20),
            end: Micros(30),
            ..ticket::Ticket::default()
        };
        let seen = Ticket::of(&sold, "t", Micros(15));
        assert_eq!(
            (seen.from, seen.prime, seen.until),
            (Micros(0), Micros(5), Micros(15))
        );
        assert_eq!(seen.name().as_str(), "0000000000000005");
    }
}
