//! What the CGI program tests/cgi/counter.c has counted.

use std::path::Path;
use std::process::Command;

/// The counts of the counting CGI program; a killed run counts until it is dead.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub struct Counter {
    /// Runs at present.
    pub running: u64,
    /// The greatest number of runs at once.
    pub max: u64,
    /// Runs ever started.
    pub started: u64,
    /// Of these, ended properly.
    pub ended: u64,
    /// Of these, found dead.
    pub died: u64,
    /// Integral of `running` over time.
    pub busy_ns: u64,
    /// The moment up to which it is taken.
    pub now_ns: u64,
}

impl Counter {
    /// What the program of a ServerRoot says of its file: `report`, or `forget`, which resets the maximum, too.
    pub(crate) fn ask(root: &Path, file: &Path, what: &str) -> Counter {
        let output = Command::new(root.join("cgi-bin/counter"))
            .arg(what)
            .env("COUNTER_FILE", file)
            .output()
            .expect("the counter runs");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stdout)))
    }

    /// Time-weighted mean number of runs between an earlier look and this one.
    pub fn mean_since(&self, earlier: &Counter) -> f64 {
        (self.busy_ns - earlier.busy_ns) as f64 / (self.now_ns - earlier.now_ns) as f64
    }
}
