//! The agent with a real store.

mod chaos;
mod life;
mod node;
mod store;
mod trouble;
