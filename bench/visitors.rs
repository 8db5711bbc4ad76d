//! Visitors of a crowd who do as they are told, and how many requests each may need.

use crate::board;

/// Visitors who do as they are told.
pub struct Kind {
    pub name: &'static str,
    pub options: &'static [&'static str],
    /// Requests that each may need, polls included.
    pub requests: f64,
}

/// The ways in which they are told.
const KINDS: [Kind; 3] = [
    Kind {
        name: "ticket",
        options: &[],
        requests: 2.2,
    },
    Kind {
        name: "retry-after",
        options: &["--retry-after"],
        requests: 3.0,
    },
    Kind {
        name: "asks",
        options: &["--asks", "1"],
        requests: 4.0,
    },
];

impl Kind {
    /// The kinds that an option `visitors=` names; ends the bench with a sentence if there is none.
    pub fn all_named(names: &str) -> Vec<&'static Kind> {
        let named = |wanted: &str| {
            let found = KINDS.iter().find(|kind| kind.name == wanted);
            found.unwrap_or_else(|| {
                let all = KINDS.map(|kind| kind.name).join(", ");
                board::stop(&format!("visitors={wanted}: {all} are meant"))
            })
        };
        names.split(',').map(named).collect()
    }
}
