//! [`SettingsLine`]: a gate's settings in force, as the administrator would write them.

use serde::Serialize;

use nap_core::room::terms::{Choice, Terms, how};

#[derive(Clone, Debug, Serialize)]
pub(super) struct SettingsLine {
    pub run_ready: u32,
    pub bound_s: f64,
    pub history: u32,
    pub wait_limit: String,
    pub re_access: String,
    pub slot_period_s: f64,
    pub slot_tickets: String,
    pub ticket_lifetime_s: f64,
    pub ticket_prime_s: f64,
    pub ticket_horizon_s: f64,
    pub ticket_grace_s: f64,
    pub ticket_share: String,
    pub overbook: String,
    pub tickets_per_client: String,
    pub bind: bool,
}

impl SettingsLine {
    pub fn of(terms: &Terms) -> SettingsLine {
        SettingsLine {
            run_ready: terms.run_ready,
            bound_s: terms.bound.as_secs_f64(),
            history: terms.history,
            wait_limit: chosen(terms.wait_limit, 1),
            re_access: chosen(terms.re_access, 1),
            slot_period_s: terms.slot_period.as_secs_f64(),
            slot_tickets: chosen(terms.slot_tickets, 1),
            ticket_lifetime_s: terms.lifetime.as_secs_f64(),
            ticket_prime_s: terms.prime.as_secs_f64(),
            ticket_horizon_s: terms.horizon.as_secs_f64(),
            ticket_grace_s: terms.grace().as_secs_f64(),
            ticket_share: chosen(terms.share, 1_000_000),
            overbook: chosen(terms.overbook, 1_000_000),
            tickets_per_client: chosen(terms.per_client, 1),
            bind: terms.bind != 0,
        }
    }
}

/// The setting as the administrator would write it.
fn chosen(choice: Choice, unit: u32) -> String {
    match choice.how {
        how::PAPER => "paper".to_owned(),
        how::FIXED => format!("{}", f64::from(choice.n) / f64::from(unit)),
        how::OFF => "off".to_owned(),
        how::WORK => "work".to_owned(),
        _ => "auto".to_owned(),
    }
}
