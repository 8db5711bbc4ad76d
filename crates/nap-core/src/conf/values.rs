//! What a directive's value may be: [`Words`] reads it, or says which values are allowed.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::directive::Directive;
use super::text::Text;

/// A setting that nobody has made.
pub const UNSET: i64 = -1;
/// "By our law": the value follows from measurement or from other settings.
pub const AUTO: i64 = -2;
/// "As the paper says".
pub const PAPER: i64 = -3;
/// Switched off.
pub const OFF: i64 = -4;
/// The highest priority of an access (`room::places`).
pub const PRIORITIES: i64 = 7;
/// "By our law, in units of work".
pub const WORK: i64 = -5;

pub(super) const MILLISECOND: i64 = 1_000;
pub(super) const SECOND: i64 = 1_000_000;
pub(super) const MINUTE: i64 = 60 * SECOND;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const K: i64 = 1 << 10;
pub(super) const M: i64 = 1 << 20;
pub(super) const G: i64 = 1 << 30;

pub(super) struct Words {
    kind: Kind,
    range: RangeInclusive<i64>,
    words: Vec<(&'static str, i64)>,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Count,
    Reserve,
    Size,
    Time,
    Share,
    Choice,
}

impl Words {
    pub(super) fn of(kind: Kind, range: RangeInclusive<i64>) -> Words {
        Words {
            kind,
            range,
            words: Vec::new(),
        }
    }
    pub(super) fn count(range: RangeInclusive<i64>) -> Words {
        Words::of(Kind::Count, range)
    }
    pub(super) fn reserve(range: RangeInclusive<i64>) -> Words {
        Words::of(Kind::Reserve, range)
    }
    pub(super) fn size(range: RangeInclusive<i64>) -> Words {
        Words::of(Kind::Size, range)
    }
    pub(super) fn time(range: RangeInclusive<i64>) -> Words {
        Words::of(Kind::Time, range)
    }
    pub(super) fn share(from: i64, to: i64) -> Words {
        Words::of(Kind::Share, from * 1_000_000..=to * 1_000_000)
    }
    /// One of these words; the value is its index.
    pub(super) fn choice(words: &[&'static str]) -> Words {
        Words {
            words: words.iter().copied().zip(0..).collect(),
            ..Words::of(Kind::Choice, 0..=0)
        }
    }
    pub(super) fn auto(self) -> Words {
        self.word("auto", AUTO)
    }
    pub(super) fn paper(self) -> Words {
        self.word("paper", PAPER)
    }
    pub(super) fn off(self) -> Words {
        self.word("off", OFF)
    }
    pub(super) fn word(mut self, word: &'static str, value: i64) -> Words {
        self.words.push((word, value));
        self
    }

    /// The value of `text`, or what is wrong with it: "is not a time; use ...".
    pub(super) fn read(&self, text: &str) -> Result<i64, String> {
        let mut words = self.words.iter();
        if let Some((_, value)) = words.find(|(word, _)| text.eq_ignore_ascii_case(word)) {
            return Ok(*value);
        }
        match self.kind.read(text) {
            Some(value) if self.range.contains(&value) => Ok(value),
            Some(_) => Err(format!("is out of range; use {}", self.hint())),
            None => Err(format!("is not {}; use {}", self.kind.noun(), self.hint())),
        }
    }

    pub(super) fn hint(&self) -> String {
        let (from, to) = (*self.range.start(), *self.range.end());
        let numbers = match self.kind {
            Kind::Choice => None,
            Kind::Count => Some(format!("a number from {from} to {to}")),
            Kind::Reserve => Some("a number of workers from 0 to 10000 or 0% to 90%".to_string()),
            Kind::Size => Some(format!(
                "e.g. 512K or 1M, from {} to {}",
                Size(from),
                Size(to)
            )),
            Kind::Time => Some(format!(
                "e.g. 500ms, 4s or 5min, from {} to {}",
                Time(from),
                Time(to)
            )),
            Kind::Share => Some(format!(
                "a number from {} to {}",
                from / 1_000_000,
                to / 1_000_000
            )),
        };
        let words = self.words.iter().map(|(w, _)| w.to_string());
        let all: Vec<String> = words.chain(numbers).collect();
        match all.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, first)) => format!("{}, or {last}", first.join(", ")),
            None => String::new(),
        }
    }
}

impl Kind {
    pub(super) fn noun(self) -> &'static str {
        match self {
            Kind::Count | Kind::Reserve | Kind::Share => "a number",
            Kind::Size => "a size",
            Kind::Time => "a time",
            Kind::Choice => "known",
        }
    }

    /// The value in this kind's unit (count, bytes, microseconds, millionths); `None`: it has none.
    /// A value too large for any range comes back as `i64::MAX`.
    pub(super) fn read(self, text: &str) -> Option<i64> {
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let millionths = decimal(number)?;
        let factor = match (self, unit.to_ascii_lowercase().as_str()) {
            (Kind::Count, "") | (Kind::Reserve, "" | "%") => 1,
            (Kind::Share, "") => 1_000_000,
            (Kind::Size, "") => 1,
            (Kind::Size, "k" | "kb") => K,
            (Kind::Size, "m" | "mb") => M,
            (Kind::Size, "g" | "gb") => G,
            (Kind::Time, "" | "s") => SECOND,
            (Kind::Time, "ms") => MILLISECOND,
            (Kind::Time, "min") => MINUTE,
            (Kind::Time, "h") => HOUR,
            _ => return None,
        };
        let product = millionths.saturating_mul(i128::from(factor));
        // "1.5" is no count, and "0.0000001s" is shorter than our times can be
        (product % 1_000_000 == 0).then(|| i64::try_from(product / 1_000_000).unwrap_or(i64::MAX))
    }
}

/// `12` or `0.5` in millionths; digits on both sides of a point, at most six behind it.
pub(super) fn decimal(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
        return None;
    }
    // Far past every range; what overflows is as far.
    let whole = (whole.parse().unwrap_or(i128::MAX)).min(10i128.pow(18));
    let fraction: i128 = format!("{fraction:0<6}").parse().ok()?;
    Some(whole * 1_000_000 + fraction)
}

pub(super) fn one(which: Directive, args: &[&str], words: Words) -> Result<i64, String> {
    let [arg] = args else {
        return Err(wants_one(which));
    };
    let wrong = |what| wrong(which.name(), arg, what);
    words.read(arg).map_err(wrong)
}

pub(super) fn option_value(which: Directive, option: &str, words: Words) -> Result<i64, String> {
    let value = option.split_once('=').map_or("", |(_, value)| value);
    let wrong = |what| wrong(which.name(), option, what);
    words.read(value).map_err(wrong)
}

pub(super) fn unknown_option(which: Directive, option: &str, known: &str) -> String {
    let what = format!("is not an option; there are {known}");
    wrong(which.name(), option, what)
}

pub(super) fn wrong(directive: &str, value: &str, what: impl Display) -> String {
    format!("{directive}: {} {what}", shown(value))
}

/// A name for a room, a page or an event.
pub(super) fn named(directive: &str, what: &str, name: &str) -> Result<Text<64>, String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let good = !name.is_empty() && name.chars().all(letter);
    Text::new(name).filter(|_| good).ok_or_else(|| {
        let what = format!("is not a name for {what}; use 1 to 63 of A-Z a-z 0-9 _ . -");
        wrong(directive, name, what)
    })
}

pub(super) fn wants_one(which: Directive) -> String {
    format!("{}: wants exactly one value", which.name())
}

pub(super) fn or_default(field: &mut i64, default: i64) {
    if *field == UNSET {
        *field = default;
    }
}

/// A value as the administrator wrote it, quoted, without control characters, cut at 60.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(60).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}

/// A time in its largest whole unit.
pub(super) struct Time(pub(super) i64);

impl Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (unit, name) in [
            (HOUR, "h"),
            (MINUTE, "min"),
            (SECOND, "s"),
            (MILLISECOND, "ms"),
        ] {
            if self.0 % unit == 0 {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}us", self.0)
    }
}

/// A size in its largest whole unit.
pub(super) struct Size(pub(super) i64);

impl Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (unit, name) in [(G, "G"), (M, "M"), (K, "K")] {
            if self.0 != 0 && self.0 % unit == 0 {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::samples::{room, set};
    use crate::conf::{RoomConf, ServerConf, refusal_status};
    use Directive::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_read_with_their_units() {
        type Case = (&'static str, fn(&RoomConf) -> i64, i64);
        let table: &[Case] = &[
            ("NapRunReady 10", |r| r.run_ready, 10),
            ("NapRunReady auto", |r| r.run_ready, AUTO),
            ("NapRunReady paper", |r| r.run_ready, PAPER),
            (
                "NapRunReady paper min=3 max=20 history=50",
                |r| r.run_ready_max,
                20,
            ),
            ("NapRunReady auto min=3", |r| r.run_ready_min, 3),
            ("NapRunReady paper history=50", |r| r.run_ready_history, 50),
            ("NapRunReady auto progress=own", |r| r.run_ready_own, 1),
            ("NapWaitMax 4", |r| r.wait_max_us, 4_000_000),
            ("NapWaitMax 500ms", |r| r.wait_max_us, 500_000),
            ("NapWaitMax 2.5s", |r| r.wait_max_us, 2_500_000),
            ("NapWaitMax 10MIN", |r| r.wait_max_us, 600_000_000),
            ("NapWaitLimit auto", |r| r.wait_limit, AUTO),
            ("NapWaitLimit paper", |r| r.wait_limit, PAPER),
            ("NapWaitLimit work", |r| r.wait_limit, WORK),
            ("NapPriority progress", |r| r.progress, 1),
            ("NapWaitLimit 0", |r| r.wait_limit, 0),
            ("NapReAccess 50", |r| r.re_access, 50),
            ("NapHistory 100", |r| r.history, 100),
            ("NapDownload 1M", |r| r.download, 1 << 20),
            ("NapDownload 64k", |r| r.download, 65536),
            ("NapDownload 1.5M", |r| r.download, 1_572_864),
            ("NapDownload Off", |r| r.download, OFF),
            ("NapBody 2M", |r| r.body, 2 << 20),
            ("NapBody off", |r| r.body, OFF),
            ("NapKeepForm 16k", |r| r.keep_form, 16384),
            ("NapKeepForm Off", |r| r.keep_form, OFF),
            ("NapSlotPeriod 300s", |r| r.slot_period_us, 300_000_000),
            ("NapSlotTickets paper", |r| r.slot_tickets, PAPER),
            (
                "NapTicketLifetime 24h",
                |r| r.ticket_lifetime_us,
                86_400_000_000,
            ),
            ("NapTicketPrime auto", |r| r.ticket_prime_us, AUTO),
            (
                "NapTicketHorizon 1h",
                |r| r.ticket_horizon_us,
                3_600_000_000,
            ),
            ("NapTicketShare 0.25", |r| r.ticket_share_ppm, 250_000),
            ("NapTicketShare 1", |r| r.ticket_share_ppm, 1_000_000),
            ("NapOverbook off", |r| r.overbook_ppm, OFF),
            ("NapOverbook 1.25", |r| r.overbook_ppm, 1_250_000),
            ("NapTicketsPerClient 3", |r| r.tickets_per_client, 3),
            ("NapTicketBind prefix", |r| r.ticket_bind, 1),
            ("NapAdmit early", |r| r.admit_early, 1),
            ("NapAdmit late", |r| r.admit_early, 0),
        ];
        for (line, field, want) in table {
            assert_eq!(set(line, *field), Ok(*want), "{line}");
        }
    }

    #[test]
    fn nonsense_is_told_with_directive_value_and_range() {
        let table = [
            (
                "NapWaitMax 4x",
                "NapWaitMax: \"4x\" is not a time; use e.g. 500ms, 4s or 5min, from 100ms to 10min",
            ),
            (
                "NapWaitMax 11min",
                "NapWaitMax: \"11min\" is out of range; use e.g. 500ms, 4s or 5min, from 100ms to 10min",
            ),
            (
                "NapRunReady 0",
                "NapRunReady: \"0\" is out of range; use auto, paper, or a number from 1 to 1024",
            ),
            (
                "NapRunReady auto history=9",
                "NapRunReady: \"history=9\" is not an option; there are min=, max= and progress=",
            ),
            (
                "NapWaitLimit heads",
                "NapWaitLimit: \"heads\" is not a number; use auto, paper, work, or a number from 0 to \
                 100000",
            ),
            (
                "NapPriority 8 true",
                "NapPriority: \"8\" is out of range; use a number from 1 to 7",
            ),
            (
                "NapPriority high",
                "NapPriority: wants a number from 1 to 7 and an expression, or progress alone",
            ),
            (
                "NapRunReady 4 min=2",
                "NapRunReady: options go with auto and paper only",
            ),
            (
                "NapRunReady auto min=5 max=4",
                "NapRunReady: min=5 is more than max=4",
            ),
            (
                "NapRunReady auto low=1",
                "NapRunReady: \"low=1\" is not an option; there are min=, max= and progress=",
            ),
            (
                "NapRunReady auto min=",
                "NapRunReady: \"min=\" is not a number; use a number from 1 to 1024",
            ),
            (
                "NapDownload 1T",
                "NapDownload: \"1T\" is not a size; use off, or e.g. 512K or 1M, from 1K to 1G",
            ),
            (
                "NapTicketShare 1.5",
                "NapTicketShare: \"1.5\" is out of range; use auto, or a number from 0 to 1",
            ),
            (
                "NapTicketBind full",
                "NapTicketBind: \"full\" is not known; use none, or prefix",
            ),
            ("NapHistory 1 2", "NapHistory: wants exactly one value"),
            (
                "NapTicketPath /x",
                "NapTicketPath does not belong inside <NapRoom>",
            ),
        ];
        for (line, want) in table {
            assert_eq!(set(line, |_| 0), Err(want.to_string()), "{line}");
        }
    }

    #[test]
    fn no_number_however_odd_is_taken_or_overflows() {
        let odd = [
            "",
            " ",
            "-1",
            "-4s",
            "+4",
            "NaN",
            "nan",
            "inf",
            "1e30",
            "1e3s",
            "0x10",
            "4 s",
            "4ss",
            "s",
            ".",
            ".5",
            "5.",
            "1.2.3",
            "1.0000001",
            "99999999999999999999999999999999999999999999",
            "9223372036854775808",
            "18446744073709551616h",
            "\u{664}s",
            "4\0",
            "4s\n",
            "-0",
        ];
        let numeric = Directive::ALL.iter().filter(|d| {
            !matches!(
                d,
                TicketCookie
                    | TicketBind
                    | TicketPath
                    | Tables
                    | Admit
                    | Static
                    | Park
                    | Reserve
                    | Store
                    | Node
                    | Session
                    | Poll
            )
        });
        for which in numeric {
            for value in odd {
                let mut room = room();
                let error = room.directive(*which, &[value]).expect_err(value);
                assert!(
                    error.starts_with(which.name()) && error.contains("from"),
                    "{error}"
                );
                assert!(!error.contains('\n') && !error.contains('\0'), "{error:?}");
            }
            assert!(room().directive(*which, &[]).is_err());
        }
        for value in odd {
            assert!(
                { ServerConf::UNSET }.directive(Reserve, &[value]).is_err(),
                "{value}"
            );
            assert!(refusal_status("NapTicketStatus", value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_long_value_is_cut_in_the_message() {
        let error = room()
            .directive(WaitMax, &["x".repeat(9000).as_str()])
            .expect_err("not a time");
        assert!(error.len() < 200, "{error}");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same(number in 0..=i64::MAX / 1000) {
            prop_assert_eq!(Kind::Size.read(&Size(number).to_string()), Some(number));
            let time = number / MILLISECOND * MILLISECOND;
            prop_assert_eq!(Kind::Time.read(&Time(time).to_string()), Some(time));
            prop_assert_eq!(Kind::Count.read(&number.to_string()), Some(number));
        }

        #[test]
        fn no_text_makes_a_value_outside_its_range(text in "\\PC{0,30}|[0-9.]{1,24}[a-zA-Z%]{0,3}") {
            for words in [
                Words::count(1..=10),
                Words::reserve(0..=10),
                Words::size(K..=G),
                Words::time(SECOND..=HOUR),
                Words::share(0, 1),
            ] {
                let range = words.range.clone();
                match words.auto().read(&text) {
                    Ok(value) => prop_assert!(value == AUTO || range.contains(&value)),
                    Err(complaint) => prop_assert!(complaint.contains("use ")),
                }
            }
            let quoted = shown(&text);
            prop_assert!(quoted.chars().count() < 700 && !quoted.chars().any(char::is_control));
        }
    }
}
