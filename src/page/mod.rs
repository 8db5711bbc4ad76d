//! What a refused visitor gets: headers and a page that say when to come back.
//!
//! Here are [`RefusalPage`] and [`render`]: HTML, JSON (RFC 9457) or text, in the visitor's language.
//! The words are in `templates/`, a folder a language; the template engine escapes all values.
//! Nothing of the request's address is ever written into a page. The module serves script and style as
//! files, so the page works under [`POLICY`]. Without scripts it returns by Refresh without an
//! address.

pub mod accept; // which form and language the visitor can read
pub mod assets; // the page's style and script: files of their own
pub mod form; // the form of a refused POST, given back in the page
pub mod headers; // the headers of a refusal, and the ticket's cookie
pub mod owed; // what a visitor sees of their own debts
pub mod own; // a page of the administrator's own: their template, our values
pub mod preview; // a list of samples
mod problem; // the page as JSON
pub mod sample; // the states a page can be in, to look at before anybody is refused
pub mod slow_down; // the page for a client that owes too much
pub mod status; // what a holder who asks how their ticket stands is told

use askama::Template;
use serde::{Serialize, Serializer};

use crate::wall::{Wall, Written, countdown, hex};
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
#[derive(Clone, Copy, Default, Debug)]
pub struct RefusalPage<'a> {
    /// Why the access was refused; [`Reason::None`]: it was not, the visitor opened the ticket page
    /// directly.
    pub reason: Reason,
    /// The visitor's ticket; none: no ticket can be given yet.
    pub ticket: Option<PageTicket<'a>>,
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
pub struct PageTicket<'a> {
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

impl<'a> PageTicket<'a> {
    /// `ticket`, sealed as `token`, seen at `now`.
    pub fn of(ticket: &ticket::Ticket, token: &'a str, now: Micros) -> PageTicket<'a> {
        PageTicket {
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
pub fn render(page: &RefusalPage<'_>, format: Format, language: Language) -> Rendered {
    let view = View::of(page, language);
    let body = match format {
        Format::Html => filled(6144, &Html(view)),
        Format::Text => filled(1024, &Text(view)),
        Format::Json => problem::to_json(view),
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

impl RefusalPage<'_> {
    /// When to come back, in whole seconds: with a ticket the nearest in its window, else rounded up.
    pub fn retry_seconds(&self) -> u64 {
        let up = self.retry_after.secs_ceil().max(1);
        // The page is made a moment after the ticket was sold, so less time is left until its start.
        let sold = self
            .ticket
            .filter(|ticket| ticket.from > Micros::ZERO && self.retry_after < ticket.from + HALF);
        let sooner = |ticket: PageTicket<'_>| {
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

/// Declares what a template says of a view: the file behind its name.
macro_rules! templates {
    ($View:ident: $($(#[$doc:meta])* $name:ident $path:literal,)+) => { $(
        $(#[$doc])*
        #[derive(askama::Template)]
        #[template(path = $path)]
        struct $name<'a>($View<'a>);

        impl<'a> std::ops::Deref for $name<'a> {
            type Target = $View<'a>;

            fn deref(&self) -> &$View<'a> {
                &self.0
            }
        }
    )+ };
}

use templates;

templates! {
    View:
    Html "ticket.html",
    Text "ticket.txt",
    /// Style, script and Refresh.
    Head "head.html",
    /// All that there is to see.
    Main "main.html",
    /// What the script reads from the element it looks after.
    Attributes "attributes.html",
    /// What happens by itself, and the buttons; a kept form.
    Controls "controls.html",
    Title "title.txt",
    /// The reason in a sentence or two.
    Why "why.txt",
}

/// A page, and the values that stand in its sentences.
#[derive(Clone, Copy)]
struct View<'a> {
    page: &'a RefusalPage<'a>,
    promise: Promise,
    language: Language,
}

impl<'a> View<'a> {
    fn of(page: &'a RefusalPage<'a>, language: Language) -> View<'a> {
        View {
            page,
            promise: page.promise(),
            language,
        }
    }

    fn ticket(&self) -> PageTicket<'a> {
        self.page.ticket.unwrap_or_default()
    }

    /// The ticket was sold for this refusal, not shown again.
    fn is_new(&self) -> bool {
        !matches!(
            self.page.reason,
            Reason::None | Reason::Early | Reason::SoldOut
        )
    }

    /// When the ticket begins: rounded up to a whole second.
    fn from(&self) -> Wall {
        self.page.wall.after(self.ticket().from).ceil()
    }

    /// A mark that differs for each page that is sent, even for one ticket: a script uses it to remember
    /// what it has done.
    fn mark(&self) -> Written {
        hex(self.page.wall.unix.0)
    }

    /// Until when the place is kept; rounded down to a whole second, as [`Wall`] does.
    fn prime(&self) -> Wall {
        self.page.wall.after(self.ticket().prime)
    }

    fn until(&self) -> Wall {
        self.page.wall.after(self.ticket().until)
    }

    /// When to try again.
    fn again(&self) -> Wall {
        self.page.wall.after(self.page.retry_after).ceil()
    }

    fn clock(&self, time: Wall) -> Written {
        time.time_seen_from(self.page.wall)
    }

    fn element(&self, time: Wall) -> Written<80> {
        time.element(self.page.wall)
    }

    /// Until the ticket begins, or until the next try.
    fn wait(&self) -> Written {
        countdown(match self.ticket().from {
            Micros::ZERO => self.page.retry_after,
            begins => begins,
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

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.ms as f64 / 1000.0)
    }
}

#[cfg(test)]
mod tests;
