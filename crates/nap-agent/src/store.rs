//! [`Store`]: finding it, being let in, and what is said to it.
//!
//! One connection, one exchange at a time. After any failure the connection is given up, and the next one begins
//! with the search: with Sentinels the primary may be another one by then. Their sync client in `redis` connects
//! without a time limit, so asking them is ours.

use std::sync::Arc;

use mod_nap::agent::Auth;
use nap_core::fleet::address::{Address, Host, Way};
use nap_core::fleet::member::{NAME, SILENT};
use nap_core::fleet::trouble::{OLDEST, Trouble};
use nap_core::micros::Micros;
use redis::{Pipeline, Value, pipe};

use crate::card::{Beat, Card};
use crate::commands::{Answers, Commands, Script};
use crate::fleet::FORGET;
use crate::line::{Failure, Line, good, read, shown};
use crate::tls;

/// See `scripts/beat.lua`.
const BEAT: &str = include_str!("scripts/beat.lua");
/// The oldest Valkey; its own numbers begin there.
const OLDEST_VALKEY: [u32; 2] = [7, 2];

/// The store of a fleet.
pub struct Store {
    address: Address,
    auth: Auth,
    keys: Keys,
    beat: Arc<Script>,
    open: Option<Open>,
}

struct Open {
    line: Line,
    /// The host, or the socket's path.
    at: String,
}

/// Names of what lies in the store. They have one hash tag: all of a fleet is on one node of a cluster.
struct Keys {
    names: String,
    beats: String,
    cards: String,
    epoch: String,
}

impl Keys {
    fn of(fleet: &str) -> Keys {
        let key = |what: &str| format!("nap:{{{fleet}}}:{what}");
        Keys {
            names: key("names"),
            beats: key("beats"),
            cards: key("cards"),
            epoch: key("epoch"),
        }
    }
}

/// What the server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// `Redis 7.0.15`.
    pub name: String,
    /// `maxmemory-policy`.
    pub policy: String,
    /// Bytes it may use; 0: as many as it likes.
    pub memory: u64,
    /// Keys that it has thrown away to make room.
    pub evicted: u64,
    /// Another one with each start; empty: it does not tell.
    pub run: String,
    /// Another one after each fail-over: which writes it has.
    pub history: String,
}

impl Server {
    /// Does it throw data away when it is full?
    pub fn evicts(&self) -> bool {
        let keeps = ["", "noeviction"].contains(&self.policy.as_str());
        !keeps && self.memory > 0
    }

    /// From INFO; an error if it is too old, or nothing of the kind.
    fn read(info: &str) -> Result<Server, Failure> {
        let field = |name: &str| {
            let mut lines = info.lines();
            let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.unwrap_or_default().trim()
        };
        let (name, version, oldest) = match field("valkey_version") {
            "" => ("Redis", field("redis_version"), OLDEST),
            version => ("Valkey", version, OLDEST_VALKEY),
        };
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let parts: [u32; 2] = std::array::from_fn(|_| parts.next().unwrap_or(0));
        match parts {
            [0, 0] => Err(Failure::new(
                Trouble::Garbage,
                "it does not tell its version",
            )),
            parts if parts < oldest => {
                let words = format!("it is {name} {version}");
                Err(Failure::new(Trouble::TooOld, words))
            }
            _ => Ok(Server {
                name: format!("{name} {version}"),
                policy: field("maxmemory_policy").into(),
                memory: field("maxmemory").parse().unwrap_or(0),
                evicted: field("evicted_keys").parse().unwrap_or(0),
                run: field("run_id").into(),
                history: field("master_replid").into(),
            }),
        }
    }
}

/// What a node says with a beat.
#[derive(Clone, Debug)]
pub struct Saying<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its number so far; 0: none.
    pub node: u8,
    /// The beat.
    pub beat: &'a Beat,
    /// Its card, if it has to be told.
    pub card: Option<&'a str>,
    /// Tell of the others, too.
    pub others: bool,
}

/// What came of a beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The store's clock, since 1970.
    pub time: Micros,
    /// How this node stands.
    pub seat: Seat,
    /// The beats of all nodes, this one's among them, if they were asked for.
    pub beats: Option<Vec<(u8, Beat)>>,
}

/// How a node stands in its fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    /// It is a member.
    Member {
        /// With this number.
        node: u8,
        /// The fleet's epoch.
        epoch: u64,
        /// Its card lies there.
        card: bool,
    },
    /// Another one that lives has its name.
    Taken {
        /// Its host, if it is known.
        host: String,
    },
    /// No number is left.
    Full,
}

impl Store {
    /// Nothing is opened yet.
    pub fn new(address: Address, auth: Auth, fleet: &str) -> Store {
        Store {
            address,
            auth,
            keys: Keys::of(fleet),
            beat: Script::new(BEAT),
            open: None,
        }
    }

    /// Where the connection goes; empty: there is none.
    pub fn at(&self) -> &str {
        self.open.as_ref().map_or("", |open| &open.at)
    }

    /// Is there a connection?
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Connects, unless it is connected. Some: it has just been.
    pub fn open(&mut self) -> Result<Option<Server>, Failure> {
        if self.is_open() {
            return Ok(None);
        }
        let (open, server) = match &self.address.way {
            Way::Tcp { host, tls } => {
                let line = Line::tcp(host)?;
                let line = match tls {
                    true => line.under(tls::session(&host.name, &self.auth)?),
                    false => line,
                };
                self.enter(line, host.to_string())?
            }
            Way::Unix { path } => self.enter(Line::unix(path)?, path.clone())?,
            Way::Sentinel { sentinels, name } => self.discover(sentinels, name)?,
        };
        self.open = Some(open);
        Ok(Some(server))
    }

    /// The primary that a Sentinel names. One that knows of no fail-over yet is believed only if the primary says
    /// that it is one.
    fn discover(&self, sentinels: &[Host], name: &str) -> Result<(Open, Server), Failure> {
        let mut failed = None;
        let mut tried = Vec::new();
        for sentinel in sentinels {
            let found = primary(sentinel, name).and_then(|host| {
                if tried.contains(&host) {
                    return Ok(None);
                }
                tried.push(host.clone());
                self.enter(Line::tcp(&host)?, host.to_string()).map(Some)
            });
            match found {
                Ok(Some(open)) => return Ok(open),
                Ok(None) => {}
                // What a primary says is worth more than what a Sentinel does not.
                Err(failure) if failure.trouble == Trouble::NoPrimary && failed.is_some() => {}
                Err(failure) => failed = Some(failure),
            }
        }
        Err(failed.unwrap_or_else(|| Failure::new(Trouble::NoPrimary, "there is no Sentinel")))
    }

    /// Password, database; a primary that is new enough.
    fn enter(&self, mut line: Line, at: String) -> Result<(Open, Server), Failure> {
        let mut commands = pipe();
        if !self.auth.password.is_empty() {
            let auth = commands.cmd("AUTH");
            if !self.auth.user.is_empty() {
                auth.arg(&self.auth.user);
            }
            auth.arg(&self.auth.password);
        }
        if self.address.db != 0 {
            commands.cmd("SELECT").arg(self.address.db);
        }
        commands.cmd("ROLE");
        let before = commands.len();
        ask_info(&mut commands);
        let mut answers = line.ask(&commands)?;
        let info = answers.split_off(before);
        let mut role = Value::Nil;
        for answer in answers {
            role = good(answer)?;
        }
        let server = Server::read(&text_of(info)?)?;
        let role = match role {
            Value::Array(parts) => parts
                .into_iter()
                .next()
                .and_then(|word| read::<String>(word).ok()),
            _ => None,
        };
        match role.as_deref() {
            Some("master") => Ok((Open { line, at }, server)),
            Some("slave") => Err(Failure::new(
                Trouble::ReadOnly,
                "it says that it is a replica",
            )),
            _ => Err(Failure::new(
                Trouble::Garbage,
                "it says that it is no store",
            )),
        }
    }

    /// What the server says of itself now.
    pub fn server(&mut self) -> Result<Server, Failure> {
        let mut commands = pipe();
        ask_info(&mut commands);
        let server = self.exchange(&commands).and_then(text_of);
        self.sound(server.and_then(|info| Server::read(&info)))
    }

    /// Says all of it, and hears what there is to each. After a failure, or once an answer was none, the connection is to
    /// be given up.
    pub fn ask(&mut self, commands: &Commands) -> Result<Answers, Failure> {
        let answers = self.exchange(&commands.packed());
        let answers = answers.and_then(|mut answers| {
            let (which, again) = commands.unknown(&answers);
            if !which.is_empty() {
                for (at, answer) in which.into_iter().zip(self.exchange(&again)?) {
                    answers[at] = answer;
                }
            }
            Ok(Answers::new(answers))
        });
        self.sound(answers)
    }

    /// A beat; [`heard`] reads what comes of it.
    pub fn beat(&self, saying: &Saying<'_>, to: &mut Commands) {
        let keys = &self.keys;
        let [names, beats] = [&*keys.names, &keys.beats];
        to.call(&self.beat, &[names, beats, &keys.cards, &keys.epoch])
            .arg(saying.name)
            .arg(&saying.beat.instance)
            .arg(saying.node)
            .arg(saying.beat.written())
            .arg(saying.card.unwrap_or_default())
            .arg(SILENT.0)
            .arg(FORGET.0);
        if saying.others {
            to.add("HGETALL").arg(beats);
        }
    }

    /// The cards of these nodes, in their order; None: there is none that can be read.
    pub fn cards(&mut self, nodes: &[u8]) -> Result<Vec<Option<Card>>, Failure> {
        let mut commands = Commands::default();
        let ask = commands.add("HMGET").arg(&self.keys.cards);
        ask.args(nodes);
        let texts = self.ask(&commands).and_then(|mut answers| answers.read());
        let card = |text: Option<Vec<u8>>| {
            let mut card: Card = serde_json::from_slice(&text?).ok()?;
            // They go into the log and onto pages.
            for text in [&mut card.name, &mut card.host] {
                *text = shown(text, NAME);
            }
            Some(card)
        };
        let texts: Vec<Option<Vec<u8>>> = self.sound(texts)?;
        Ok(texts.into_iter().map(card).collect())
    }

    /// The connection is of no use any more.
    pub fn close(&mut self) {
        self.open = None;
    }

    fn exchange(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        match &mut self.open {
            Some(open) => open.line.ask(commands),
            None => Err(Failure::new(Trouble::Closed, "there is no connection")),
        }
    }

    /// After a failure the connection is of no use.
    fn sound<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        if result.is_err() {
            self.close();
        }
        result
    }
}

/// Whom this Sentinel takes for the primary.
fn primary(sentinel: &Host, name: &str) -> Result<Host, Failure> {
    let mut commands = pipe();
    let ask = commands.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME");
    ask.arg(name);
    let answer = Line::tcp(sentinel)
        .and_then(|mut line| line.ask(&commands))
        .and_then(only)
        .and_then(read::<Option<(String, u16)>>);
    let none = |words: &str| Failure::new(Trouble::NoPrimary, format!("{sentinel}: {words}"));
    match answer {
        Ok(Some((name, port))) => Ok(Host { name, port }),
        Ok(None) => Err(none("knows no such name")),
        Err(failure) => Err(none(&failure.words)),
    }
}

/// One section a command: older ones know no more.
fn ask_info(commands: &mut Pipeline) {
    for section in ["server", "memory", "stats", "replication"] {
        commands.cmd("INFO").arg(section);
    }
}

fn text_of(info: Vec<Value>) -> Result<String, Failure> {
    let parts = info.into_iter().map(|part| read::<String>(good(part)?));
    parts.collect()
}

fn only(answers: Vec<Value>) -> Result<Value, Failure> {
    good(answers.into_iter().next().unwrap_or(Value::Nil))
}

/// What came of a beat; `others`: they were asked for, too.
pub fn heard(answers: &mut Answers, others: bool) -> Result<Heard, Failure> {
    let said: Vec<Value> = answers.read()?;
    let beats = match others {
        true => Some(beats_of(answers.take()?)?),
        false => None,
    };
    let mut said = said.into_iter();
    let mut next = || said.next().unwrap_or(Value::Nil);
    let word: String = read(next())?;
    let (seconds, micros): (u64, u64) = (read(next())?, read(next())?);
    let seat = match word.as_str() {
        "joined" => Seat::Member {
            node: numbered(read(next())?)?,
            epoch: read(next())?,
            card: read(next())?,
        },
        "taken" => {
            let card: Vec<u8> = read(next())?;
            let card = serde_json::from_slice::<Card>(&card).unwrap_or_default();
            Seat::Taken { host: card.host }
        }
        _ => Seat::Full,
    };
    Ok(Heard {
        time: Micros::from_secs(seconds) + Micros(micros),
        seat,
        beats,
    })
}

/// A number that a node may have.
fn numbered(text: String) -> Result<u8, Failure> {
    let number = text.parse().ok().filter(|number| *number != 0);
    number.ok_or_else(|| {
        let words = format!("a node's number is \"{text}\" there");
        Failure::new(Trouble::OtherKeys, words)
    })
}

/// Those that can be read; others may be of a later version, or nobody's.
fn beats_of(all: Value) -> Result<Vec<(u8, Beat)>, Failure> {
    let pairs: Vec<(String, Vec<u8>)> = read(all)?;
    let beat = |(node, text): (String, Vec<u8>)| {
        let beat = Beat::read(&text)?;
        Some((numbered(node).ok()?, beat))
    };
    Ok(pairs.into_iter().filter_map(beat).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_what_it_says_of_itself() {
        let redis = "# Server\r\nredis_version:7.0.15\r\n# Memory\r\nmaxmemory:0\r\n\
                     maxmemory_policy:allkeys-lru\r\n# Stats\r\nevicted_keys:0\r\n";
        let server = Server::read(redis).expect("new enough");
        assert_eq!(server.name, "Redis 7.0.15");
        assert!(!server.evicts(), "it may use all memory");
        let limited = redis.replace("maxmemory:0", "maxmemory:2000000");
        assert!(Server::read(&limited).expect("as before").evicts());
        let keeps = limited.replace("allkeys-lru", "noeviction");
        assert!(!Server::read(&keeps).expect("as before").evicts());

        let valkey = "server_name:valkey\r\nvalkey_version:8.1.0\r\nredis_version:7.2.4\r\n";
        let server = Server::read(valkey).expect("new enough");
        assert_eq!(server.name, "Valkey 8.1.0");
    }

    #[test]
    fn one_that_is_too_old_or_no_store_is_refused() {
        let trouble = |info| Server::read(info).map_err(|failure| (failure.trouble, failure.words));
        let old = trouble("redis_version:5.0.14\r\n");
        assert_eq!(old, Err((Trouble::TooOld, "it is Redis 5.0.14".into())));
        for (version, will_do) in [("6.1.9", false), ("6.2.0", true), ("10.0", true)] {
            let info = format!("redis_version:{version}\r\n");
            assert_eq!(Server::read(&info).is_ok(), will_do, "{version}");
        }
        assert_eq!(
            trouble("").map_err(|(trouble, _)| trouble),
            Err(Trouble::Garbage)
        );
    }

    #[test]
    fn keys_of_a_fleet_are_on_one_node_of_a_cluster() {
        let keys = Keys::of("shop");
        assert_eq!(keys.beats, "nap:{shop}:beats");
    }
}
