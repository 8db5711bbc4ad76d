//! The agent with a real store.

mod caps;
mod chaos;
mod debts;
mod leases;
mod life;
mod node;
mod once;
mod orders;
mod polls;
mod reference;
mod rights;
mod room;
mod scripts;
mod store;
mod tickets;
mod trouble;
