//! The settings in the form that their users want: gates, the laws, the balancer.

use super::{AUTO, EventConf, OFF, OxthasConf, PAPER, RoomConf, WORK};
use crate::micros::Micros;
use crate::oxthas::bands::Split;
use crate::oxthas::engine;
use crate::oxthas::history::Span;
use crate::room::permits::PERMITS;
use crate::room::starts::StartTerms;
use crate::room::terms::{Choice, Terms, how};
use crate::sqs::in_hand::PARALLEL;
use crate::sqs::page_scheduler::Pace;
use crate::telepoll::{self, Form, Mode};

impl RoomConf {
    /// A room's settings as its gate wants them.
    pub fn terms(&self, parked: u32) -> Terms {
        Terms {
            bound: micros(self.wait_max_us),
            run_ready: self.run_ready.clamp(1, PERMITS as i64) as u32,
            history: self.history.clamp(2, 1024) as u32,
            wait_limit: choice(self.wait_limit),
            re_access: choice(self.re_access),
            slot_period: micros(self.slot_period_us),
            slot_tickets: choice(self.slot_tickets),
            lifetime: micros(self.ticket_lifetime_us),
            prime: micros(self.ticket_prime_us),
            horizon: micros(self.ticket_horizon_us),
            poll: micros(self.poll_base_us),
            share: choice(self.ticket_share_ppm),
            overbook: choice(self.overbook_ppm),
            per_client: choice(self.tickets_per_client),
            bind: u32::from(self.ticket_bind > 0),
            parked,
            progress: u32::from(self.progress == 1),
            shared: u32::from(self.run_ready_shared == 1),
        }
    }

    /// The same as its session gate wants them.
    pub fn lobby_terms(&self, parked: u32) -> Terms {
        Terms {
            wait_limit: choice(self.session_queue),
            re_access: choice(AUTO),
            ..self.terms(parked)
        }
    }

    /// How a room's permits are found.
    pub fn pace(&self) -> Pace {
        let permits = |n: i64| n.clamp(1, PERMITS as i64) as u32;
        Pace {
            law: self.run_ready_law.max(0) as u32,
            own: u32::from(self.run_ready_own == 1),
            start: permits(self.run_ready),
            lo: permits(self.run_ready_min),
            hi: permits(self.run_ready_max),
            history: self.run_ready_history.clamp(1, 50) as u32,
        }
    }

    /// How the holders who ask where they stand are spread.
    pub fn poll_terms(&self) -> telepoll::PollTerms {
        telepoll::PollTerms {
            mode: mode(self.poll_mode),
            form: form(self.poll_form),
            k: self.poll_k.clamp(1, 100) as u16,
            ..telepoll::PollTerms::new(micros(self.poll_base_us), self.poll_rate.max(1) as f64)
        }
    }

    /// How its sessions start.
    pub fn start_terms(&self, cores: u32) -> StartTerms {
        let Choice { how, .. } = choice(self.session_start);
        StartTerms {
            on: 1,
            how,
            parallel: self.session_parallel.clamp(1, PARALLEL as i64) as u32,
            cores,
            idle: micros(self.session_idle_us),
            interval: micros(self.session_start),
            threshold: self.start_threshold.max(0) as u64,
            inc: micros(self.start_inc_us),
            dec: micros(self.start_dec_us),
            min: micros(self.start_min_us),
            max: micros(self.start_max_us),
        }
    }
}

impl EventConf {
    /// An event's settings as the law wants them.
    pub fn terms(&self) -> telepoll::PollTerms {
        let small = |n: i64| u16::try_from(n).unwrap_or(1);
        telepoll::PollTerms {
            mode: mode(self.mode),
            form: form(self.form),
            k: small(self.k),
            m: small(self.m),
            of: small(self.of),
            ..telepoll::PollTerms::new(micros(self.base_us), self.rate as f64 / 1e6)
        }
    }
}

impl OxthasConf {
    /// Settings as the law wants them.
    pub fn terms(&self, own_timeout_us: u64) -> engine::EngineTerms {
        let conf = self.with_defaults(i64::try_from(own_timeout_us).unwrap_or(i64::MAX));
        engine::EngineTerms {
            bands: conf.bands.clamp(1, 64) as u32,
            split: Split::from_number(conf.split),
            span: Span {
                window: conf.history.clamp(1, 100) as u32,
                ..engine::EngineTerms::ours(Micros::ZERO).span
            },
            alpha: conf.alpha.max(0) as f64 / 1e6,
            step: micros(conf.step_us),
            min: micros(conf.min_us),
            pause: micros(conf.backoff_us).max(Micros(1)),
            ..engine::EngineTerms::ours(micros(conf.timeout_us))
        }
    }
}

fn mode(number: i64) -> Mode {
    match number {
        1 => Mode::Relevel,
        2 => Mode::Concentrate,
        _ => Mode::Level,
    }
}

fn form(number: i64) -> Form {
    match number {
        1 => Form::Paper,
        _ => Form::Smooth,
    }
}

fn micros(us: i64) -> Micros {
    Micros(us.max(0) as u64)
}

fn choice(value: i64) -> Choice {
    let of = |how, n| Choice { how, n };
    match value {
        AUTO => of(how::AUTO, 0),
        PAPER => of(how::PAPER, 0),
        OFF => of(how::OFF, 0),
        WORK => of(how::WORK, 0),
        n => of(how::FIXED, n.clamp(0, i64::from(u32::MAX)) as u32),
    }
}
