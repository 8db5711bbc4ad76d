//! How busy the site's own polled events are.

use super::line::line;
use nap_core::telepoll::event::Level;
use nap_core::telepoll::{Form, Mode, PollTerms};

line! {
    /// An event.
    pub(super) struct EventLine of(name: &str, event: &Level) {
        name: String = name.to_owned(),
        /// R.
        reservations: u64 = event.reservations,
        /// T0.
        unit_s: f64 = seconds(event.t0_ns),
        /// How many times longer than needed, by overload from outside.
        stretched: f64 = event.stretched,
        /// Tw of a client that comes now.
        wait_s: f64 = event.wait.as_secs_f64(),
        /// Accesses of the last period that had any; below, of the current one.
        accesses: u64 = event.before,
        accesses_running: u64 = event.running,
        /// Share of a period that its accesses take; above 1 periods become longer.
        level: f64 = event.accesses() as f64 * unit_s / event.terms.base.as_secs_f64(),
        /// In words.
        state: String = state(event, level),
        polls: u64 = event.polls,
        settings: EventSettings = EventSettings::of(&event.terms, event.floor_of_all_ns),
    }
}

line! {
    /// As configured.
    pub(super) struct EventSettings of(terms: &PollTerms, floor_ns: u64) {
        base_s: f64 = terms.base.as_secs_f64(),
        least_unit_s: f64 = seconds(floor_ns),
        mode: &'static str = match terms.mode {
            Mode::Level => "level",
            Mode::Relevel => "relevel",
            Mode::Concentrate => "concentrate",
        },
        form: &'static str = match terms.form {
            Form::Smooth => "smooth",
            Form::Paper => "paper",
        },
        k: u16 = terms.k,
        phase: u16 = terms.m,
        phases: u16 = terms.of,
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn state(event: &Level, level: f64) -> String {
    let terms = &event.terms;
    match terms.mode {
        _ if event.stretched > 1.0 => format!(
            "answers take longer than usual: T0 is {:.1} times as long",
            event.stretched
        ),
        _ if event.plain || level >= 1.0 => {
            "more clients come than fit into a period: they are levelled, and wait longer"
                .to_owned()
        }
        Mode::Level => "levelled".to_owned(),
        Mode::Relevel => "levelled over the whole period".to_owned(),
        Mode::Concentrate => {
            let base_s = terms.base.as_secs_f64();
            let taken_s = event.accesses() as f64 * seconds(event.t0_ns);
            let first = (base_s / f64::from(terms.k.max(1))).max(taken_s);
            format!("in the first {first:.1} s of each period")
        }
    }
}
