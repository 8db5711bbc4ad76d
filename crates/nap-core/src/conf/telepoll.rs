//! [`EventConf`]: what `TelePoll event ...` sets.

use super::settings::settings;
use super::text::Text;
use super::values::{HOUR, SECOND, Time, Words, decimal, named, wrong};

settings! {
/// An event as configured.
EventConf {
    /// 1..63 of `A-Za-z0-9_.-`.
    name: Text<64> = Text::EMPTY;
    /// Ta; 1 s .. 1 h.
    base_us: i64 = 10 * SECOND;
    /// N0, accesses a second, millionths; 0.01 .. a million. What the site can do is not known.
    rate: i64 = 500 * ONE;
    /// 0 level, 1 relevel, 2 concentrate.
    mode: i64 = 0;
    /// 0 smooth, 1 paper.
    form: i64 = 0;
    /// Concentrate: into the first 1/k; 1..100.
    k: i64 = 0;
    /// Phase: event m ...
    m: i64 = 0;
    /// ... of M; 1..64.
    of: i64 = 0;
}
}

const ONE: i64 = 1_000_000;
/// T0 = 1.1/N0 (`PollTerms::new`), in hundredths.
const MARGIN: i64 = 110;
pub(super) const MODES: &[&str] = &["level", "relevel", "concentrate"];
pub(super) const FORMS: &[&str] = &["smooth", "paper"];
const CONCENTRATE: i64 = 2;

impl EventConf {
    /// Reads `TelePoll name option=value...`; the error is the sentence to show.
    pub fn read(args: &[&str]) -> Result<EventConf, String> {
        let (name, options) = args.split_first().ok_or(
            "TelePoll: wants an event's name, then perhaps base= rate= mode= k= phase= form=",
        )?;
        EventConf {
            name: named("TelePoll", "an event", name)?,
            ..EventConf::options("TelePoll", options)?
        }
        .checked("TelePoll")
    }

    /// Reads only the options, of a directive of this name; what must fit together is not checked
    /// yet.
    pub fn options(directive: &str, options: &[&str]) -> Result<EventConf, String> {
        let mut conf = EventConf::UNSET;
        for option in options {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let said = |what: String| wrong(directive, option, what);
            let read = |words: Words| words.read(value).map_err(said);
            match key.to_ascii_lowercase().as_str() {
                "base" => conf.base_us = read(Words::time(SECOND..=HOUR))?,
                "rate" => conf.rate = rate(value).map_err(said)?,
                "mode" => conf.mode = read(Words::choice(MODES))?,
                "form" => conf.form = read(Words::choice(FORMS))?,
                "k" => conf.k = read(Words::count(1..=100))?,
                "phase" => (conf.m, conf.of) = phase(value).map_err(said)?,
                _ => {
                    return Err(said(
                        "is not an option; there are base= rate= mode= k= phase= form=".into(),
                    ));
                }
            }
        }
        Ok(conf)
    }

    /// Puts the defaults in, and checks what must fit together.
    pub fn checked(mut self, directive: &str) -> Result<EventConf, String> {
        let unit_us = (ONE * ONE / self.rate).saturating_mul(MARGIN) / 100;
        if unit_us > self.base_us {
            return Err(format!(
                "{directive}: at this rate one access takes {} s, more than base={}; use a higher \
                 rate= or a longer base=",
                unit_us / ONE,
                Time(self.base_us)
            ));
        }
        if self.mode != CONCENTRATE {
            for (set, option) in [(self.k, "k="), (self.of, "phase=")] {
                if set != 0 {
                    return Err(format!("{directive}: {option} needs mode=concentrate"));
                }
            }
        }
        self.of = self.of.max(1);
        if self.k == 0 {
            self.k = self.of.max(2);
        }
        if self.k < self.of {
            return Err(format!(
                "{directive}: phase={}/{} leaves each event 1/{} of the period; use k={} or more",
                self.m, self.of, self.of, self.of
            ));
        }
        Ok(self)
    }
}

fn rate(value: &str) -> Result<i64, String> {
    let range = ONE / 100..=ONE * ONE;
    decimal(value)
        .and_then(|millionths| i64::try_from(millionths).ok())
        .filter(|millionths| range.contains(millionths))
        .ok_or_else(|| {
            "is not a rate; use a number of accesses a second from 0.01 to 1000000".into()
        })
}

/// `m/M`, event m of M.
fn phase(value: &str) -> Result<(i64, i64), String> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<i64>().ok().filter(|_| digits)
    };
    let (m, of) = value.split_once('/').unwrap_or((value, ""));
    match (number(m), number(of)) {
        (Some(m), Some(of)) if (1..=64).contains(&of) && m < of => Ok((m, of)),
        _ => Err(
            "is not a phase; use m/M for event m of M, e.g. 0/3, with m from 0 to M-1 and M from 1 \
             to 64"
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<EventConf, String> {
        EventConf::read(&line.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn an_event_is_read_with_its_options() {
        let conf = read("lottery base=1min rate=2.5 mode=concentrate k=4 phase=1/3 form=paper");
        let conf = conf.expect("it is good");
        assert_eq!(conf.name.as_str(), "lottery");
        assert_eq!((conf.base_us, conf.rate), (60_000_000, 2_500_000));
        assert_eq!((conf.mode, conf.form, conf.k), (2, 1, 4));
        assert_eq!((conf.m, conf.of), (1, 3));
        let plain = read("score").expect("all has defaults");
        assert_eq!((plain.base_us, plain.rate), (10_000_000, 500_000_000));
        assert_eq!((plain.mode, plain.k, plain.of), (0, 2, 1));
        let third = read("vote mode=concentrate phase=2/3").expect("k follows from M");
        assert_eq!(third.k, 3);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_range() {
        let table = [
            ("", "is not a name for an event"),
            ("a/b", "is not a name for an event"),
            (
                "e base=0",
                "\"base=0\" is out of range; use e.g. 500ms, 4s or 5min, from 1s to 1h",
            ),
            ("e base=soon", "\"base=soon\" is not a time"),
            ("e base=2h", "out of range"),
            ("e rate=0", "from 0.01 to 1000000"),
            ("e rate=1e9", "from 0.01 to 1000000"),
            ("e rate=99999999999999999999999", "from 0.01 to 1000000"),
            ("e rate=-5", "from 0.01 to 1000000"),
            ("e rate=0.05", "one access takes 22 s, more than base=10s"),
            (
                "e mode=steep",
                "\"mode=steep\" is not known; use level, relevel, or concentrate",
            ),
            ("e form=round", "use smooth, or paper"),
            ("e mode=concentrate k=0", "a number from 1 to 100"),
            ("e k=3", "k= needs mode=concentrate"),
            ("e mode=relevel phase=0/2", "phase= needs mode=concentrate"),
            ("e mode=concentrate phase=3/3", "is not a phase; use m/M"),
            ("e mode=concentrate phase=0.5", "is not a phase"),
            ("e mode=concentrate phase=-1/3", "is not a phase"),
            ("e mode=concentrate phase=0/65", "is not a phase"),
            (
                "e mode=concentrate phase=0/3 k=2",
                "leaves each event 1/3 of the period; use k=3",
            ),
            ("e speed=3", "\"speed=3\" is not an option; there are base="),
            ("e 10s", "is not an option"),
        ];
        for (line, sentence) in table {
            let told = read(line).expect_err(line);
            assert!(
                told.starts_with("TelePoll: ") && told.contains(sentence),
                "{line}: {told}"
            );
        }
        assert!(EventConf::read(&[]).is_err());
    }
}
