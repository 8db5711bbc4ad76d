//! Is a fleet of three nodes as good as its parts, and what does its store's trouble cost a request?
//!
//! - **at once**, **five pages** (`crowds.rs`): one crowd in front of three nodes that share it, compared with what a
//!   node serves alone, and with nodes that know nothing of each other;
//! - **shared** (`shared.rs`): a limit that all nodes share, compared with one httpd that has it alone;
//! - **separate** (`separate.rs`): many clients that come back again and again, compared with the same servers without
//!   a store behind a balancer that keeps each client on one;
//! - **away** (`away.rs`): how long visitors wait for their first byte while the store is well, dead, slow or silent;
//! - **cut** (`cut.rs`): what two nodes serve while the third is cut off from the store;
//! - **times** (`times.rs`): how soon a fleet is whole again after a death, and does as it is told.
//!
//! By the rule for rates on a noisy machine: pairs in the order A B B A, the median of the pairs' ratios and its
//! 90 % interval by the sign test, or the least and the greatest of fewer than five. Prints Markdown rows, and exits 1
//! if something does not hold, with a sentence; nap-load's reports stay in target/bench. Options, with their defaults
//! first:
//!
//! ```text
//! cargo bench --bench fleet -- only=[at once|five pages|shared|separate|away|cut|times] rounds= \
//!     mpm=event-stock,event-roomy[,worker-stock,prefork-stock] visitors=ticket,retry-after[,asks] crowd=250 sleep=300 \
//!     turn=10 cycles=1 clients=600 newcomers=960 holders=24 cut=60 times=3
//! ```
//!
//! The first line is for all; `mpm=` to `sleep=` are those of the crowds, `turn=` and `cycles=` are of **shared**, `clients=` of
//! **separate**, which takes `mpm=`, too, `newcomers=` and `holders=` of **away**, `cut=` of **cut**, `times=` of **times**.

mod away;
#[allow(dead_code, reason = "the board is another bench's")]
#[path = "../board.rs"]
mod board;
mod crowds;
mod cut;
#[path = "../held_page.rs"]
mod held_page;
#[allow(dead_code, reason = "what is asked by MPM another bench asks")]
#[path = "../hosts.rs"]
mod hosts;
mod pairs;
mod separate;
mod shared;
#[path = "../sign_test.rs"]
mod sign_test;
mod times;
mod told;
#[path = "../tries.rs"]
mod tries;
#[path = "../visitors.rs"]
mod visitors;

use nap_testkit::made;

/// Its name, and how it is run. False: something does not hold.
type Part = (&'static str, fn() -> bool);

fn main() {
    board::require_what_make_builds();
    if let Err(missing) = made::look_for("release/nap-agent") {
        board::stop(&missing);
    }
    let only = board::option("only=", "");
    let mut all_hold = crowds::run(&only);
    let parts: [Part; 5] = [
        ("shared", shared::run),
        ("separate", separate::run),
        ("away", away::run),
        ("cut", cut::run),
        ("times", times::run),
    ];
    for (_, run) in parts.iter().filter(|(name, _)| name.contains(&only)) {
        all_hold &= run();
    }
    if !all_hold {
        std::process::exit(1);
    }
}
