//! `NapRunReady n|auto|paper [min= max= history= progress=]`: how many run at once, and who
//! decides.

use super::directive::Directive::RunReady;
use super::room::RoomConf;
use super::values::*;
use crate::room::permits::PERMITS;
use crate::sqs::page_scheduler::law;

/// The most that a limit which finds itself goes to, unless set (docs/dev/algorithms.md 3.3).
const MOST: i64 = 256;
/// How many intervals the paper's law looks back.
const HISTORY: i64 = 5;

impl RoomConf {
    pub(super) fn set_run_ready(&mut self, args: &[&str]) -> Result<(), String> {
        let permits = 1..=PERMITS as i64;
        let (first, options) = args.split_at(args.len().min(1));
        let law = one(
            RunReady,
            first,
            Words::count(permits.clone()).auto().paper(),
        )?;
        if law >= 0 && !options.is_empty() {
            return Err("NapRunReady: options go with auto and paper only".into());
        }
        self.run_ready = law;
        (self.run_ready_min, self.run_ready_max) = (UNSET, UNSET);
        (self.run_ready_history, self.run_ready_own) = (UNSET, UNSET);
        for option in options {
            let (field, words) = match option.split_once('=') {
                Some(("min", _)) => (&mut self.run_ready_min, Words::count(permits.clone())),
                Some(("max", _)) => (&mut self.run_ready_max, Words::count(permits.clone())),
                Some(("history", _)) if law == PAPER => {
                    (&mut self.run_ready_history, Words::count(1..=50))
                }
                Some(("progress", _)) if law == AUTO => {
                    (&mut self.run_ready_own, Words::choice(&["total", "own"]))
                }
                _ => {
                    let known = match law {
                        AUTO => "min=, max= and progress=",
                        _ => "min=, max= and history=",
                    };
                    return Err(unknown_option(RunReady, option, known));
                }
            };
            *field = option_value(RunReady, option, words)?;
        }
        if self.run_ready_max != UNSET && self.run_ready_min > self.run_ready_max {
            let (min, max) = (self.run_ready_min, self.run_ready_max);
            return Err(format!("NapRunReady: min={min} is more than max={max}"));
        }
        Ok(())
    }

    /// Sets where a limit that finds itself begins and how far it may go: half of the workers may
    /// run, unless `max=` says otherwise, as the others wait. Returns what to call it in a message.
    pub(super) fn begin_run_ready(
        &mut self,
        workers: i64,
        reserve: i64,
        cores: u32,
    ) -> &'static str {
        or_default(&mut self.run_ready_own, 0);
        or_default(&mut self.run_ready_history, HISTORY);
        let (law, word) = match self.run_ready {
            UNSET | AUTO => (law::AUTO, " (auto)"),
            PAPER => (law::PAPER, " (paper)"),
            _ => (law::FIXED, ""),
        };
        self.run_ready_law = law.into();
        if law == law::FIXED {
            (self.run_ready_min, self.run_ready_max) = (self.run_ready, self.run_ready);
            return word;
        }
        let known = workers > 0;
        let min = self.run_ready_min.max(1);
        let fits = match known {
            true => workers.saturating_sub(reserve + 1).max(min),
            false => i64::MAX,
        };
        let max = match self.run_ready_max {
            UNSET if known => MOST.min(workers / 2),
            UNSET => MOST,
            max => max,
        };
        let max = max.max(min).min(fits);
        // The first try is twice that. Where accesses are in each other's way, that costs more the
        // higher it is; where they only wait, one more doubling costs a few seconds.
        let wish = 2.max(i64::from(cores));
        self.run_ready = wish.clamp(min, max);
        (self.run_ready_min, self.run_ready_max) = (min, max);
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::ServerConf;
    use crate::conf::samples::{room, server};

    #[test]
    fn what_it_begins_with_follows_cores_options_and_workers() {
        let run_ready = |line: &str, cores, workers| {
            let mut room = room();
            room.directive(RunReady, &line.split(' ').collect::<Vec<_>>())
                .expect("a good line");
            let server = ServerConf {
                cores,
                ..server(workers, 1)
            };
            let all = |room: &RoomConf| [room.run_ready_min, room.run_ready, room.run_ready_max];
            room.finish(&server).map(|_| all(&room))
        };
        assert_eq!(run_ready("auto", 1, 400), Ok([1, 2, 200]));
        assert_eq!(run_ready("auto", 16, 1000), Ok([1, 16, 256]));
        assert_eq!(run_ready("paper max=8", 16, 400), Ok([1, 8, 8]));
        assert_eq!(run_ready("auto min=12", 2, 400), Ok([12, 12, 200]));
        assert_eq!(run_ready("auto max=1", 2, 400), Ok([1, 1, 1]));
        assert_eq!(run_ready("auto", 0, 400), Ok([1, 2, 200]), "not known");
        assert_eq!(run_ready("7", 2, 400), Ok([7, 7, 7]));
        assert_eq!(
            run_ready("auto max=64", 64, 20),
            Ok([1, 17, 17]),
            "2 in reserve, 1 may wait"
        );
        assert!(run_ready("auto", 2, 1).is_err());
    }
}
