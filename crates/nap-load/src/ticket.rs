//! What an answer says about our standing: served, refused with a ticket, refused without.
//!
//! Everything the module says is read from each place it says it in (headers, cookie, JSON body). If two
//! places name different tickets the answer is marked, as that is a fault of the server. Times are spans from
//! the answer's sending when parsed, and points of the run once held.

use std::rc::Rc;

use hyper::HeaderMap;
use hyper::header::{HeaderName, RETRY_AFTER, SET_COOKIE};
use nap_core::micros::Micros;
use serde_json::Value;

use crate::jar::SetCookie;

/// A ticket's window. Its holder says whether times are spans from the answer's sending or points of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start of the prime window.
    pub from: Micros,
    /// End of the prime window, start of the tail.
    pub prime: Micros,
    /// End of the tail.
    pub until: Micros,
}

impl Window {
    /// Read `from=3.215, prime=8.215, until=303.215`: remaining seconds, any order, all three.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut from, mut prime, mut until) = (None, None, None);
        for part in text.split([',', ';']) {
            let (key, value) = part.trim().split_once('=')?;
            let value = seconds(value.trim());
            match key.trim() {
                "from" => from = value,
                "prime" => prime = value,
                "until" => until = value,
                _ => {}
            }
        }
        Window {
            from: from?,
            prime: prime?,
            until: until?,
        }
        .ordered()
    }

    /// The same window as points of the run, for an answer sent at `now`.
    pub fn at(self, now: Micros) -> Self {
        Window {
            from: now + self.from,
            prime: now + self.prime,
            until: now + self.until,
        }
    }

    /// The window in an answer's JSON: remaining seconds.
    fn of(says: &Value) -> Option<Self> {
        let span = |key: &str| says[key].as_f64().map(Micros::from_secs_f64);
        Window {
            from: span("from")?,
            prime: span("prime")?,
            until: span("until")?,
        }
        .ordered()
    }

    fn ordered(self) -> Option<Self> {
        (self.from <= self.prime && self.prime <= self.until).then_some(self)
    }
}

/// A ticket in a visitor's hand.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub token: String,
    /// The id from the JSON form, else a hash of the token: names the ticket in the CSV.
    pub id: String,
    /// The cookie that carries it, if one does.
    pub cookie: Option<String>,
    /// When it was issued, a point of the run.
    pub issued: Micros,
    /// Points of the run.
    pub window: Window,
    /// Presented at or after `window.from`, and answered.
    pub presented: bool,
    /// The node that sold it, as a balancer names it.
    pub seller: Option<Rc<str>>,
}

impl Ticket {
    /// The ticket that an offer becomes when the answer arrives at `now`.
    pub fn new(offer: Offer, now: Micros) -> Self {
        Ticket {
            id: offer
                .id
                .unwrap_or_else(|| format!("{:016x}", hash(&offer.token))),
            token: offer.token,
            cookie: offer.cookie,
            issued: now,
            window: offer.window.at(now),
            presented: false,
            seller: None,
        }
    }

    /// Whether an answer brings it once more.
    pub fn is_shown_in(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(NAP_TICKET).and_then(|it| it.to_str().ok());
        shown.is_some_and(|shown| hash(shown) == hash(&self.token))
    }

    /// `nap-status` has said at `now` where the ticket stands. A holder called before their time may come
    /// from now on; returns whether this is a call.
    pub fn hear(&mut self, says: &Value, now: Micros) -> bool {
        match says["state"].as_str() {
            Some("wait") => {
                let told = Window::of(says).map(|window| window.at(now));
                self.window = told.unwrap_or(self.window);
                false
            }
            Some("now") if now < self.window.from => {
                self.window.from = now;
                true
            }
            _ => false,
        }
    }

    /// The group of a try that presents it at `now`.
    pub fn group(&self, now: Micros) -> Group {
        let Window { from, prime, until } = self.window;
        match now {
            t if t < from => Group::Early,
            t if t < prime => Group::Prime,
            t if t < until => Group::Late,
            _ => Group::Expired,
        }
    }
}

/// The kind of a try by the visitor's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// No ticket.
    Newcomer,
    /// Before the prime window.
    Early,
    /// In the prime window.
    Prime,
    /// In the tail.
    Late,
    /// After its end.
    Expired,
}

impl Group {
    pub const ALL: [Group; 5] = [
        Group::Newcomer,
        Group::Early,
        Group::Prime,
        Group::Late,
        Group::Expired,
    ];

    pub fn name(self) -> &'static str {
        ["newcomer", "early", "prime", "late", "expired"][self as usize]
    }
}

/// What an answer means.
#[derive(Debug)]
pub enum Answer {
    Served,
    Refused(Refusal),
    /// An error of the application or a proxy; not about the crowd.
    Failed,
}

/// A refusal, with or without a ticket.
#[derive(Debug)]
pub struct Refusal {
    pub reason: Reason,
    pub retry_after: Option<Micros>,
    pub offer: Option<Offer>,
    /// Header, cookie and JSON named different tickets.
    pub torn: bool,
}

impl Refusal {
    /// Gives the visitor the ticket it brings, heard from `node` at `heard`, or takes away one that it says is worth
    /// nothing. Returns whether it brought one, and whether that is a new one.
    pub fn hand_over(
        self,
        hand: &mut Option<Ticket>,
        heard: Micros,
        node: Option<&str>,
    ) -> (bool, bool) {
        let Some(offer) = self.offer else {
            if self.reason.voids_ticket() {
                *hand = None;
            }
            return (false, false);
        };
        let mut ticket = Ticket::new(offer, heard);
        let same = hand.take().filter(|held| held.id == ticket.id);
        let is_new = same.is_none();
        ticket.seller = node.map(Rc::from);
        if let Some(held) = same {
            ticket.issued = held.issued;
            ticket.presented = held.presented;
            ticket.seller = held.seller;
        }
        *hand = Some(ticket);
        (true, is_new)
    }
}

/// A ticket as the answer describes it; spans from its sending.
#[derive(Debug)]
pub struct Offer {
    pub token: String,
    pub id: Option<String>,
    pub cookie: Option<String>,
    pub window: Window,
}

/// `Nap-Reason`, or `Plain` for a refusal from elsewhere (HAProxy, bare httpd).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Full,
    Early,
    Late,
    Deferred,
    Broken,
    Used,
    Expired,
    Forged,
    OtherRoom,
    Unknown,
    TakenOver,
    Cap,
    SoldOut,
    Stopping,
    /// A reason this client does not know.
    Other,
    /// No reason given: not the module speaking.
    Plain,
}

impl Reason {
    const NAMES: [(&'static str, Reason); 16] = [
        ("full", Reason::Full),
        ("early", Reason::Early),
        ("late", Reason::Late),
        ("deferred", Reason::Deferred),
        ("broken", Reason::Broken),
        ("used", Reason::Used),
        ("expired", Reason::Expired),
        ("forged", Reason::Forged),
        ("other-room", Reason::OtherRoom),
        ("unknown", Reason::Unknown),
        ("taken-over", Reason::TakenOver),
        ("cap", Reason::Cap),
        ("sold-out", Reason::SoldOut),
        ("stopping", Reason::Stopping),
        ("other", Reason::Other),
        ("plain", Reason::Plain),
    ];

    fn parse(text: &str) -> Self {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text.trim());
        known.map_or(Reason::Other, |(_, reason)| *reason)
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// Whether it says that the ticket presented is worth nothing.
    pub fn voids_ticket(self) -> bool {
        use Reason::*;
        matches!(
            self,
            Used | Expired | Forged | OtherRoom | Unknown | TakenOver
        )
    }
}

/// `Nap-Ticket`, the header in which a ticket comes and may be presented.
pub const NAP_TICKET: HeaderName = HeaderName::from_static("nap-ticket");
const NAP_TICKET_WINDOW: HeaderName = HeaderName::from_static("nap-ticket-window");
/// `Nap-Reason`, which each refusal of the module has.
pub const NAP_REASON: HeaderName = HeaderName::from_static("nap-reason");

/// Whether this answer is a refusal, so that its body is worth reading.
pub fn is_refusal(status: u16, headers: &HeaderMap) -> bool {
    matches!(status, 503 | 429) || headers.contains_key(NAP_REASON)
}

/// Understand an answer. `json` is the body when the server called it JSON.
pub fn understand(status: u16, headers: &HeaderMap, json: Option<&[u8]>) -> Answer {
    if is_refusal(status, headers) {
        Answer::Refused(understand_refusal(headers, json))
    } else if status >= 400 {
        Answer::Failed
    } else {
        Answer::Served
    }
}

/// The cookies of an answer.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = SetCookie<'_>> {
    let lines = headers.get_all(SET_COOKIE).into_iter();
    lines.filter_map(|line| SetCookie::parse(line.to_str().ok()?))
}

fn understand_refusal(headers: &HeaderMap, json: Option<&[u8]>) -> Refusal {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let json: Value = json
        .and_then(|body| serde_json::from_slice(body).ok())
        .unwrap_or_default();
    let said = &json["ticket"];

    let by_header = text(&NAP_TICKET)
        .map(str::trim)
        .filter(|token| !token.is_empty());
    let by_json = said["token"].as_str();
    let cookie = cookies(headers)
        .filter(|cookie| !cookie.deletes())
        .find(|c| by_header.or(by_json) == Some(c.value) || is_ticket_cookie(c.name));
    let by_cookie = cookie.as_ref().map(|cookie| cookie.value);

    let token = by_header.or(by_json).or(by_cookie);
    let torn = [by_json, by_cookie]
        .iter()
        .any(|other| other.is_some() && *other != token);
    let window = text(&NAP_TICKET_WINDOW)
        .and_then(Window::parse)
        .or_else(|| Window::of(said));
    let offer = token.zip(window).map(|(token, window)| Offer {
        token: token.to_owned(),
        id: said["id"].as_str().map(str::to_owned),
        cookie: cookie.map(|cookie| cookie.name.to_owned()),
        window,
    });
    let reason = text(&NAP_REASON).or(json["reason"].as_str());
    let retry_after = text(&RETRY_AFTER)
        .and_then(|secs| secs.trim().parse().ok())
        .or(json["retry_after"].as_u64())
        .map(Micros::from_secs);
    Refusal {
        reason: reason.map_or(Reason::Plain, Reason::parse),
        retry_after,
        offer,
        torn,
    }
}

/// The module's own cookie names; another one (`NapTicketCookie`) is recognised by its value.
fn is_ticket_cookie(name: &str) -> bool {
    name.starts_with("nap-") || name.starts_with("__Host-nap-")
}

/// Non-negative finite seconds.
fn seconds(text: &str) -> Option<Micros> {
    let value: f64 = text.parse().ok()?;
    (value.is_finite() && value >= 0.0).then(|| Micros::from_secs_f64(value))
}

/// FNV-1a of what names a ticket: short, and the same for the same ticket. That is its seller and its place, and its id:
/// the rest may be written anew when the ticket is shown again (another key, a fleet's clock that has moved by a
/// microsecond).
pub fn hash(token: &str) -> u64 {
    let named = [token.get(4..40), token.get(76..84)];
    let parts = match named {
        [Some(place), Some(id)] => [place, id],
        _ => [token, ""],
    };
    let bytes = parts.iter().flat_map(|part| part.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use nap_core::nap::ticket::{Key, Ticket as Sold};

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    fn refusal(lines: &[(&'static str, &'static str)], json: Option<&str>) -> Refusal {
        match understand(503, &headers(lines), json.map(str::as_bytes)) {
            Answer::Refused(refusal) => refusal,
            other => panic!("not a refusal: {other:?}"),
        }
    }

    fn window(from: u64, prime: u64, until: u64) -> Window {
        Window {
            from: Micros::from_millis(from),
            prime: Micros::from_millis(prime),
            until: Micros::from_millis(until),
        }
    }

    #[test]
    fn a_window_needs_three_ordered_times() {
        let cases = [
            (
                "from=3.215, prime=8.215, until=303.215",
                Some(window(3215, 8215, 303_215)),
            ),
            (" until=9,prime=2 , from=0", Some(window(0, 2000, 9000))),
            (
                "from=1, prime=2, until=3, more=4",
                Some(window(1000, 2000, 3000)),
            ),
            ("from=3, prime=2, until=9", None),
            ("from=3, prime=4", None),
            ("from=-1, prime=4, until=9", None),
            ("from=x, prime=4, until=9", None),
            ("from=1, prime=inf, until=inf", None),
            ("", None),
        ];
        for (text, want) in cases {
            assert_eq!(Window::parse(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_refusal_with_a_ticket_is_read_from_headers_and_cookie() {
        let r = refusal(
            &[
                ("retry-after", "4"),
                ("nap-reason", "full"),
                ("nap-ticket", "abc.def"),
                (
                    "nap-ticket-window",
                    "from=3.215, prime=8.215, until=303.215",
                ),
                ("set-cookie", "sid=1"),
                ("set-cookie", "nap-board=abc.def; Max-Age=363; HttpOnly"),
            ],
            None,
        );
        assert_eq!(
            (r.reason, r.retry_after, r.torn),
            (Reason::Full, Some(Micros::from_secs(4)), false)
        );
        let offer = r.offer.expect("a ticket");
        assert_eq!(
            (offer.token.as_str(), offer.cookie.as_deref()),
            ("abc.def", Some("nap-board"))
        );
        assert_eq!(offer.window, window(3215, 8215, 303_215));
    }

    #[test]
    fn a_refusal_with_a_ticket_is_read_from_json_alone() {
        let body = r#"{"status":503,"reason":"deferred","retry_after":4,
            "ticket":{"token":"t","id":"i1","from":3.215,"prime":8.215,"until":303.215}}"#;
        let r = refusal(&[], Some(body));
        assert_eq!(
            (r.reason, r.retry_after),
            (Reason::Deferred, Some(Micros::from_secs(4)))
        );
        let offer = r.offer.expect("a ticket");
        assert_eq!(
            (offer.token.as_str(), offer.id.as_deref()),
            ("t", Some("i1"))
        );
        assert_eq!(offer.window, window(3215, 8215, 303_215));
    }

    #[test]
    fn two_places_naming_two_tickets_are_noticed() {
        let lines = [("nap-ticket", "a"), ("set-cookie", "nap-board=b")];
        assert!(refusal(&lines, None).torn);
        assert!(refusal(&lines[..1], Some(r#"{"ticket":{"token":"c"}}"#)).torn);
        assert!(!refusal(&lines[..1], Some("{not json")).torn);
    }

    #[test]
    fn a_plain_503_has_neither_reason_nor_ticket() {
        let r = refusal(&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], None);
        assert_eq!((r.reason, r.retry_after), (Reason::Plain, None));
        assert!(r.offer.is_none());
    }

    #[test]
    fn status_and_reason_together_tell_a_refusal() {
        let said = headers(&[("nap-reason", "full")]);
        assert!(matches!(understand(200, &said, None), Answer::Refused(_)));
        let none = HeaderMap::new();
        assert!(matches!(understand(200, &none, None), Answer::Served));
        assert!(matches!(understand(302, &none, None), Answer::Served));
        assert!(matches!(understand(429, &none, None), Answer::Refused(_)));
        assert!(matches!(understand(500, &none, None), Answer::Failed));
        assert!(matches!(understand(404, &none, None), Answer::Failed));
    }

    #[test]
    fn reasons_keep_their_names() {
        for (i, (name, reason)) in Reason::NAMES.iter().enumerate() {
            assert_eq!(*reason as usize, i, "{name}");
            assert_eq!(Reason::parse(name).name(), *name);
        }
        assert_eq!(Reason::parse("new-thing"), Reason::Other);
    }

    #[test]
    fn a_ticket_that_is_written_anew_is_the_same() {
        let key = |id: u8| Key::new(id, &[id; 16]);
        let sold = Sold {
            node: 3,
            epoch: 0x1234_5678_9abc_def0,
            slot: 7,
            index: 2,
            start: Micros::from_secs(1_795_863_531),
            id: 77,
            ..Default::default()
        };
        let again = Sold {
            start: sold.start + Micros(13),
            ..sold
        };
        let name = |ticket: Sold, id| hash(&ticket.seal(&key(id)));
        assert_eq!(name(sold, 1), name(again, 2));
        for other in [
            Sold { index: 3, ..sold },
            Sold { node: 2, ..sold },
            Sold {
                id: 1 << 40,
                ..sold
            },
        ] {
            assert_ne!(name(sold, 1), name(other, 1));
        }
        assert_ne!(hash("a"), hash("b"));
    }

    fn ticket() -> Ticket {
        let offer = Offer {
            token: "t".into(),
            id: None,
            cookie: None,
            window: window(3000, 8000, 303_000),
        };
        Ticket::new(offer, Micros::from_secs(100))
    }

    #[test]
    fn a_call_opens_the_window_and_an_answer_may_move_it() {
        let (mut ticket, now) = (ticket(), Micros::from_secs(101));
        let says = |text: &str| serde_json::from_str(text).expect("JSON");
        let wait = says(r#"{"state":"wait","from":1,"prime":6,"until":301,"ask":1}"#);
        assert!(!ticket.hear(&wait, now));
        assert_eq!(ticket.window, window(102_000, 107_000, 402_000));
        assert!(!ticket.hear(&says(r#"{"state":"used"}"#), now));
        assert!(ticket.hear(&says(r#"{"state":"now","from":1}"#), now));
        assert_eq!(ticket.window, window(101_000, 107_000, 402_000));
        assert!(!ticket.hear(&says(r#"{"state":"now","from":0}"#), now));
    }

    #[test]
    fn a_ticket_knows_its_group_by_the_clock() {
        let ticket = ticket();
        for (at, want) in [
            (102_999, Group::Early),
            (103_000, Group::Prime),
            (107_999, Group::Prime),
            (108_000, Group::Late),
            (402_999, Group::Late),
            (403_000, Group::Expired),
        ] {
            assert_eq!(ticket.group(Micros::from_millis(at)), want, "at {at} ms");
        }
    }
}
