//! [`OxthasConf`]: what `Oxthas...` directives set. The shim reads `OxthasActivity`, as that needs
//! httpd's regular expressions.

use super::directive::directives;
use super::settings::settings;
use super::values::{
    HOUR, MILLISECOND, MINUTE, SECOND, Time, UNSET, Words, or_default, shown, wrong,
};

directives! {
    /// Directives of OXTHAS.
    OxthasDirective:
    Bands "OxthasBands",
    History "OxthasHistory",
    Penalty "OxthasPenalty",
    Timeout "OxthasTimeout",
    Retry "OxthasRetry",
}

use OxthasDirective::*;

const BACKOFF: i64 = SECOND / 4;

settings! {
/// Settings of a balancer; [`UNSET`] until a directive sets them. A directive sets all of its own, so none is mixed with
/// those of another level.
OxthasConf {
    /// N of OXTHAS-N.
    bands: i64 = UNSET => 3;
    /// How sizes are cut: 0 integer, 1 equal, 2 capacity.
    split: i64 = UNSET => 0;
    /// How many observations count.
    history: i64 = UNSET => 50;
    /// Millionths.
    alpha: i64 = UNSET => 1_000_000;
    /// T of an executor without failures; `UNSET`: the worker's own.
    timeout_us: i64 = UNSET;
    /// beta; `UNSET`: a tenth of T.
    step_us: i64 = UNSET;
    /// T's floor; `UNSET`: a tenth of T.
    min_us: i64 = UNSET;
    /// How often a request may be retried elsewhere.
    retry: i64 = UNSET => 2;
    /// The pause before the first probe of an executor that has failed.
    backoff_us: i64 = UNSET => BACKOFF;
}
}

impl OxthasDirective {
    fn read(self, arg: &str, words: &Words) -> Result<i64, String> {
        let wrong = |what| wrong(self.name(), arg, what);
        words.read(arg).map_err(wrong)
    }

    /// The value of `name=value`, if `arg` has that name.
    fn option(self, arg: &str, name: &str, words: &Words) -> Option<Result<i64, String>> {
        let value = arg.strip_prefix(name)?.strip_prefix('=')?;
        let wrong = |what| wrong(self.name(), arg, what);
        Some(words.read(value).map_err(wrong))
    }
}

impl OxthasConf {
    /// Reads one directive; the error is the sentence to show.
    pub fn directive(&mut self, which: OxthasDirective, args: &[&str]) -> Result<(), String> {
        let one = |words: Words| match args {
            [arg] => which.read(arg, &words),
            _ => Err(format!("{}: wants {}", which.name(), words.hint())),
        };
        match which {
            Bands => self.bands(args),
            History => one(Words::count(1..=100)).map(|n| self.history = n),
            Penalty => one(Words::share(0, 100)).map(|alpha| self.alpha = alpha),
            Timeout => self.timeout(args),
            Retry => self.retry(args),
        }
    }

    fn bands(&mut self, args: &[&str]) -> Result<(), String> {
        let splits = Words::choice(&["integer", "equal", "capacity"]);
        let (n, split) = match args {
            [n] => (n, 0),
            [n, split] => (n, Bands.read(split, &splits)?),
            _ => {
                return Err(
                    "OxthasBands: wants a number from 1 to 64, then perhaps integer, equal or \
                     capacity"
                        .into(),
                );
            }
        };
        (self.bands, self.split) = (Bands.read(n, &Words::count(1..=64))?, split);
        Ok(())
    }

    fn timeout(&mut self, args: &[&str]) -> Result<(), String> {
        let wants = "OxthasTimeout: wants a time, then perhaps step= and min= with times";
        let (init, options) = args.split_first().ok_or(wants)?;
        let init = Timeout.read(init, &Words::time(10 * MILLISECOND..=HOUR))?;
        let (mut step, mut min) = (UNSET, UNSET);
        for arg in options {
            let of = |name, from| Timeout.option(arg, name, &Words::time(from..=HOUR));
            match (of("step", 0), of("min", MILLISECOND)) {
                (Some(value), _) => step = value?,
                (_, Some(value)) => min = value?,
                _ => return Err(format!("{wants}, not {}", shown(arg))),
            }
        }
        if min > init {
            return Err(format!(
                "OxthasTimeout: min={} is longer than the time itself, {}",
                Time(min),
                Time(init)
            ));
        }
        or_default(&mut step, init / 10);
        or_default(&mut min, init / 10);
        (self.timeout_us, self.step_us, self.min_us) = (init, step, min);
        Ok(())
    }

    fn retry(&mut self, args: &[&str]) -> Result<(), String> {
        let wants = "OxthasRetry: wants a number from 0 to 10, then perhaps backoff= with a time";
        let (n, options) = args.split_first().ok_or(wants)?;
        let n = Retry.read(n, &Words::count(0..=10))?;
        let words = Words::time(10 * MILLISECOND..=MINUTE);
        let backoff = match options {
            [] => BACKOFF,
            [arg] => Retry
                .option(arg, "backoff", &words)
                .ok_or_else(|| format!("{wants}, not {}", shown(arg)))??,
            _ => return Err(wants.into()),
        };
        (self.retry, self.backoff_us) = (n, backoff);
        Ok(())
    }

    /// The same with defaults where nothing is set; `own_us`: the worker's own timeout.
    pub fn with_defaults(&self, own_us: i64) -> OxthasConf {
        let mut all = *self;
        all.put_defaults();
        or_default(&mut all.timeout_us, own_us.clamp(10 * MILLISECOND, HOUR));
        or_default(&mut all.step_us, all.timeout_us / 10);
        or_default(&mut all.min_us, all.timeout_us / 10);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(line: &str) -> Result<OxthasConf, String> {
        let mut conf = OxthasConf::UNSET;
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let name = words.next().expect("a name");
        let which = OxthasDirective::named(name).expect("a directive");
        conf.directive(which, &words.collect::<Vec<_>>())?;
        Ok(conf)
    }

    #[test]
    fn values_are_read() {
        let bands = set("OxthasBands 2 Equal").expect("good");
        assert_eq!((bands.bands, bands.split), (2, 1));
        assert_eq!(set("OxthasBands 5").map(|c| (c.bands, c.split)), Ok((5, 0)));
        assert_eq!(set("OxthasHistory 20").map(|c| c.history), Ok(20));
        assert_eq!(set("OxthasPenalty 0.5").map(|c| c.alpha), Ok(500_000));
        let timeout = set("OxthasTimeout 2s min=500ms step=100ms").expect("good");
        assert_eq!(
            [timeout.timeout_us, timeout.step_us, timeout.min_us],
            [2_000_000, 100_000, 500_000]
        );
        let retry = set("OxthasRetry 1 backoff=1s").expect("good");
        assert_eq!((retry.retry, retry.backoff_us), (1, 1_000_000));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_range() {
        for (line, said) in [
            (
                "OxthasBands 0",
                "OxthasBands: \"0\" is out of range; use a number from 1 to 64",
            ),
            (
                "OxthasBands 3 odd",
                "OxthasBands: \"odd\" is not known; use integer, equal, or capacity",
            ),
            ("OxthasBands", "OxthasBands: wants a number from 1 to 64"),
            ("OxthasHistory 101", "a number from 1 to 100"),
            ("OxthasPenalty -1", "OxthasPenalty: \"-1\" is not a number"),
            ("OxthasTimeout 0", "OxthasTimeout: \"0\" is out of range"),
            (
                "OxthasTimeout 1s min=0",
                "OxthasTimeout: \"min=0\" is out of range",
            ),
            (
                "OxthasTimeout 1s min=2s",
                "min=2s is longer than the time itself, 1s",
            ),
            (
                "OxthasTimeout 1s max=2s",
                "step= and min= with times, not \"max=2s\"",
            ),
            ("OxthasTimeout", "OxthasTimeout: wants a time"),
            ("OxthasRetry 11", "a number from 0 to 10"),
            (
                "OxthasRetry 1 pause=1s",
                "backoff= with a time, not \"pause=1s\"",
            ),
            ("OxthasRetry 1 backoff=0", "\"backoff=0\" is out of range"),
        ] {
            let error = set(line).expect_err(line);
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn settings_of_one_directive_go_together() {
        let below = set("OxthasTimeout 10s step=2s").expect("good");
        let own = set("OxthasTimeout 1s").expect("good");
        let both = own.or(&below).with_defaults(60 * SECOND);
        assert_eq!([both.timeout_us, both.step_us], [1_000_000, 100_000]);
        assert_eq!(OxthasConf::UNSET.or(&below), below);
        let plain = OxthasConf::UNSET.with_defaults(60 * SECOND);
        assert_eq!([plain.timeout_us, plain.min_us], [60_000_000, 6_000_000]);
    }
}
