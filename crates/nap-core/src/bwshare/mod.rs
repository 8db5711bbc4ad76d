//! mod_bwshare (`papers/bwshare.txt`): debts in files and bytes that share the server fairly.
//!
//! Each request a client makes is a debt of one file, each byte it is sent a debt of one byte; both
//! are paid off by time at a credit rate. A client that would owe more than a maximum is asked to
//! wait. A debt is kept as the time at which it will be paid ([`Account`](account::Account)), so
//! nothing has to be done while time passes, and a client that owes nothing needs no place.
//!
//! | file | what it holds | ALGORITHMS |
//! |---|---|---|
//! | [`limits`] | a maximum and a credit rate; the rule, and how long to wait | 6 |
//! | [`account`] | what one client owes | 6 |
//! | [`horizons`] | the limit of the note's three horizons | 6 |
//! | [`service`] | how well the horizons are served, and what they are steered to | 6 |
//! | [`client`] | what one client is: an address or a prefix, hashed with a secret | 6 |
//! | [`table`] | the debts of all clients, and what happens when there are too many | 6 |
//! | [`trace`] | what clients have done, for the administrator | 6 |
//! | [`visit`] | a request from its charge to its end: table and trace together | 6 |
//! | [`untold`] | what debts have grown by that a fleet has not been told | 6 |
//! | [`till`] | the driver: limits in force, client and network, excuses, what pages read | 6 |
//!
//! Times are nanoseconds of inside time (`_ns`): at a gigabyte a second a byte is one of them.

pub mod account;
pub mod client;
pub mod horizons;
pub mod limits;
pub mod service;
pub mod table;
pub mod till;
pub mod trace;
pub mod untold;
pub mod visit;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
