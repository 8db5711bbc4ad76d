//! [`Log`]: what the agent says in httpd's error log, which is its standard error.

use std::collections::BTreeMap;
use std::io::Write as _;

use crate::line::shown;
use mod_nap::shm::clock;
use mod_nap::wall::{Change, Wall};
use nap_core::micros::Micros;

/// A line of one kind is said again after this span at the earliest.
const AGAIN: Micros = Micros::from_secs(60);

/// How grave it is, in httpd's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Somebody should look.
    Error,
    /// It is good to know.
    Notice,
}

/// Says what must be said, and not too often.
#[derive(Debug, Default)]
pub struct Log {
    /// When a line of this kind was said last, inside time.
    said: BTreeMap<String, Micros>,
}

impl Log {
    /// Says it, if nothing of this kind has been said in the last minute. True: it was said.
    pub fn say(&mut self, now: Micros, kind: &str, level: Level, words: &str) -> bool {
        let lets = self.lets(now, kind);
        if lets {
            say(level, words);
        }
        lets
    }

    fn lets(&mut self, now: Micros, kind: &str) -> bool {
        self.said.retain(|_, at| now - *at < AGAIN);
        let free = !self.said.contains_key(kind);
        if free {
            self.said.insert(kind.to_owned(), now);
        }
        free
    }
}

/// A line as httpd writes it, whatever was said before.
pub fn say(level: Level, words: &str) {
    // Some words are the store's or other nodes': they begin no lines of their own.
    let line = line(wall(), std::process::id(), level, &shown(words, 500));
    // Nobody is left to be told that the log is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The wall clock.
pub fn wall() -> Wall {
    let (offset_min, change) = clock::utc_offset();
    Wall {
        unix: Micros(clock::wall()),
        offset_min,
        change: change.map(|(at, offset_min)| Change {
            at: Micros(at),
            offset_min,
        }),
    }
}

fn line(wall: Wall, pid: u32, level: Level, words: &str) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let local = wall.unix.secs_floor().cast_signed() + i64::from(wall.offset_min) * 60;
    let day = DAYS[local.div_euclid(86_400).rem_euclid(7) as usize];
    let stamp = wall.stamp().to_string();
    let part = |range| stamp.get(range).unwrap_or("");
    let month = part(5..7)
        .parse()
        .ok()
        .and_then(|n: usize| MONTHS.get(n.wrapping_sub(1)));
    let month = month.unwrap_or(&"");
    let (date, time, year) = (part(8..10), part(11..19), part(0..4));
    let micros = wall.unix.0 % 1_000_000;
    let level = match level {
        Level::Error => "error",
        Level::Notice => "notice",
    };
    format!(
        "[{day} {month} {date} {time}.{micros:06} {year}] [nap:{level}] [pid {pid}] mod_nap: {words}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_httpd_writes_it() {
        let wall = Wall {
            unix: Micros(1_795_845_600_000_042),
            offset_min: 60,
            change: None,
        };
        let said = line(wall, 123, Level::Notice, "it is back");
        let expected =
            "[Sat Nov 28 07:00:00.000042 2026] [nap:notice] [pid 123] mod_nap: it is back\n";
        assert_eq!(said, expected);
    }

    #[test]
    fn each_kind_is_said_once_a_minute() {
        let mut log = Log::default();
        let at = Micros::from_secs;
        let said: Vec<bool> = [
            (1, "a"),
            (2, "b"),
            (60, "a"),
            (61, "a"),
            (61, "b"),
            (62, "b"),
        ]
        .map(|(s, kind)| log.lets(at(s), kind))
        .to_vec();
        assert_eq!(said, [true, true, false, true, false, true]);
    }
}
