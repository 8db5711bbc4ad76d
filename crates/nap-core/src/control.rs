//! `nap-control`: what an administrator's form asks for, and the nonce that goes with it.
//!
//! A request counts when it comes from a page of this very origin (the caller checks that) and
//! brings the nonce that `/nap-info` shows, which nobody knows who cannot read that page. A nonce
//! is a MAC of the time, so every child can compute it and none has to remember it.

use std::net::{IpAddr, Ipv6Addr};

use blake2::Blake2sMac256;
use blake2::digest::Mac;

use crate::fleet::orders::{self, Matter};
use crate::nap::ticket;
use crate::room::control::{Mode, NOTICE, Order};
use crate::room::permits::PERMITS;

/// A nonce is shown for this long, and good for as long again.
const NONCE_S: u64 = 600;
/// A limit that is taken back.
const CONFIGURED: &str = "configured";
/// Bytes of a nonce, each shown as two digits.
const NONCE: usize = 16;

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Do this with a room; none: with all of them.
    Room(Option<String>, Order),
    /// End a session.
    End(Which),
    /// Clear what a client owes.
    Forgive(Ipv6Addr),
}

/// A session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// The one with this id, as `/nap-info` shows it.
    Id(u64),
    /// The one whose client presents this cookie in the room.
    Cookie {
        /// The room's name.
        room: String,
        /// The cookie's value.
        value: String,
    },
}

/// Whose rooms, tickets and sessions an order is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those of all nodes of the fleet.
    Fleet,
    /// Those of this node alone.
    Node,
}

/// A form as it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// What it asks for. Err: what is wrong with it.
    pub command: Result<Command, String>,
    /// For whom; None: it does not say.
    pub scope: Option<Scope>,
    /// Its nonce; empty: none.
    pub nonce: String,
    /// Where the browser is to go afterwards: a path on this server.
    pub back: Option<String>,
}

impl Sent {
    /// Reads the fields of an urlencoded form.
    pub fn parse(body: &[u8]) -> Sent {
        let fields: Vec<_> = form_urlencoded::parse(body).take(16).collect();
        let field = |wanted: &str| {
            let found = fields.iter().find(|(name, _)| name == wanted);
            found.map_or("", |(_, value)| value.trim())
        };
        let back = field("back");
        // Only a path: "//host" and "/\host" would lead elsewhere.
        let here = back.starts_with('/') && !back[1..].starts_with(['/', '\\']);
        let plain = back.bytes().all(|b| b.is_ascii_graphic());
        let scope = scope(field("scope"));
        Sent {
            command: scope.clone().and_then(|_| command(field)),
            scope: scope.unwrap_or_default(),
            nonce: field("nonce").to_owned(),
            back: (here && plain).then(|| back.to_owned()),
        }
    }
}

fn command<'f>(field: impl Fn(&str) -> &'f str) -> Result<Command, String> {
    let room = |order| match field("room") {
        "" => Err("room: which?".to_owned()),
        name => Ok(Command::Room(Some(name.to_owned()), order)),
    };
    match field("do") {
        "open" => room(Order::Admit(Mode::Open)),
        "tickets" => room(Order::Admit(Mode::Tickets)),
        "close" => room(Order::Admit(Mode::Closed)),
        "limit" => room(Order::Limit(limit(field("limit"))?)),
        "notice" => room(Order::Notice(notice(field("notice"))?)),
        "revoke" => revoke(field),
        "forgive" => Ok(Command::Forgive(client(field("client"))?)),
        other => Err(format!(
            "do: {other:?} is none of open, tickets, close, limit, notice, revoke, forgive"
        )),
    }
}

fn scope(text: &str) -> Result<Option<Scope>, String> {
    match text {
        "" => Ok(None),
        "fleet" => Ok(Some(Scope::Fleet)),
        "node" => Ok(Some(Scope::Node)),
        other => Err(format!("scope: {other:?} is neither fleet nor node")),
    }
}

fn limit(text: &str) -> Result<Option<u32>, String> {
    if text.is_empty() || text == CONFIGURED {
        return Ok(None);
    }
    let n = text.parse().ok();
    let n = n.filter(|n| (1..=PERMITS as u32).contains(n));
    n.map(Some).ok_or_else(|| {
        format!("limit: {text:?} is not a number from 1 to {PERMITS}, or \"configured\"")
    })
}

fn notice(text: &str) -> Result<String, String> {
    if text.len() > NOTICE || text.contains(char::is_control) {
        return Err(format!("notice: one line of at most {NOTICE} bytes"));
    }
    Ok(text.to_owned())
}

fn revoke<'f>(field: impl Fn(&str) -> &'f str) -> Result<Command, String> {
    match ["ticket", "session", "cookie"].map(&field) {
        [text, "", ""] => Ok(Command::Room(None, Order::Revoke(id("ticket", text)?))),
        ["", text, ""] => Ok(Command::End(Which::Id(id("session", text)?))),
        ["", "", value] => match field("room") {
            "" => Err("room: which?".to_owned()),
            room => Ok(Command::End(Which::Cookie {
                room: room.to_owned(),
                value: value.to_owned(),
            })),
        },
        _ => Err("revoke: one of ticket, session and cookie".to_owned()),
    }
}

fn id(what: &str, text: &str) -> Result<u64, String> {
    let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let id = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    id.filter(|&id| id != 0)
        .ok_or_else(|| format!("{what}: its id has 16 hexadecimal digits"))
}

fn client(text: &str) -> Result<Ipv6Addr, String> {
    match text.parse() {
        Ok(IpAddr::V4(v4)) => Ok(v4.to_ipv6_mapped()),
        Ok(IpAddr::V6(v6)) => Ok(v6),
        Err(_) => Err(format!("client: {text:?} is not an address")),
    }
}

impl Command {
    /// The command as the log and the answer put it.
    pub fn sentence(&self) -> String {
        match self {
            Command::Room(room, order) => {
                let of = match room {
                    Some(room) => format!("room {room}"),
                    None => "all rooms".to_owned(),
                };
                match order {
                    Order::Admit(Mode::Open) => format!("{of} is open"),
                    Order::Admit(Mode::Tickets) => {
                        format!("{of} lets in ticket holders and gives tickets to everybody else")
                    }
                    Order::Admit(Mode::Closed) => format!("{of} is closed"),
                    Order::Limit(Some(n)) => format!("{of} runs {n} at once"),
                    Order::Limit(None) => format!("{of} runs as many at once as configured"),
                    Order::Notice(text) if text.is_empty() => format!("{of} has no notice"),
                    Order::Notice(text) => format!("{of} has the notice {text:?}"),
                    Order::Revoke(id) => format!("ticket {id:016x} is revoked"),
                }
            }
            Command::End(Which::Id(id)) => format!("session {id:016x} is over"),
            // The cookie's value is worth a session: not for the log.
            Command::End(Which::Cookie { room, .. }) => {
                format!("the session of this cookie in room {room} is over")
            }
            Command::Forgive(client) => format!("client {} owes nothing", client.to_canonical()),
        }
    }
}

impl Command {
    /// The same for all nodes. None: a cookie is told as its session's id, and debts are told by those who keep them.
    pub fn for_all(&self) -> Option<orders::Order> {
        let order = |matter, room: &str, value: String| orders::Order {
            matter,
            room: room.to_owned(),
            value,
        };
        let digits = |id: u64| format!("{id:016x}");
        Some(match self {
            Command::Room(None, Order::Revoke(id)) => order(Matter::Ticket, "", digits(*id)),
            Command::End(Which::Id(id)) => order(Matter::Session, "", digits(*id)),
            Command::Room(Some(room), Order::Admit(mode)) => {
                order(Matter::Mode, room, mode.name().to_owned())
            }
            Command::Room(Some(room), Order::Limit(limit)) => {
                let value = limit.map_or(CONFIGURED.to_owned(), |n| n.to_string());
                order(Matter::Limit, room, value)
            }
            Command::Room(Some(room), Order::Notice(text)) => {
                order(Matter::Notice, room, text.clone())
            }
            Command::Room(..) | Command::End(Which::Cookie { .. }) | Command::Forgive(_) => {
                return None;
            }
        })
    }

    /// What another node has ordered for all. None: that makes no sense here.
    pub fn heard(order: &orders::Order) -> Option<Command> {
        let value = &*order.value;
        let here = match order.matter {
            Matter::Ticket => Command::Room(None, Order::Revoke(id("", value).ok()?)),
            Matter::Session => Command::End(Which::Id(id("", value).ok()?)),
            Matter::Mode => {
                let all = [Mode::Open, Mode::Tickets, Mode::Closed];
                let mode = all.into_iter().find(|mode| mode.name() == value)?;
                Command::Room(Some(order.room.clone()), Order::Admit(mode))
            }
            Matter::Limit => {
                let limit = limit(value).ok()?;
                Command::Room(Some(order.room.clone()), Order::Limit(limit))
            }
            Matter::Notice => {
                let text = notice(value).ok()?;
                Command::Room(Some(order.room.clone()), Order::Notice(text))
            }
        };
        (order.room.is_empty() != order.matter.stands()).then_some(here)
    }
}

fn mac(secret: &[u8], window: u64) -> Blake2sMac256 {
    let mut mac = ticket::keyed(secret);
    mac.update(b"nap-control");
    mac.update(&window.to_be_bytes());
    mac
}

/// The nonce that is shown now.
pub fn nonce(secret: &[u8], unix_s: u64) -> String {
    let full = mac(secret, unix_s / NONCE_S).finalize().into_bytes();
    full.iter()
        .take(NONCE)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Is it one that was shown in the last ten minutes?
pub fn is_good(nonce: &str, secret: &[u8], unix_s: u64) -> bool {
    let Some(bytes) = ticket::unhex(nonce).filter(|bytes| bytes.len() == NONCE) else {
        return false;
    };
    let now = unix_s / NONCE_S;
    [now, now.saturating_sub(1)]
        .into_iter()
        .any(|window| mac(secret, window).verify_truncated_left(&bytes).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str) -> Result<Command, String> {
        Sent::parse(body.as_bytes()).command
    }

    #[test]
    fn a_form_says_what_is_to_be_done() {
        let room = |order| Ok(Command::Room(Some("site".to_owned()), order));
        let cases = [
            ("do=close&room=site", room(Order::Admit(Mode::Closed))),
            ("do=tickets&room=+site", room(Order::Admit(Mode::Tickets))),
            ("room=site&do=open", room(Order::Admit(Mode::Open))),
            ("do=limit&room=site&limit=12", room(Order::Limit(Some(12)))),
            ("do=limit&room=site&limit=", room(Order::Limit(None))),
            (
                "do=notice&room=site&notice=Back+soon%21",
                room(Order::Notice("Back soon!".to_owned())),
            ),
            (
                "do=revoke&ticket=00000000000beaD1",
                Ok(Command::Room(None, Order::Revoke(0xbead1))),
            ),
            (
                "do=revoke&session=00000000000beaD1&ticket=",
                Ok(Command::End(Which::Id(0xbead1))),
            ),
            (
                "do=revoke&room=site&cookie=a%3Db+c",
                Ok(Command::End(Which::Cookie {
                    room: "site".to_owned(),
                    value: "a=b c".to_owned(),
                })),
            ),
            (
                "do=forgive&client=192.0.2.1",
                Ok(Command::Forgive("::ffff:192.0.2.1".parse().expect("v6"))),
            ),
            (
                "do=forgive&client=2001:db8::1",
                Ok(Command::Forgive("2001:db8::1".parse().expect("v6"))),
            ),
        ];
        for (body, command) in cases {
            assert_eq!(parsed(body), command, "{body}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let cases = [
            ("", "do: \"\" is none of"),
            ("do=close", "room: which?"),
            ("do=limit&room=site&limit=0", "limit: \"0\" is not"),
            ("do=limit&room=site&limit=1025", "limit: \"1025\" is not"),
            ("do=notice&room=site&notice=a%0Ab", "notice: one line"),
            ("do=revoke&ticket=bead", "ticket: its id"),
            ("do=revoke&ticket=0000000000000000", "ticket: its id"),
            ("do=revoke&ticket=%2B0000000000bead1", "ticket: its id"),
            ("do=revoke&ticket=%C3%A90000000000bead", "ticket: its id"),
            ("do=revoke&session=bead", "session: its id"),
            ("do=revoke", "ticket: its id"),
            ("do=revoke&cookie=a", "room: which?"),
            ("do=revoke&ticket=1&session=2", "revoke: one of"),
            ("do=forgive&client=me", "client: \"me\" is not"),
        ];
        for (body, words) in cases {
            let said = parsed(body).expect_err(body);
            assert!(said.starts_with(words), "{body}: {said}");
        }
    }

    #[test]
    fn an_order_is_for_the_fleet_or_for_this_node() {
        let scope = |text: &str| Sent::parse(format!("do=close&room=a{text}").as_bytes()).scope;
        assert_eq!(scope(""), None);
        assert_eq!(scope("&scope="), None);
        assert_eq!(scope("&scope=fleet"), Some(Scope::Fleet));
        assert_eq!(scope("&scope=node"), Some(Scope::Node));
        let said = parsed("do=close&room=a&scope=all").expect_err("it is neither");
        assert_eq!(said, "scope: \"all\" is neither fleet nor node");
    }

    #[test]
    fn other_nodes_understand_an_order_as_it_was_meant() {
        for body in [
            "do=open&room=site",
            "do=tickets&room=site",
            "do=close&room=site",
            "do=limit&room=site&limit=12",
            "do=limit&room=site",
            "do=notice&room=site&notice=Back+soon%21",
            "do=notice&room=site",
            "do=revoke&ticket=00000000000beaD1",
            "do=revoke&session=00000000000beaD1",
        ] {
            let command = parsed(body).expect(body);
            let told = command.for_all().expect(body);
            assert_eq!(Command::heard(&told), Some(command), "{told:?}");
        }
        for body in ["do=revoke&room=site&cookie=a", "do=forgive&client=::1"] {
            assert_eq!(parsed(body).expect(body).for_all(), None);
        }
        let nonsense = [
            (Matter::Mode, "site", "ajar"),
            (Matter::Mode, "", "open"),
            (Matter::Limit, "site", "0"),
            (Matter::Limit, "site", "99999999999"),
            (Matter::Notice, "site", "a\nb"),
            (Matter::Ticket, "", "bead"),
            (Matter::Ticket, "site", "00000000000bead1"),
            (Matter::Session, "", "0000000000000000"),
        ];
        for (matter, room, value) in nonsense {
            let order = orders::Order {
                matter,
                room: room.into(),
                value: value.into(),
            };
            assert_eq!(Command::heard(&order), None, "{order:?}");
        }
    }

    #[test]
    fn the_way_back_is_on_this_server() {
        let back = |to: &str| Sent::parse(format!("back={to}").as_bytes()).back;
        assert_eq!(back("/nap-info"), Some("/nap-info".to_owned()));
        for elsewhere in [
            "",
            "//evil",
            "/%5Cevil",
            "https://evil",
            "/a%0d%0aX:y",
            "nap",
        ] {
            assert_eq!(back(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn a_nonce_is_good_for_ten_minutes_and_a_while() {
        let (secret, now) = ([7; 16], 1_769_828_400);
        let shown = nonce(&secret, now);
        assert_eq!(shown.len(), 32);
        for later in [0, NONCE_S] {
            assert!(is_good(&shown, &secret, now + later));
        }
        assert!(!is_good(&shown, &secret, now + 2 * NONCE_S));
        assert!(!is_good(&shown, &[8; 16], now));
        for bad in [
            "",
            "00",
            &shown[2..],
            &format!("{shown}00"),
            &"zz".repeat(16),
            &"+7".repeat(16),
            &"é".repeat(16),
            "é",
        ] {
            assert!(!is_good(bad, &secret, now), "{bad}");
        }
    }
}
