//! What the module says of a room: the part of its JSON that tests of faults need.

use super::Httpd;
use super::held::{runs_in, waits_in};
use serde_json::Value;

/// A room with one gate, and the children.
#[derive(Debug, Clone)]
pub struct Room {
    /// Permits held.
    pub running: u64,
    /// Places taken.
    pub waiting: u64,
    /// Tickets sold.
    pub sold: u64,
    /// Promises that were broken.
    pub broken: u64,
    /// How often the tables were mended after a death under the lock.
    pub mended: u64,
    /// The children it knows.
    pub children: Vec<i32>,
    /// Accesses it counts, over all children.
    pub accesses: u64,
}

impl Room {
    /// The first gate of the first room, from the JSON of `/nap-info?json`.
    pub fn of(info: &Value) -> Room {
        let gate = &info["rooms"][0]["gates"][0];
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("in: {info}"));
        let children = info["children"].as_array().expect("a list");
        Room {
            running: number(&gate["run_ready"]["running"]),
            waiting: number(&gate["wait"]["queue"]),
            sold: number(&gate["promise"]["sold"]),
            broken: number(&gate["promise"]["broken"]),
            mended: number(&gate["counts"]["mended"]),
            children: children
                .iter()
                .map(|child| number(&child["pid"]) as i32)
                .collect(),
            accesses: children
                .iter()
                .map(|child| runs_in(child) + waits_in(child))
                .sum(),
        }
    }
}

impl Httpd {
    /// What `/nap-info` says of the only gate.
    pub fn gate(&self) -> Value {
        self.get("/nap-info?json").json()["rooms"][0]["gates"][0].take()
    }
}
