//! Several front ends that share one crowd (docs/fleet.md): what one of them knows of the others.
//!
//! A **node** is one httpd with mod_nap. The nodes of a **fleet** share a **store** (Valkey or Redis) and a fleet
//! name. Only the node's **agent** ([nap-agent], one process a httpd) talks to the store; it writes what it hears
//! into the segment, where each request finds it. No request waits for the network.
//!
//! ```text
//!   address   where the store is
//!   link      the agent and the store, as this node sees them: atomics
//!   member    what is known of a node: under the segment's lock
//!   orders    what administrators have ordered for all nodes: under the lock
//!   trouble   why the store or a node is not what it should be, in words
//!
//!   weights   w and p: where the balancer sends visitors, and how many come back to where they bought
//!   share     psi_F: which part of the places may be promised
//!   claims    how many holders a node must expect: max(p o_j, w o)
//!   lease     fleet slots: consecutive places that a node may sell
//!   rights    a shared limit, split into whole permits
//!
//!   letters   what requests ask the store, and wait for
//!   guests    holders whose ticket another node sold
//!   held      newcomers who are to be told of leased places, once the gate knows its speed
//!   notes     what happened to tickets here, for the agent to tell the store
//!   serials   which serial the ticket of a place has
//!   stake     what a gate knows of its fleet
//!   exchange  what a node and the store tell each other of a gate
//! ```

pub mod address;
pub mod claims;
pub mod exchange;
pub mod guests;
pub mod held;
pub mod lease;
pub mod letters;
pub mod link;
pub mod member;
pub mod notes;
pub mod orders;
pub mod rights;
pub mod serials;
pub mod share;
pub mod stake;
pub mod trouble;
pub mod weights;

/// The most nodes of a fleet: a node's number is one byte of the ticket, and 0 is nobody's.
pub const NODES: usize = 255;
