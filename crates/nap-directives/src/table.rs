//! The table: all directives, in the order of the reference.

mod peers;
mod room;
mod server;
mod tickets;

use crate::Directive;

/// All of them.
pub fn directives() -> impl Iterator<Item = &'static Directive> {
    [
        room::DIRECTIVES,
        tickets::DIRECTIVES,
        server::DIRECTIVES,
        peers::DIRECTIVES,
    ]
    .into_iter()
    .flatten()
}
