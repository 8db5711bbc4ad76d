//! A ticket as its holder has it, and the times that the holder goes by.

use super::Answer;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Spans from its issue, in seconds.
#[derive(Debug)]
pub struct Ticket {
    /// As the client shows it.
    pub token: String,
    /// When the answer was here.
    pub issued: Instant,
    /// The prime window begins.
    pub from: f64,
    /// The prime window ends.
    pub prime: f64,
    /// The ticket ends.
    pub until: f64,
}

impl Ticket {
    /// The ticket of an answer that has one.
    #[track_caller]
    pub fn of(answer: &Answer) -> Ticket {
        let issued = Instant::now();
        let window = answer
            .header("nap-ticket-window")
            .unwrap_or_else(|| panic!("no ticket in {answer:?}"));
        let value = |name: &str| {
            let part = window.split(", ").find_map(|part| part.strip_prefix(name));
            part.and_then(|v| v.parse().ok()).expect("seconds")
        };
        Ticket {
            token: answer.header("nap-ticket").expect("a ticket").to_string(),
            issued,
            from: value("from="),
            prime: value("prime="),
            until: value("until="),
        }
    }

    /// As a browser sends it.
    pub fn cookie(&self) -> String {
        format!("nap-site={}", self.token)
    }

    /// Sleeps until this much past a time of the ticket: its holder obeys the clock.
    pub fn sleep_until(&self, span: f64) {
        let at = self.issued + Duration::from_secs_f64(span);
        sleep(at.saturating_duration_since(Instant::now()));
    }

    /// Sleeps until the holder may come.
    pub fn until_prime(&self) {
        self.sleep_until(self.from + 0.01);
    }

    /// Sleeps until the prime window is over, when the holder may still come.
    pub fn until_tail(&self) {
        self.sleep_until(self.prime + 0.05);
    }
}
