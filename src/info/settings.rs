//! [`SettingsLine`]: a gate's settings in force, as the administrator would write them.

use super::line::line;
use nap_core::room::terms::{Choice, Terms, how};

line! {
    pub(super) struct SettingsLine of(terms: &Terms) {
        run_ready: u32 = terms.run_ready,
        bound_s: f64 = terms.bound.as_secs_f64(),
        history: u32 = terms.history,
        wait_limit: String = chosen(terms.wait_limit, 1),
        re_access: String = chosen(terms.re_access, 1),
        slot_period_s: f64 = terms.slot_period.as_secs_f64(),
        slot_tickets: String = chosen(terms.slot_tickets, 1),
        ticket_lifetime_s: f64 = terms.lifetime.as_secs_f64(),
        ticket_prime_s: f64 = terms.prime.as_secs_f64(),
        ticket_horizon_s: f64 = terms.horizon.as_secs_f64(),
        ticket_grace_s: f64 = terms.grace().as_secs_f64(),
        ticket_share: String = chosen(terms.share, 1_000_000),
        overbook: String = chosen(terms.overbook, 1_000_000),
        tickets_per_client: String = chosen(terms.per_client, 1),
        bind: bool = terms.bind != 0,
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
