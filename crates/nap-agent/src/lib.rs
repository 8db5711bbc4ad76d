//! nap-agent: the process of a node that speaks with the store of its fleet.
//!
//! httpd's parent starts one (`mod_nap::agent::Brief`). It joins the fleet, beats four times a second, hears the
//! others once a second, tells and asks about the gates' tickets, and writes all that into the segment. It is one thread
//! with one connection. Nothing is decided here.
//!
//! ```text
//!   agent      the loop: all that there is to say in one exchange, then what came of it
//!   life       its parent, signals
//!   store      finding the store, being let in; beats and cards
//!   line, tls  the connection: one exchange within one time limit; under TLS
//!   debts      what clients have come to owe here, and owe in the fleet
//!   caps       how many tickets a client holds of this node, and of the others
//!   orders     what administrators order for all nodes
//!   polls      which part of polled events comes to this node
//!   gates      the gates' part in it, and letters of requests
//!   telling    what is said of tickets and gates, and what the answers mean; scripts/*.lua
//!   commands   commands and answers of an exchange, to which each part adds its own
//!   breaker    when a store that failed is asked again            pure, as all below
//!   clock      fleet time
//!   card       what a node leaves in the store; what differs
//!   fleet      what is known of all nodes, and what is news
//!   figures    this node's own, out of the segment
//!   log, words lines of httpd's error log
//! ```

#![forbid(unsafe_code)]

pub mod agent;
pub mod breaker;
pub mod caps;
pub mod card;
pub mod clock;
pub mod commands;
pub mod debts;
pub mod figures;
pub mod fleet;
pub mod gates;
pub mod life;
pub mod line;
pub mod log;
pub mod orders;
pub mod polls;
pub mod store;
pub mod telling;
pub mod tls;
pub mod words;
