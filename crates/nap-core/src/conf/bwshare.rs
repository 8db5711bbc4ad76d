//! [`BwShareConf`]: what `BwShare...` directives set, and the historic `BW_...` names.

use std::ops::RangeInclusive;

use super::directive::directives;
use super::settings::settings;
use super::values::{HOUR, M, SECOND, UNSET, Words, decimal, shown, wrong};
use crate::bwshare::client::Prefixes;
use crate::bwshare::horizons::{HORIZONS, Horizons};
use crate::bwshare::limits::{Lane, Limits, Rule};
use crate::bwshare::till::limit::Limit;
use crate::nap::ticket::name_hash;

directives! {
    /// Directives of mod_bwshare.
    BwDirective:
    Files "BwShareFiles",
    Bytes "BwShareBytes",
    Rule "BwShareRule",
    Client "BwShareClient",
    Horizon "BwShareHorizon",
    Tx1Rate "BW_tx1cred_rate",
    Tx1Max "BW_tx1debt_max",
    Tx2Rate "BW_tx2cred_rate",
    Tx2Max "BW_tx2debt_max",
    Link "BwShareLink",
}

use BwDirective::*;

/// A maximum may take at most this many years to be paid off.
const YEARS: i64 = 36;
/// The same in seconds.
pub const YEARS_S: i64 = YEARS * 36_525 * 864;

/// A horizon as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HorizonConf {
    /// Its length, microseconds.
    pub period: i64,
    /// Bytes a second, millionths.
    pub rate: i64,
    /// The share of requests that should get that rate, millionths.
    pub share: i64,
}

settings! {
/// Limits as configured. Numbers are millionths unless said otherwise; [`UNSET`]
/// until a directive sets them. The defaults are the note's examples.
BwShareConf {
    /// How many files a client may owe.
    files_max: i64 = UNSET => 30 * ONE;
    /// Files a second.
    files_rate: i64 = UNSET => ONE / 20;
    /// How many bytes a client may owe.
    bytes_max: i64 = UNSET => 500_000 * ONE;
    /// Bytes a second.
    bytes_rate: i64 = UNSET => 1000 * ONE;
    /// 0: exact, 1: literal.
    literal: i64 = UNSET => 0;
    /// What a refused request is charged, files.
    refused: i64 = UNSET => 0;
    /// Bits of an IPv4 client.
    v4_bits: i64 = UNSET => 32;
    /// Bits of an IPv6 client.
    v6_bits: i64 = UNSET => 64;
    /// Shortest first, then none.
    horizons: [Option<HorizonConf>; HORIZONS] = [None; HORIZONS];
    /// Bytes a second that the site's line carries.
    link: i64 = UNSET;
}
}

const ONE: i64 = 1_000_000;

/// The range of a number, in millionths.
struct Range {
    range: RangeInclusive<i64>,
    words: &'static str,
    /// Are K, M and G understood?
    size: bool,
}

const FILES_MAX: Range = Range {
    range: ONE..=1_000_000 * ONE,
    words: "a number of files from 1 to 1000000",
    size: false,
};
const FILES_RATE: Range = Range {
    range: 100..=100_000 * ONE,
    words: "files a second from 0.0001 to 100000",
    size: false,
};
const BYTES_MAX: Range = Range {
    range: 1000 * ONE..=1_000_000_000_000 * ONE,
    words: "bytes, e.g. 500000 or 2M, from 1000 to 1000000000000",
    size: true,
};
const BYTES_RATE: Range = Range {
    range: ONE..=10_000_000_000 * ONE,
    words: "bytes a second, e.g. 1000 or 64K, from 1 to 10000000000",
    size: true,
};
const SHARE: Range = Range {
    range: 0..=ONE,
    words: "a number from 0 to 1",
    size: false,
};

impl Range {
    fn read(&self, which: BwDirective, arg: &str) -> Result<i64, String> {
        let bad = || wrong(which.name(), arg, format!("is not {}", self.words));
        let (digits, factor) = match arg.to_ascii_uppercase().as_bytes().last() {
            Some(b'K') if self.size => (arg.get(..arg.len() - 1), 1i128 << 10),
            Some(b'M') if self.size => (arg.get(..arg.len() - 1), 1 << 20),
            Some(b'G') if self.size => (arg.get(..arg.len() - 1), 1 << 30),
            _ => (Some(arg), 1),
        };
        let millionths = digits.and_then(decimal).ok_or_else(bad)?;
        let value = i64::try_from(millionths.saturating_mul(factor)).map_err(|_| bad())?;
        let allowed = self.range.contains(&value);
        allowed.then_some(value).ok_or_else(bad)
    }
}

impl BwShareConf {
    /// Reads one directive; the error is the sentence to show.
    pub fn directive(&mut self, which: BwDirective, args: &[&str]) -> Result<(), String> {
        let pair = |max: &Range, rate: &Range| match args {
            [a, b] => Ok((max.read(which, a)?, rate.read(which, b)?)),
            _ => Err(format!(
                "{}: wants a maximum and a rate: {}, and {}",
                which.name(),
                max.words,
                rate.words
            )),
        };
        let one = |range: &Range| match args {
            [arg] => range.read(which, arg),
            _ => Err(format!("{}: wants {}", which.name(), range.words)),
        };
        match which {
            Files => (self.files_max, self.files_rate) = pair(&FILES_MAX, &FILES_RATE)?,
            Bytes => (self.bytes_max, self.bytes_rate) = pair(&BYTES_MAX, &BYTES_RATE)?,
            Tx1Rate => self.files_rate = one(&FILES_RATE)?,
            Tx1Max => self.files_max = one(&FILES_MAX)?,
            Tx2Rate => self.bytes_rate = one(&BYTES_RATE)?,
            Tx2Max => self.bytes_max = one(&BYTES_MAX)?,
            Link => self.link = one(&BYTES_RATE)?,
            Rule => self.rule(args)?,
            Client => self.client(args)?,
            Horizon => self.horizon(args)?,
        }
        Ok(())
    }

    fn rule(&mut self, args: &[&str]) -> Result<(), String> {
        let wants =
            "BwShareRule: wants exact or literal, then perhaps refused= with a number from 0 to 1";
        let (word, options) = args.split_first().ok_or(wants)?;
        self.literal = match word.to_ascii_lowercase().as_str() {
            "exact" => 0,
            "literal" => 1,
            _ => return Err(wrong("BwShareRule", word, "is not exact or literal")),
        };
        self.refused = match options {
            [] => 0,
            [option] => match option.split_once('=') {
                Some(("refused", value)) => SHARE.read(Rule, value)?,
                _ => return Err(wants.into()),
            },
            _ => return Err(wants.into()),
        };
        Ok(())
    }

    fn client(&mut self, args: &[&str]) -> Result<(), String> {
        let wants = "BwShareClient: wants bits of an IPv4 address from 8 to 32, and of an IPv6 \
                     address from 16 to 128, e.g. 32 64";
        let [v4, v6] = args else {
            return Err(wants.into());
        };
        let bits = |arg: &str, range: RangeInclusive<i64>| {
            let value = arg.parse().ok().filter(|bits| range.contains(bits));
            value.ok_or_else(|| format!("{wants}, not {}", shown(arg)))
        };
        (self.v4_bits, self.v6_bits) = (bits(v4, 8..=32)?, bits(v6, 16..=128)?);
        Ok(())
    }

    /// Kept sorted, shortest first.
    fn horizon(&mut self, args: &[&str]) -> Result<(), String> {
        let [rate, period, share] = args else {
            return Err(
                "BwShareHorizon: wants bytes a second, a time, and a share, \
                        e.g. 125000 10s 0.95"
                    .into(),
            );
        };
        let rate = BYTES_RATE.read(Horizon, rate)?;
        let period = Words::time(SECOND..=7 * 24 * HOUR)
            .read(period)
            .map_err(|what| wrong("BwShareHorizon", period, what))?;
        let share = SHARE.read(Horizon, share)?;
        let added = HorizonConf {
            period,
            rate,
            share,
        };
        let known = self.horizons.into_iter().flatten();
        let mut all: Vec<HorizonConf> = known.chain([added]).collect();
        if all.len() > HORIZONS {
            return Err(format!("BwShareHorizon: there may be at most {HORIZONS}"));
        }
        all.sort_unstable();
        let good =
            |one: &HorizonConf, two: &HorizonConf| one.period < two.period && one.rate > two.rate;
        if !all.is_sorted_by(good) {
            return Err(
                "BwShareHorizon: a longer time must have a lower rate than a shorter one".into(),
            );
        }
        self.horizons = std::array::from_fn(|i| all.get(i).copied());
        Ok(())
    }

    /// Checks the finished settings: a maximum that outlasts any debt would never be reached.
    pub fn check(&self) -> Result<(), String> {
        let own = self.with_defaults();
        for (which, max, rate) in [
            (Files, own.files_max, own.files_rate),
            (Bytes, own.bytes_max, own.bytes_rate),
        ] {
            if max / rate.max(1) >= YEARS_S {
                return Err(format!(
                    "{}: a debt of {} takes more than {YEARS} years to be paid off at {} a second; \
                     use a lower maximum or a higher rate",
                    which.name(),
                    number(max),
                    number(rate)
                ));
            }
        }
        Ok(())
    }

    /// The same with the note's examples where nothing is set.
    pub fn with_defaults(&self) -> BwShareConf {
        let mut own = *self;
        own.put_defaults();
        own
    }

    /// The limits in force by the finished settings, of the virtual host of this name; empty: of the server.
    pub fn limit(&self, host: &str) -> Limit {
        let own = self.with_defaults();
        Limit {
            prefixes: Prefixes {
                v4: own.v4_bits.clamp(8, 32) as u8,
                v6: own.v6_bits.clamp(16, 128) as u8,
            },
            scope: match host {
                "" => 0,
                host => name_hash(host).max(1),
            },
            host: host.to_owned(),
            shares: own
                .horizons
                .map(|one| one.map_or(0.0, |one| number(one.share))),
            link: (own.link > 0).then(|| number(own.link)),
            ..Limit::new(own.limits())
        }
    }

    fn limits(&self) -> Limits {
        let horizons: Vec<_> = (self.horizons.iter().flatten())
            .map(|one| (number(one.rate), number(one.period)))
            .collect();
        Limits {
            files: Lane::new(number(self.files_max), number(self.files_rate), true),
            bytes: Lane::new(number(self.bytes_max), number(self.bytes_rate), false),
            rule: match self.literal {
                1 => Rule::Literal,
                _ => Rule::Exact,
            },
            refused: number(self.refused),
            horizons: Horizons::new(&horizons, 0.5),
        }
    }
}

fn number(millionths: i64) -> f64 {
    millionths as f64 / ONE as f64
}

/// How many clients in debt there may be, unless `NapTables clients=` says otherwise.
pub const CLIENTS: i64 = M / 8;
/// How many rows the trace has, unless `NapTables trace=` says otherwise.
pub const TRACE: i64 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(line: &str) -> Result<BwShareConf, String> {
        let mut conf = BwShareConf::UNSET;
        for line in line.split("; ") {
            let mut words = line.split(' ');
            let name = words.next().expect("a name");
            let which = BwDirective::named(name).expect("a directive");
            conf.directive(which, &words.collect::<Vec<_>>())?;
        }
        Ok(conf)
    }

    #[test]
    fn values_are_read_with_the_historic_names_too() {
        let new = set("BwShareFiles 30 0.05; BwShareBytes 500000 1000");
        let old =
            "BW_tx1debt_max 30; BW_tx1cred_rate 0.05; BW_tx2debt_max 500000; BW_tx2cred_rate 1000";
        assert_eq!(new, set(old));
        let new = new.expect("good");
        assert_eq!((new.files_max, new.files_rate), (30_000_000, 50_000));
        let sizes = set("BwShareBytes 2M 64K").expect("good");
        assert_eq!(
            (sizes.bytes_max, sizes.bytes_rate),
            ((2 << 20) * ONE, (64 << 10) * ONE)
        );
        let rule = set("BwShareRule literal refused=0.25").expect("good");
        assert_eq!((rule.literal, rule.refused), (1, 250_000));
        let client = set("BwShareClient 24 56").expect("good");
        assert_eq!((client.v4_bits, client.v6_bits), (24, 56));
    }

    #[test]
    fn horizons_are_sorted_and_must_make_sense() {
        let three = "BwShareHorizon 6250 8h 0.95; BwShareHorizon 125000 1s 0.95; \
                     BwShareHorizon 12500 1h 0.9";
        let conf = set(three).expect("good");
        let all = conf
            .horizons
            .map(|one| one.map(|one| (one.period / SECOND, one.share)));
        let sorted = [(1, 950_000), (3600, 900_000), (28_800, 950_000)];
        assert_eq!(all, sorted.map(Some));
        for bad in [
            "BwShareHorizon 1 1s 0.5; BwShareHorizon 2 1h 0.5",
            "BwShareHorizon 2 1s 0.5; BwShareHorizon 1 1s 0.5",
            "BwShareHorizon 2 1s 1.5",
            "BwShareHorizon 2 0s 0.5",
            "BwShareHorizon 2 1s",
            &format!("{three}; BwShareHorizon 1 9h 0.5"),
        ] {
            assert!(
                set(bad).expect_err(bad).starts_with("BwShareHorizon: "),
                "{bad}"
            );
        }
    }

    #[test]
    fn nonsense_is_told_with_directive_value_and_range() {
        for value in ["0", "-1", "NaN", "1e30", "inf", "", "0x1", "1.0000001"] {
            for line in [
                "BwShareFiles 30 {}",
                "BwShareFiles {} 1",
                "BwShareBytes {} 1",
                "BwShareBytes 500000 {}",
                "BW_tx1cred_rate {}",
                "BW_tx1debt_max {}",
                "BW_tx2cred_rate {}",
                "BW_tx2debt_max {}",
                "BwShareLink {}",
            ] {
                // 1.0000001 has too many digits, but a byte is no worse for none at all
                let line = line.replace("{}", value);
                let said = set(&line).expect_err(&line);
                let name = line.split(' ').next().expect("a name");
                assert!(said.starts_with(name) && said.contains("from"), "{said}");
                assert!(said.contains(&format!("\"{value}\"")), "{said}");
            }
        }
        for bad in [
            "BwShareRule",
            "BwShareRule vague",
            "BwShareRule exact 1",
            "BwShareRule exact refused=2",
            "BwShareClient 33 64",
            "BwShareClient 32",
            "BwShareFiles 3",
            "BwShareClient x 64",
        ] {
            let name = bad.split(' ').next().expect("a name");
            assert!(set(bad).expect_err(bad).starts_with(name), "{bad}");
        }
    }

    #[test]
    fn a_maximum_that_is_never_paid_off_is_told_with_both_numbers() {
        for (line, good) in [
            ("BwShareBytes 1G 1", true),
            ("BwShareBytes 2G 1", false),
            ("BwShareBytes 10M 1", true),
            ("BW_tx2debt_max 1000000000000", true),
            ("BW_tx2debt_max 1000000000000; BW_tx2cred_rate 800", false),
            ("BwShareFiles 100000 0.0001", true),
            ("BwShareFiles 1000000 0.0001", false),
        ] {
            let checked = set(line).expect(line).check();
            assert_eq!(checked.is_ok(), good, "{line}: {checked:?}");
        }
        let said = set("BwShareFiles 1000000 0.0001").expect("read").check();
        assert_eq!(
            said.expect_err("too long"),
            "BwShareFiles: a debt of 1000000 takes more than 36 years to be paid off at 0.0001 a \
             second; use a lower maximum or a higher rate"
        );
    }

    #[test]
    fn what_a_virtual_host_does_not_say_is_the_servers() {
        let server = set("BwShareFiles 10 1; BwShareHorizon 9 1s 0.5").expect("good");
        let host = set("BwShareBytes 5000 7")
            .expect("good")
            .or(&server)
            .with_defaults();
        assert_eq!((host.files_max, host.bytes_rate), (10 * ONE, 7 * ONE));
        assert_eq!(
            (host.horizons.iter().flatten().count(), host.v6_bits),
            (1, 64)
        );
    }
}
