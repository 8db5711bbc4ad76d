//! [`Wall`]: the server's wall clock time, and how times and spans are written.
//!
//! Inside the module time is [`Micros`] of its own; wall time appears only in logs, dates and pages.
//! The clock and its offset from UTC are arguments, as everywhere.

use std::fmt;

use nap_core::micros::Micros;

const DAY_S: i64 = 86_400;

/// A point in wall time, with the server's local offset.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Wall {
    /// Since 1970 in UTC.
    pub unix: Micros,
    /// Local time minus UTC, in minutes.
    pub offset_min: i32,
    /// The next change of the offset (summer time begins or ends), if it is soon.
    pub change: Option<Change>,
}

/// A change between summer and standard time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Since 1970 in UTC.
    pub at: Micros,
    /// Local time minus UTC from then on, in minutes.
    pub offset_min: i32,
}

impl Wall {
    /// This much later.
    pub fn after(self, span: Micros) -> Wall {
        self.moved_to(self.unix + span)
    }

    fn moved_to(self, unix: Micros) -> Wall {
        match self.change {
            Some(Change { at, offset_min }) if unix >= at => Wall {
                unix,
                offset_min,
                change: None,
            },
            _ => Wall { unix, ..self },
        }
    }

    /// The wall time at the inside time `time`, if it is `self` at `now`.
    pub fn at(self, time: Micros, now: Micros) -> Wall {
        self.moved_to(self.unix + (time - now) - (now - time))
    }

    /// The next whole second.
    pub fn ceil(self) -> Wall {
        self.moved_to(Micros::from_secs(self.unix.secs_ceil()))
    }

    /// `12:03:15`.
    pub fn time(self) -> Written {
        Written::by(|to| to.time(self))
    }

    /// [`Wall::time`], with the date before it if that is not `today`'s.
    pub fn time_seen_from(self, today: Wall) -> Written {
        Written::by(|to| {
            if self.day() != today.day() {
                to.date(self);
                to.sign(b' ');
            }
            to.time(self);
        })
    }

    /// `+09:00`.
    pub fn offset(self) -> Written {
        Written::by(|to| to.offset(self))
    }

    /// `2026-01-31T12:03:15+09:00` (RFC 3339).
    pub fn stamp(self) -> Written {
        Written::by(|to| {
            to.date(self);
            to.sign(b'T');
            to.time(self);
            to.offset(self);
        })
    }

    /// [`Wall::time_seen_from`] as HTML has it: `<time datetime="…">12:03:15</time>`.
    pub fn element(self, today: Wall) -> Written<80> {
        Written::by(|to| {
            to.signs(b"<time datetime=\"");
            let date = to.len;
            to.date(self);
            to.sign(b'T');
            let time = to.len;
            to.time(self);
            let offset = to.len;
            to.offset(self);
            to.signs(b"\">");
            if self.day() != today.day() {
                to.again(date..time - 1);
                to.sign(b' ');
            }
            to.again(time..offset);
            to.signs(b"</time>");
        })
    }

    fn local_second(self) -> i64 {
        // Shared memory or a broken clock may say anything; year 9999 is the last with four digits.
        let utc = self.unix.secs_floor().min(253_402_214_400) as i64;
        utc + i64::from(self.offset_min.clamp(-1440, 1440)) * 60
    }

    fn day(self) -> i64 {
        self.local_second().div_euclid(DAY_S)
    }
}

/// A span that ends when something may be done: rounded up, `3:15` or `1:03:15`.
pub fn countdown(span: Micros) -> Written {
    let s = span.secs_ceil();
    let (h, m, s) = (s / 3600, s / 60 % 60, s % 60);
    Written::by(|to| {
        match h {
            0 => to.number(m),
            _ => {
                to.number(h);
                to.sign(b':');
                to.two(m);
            }
        }
        to.sign(b':');
        to.two(s);
    })
}

/// A number in 16 hexadecimal digits.
pub fn hex(n: u64) -> Written {
    let digits: [u8; 16] =
        std::array::from_fn(|at| b"0123456789abcdef"[(n >> (60 - 4 * at)) as usize & 15]);
    Written::by(|to| to.signs(&digits))
}

/// A number.
pub fn decimal(n: u64) -> Written {
    Written::by(|to| to.number(n))
}

/// A span in seconds with three decimals.
pub fn thousandths(ms: u64) -> Written {
    Written::by(|to| {
        to.number(ms / 1000);
        to.sign(b'.');
        to.sign(b'0' + (ms / 100 % 10) as u8);
        to.two(ms % 100);
    })
}

/// A time or number as text: digits, letters and `-+:. ` only, or an HTML element around it. Every
/// refusal writes a dozen of them; `format!` would take more instructions for their digits than for
/// the rest of the page. Aligned, because aligned text is checked sixteen bytes at a time.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub struct Written<const N: usize = 40> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Written<N> {
    #[inline]
    fn by(fill: impl FnOnce(&mut Written<N>)) -> Written<N> {
        let mut to = Written {
            bytes: [0; N],
            len: 0,
        };
        fill(&mut to);
        to
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let written = self.bytes.get(..self.len).unwrap_or(&[]);
        std::str::from_utf8(written).unwrap_or("")
    }

    fn date(&mut self, wall: Wall) {
        let (year, month, day) = civil(wall.day());
        self.two(year / 100);
        self.two(year % 100);
        self.sign(b'-');
        self.two(month);
        self.sign(b'-');
        self.two(day);
    }

    fn time(&mut self, wall: Wall) {
        let second = wall.local_second().rem_euclid(DAY_S) as u32;
        let (minute, s) = (second / 60, second % 60);
        self.two((minute / 60).into());
        self.sign(b':');
        self.two((minute % 60).into());
        self.sign(b':');
        self.two(s.into());
    }

    fn offset(&mut self, wall: Wall) {
        let minutes = u64::from(wall.offset_min.unsigned_abs());
        self.sign(if wall.offset_min < 0 { b'-' } else { b'+' });
        self.two(minutes / 60 % 100);
        self.sign(b':');
        self.two(minutes % 60);
    }

    #[inline]
    fn sign(&mut self, sign: u8) {
        if let Some(byte) = self.bytes.get_mut(self.len) {
            *byte = sign;
            self.len += 1;
        }
    }

    fn signs(&mut self, signs: &[u8]) {
        let end = self.len + signs.len();
        if let Some(to) = self.bytes.get_mut(self.len..end) {
            to.copy_from_slice(signs);
            self.len = end;
        }
    }

    /// Repeats a part of what is there already.
    fn again(&mut self, part: std::ops::Range<usize>) {
        let end = self.len + part.len();
        if end <= N && part.end <= N {
            self.bytes.copy_within(part, self.len);
            self.len = end;
        }
    }

    /// `n`, at most 99, in two digits.
    #[inline]
    fn two(&mut self, n: u64) {
        let n = n as u8;
        self.sign(b'0' + n / 10 % 10);
        self.sign(b'0' + n % 10);
    }

    /// `n` in as many digits as it takes.
    fn number(&mut self, n: u64) {
        if n >= 10 {
            self.number(n / 10);
        }
        self.sign(b'0' + (n % 10) as u8);
    }
}

impl<const N: usize> fmt::Display for Written<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Only the characters of the element itself mean anything in HTML.
impl<const N: usize> askama::filters::HtmlSafe for Written<N> {}

impl<const N: usize> askama::FastWritable for Written<N> {
    fn write_into(&self, to: &mut dyn fmt::Write, _: &dyn askama::Values) -> askama::Result<()> {
        Ok(to.write_str(self.as_str())?)
    }
}

/// Year, month and day of the day number `days` since 1970-01-01 (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", civil_from_days).
fn civil(days: i64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    (year.max(0) as u64, month as u64, day as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(unix_s: u64, offset_min: i32) -> Wall {
        let unix = Micros::from_secs(unix_s);
        Wall {
            unix,
            offset_min,
            change: None,
        }
    }

    #[test]
    fn a_time_behind_a_change_of_the_clocks_is_told_by_the_clock_of_then() {
        // Europe, the night of 29 March 2026: there is no 02:00:00 to 02:59:59.
        let at = 1_774_746_000;
        let spring = |unix_s| Wall {
            change: Some(Change {
                at: Micros::from_secs(at),
                offset_min: 120,
            }),
            ..wall(unix_s, 60)
        };
        let before = spring(at - 61);
        assert_eq!(before.stamp().to_string(), "2026-03-29T01:58:59+01:00");
        let cases = [
            (60, "2026-03-29T01:59:59+01:00"),
            (61, "2026-03-29T03:00:00+02:00"),
            (961, "2026-03-29T03:15:00+02:00"),
        ];
        for (later, expected) in cases {
            let span = Micros::from_secs(later);
            assert_eq!(before.after(span).stamp().to_string(), expected);
            let now = Micros::from_secs(1);
            assert_eq!(before.at(now + span, now), before.after(span));
        }
        let half = before.after(Micros::from_secs(60) + Micros(500_000));
        assert_eq!(half.ceil().stamp().to_string(), "2026-03-29T03:00:00+02:00");
        // In autumn one hour comes twice; the two are told apart.
        let at = 1_792_890_000;
        let autumn = Wall {
            change: Some(Change {
                at: Micros::from_secs(at),
                offset_min: 60,
            }),
            ..wall(at - 1800, 120)
        };
        assert_eq!(autumn.stamp().to_string(), "2026-10-25T02:30:00+02:00");
        let later = autumn.after(Micros::from_secs(3600));
        assert_eq!(later.stamp().to_string(), "2026-10-25T02:30:00+01:00");
    }

    #[test]
    fn dates_are_those_of_the_calendar_in_local_time() {
        let cases = [
            (0, 0, "1970-01-01T00:00:00+00:00"),
            (951_782_399, 0, "2000-02-28T23:59:59+00:00"),
            (951_782_400, 0, "2000-02-29T00:00:00+00:00"),
            (951_868_800, 0, "2000-03-01T00:00:00+00:00"),
            (1_767_225_599, 540, "2026-01-01T08:59:59+09:00"),
            (1_767_225_600, -570, "2025-12-31T14:30:00-09:30"),
            (0, -60, "1969-12-31T23:00:00-01:00"),
            (4_107_542_399, 0, "2100-02-28T23:59:59+00:00"),
            (4_107_542_400, 0, "2100-03-01T00:00:00+00:00"),
            (1_769_828_400, 1439, "2026-02-01T02:59:00+23:59"),
        ];
        for (unix, offset, expected) in cases {
            assert_eq!(wall(unix, offset).stamp().to_string(), expected);
        }
        let wild = Wall {
            unix: Micros::MAX,
            offset_min: i32::MIN,
            change: None,
        };
        assert!(wild.ceil().stamp().to_string().starts_with("9999-12-3"));
    }

    #[test]
    fn another_day_is_named_and_today_is_not() {
        let today = wall(1_767_225_540, 0);
        let later = |s| {
            today
                .after(Micros::from_secs(s))
                .time_seen_from(today)
                .to_string()
        };
        assert_eq!(later(59), "23:59:59");
        assert_eq!(later(60), "2026-01-01 00:00:00");
        let element = |s| {
            let later = today.after(Micros::from_secs(s));
            later.element(today).to_string()
        };
        assert_eq!(
            element(59),
            "<time datetime=\"2025-12-31T23:59:59+00:00\">23:59:59</time>"
        );
        assert_eq!(
            element(60),
            "<time datetime=\"2026-01-01T00:00:00+00:00\">2026-01-01 00:00:00</time>"
        );
    }

    #[test]
    fn inside_times_before_and_after_now_find_their_place_on_the_wall() {
        let (now, at_now) = (Micros::from_secs(500), wall(1000, 0));
        assert_eq!(at_now.at(Micros::from_secs(510), now), wall(1010, 0));
        assert_eq!(at_now.at(Micros::from_secs(490), now), wall(990, 0));
    }

    #[test]
    fn a_countdown_never_ends_too_early() {
        let cases = [
            (0, "0:00"),
            (1, "0:01"),
            (59_000_000, "0:59"),
            (194_000_001, "3:15"),
            (3_600_000_000, "1:00:00"),
            (90_061_000_000, "25:01:01"),
            (u64::MAX, "5124095576:01:50"),
        ];
        for (us, expected) in cases {
            assert_eq!(countdown(Micros(us)).to_string(), expected);
        }
    }
}
