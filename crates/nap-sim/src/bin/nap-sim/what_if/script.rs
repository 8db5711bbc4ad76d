//! A script: who comes when, and what goes wrong when, one item a line:
//!
//! ```text
//! # a flash crowd on a normal day
//! rate 20/s for 10min
//! at 2min crowd 5000 within 2s posts 3
//! at 5min ramp 0/s to 200/s for 1min
//! log access.log unit us only /shop times 3
//! at 150s kill
//! at 3min restart
//! at 4min slower 2 for 30s
//! at 6min dead for 20s
//! at 7min sleep 30s
//! ```
//!
//! A line without `at` takes effect from the beginning. Times are as in directives.

use std::path::Path;

use nap_core::micros::Micros;
use nap_rng::Rng;
use nap_sim::setup::{Verb, Visit};

use super::{access_log, words};

/// Who comes, and what goes wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrowdScript {
    /// In the order of the file.
    pub visits: Vec<Visit>,
    /// In the order of time.
    pub verbs: Vec<(Micros, Verb)>,
    /// From when to when the application runs at this share of its speed; overlapping changes multiply.
    slow: Vec<(Micros, Option<Micros>, f64)>,
}

const KNOWN: &str = "crowd, rate, ramp, log, kill, restart, slower, dead, sleep";
/// More visits than this can only be a mistake.
const MOST: usize = 20_000_000;

impl CrowdScript {
    /// Reads a file; an error names it, the line and the reason.
    pub fn read(file: &Path, rng: &mut Rng) -> Result<CrowdScript, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut script = CrowdScript::default();
        for (n, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words = words::split(line);
            let mut words = Words(words.iter().map(String::as_str).collect());
            if words.0.is_empty() {
                continue;
            }
            script
                .line(&mut words, folder, rng)
                .and_then(|()| words.end())
                .map_err(|why| format!("{}:{n}: {why}", file.display()))?;
        }
        script.change_speed();
        script.verbs.sort_by_key(|(at, _)| *at);
        match script.visits.is_empty() {
            true => Err(format!("{}: nobody comes", file.display())),
            false => Ok(script),
        }
    }

    fn line(&mut self, words: &mut Words<'_>, folder: &Path, rng: &mut Rng) -> Result<(), String> {
        let at = match words.option("at")? {
            Some(at) => words::time(at)?,
            None => Micros::ZERO,
        };
        let verb = words.next("a word that says what happens")?;
        match verb {
            "crowd" => {
                let clients = words::count(words.next("how many come")?)?;
                let within = words
                    .option("within")?
                    .map_or(Ok(Micros::from_secs(1)), words::time)?;
                let posts = words.posts()?;
                let visit = |_| (at + Micros(rng.below(within.0.max(1))), posts);
                self.come((0..clients).map(visit).collect())?;
            }
            "rate" | "ramp" => {
                let from = words::rate(words.next("a rate such as 20/s")?)?;
                let to = match verb {
                    "ramp" => {
                        words.expect("to")?;
                        words::rate(words.next("a rate such as 200/s")?)?
                    }
                    _ => from,
                };
                words.expect("for")?;
                let span = words::time(words.next("how long")?)?;
                let posts = words.posts()?;
                let times = poisson(from, to, span.as_secs_f64(), rng)?;
                let visit = |after: f64| (at + Micros::from_secs_f64(after), posts);
                self.come(times.into_iter().map(visit).collect())?;
            }
            "log" => {
                let file = folder.join(words.next("the access log's name")?);
                let wanted = access_log::Wanted {
                    unit_s: words.option("unit")?.map_or(Ok(1e-6), access_log::unit)?,
                    only: words.option("only")?.unwrap_or("").to_owned(),
                    times: words.option("times")?.map_or(Ok(1), words::count)?,
                };
                let visits = access_log::read(&file, &wanted)?;
                let later = |visit: Visit| Visit {
                    at: at + visit.at,
                    ..visit
                };
                self.visits.extend(visits.into_iter().map(later));
            }
            "kill" => self.verbs.push((at, Verb::Kill)),
            "restart" => self.verbs.push((at, Verb::Restart)),
            "sleep" => {
                let span = words::time(words.next("how long")?)?;
                self.verbs.push((at, Verb::Sleep(span)));
            }
            "slower" | "dead" => {
                let speed = match verb {
                    "dead" => 0.0,
                    _ => {
                        let factor = words::number(words.next("how many times slower")?)?;
                        if factor == 0.0 {
                            return Err("slower 0 is no slower; 2 is half as fast".to_owned());
                        }
                        1.0 / factor
                    }
                };
                let end = match words.option("for")? {
                    Some(span) => Some(at + words::time(span)?),
                    None if speed == 0.0 => return Err("dead needs for TIME".to_owned()),
                    None => None,
                };
                self.slow.push((at, end, speed));
            }
            _ => return Err(format!("\"{verb}\" is not known here; known: {KNOWN}")),
        }
        Ok(())
    }

    /// Combines overlapping changes of speed: when one of them ends, the others go on.
    fn change_speed(&mut self) {
        let ends = self.slow.iter().filter_map(|(_, end, _)| *end);
        let mut times: Vec<Micros> = self.slow.iter().map(|(at, ..)| *at).chain(ends).collect();
        times.sort_unstable();
        times.dedup();
        for time in times {
            let there = |(at, end, _): &&(Micros, Option<Micros>, f64)| {
                *at <= time && end.is_none_or(|end| time < end)
            };
            let speed = self.slow.iter().filter(there).map(|(.., speed)| speed);
            self.verbs.push((time, Verb::Speed(speed.product())));
        }
    }

    fn come(&mut self, visits: Vec<(Micros, u32)>) -> Result<(), String> {
        if self.visits.len() + visits.len() > MOST {
            return Err(format!("more than {MOST} visitors"));
        }
        self.visits
            .extend(visits.into_iter().map(|(at, posts)| Visit {
                at,
                posts,
                work_s: None,
            }));
        Ok(())
    }
}

/// Independent arrivals at a rate that changes evenly from one to another: arrivals at the highest rate,
/// thinned (Lewis and Shedler).
fn poisson(from: f64, to: f64, span_s: f64, rng: &mut Rng) -> Result<Vec<f64>, String> {
    let most = from.max(to);
    if most * span_s > MOST as f64 {
        return Err(format!("more than {MOST} visitors"));
    }
    if most == 0.0 {
        return Ok(Vec::new());
    }
    let mut times = Vec::new();
    let mut t = rng.exponential(1.0 / most);
    while t < span_s {
        let rate = from + (to - from) * t / span_s;
        if rng.chance(rate / most) {
            times.push(t);
        }
        t += rng.exponential(1.0 / most);
    }
    Ok(times)
}

/// The rest of a line.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        match self.0.is_empty() {
            true => Err(format!("{what} is missing")),
            false => Ok(self.0.remove(0)),
        }
    }

    /// The value of `name VALUE`, wherever it stands in the rest of the line.
    fn option(&mut self, name: &str) -> Result<Option<&'a str>, String> {
        let Some(at) = self.0.iter().position(|word| *word == name) else {
            return Ok(None);
        };
        self.0.remove(at);
        match self.0.get(at) {
            Some(_) => Ok(Some(self.0.remove(at))),
            None => Err(format!("{name}: its value is missing")),
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.0.first() {
            Some(first) if *first == word => {
                self.0.remove(0);
                Ok(())
            }
            Some(first) => Err(format!("\"{first}\" where {word} is meant")),
            None => Err(format!("{word} is missing")),
        }
    }

    fn posts(&mut self) -> Result<u32, String> {
        self.option("posts")?.map_or(Ok(1), words::count)
    }

    fn end(&self) -> Result<(), String> {
        match self.0.first() {
            Some(word) => Err(format!("\"{word}\" is not known here")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CrowdScript, String> {
        let file = std::env::temp_dir().join(format!(
            "nap-script-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::write(&file, text).expect("a temporary file");
        let script = CrowdScript::read(&file, &mut Rng::new(1, 0));
        std::fs::remove_file(&file).expect("it was ours");
        script.map_err(|why| why.replace(&file.display().to_string(), "FILE"))
    }

    #[test]
    fn crowds_rates_ramps_and_verbs_are_what_they_say() {
        let script = read(
            "# all\n\nrate 20/s for 10min\nat 2min crowd 500 within 2s posts 3 # many\n\
             ramp 0/s to 100/s for 100s\nat 9s slower 2 for 3s\nat 1s kill\nat 5s dead for 2s\n\
             at 3s restart\nat 2s sleep 30s\n",
        )
        .expect("it is good");
        let second = Micros::from_secs;
        let crowd: Vec<_> = script.visits.iter().filter(|v| v.posts == 3).collect();
        assert_eq!(crowd.len(), 500);
        assert!(
            crowd
                .iter()
                .all(|v| v.at >= second(120) && v.at < second(122))
        );
        let others = script.visits.len() as f64 - 500.0;
        assert!((others / 17_000.0 - 1.0).abs() < 0.05, "{others}");
        assert_eq!(
            script.verbs,
            [
                (second(1), Verb::Kill),
                (second(2), Verb::Sleep(second(30))),
                (second(3), Verb::Restart),
                (second(5), Verb::Speed(0.0)),
                (second(7), Verb::Speed(1.0)),
                (second(9), Verb::Speed(0.5)),
                (second(12), Verb::Speed(1.0)),
            ]
        );
    }

    #[test]
    fn what_is_over_leaves_what_is_slow_as_it_was() {
        let script =
            read("crowd 1\nat 10s slower 2 for 60s\nat 20s dead for 5s\nat 90s slower 4\n");
        let speeds = script
            .expect("it is good")
            .verbs
            .into_iter()
            .map(|(at, verb)| match verb {
                Verb::Speed(speed) => (at.secs_floor(), speed),
                other => panic!("{other:?}"),
            });
        let expected = [(10, 0.5), (20, 0.0), (25, 0.5), (70, 1.0), (90, 0.25)];
        assert_eq!(speeds.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_reason() {
        for (text, why) in [
            (
                "crowd 5\nflood 9",
                "FILE:2: \"flood\" is not known here; known: crowd, rate",
            ),
            ("crowd", "FILE:1: how many come is missing"),
            ("crowd -1", "FILE:1: \"-1\" is no whole number"),
            ("at 5y crowd 1", "FILE:1: \"5y\" is no time"),
            ("at", "FILE:1: at: its value is missing"),
            (
                "rate 5/s during 1s",
                "FILE:1: \"during\" where for is meant",
            ),
            ("ramp 5/s", "FILE:1: to is missing"),
            ("crowd 5 please", "FILE:1: \"please\" is not known here"),
            ("crowd 5\ndead", "FILE:2: dead needs for TIME"),
            ("slower 0", "FILE:1: slower 0"),
            ("rate 9999999/s for 9h", "FILE:1: more than"),
            ("log nowhere.log", "nowhere.log: No such file"),
            ("kill", "FILE: nobody comes"),
        ] {
            let told = read(text).expect_err(text);
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
