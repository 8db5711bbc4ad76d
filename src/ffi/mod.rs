//! httpd's door: the functions of `c_shim/nap.h`, each a guard, checked pointers, one safe call.
//!
//! There is no logic here. All decisions are made in the core: [`nap_core::room`], [`nap_core::bwshare::till`],
//! [`nap_core::oxthas`], [`nap_core::telepoll`].

mod access; // an access in httpd: enter, wait, leave
mod arrival; // what a request brings to the gate
mod bwshare; // a client's debts: limits in force; `charge` and `pages` below it
mod conf; // directives: what the core makes of them, behind opaque handles
mod control; // what an administrator's form asks for
mod empty_permits; // permits that stand empty while tickets are out, in the log
mod guard; // a panic becomes the safe answer, and one log line a minute
mod host; // what httpd lets us call, as safe methods
mod metrics; // figures for Prometheus and for `/server-status`
mod outside; // how many connections no worker has taken yet
mod oxthas; // a balancer's choice, and how it ended
mod pacing; // limits that the module moves itself, in the log
mod pages; // refusals and pages for the administrator
mod parking; // waiting without a worker: an access that is parked, its child's bell
mod preview; // the ticket page as visitors would see it
mod process; // what this process knows: the segment, the rooms, its own life
mod reading; // bodies of requests that are read without a permit
mod request; // what a request says
mod session; // an access in a room with sessions: its cookie, its answer
mod setup; // the parent's work at start
mod status; // where the holder of a ticket stands, and the early call
mod store; // the agent of a fleet's store: the parent's check, and its brief
mod telepoll; // what is polled: events in force, a poll
mod text; // strings in both directions
mod ticket_log; // NapTicketLog's records

/// nap.h as bindgen reads it; committed, compared by `make check-bindings`.
#[allow(missing_docs, non_camel_case_types, dead_code, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod contract;

use contract::{NAP_ABI, nap_core};

/// The functions, in the order of nap.h. A signature that differs from the header's does not
/// compile.
static CORE: nap_core = nap_core {
    abi: NAP_ABI,
    conf: conf::CALLS,
    server: setup::CALLS,
    access: access::CALLS,
    pages: pages::CALLS,
    debts: bwshare::CALLS,
    polls: telepoll::CALLS,
    balancer: oxthas::CALLS,
};

/// The table; the one symbol of the core that the shim links to.
#[unsafe(no_mangle)]
pub extern "C" fn nap_core_table() -> *const nap_core {
    &raw const CORE
}
