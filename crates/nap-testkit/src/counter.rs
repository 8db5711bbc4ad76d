//! What the CGI program tests/cgi/counter.c has counted.

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
    /// Time-weighted mean number of runs between an earlier look and this one.
    pub fn mean_since(&self, earlier: &Counter) -> f64 {
        (self.busy_ns - earlier.busy_ns) as f64 / (self.now_ns - earlier.now_ns) as f64
    }
}
