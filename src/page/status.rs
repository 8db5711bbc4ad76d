//! What a holder who asks how their ticket stands is told (`nap-status`), as JSON.

use serde::Serialize;

use super::{PageTicket, Seconds};
use nap_core::micros::Micros;
use nap_core::room::verdict::Turn;

/// How a holder's ticket stands.
#[derive(Clone, Copy, Default, Debug)]
pub struct Status<'a> {
    /// None: the request brought no genuine ticket.
    pub turn: Option<Turn>,
    /// It: by the time that its prime window begins the holder is told to come.
    pub ticket: PageTicket<'a>,
    /// Name of the room.
    pub room: &'a str,
    /// When to ask again; none: not any more.
    pub ask: Option<Micros>,
}

#[derive(Serialize)]
struct Told<'a> {
    state: &'static str,
    /// Come now.
    call: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    room: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prime: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<Seconds>,
}

impl Status<'_> {
    /// Should the holder come now?
    pub fn calls(&self) -> bool {
        matches!(self.turn, Some(Turn::Now | Turn::Late))
    }

    /// In a word.
    pub fn state(&self) -> &'static str {
        match self.turn {
            None => "none",
            Some(Turn::Wait) => "wait",
            Some(Turn::Now) => "now",
            Some(Turn::In) => "in",
            Some(Turn::Late) => "late",
            Some(Turn::Used) => "used",
            Some(Turn::Over) => "over",
            Some(Turn::Elsewhere) => "elsewhere",
        }
    }

    /// The answer's body.
    pub fn to_json(&self) -> String {
        let known = self.turn.is_some();
        let told = Told {
            state: self.state(),
            call: self.calls(),
            ticket: known.then(|| self.ticket.name().to_string()),
            room: known.then_some(self.room),
            from: known.then(|| Seconds::ceil(self.ticket.from)),
            prime: known.then(|| Seconds::floor(self.ticket.prime)),
            until: known.then(|| Seconds::floor(self.ticket.until)),
            ask: self.ask.map(Seconds::ceil),
        };
        serde_json::to_string(&told).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_told_his_times_and_who_is_none_nothing() {
        let waits = Status {
            turn: Some(Turn::Wait),
            ticket: PageTicket {
                token: "",
                id: 0xbead,
                from: Micros(61_000_001),
                prime: Micros(66_000_999),
                until: Micros(361_000_999),
            },
            room: "board",
            ask: Some(Micros(15_250_000)),
        };
        assert_eq!(
            waits.to_json(),
            r#"{"state":"wait","call":false,"ticket":"000000000000bead","room":"board","from":61.001,"prime":66.0,"until":361.0,"ask":15.25}"#
        );
        let none = Status {
            turn: None,
            ask: None,
            ..waits
        };
        assert_eq!(none.to_json(), r#"{"state":"none","call":false}"#);
    }

    #[test]
    fn who_is_called_and_who_is_late_are_to_come() {
        let calls = [Turn::Now, Turn::Late, Turn::Wait, Turn::In, Turn::Used].map(|turn| {
            let status = Status {
                turn: Some(turn),
                ..Status::default()
            };
            status.calls()
        });
        assert_eq!(calls, [true, true, false, false, false]);
    }
}
