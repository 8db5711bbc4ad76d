//! [`Orders`]: what administrators order for all nodes, told and heard.
//!
//! The segment remembers what was ordered here and what stands in the store (`nap_core::fleet::orders`), so another agent
//! goes on where this one ends. Orders of others are carried out as nap-control carries out its own.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use mod_nap::orders::hear;
use mod_nap::shm::segment::Segment;
use nap_core::control::Command;
use nap_core::fleet::link::Link;
use nap_core::fleet::orders::{Matter, Order, Telling};
use nap_core::micros::Micros;
use redis::Value;

use crate::commands::{Answers, Commands, Script};
use crate::line::{Failure, read};
use crate::log::{Level, say};

/// One node's part in them.
#[derive(Debug)]
pub struct Orders {
    script: Arc<Script>,
    keys: [String; 2],
    /// The node's name.
    name: String,
    /// The store has been asked,
    said: bool,
    /// and told these.
    telling: Vec<Telling>,
    /// All has been heard once: a room may be there by now that was not when its order came.
    heard: bool,
}

/// An order as it lies in the store.
#[derive(Debug, PartialEq, Eq)]
struct Lying {
    version: u64,
    /// When it was given, fleet time; of what is done once it is not known.
    at: Micros,
    by: String,
    order: Order,
}

impl Orders {
    /// Of the node of this name.
    pub fn new(fleet: &str, name: &str) -> Orders {
        let key = |what: &str| format!("nap:{{{fleet}}}:{what}");
        Orders {
            script: Script::new(include_str!("scripts/orders.lua")),
            keys: [key("orders"), key("ordered")],
            name: name.into(),
            said: false,
            telling: Vec::new(),
            heard: false,
        }
    }

    /// Tells what was ordered here, if there is anything, and with a beat asks for the orders of others.
    pub fn says(&mut self, link: &Link, beats: bool, to: &mut Commands) {
        let known = &link.orders;
        self.said = beats || known.waiting() != 0;
        if !self.said {
            return;
        }
        self.telling = known.untold(link.offset.load(Relaxed));
        let life = known.life.load(Relaxed);
        let life = (self.heard && life != 0).then(|| life.to_string());
        let [orders, ordered] = &self.keys;
        let call = to.call(&self.script, &[orders, ordered]);
        call.arg(life.unwrap_or_default())
            .arg(known.version.load(Relaxed))
            .arg(&self.name);
        for telling in &self.telling {
            let order = &telling.order;
            call.args([order.matter.word(), &order.room, &order.value])
                .arg(telling.at.0);
        }
    }

    /// Hears what the store says to that, and carries it out.
    pub fn hears(&mut self, segment: &Segment, answers: &mut Answers) -> Result<(), Failure> {
        if !std::mem::take(&mut self.said) {
            return Ok(());
        }
        let said: Vec<Value> = answers.read()?;
        let mut said = said.into_iter();
        let mut next = || said.next().unwrap_or(Value::Nil);
        let (life, version): (String, u64) = (read(next())?, read(next())?);
        let stands: Vec<(Vec<u8>, Vec<u8>)> = read::<Option<_>>(next())?.unwrap_or_default();
        let done: Vec<Vec<u8>> = read::<Option<_>>(next())?.unwrap_or_default();
        let told = std::mem::take(&mut self.telling);
        if !told.is_empty() && !segment.orders_told(&told) {
            return Ok(());
        }
        let Some(link) = segment.link() else {
            return Ok(());
        };
        let known = &link.orders;
        let before = (known.life.load(Relaxed), known.version.load(Relaxed));
        let life = life.parse().unwrap_or(0);
        let anew = before.0 != life;
        // Each node does so: of each matter the later order stands.
        if anew && before.0 != 0 && segment.locked_fleet(|_| known.tell_again()).is_none() {
            return Ok(());
        }
        let stands = stands
            .iter()
            .filter_map(|(field, words)| standing(field, words));
        let mut once: Vec<Lying> = done.iter().filter_map(|words| once(words)).collect();
        once.retain(|lying| anew || lying.version > before.1);
        let offset = link.offset.load(Relaxed);
        let mut all = true;
        for lying in stands.chain(once) {
            let done = hear(segment, &lying.order, lying.at, offset);
            all &= done.is_some();
            // What was done once before this node joined is no news.
            let told_late = self.heard || !anew;
            let is_news = lying.order.matter.stands() || told_late && lying.by != self.name;
            if done == Some(true) && is_news {
                let said = Command::heard(&lying.order).map(|command| command.sentence());
                let words = format!("{} (ordered at {})", said.unwrap_or_default(), lying.by);
                say(Level::Notice, &words);
            }
        }
        if all {
            known.life.store(life, Relaxed);
            known.version.store(version, Relaxed);
            self.heard = true;
        }
        Ok(())
    }
}

/// What cannot be read is of a later version, or nobody's.
fn standing(field: &[u8], words: &[u8]) -> Option<Lying> {
    let (matter, room) = str::from_utf8(field).ok()?.split_once(' ')?;
    let mut parts = str::from_utf8(words).ok()?.splitn(4, ' ');
    let (version, at) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (by, value) = (parts.next()?, parts.next()?);
    let matter = Matter::named(matter).filter(|matter| matter.stands())?;
    Some(Lying {
        version,
        at: Micros(at),
        by: by.into(),
        order: Order {
            matter,
            room: room.into(),
            value: value.into(),
        },
    })
}

fn once(words: &[u8]) -> Option<Lying> {
    let mut parts = str::from_utf8(words).ok()?.splitn(4, ' ');
    let (version, by) = (parts.next()?.parse().ok()?, parts.next()?);
    let matter = Matter::named(parts.next()?).filter(|matter| !matter.stands())?;
    Some(Lying {
        version,
        at: Micros::ZERO,
        by: by.into(),
        order: Order {
            matter,
            room: String::new(),
            value: parts.next()?.into(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_lies_there() {
        let pair = |field: &str, words: &str| standing(field.as_bytes(), words.as_bytes());
        let notice = pair("notice shop", "7 1795845600000042 web1 Back at 14:00").expect("one");
        assert_eq!((notice.version, notice.at.0), (7, 1_795_845_600_000_042));
        assert_eq!(
            (&*notice.by, &*notice.order.value),
            ("web1", "Back at 14:00")
        );
        let none = pair("notice shop", "8 1795845600000042 web1 ").expect("one");
        assert_eq!(none.order.value, "");
        let ended = once(b"9 web2 session 00000000000bead1").expect("one");
        assert_eq!((ended.order.matter, &*ended.by), (Matter::Session, "web2"));
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        let pairs = [
            ("life", "1795845600000042"),
            ("version", "12"),
            ("colour shop", "1 2 web1 red"),
            ("ticket shop", "1 2 web1 bead"),
            ("mode shop", "1 2 web1"),
            ("mode shop", "-1 2 web1 open"),
            ("mode shop", "1 x web1 open"),
        ];
        for (field, words) in pairs {
            let read = standing(field.as_bytes(), words.as_bytes());
            assert_eq!(read, None, "{field}: {words}");
        }
        for words in ["", "1 web1", "1 web1 mode open", "x web1 ticket bead"] {
            assert_eq!(once(words.as_bytes()), None, "{words}");
        }
        assert_eq!(once(b"9 \xff session 00000000000bead1"), None);
    }
}
