//! The agent with a real store.

mod chaos;
mod life;
mod node;
mod reference;
mod store;
mod trouble;
