//! The agent with a real store.

mod life;
mod node;
mod store;
mod trouble;
