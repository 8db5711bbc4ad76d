//! How busy the site's own polled events are.

use serde::Serialize;

use nap_core::telepoll::event::Level;
use nap_core::telepoll::{Form, Mode};

/// An event.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EventLine {
    pub name: String,
    /// R.
    pub reservations: u64,
    /// T0.
    pub unit_s: f64,
    /// How many times longer than needed, by overload from outside.
    pub stretched: f64,
    /// Tw of a client that comes now.
    pub wait_s: f64,
    /// Accesses of the last period that had any; below, of the current one.
    pub accesses: u64,
    pub accesses_running: u64,
    /// Share of a period that its accesses take; above 1 periods become longer.
    pub level: f64,
    /// In words.
    pub state: String,
    pub polls: u64,
    pub settings: EventSettings,
}

/// As configured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EventSettings {
    pub base_s: f64,
    pub least_unit_s: f64,
    pub mode: &'static str,
    pub form: &'static str,
    pub k: u16,
    pub phase: u16,
    pub phases: u16,
}

impl EventLine {
    pub fn of(name: &str, level: &Level) -> EventLine {
        let terms = &level.terms;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (base_s, unit_s) = (terms.base.as_secs_f64(), seconds(level.t0_ns));
        // Of the current period if it has more already.
        let n = level.accesses();
        let share = n as f64 * unit_s / base_s;
        let first = (base_s / f64::from(terms.k.max(1))).max(n as f64 * unit_s);
        let state = match terms.mode {
            _ if level.stretched > 1.0 => format!(
                "answers take longer than usual: T0 is {:.1} times as long",
                level.stretched
            ),
            _ if level.plain || share >= 1.0 => {
                "more clients come than fit into a period: they are levelled, and wait longer"
                    .to_owned()
            }
            Mode::Level => "levelled".to_owned(),
            Mode::Relevel => "levelled over the whole period".to_owned(),
            Mode::Concentrate => format!("in the first {first:.1} s of each period"),
        };
        EventLine {
            name: name.to_owned(),
            reservations: level.reservations,
            unit_s,
            stretched: level.stretched,
            wait_s: level.wait.as_secs_f64(),
            accesses: level.before,
            accesses_running: level.running,
            level: share,
            state,
            polls: level.polls,
            settings: EventSettings {
                base_s,
                least_unit_s: seconds(terms.floor_ns),
                mode: match terms.mode {
                    Mode::Level => "level",
                    Mode::Relevel => "relevel",
                    Mode::Concentrate => "concentrate",
                },
                form: match terms.form {
                    Form::Smooth => "smooth",
                    Form::Paper => "paper",
                },
                k: terms.k,
                phase: terms.m,
                phases: terms.of,
            },
        }
    }
}
