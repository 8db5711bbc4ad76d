//! What the CGI program tests/cgi/counter.c has counted.

/// The counts of the counting CGI program; a killed run counts until it is dead.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub struct Counter {
    /// Runs at present.
    pub running: u64,
    /// The greatest number of runs at once.
    pub max: u64,
    /// Runs ever started; of these, ended properly; of these, found dead.
    pub started: u64,
    pub ended: u64,
    pub died: u64,
    /// Integral of `running` over time, and the moment up to which it is taken.
    pub busy_ns: u64,
    pub now_ns: u64,
}

impl Counter {
    /// Time-weighted mean number of runs between an earlier look and this one.
    pub fn mean_since(&self, earlier: &Counter) -> f64 {
        (self.busy_ns - earlier.busy_ns) as f64 / (self.now_ns - earlier.now_ns) as f64
    }
}
