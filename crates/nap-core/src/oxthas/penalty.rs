//! [`Penalty`]: failures since the last success, and what they lead to.
//!
//! Paper 4.3: after R timeouts the estimated capacity is c / (1 + alpha R) and the timeout is
//! T_init - beta R; an answer resets both. That alone still sends work to a dead executor, and the
//! paper's timeout reaches zero. So here (docs/dev/algorithms.md 4.2) the timeout has a floor, and
//! an executor that has plainly failed gets no work but one **probe** at a time, after a pause that
//! doubles with every probe that fails.

use crate::micros::Micros;

/// With this many points there is no work but probes.
const BARRED: u32 = 3;
/// How often the pause before a probe doubles at most: to thirty-two times the first.
const DOUBLED: u32 = 5;

/// How work may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be made: nobody else will get one.
    Connect = 1,
    /// No answer came in time.
    Timeout,
    /// The connection broke before an answer, or the answer made no sense. A kept connection may
    /// also break as its backend closes it when idle, so one such failure proves little.
    Broken,
    /// A 5xx. An application may send it too, so one proves little, and nothing about other work.
    Status,
}

impl Failure {
    /// Its name in words.
    pub fn word(self) -> &'static str {
        match self {
            Failure::Connect => "connect",
            Failure::Timeout => "timeout",
            Failure::Broken => "broken",
            Failure::Status => "5xx",
        }
    }

    /// The failure that is this number in shared memory; 0 is none.
    pub fn from_number(n: u32) -> Option<Failure> {
        use Failure::*;
        let all = [Connect, Timeout, Broken, Status];
        all.into_iter().find(|failure| *failure as u32 == n)
    }

    /// Points against this activity at the executor, and against the executor as a whole.
    pub(super) fn points(self) -> [u32; 2] {
        match self {
            Failure::Connect => [0, BARRED],
            Failure::Timeout => [BARRED, 2],
            Failure::Broken => [1, 1],
            Failure::Status => [1, 0],
        }
    }
}

/// Failures of an executor, or of one activity there. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Penalty {
    /// R: failures since the last success.
    pub failures: u32,
    /// What they weigh; with [`BARRED`] the executor is barred.
    points: u32,
    /// Flight of the probe that is out, plus one; 0: none is.
    pub probe: u32,
    /// How often the pause has doubled.
    doubled: u32,
    /// No probe before this.
    until: Micros,
}

impl Penalty {
    /// Notes one more failure; `probe`: of a probe. The first pause is `pause`.
    pub fn fail(&mut self, points: u32, probe: bool, pause: Micros, now: Micros) {
        if points == 0 {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.points = self.points.saturating_add(points);
        if probe {
            self.doubled = self.doubled.min(DOUBLED).saturating_add(1).min(DOUBLED);
        }
        let pause = pause.0.saturating_mul(1 << self.doubled.min(DOUBLED));
        self.until = now + Micros(pause);
    }

    /// The probe of this mark is no longer out.
    pub(super) fn forget_probe(&mut self, mark: u32) {
        if self.probe == mark {
            self.probe = 0;
        }
    }

    /// Has it plainly failed?
    pub fn bars(&self) -> bool {
        self.points >= BARRED
    }

    /// May a probe go out?
    pub fn is_due(&self, now: Micros) -> bool {
        self.probe == 0 && now >= self.until
    }
}

/// T = max(T_min, T_init - beta R), where T_min is also three times the slowest recent answer, but
/// never more than T_init.
pub fn timeout(init: Micros, step: Micros, min: Micros, failures: u32, slowest: Micros) -> Micros {
    let lowered = init - Micros(step.0.saturating_mul(failures.into()));
    let floor = Micros(slowest.0.saturating_mul(3)).max(min);
    lowered.max(floor).min(init)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Micros = Micros::from_millis(250);

    #[test]
    fn pauses_double_with_each_probe_that_fails() {
        let mut penalty = Penalty::default();
        let mut now = Micros::from_secs(1);
        penalty.fail(3, false, PAUSE, now);
        assert!(penalty.bars() && !penalty.is_due(now));
        let mut pauses = Vec::new();
        for _ in 0..8 {
            now = penalty.until;
            assert!(penalty.is_due(now));
            penalty.fail(3, true, PAUSE, now);
            pauses.push((penalty.until - now).0 / PAUSE.0);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 32, 32, 32]);
        assert_eq!(penalty.failures, 9);
    }

    #[test]
    fn an_error_of_the_application_s_own_does_not_bar() {
        let mut penalty = Penalty::default();
        let now = Micros::from_secs(1);
        penalty.fail(Failure::Status.points()[0], false, PAUSE, now);
        penalty.fail(Failure::Status.points()[0], false, PAUSE, now);
        assert!(!penalty.bars());
        penalty.fail(Failure::Status.points()[0], false, PAUSE, now);
        assert!(penalty.bars());
    }

    #[test]
    fn the_timeout_falls_to_its_floor() {
        let ms = Micros::from_millis;
        let t = |failures, slowest| timeout(ms(1000), ms(100), ms(100), failures, slowest);
        let fallen = [0, 1, 2, 3, 9, 10, u32::MAX].map(|r| t(r, Micros::ZERO));
        assert_eq!(fallen, [1000, 900, 800, 700, 100, 100, 100].map(ms));
        assert_eq!(t(9, ms(50)), ms(150), "three times the slowest answer");
        assert_eq!(t(9, ms(5000)), ms(1000), "but no more than at first");
    }

    #[test]
    fn any_bits_are_survived() {
        let mut penalty = Penalty {
            failures: u32::MAX,
            points: u32::MAX,
            probe: u32::MAX,
            doubled: u32::MAX,
            until: Micros::MAX,
        };
        penalty.fail(u32::MAX, true, Micros::MAX, Micros::MAX);
        assert!(penalty.bars());
    }
}
