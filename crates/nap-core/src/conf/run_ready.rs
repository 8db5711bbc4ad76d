//! `NapRunReady n|auto|paper [min= max= history= progress=]`: how many run at once, and who
//! decides.

use super::directive::Directive::RunReady;
use super::room::RoomConf;
use super::server::ServerConf;
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
        let (options, shared) = match options {
            [before @ .., last] if last.eq_ignore_ascii_case("shared") => (before, true),
            options => (options, false),
        };
        if shared && law < 0 {
            let word = first.first().copied().unwrap_or_default();
            return Err(format!(
                "NapRunReady {word} shared: give a number: a limit of all front ends does not find itself yet"
            ));
        }
        if law >= 0 && !options.is_empty() {
            return Err("NapRunReady: options go with auto and paper only".into());
        }
        self.run_ready = law;
        self.run_ready_shared = shared.into();
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

    /// A limit is shared with the other nodes of a fleet, and of what a room without sessions has.
    pub(super) fn check_shared(&self, server: &ServerConf) -> Result<(), String> {
        if self.run_ready_shared != 1 {
            return Ok(());
        }
        let title = self.title();
        if !server.store.is_used() {
            return Err(format!(
                "{title}: NapRunReady shared wants NapStore: without it there is nobody to share with"
            ));
        }
        match self.session {
            1 => Err(format!(
                "{title}: NapRunReady shared does not go with NapSession yet; give each front end a number of its own"
            )),
            _ => Ok(()),
        }
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

    #[test]
    fn a_limit_of_all_front_ends_is_a_number_and_wants_a_store() {
        let fleet = || {
            let mut server = server(400, 25);
            server.store.store(&["redis://a"]).expect("good");
            server
        };
        let shared = |line: &str, server: &ServerConf, session| {
            let mut room = room();
            room.directive(RunReady, &line.split(' ').collect::<Vec<_>>())?;
            room.session = session;
            room.finish(server)?;
            Ok::<_, String>((room.terms(0).run_ready, room.terms(0).shared))
        };
        assert_eq!(shared("6 shared", &fleet(), UNSET), Ok((6, 1)));
        assert_eq!(shared("6 Shared", &fleet(), UNSET), Ok((6, 1)));
        assert_eq!(shared("6", &fleet(), UNSET), Ok((6, 0)));
        let said =
            |line, server: &ServerConf, session| shared(line, server, session).expect_err("not so");
        assert_eq!(
            said("auto shared", &fleet(), UNSET),
            "NapRunReady auto shared: give a number: a limit of all front ends does not find itself yet"
        );
        assert!(said("6 min=2", &fleet(), UNSET).contains("options go with auto"));
        let alone = said("6 shared", &server(400, 25), UNSET);
        assert!(alone.ends_with("wants NapStore: without it there is nobody to share with"));
        let mut sticky = fleet();
        sticky.store.sticky = 1;
        let in_session = said("6 shared", &sticky, 1);
        assert!(in_session.contains("does not go with NapSession yet"));
        let roaming = said("6", &fleet(), 1);
        assert!(roaming.ends_with(
            "NapSession with NapStore wants \"sticky\": members must come back to the server that knows them"
        ));
        assert_eq!(shared("6", &sticky, 1), Ok((6, 0)));
    }
}
