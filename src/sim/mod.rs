//! Virtual time: the very same code that httpd runs, driven by scripts and seeds instead of by
//! requests and a clock.

pub mod rng;
pub mod state;
#[cfg(test)]
mod stories;
pub mod vectors;
