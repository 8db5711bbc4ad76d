//! httpd's door: the functions of `c_shim/nap.h`, each a guard, checked pointers, one safe call.
//!
//! | file | what it holds |
//! |---|---|
//! | `contract` | nap.h as bindgen reads it; committed, compared by `make check-bindings` |
//! | `guard` | a panic becomes the safe answer, and one log line a minute |
//! | `text` | strings in both directions |
//! | `host` | what httpd lets us call, as safe methods |
//! | `process` | what this process knows: the segment, the rooms, its own life |
//! | `setup` | directives, and the parent's work at start |
//! | `access` | an access in httpd: enter, wait, leave |
//! | `arrival` | what a request brings to the gate |
//! | `parking` | waiting without a worker: an access that is parked, its child's bell |
//! | `reading` | bodies of requests that are read without a permit |
//! | `outside` | how many connections no worker has taken yet |
//! | `session` | an access in a room with sessions: its cookie, its answer |
//! | `ticket_log` | NapTicketLog's records |
//! | `bwshare` | a client's debts: limits in force; `charge` and `pages` below it |
//! | `pacing` | limits that the module moves itself, in the log |
//! | `empty_permits` | permits that stand empty while tickets are out, in the log |
//! | `telepoll` | what is polled: events in force, a poll |
//! | `oxthas` | a balancer's choice, and how it ended |
//! | `pages` | refusals and pages for the administrator |
//! | `status` | where the holder of a ticket stands, and the early call |
//! | `preview` | the ticket page as visitors would see it |
//! | `control` | what an administrator's form asks for |
//! | `metrics` | figures for Prometheus and for `/server-status` |
//!
//! There is no logic here: all decisions are made in [`nap_core::room`].

mod access;
mod arrival;
mod bwshare;
mod control;
mod empty_permits;
mod guard;
mod host;
mod metrics;
mod outside;
mod oxthas;
mod pacing;
mod pages;
mod parking;
mod preview;
mod process;
mod reading;
mod session;
mod setup;
mod status;
mod telepoll;
mod text;
mod ticket_log;

#[allow(missing_docs, non_camel_case_types, dead_code, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod contract;

use contract::{NAP_ABI, nap_core};

/// The functions, in the order of nap.h. A signature that differs from the header's does not
/// compile.
static CORE: nap_core = nap_core {
    abi: NAP_ABI,
    conf_room_size: Some(setup::conf_room_size),
    conf_room_init: Some(setup::conf_room_init),
    conf_room_view: Some(setup::conf_room_view),
    conf_room_beside: Some(setup::conf_room_beside),
    conf_page_init: Some(setup::conf_page_init),
    conf_page_over: Some(setup::conf_page_over),
    conf_room: Some(setup::conf_room),
    conf_server_init: Some(setup::conf_server_init),
    conf_server: Some(setup::conf_server),
    conf_status: Some(setup::conf_status),
    conf_room_finish: Some(setup::conf_room_finish),
    segment_open: Some(setup::segment_open),
    room_keep: Some(setup::room_keep),
    room_index: Some(setup::room_index),
    ticket_keys_check: Some(setup::ticket_keys_check),
    ticket_keys: Some(setup::ticket_keys),
    page_check: Some(setup::page_check),
    page_own: Some(setup::page_own),
    start: Some(setup::start),
    child_gone: Some(setup::child_gone),
    tick: Some(setup::tick),
    segment_close: Some(setup::segment_close),
    child_init: Some(setup::child_init),
    reading: Some(reading::reading),
    pace: Some(reading::pace),
    holds: Some(reading::holds),
    refuses: Some(reading::refuses),
    step_out: Some(reading::step_out),
    step_in: Some(reading::step_in),
    stay_out: Some(reading::stay_out),
    try_enter: Some(access::try_enter),
    try_member: Some(session::try_member),
    enter: Some(access::enter),
    wait: Some(access::wait),
    give_up: Some(access::give_up),
    first_byte: Some(access::first_byte),
    park: Some(parking::park),
    unpark: Some(parking::unpark),
    blocks: Some(parking::blocks),
    bell: Some(parking::bell),
    ring: Some(parking::ring),
    woken: Some(parking::woken),
    writes: Some(access::writes),
    detach: Some(access::detach),
    leave: Some(access::leave),
    refusal: Some(pages::refusal),
    redeemed: Some(pages::redeemed),
    answered: Some(session::answered),
    page: Some(pages::page),
    variables: Some(pages::variables),
    form_wanted: Some(pages::form_wanted),
    asset: Some(pages::asset),
    status: Some(status::status),
    tickets_out: Some(status::tickets_out),
    call: Some(status::call),
    reason_name: Some(pages::reason_name),
    ticket_id: Some(pages::ticket_id),
    info: Some(pages::info),
    control: Some(control::control),
    preview: Some(preview::preview),
    metrics: Some(metrics::metrics),
    server_status: Some(metrics::server_status),
    conf_bw_init: Some(bwshare::conf_bw_init),
    conf_bw: Some(bwshare::conf_bw),
    conf_bw_over: Some(bwshare::conf_bw_over),
    conf_bw_check: Some(bwshare::conf_bw_check),
    bw_limits: Some(bwshare::bw_limits),
    bw_start: Some(bwshare::bw_start),
    bw_enter: Some(bwshare::bw_enter),
    bw_excuse: Some(bwshare::bw_excuse),
    bw_bytes: Some(bwshare::bw_bytes),
    bw_reserve: Some(bwshare::bw_reserve),
    bw_return: Some(bwshare::bw_return),
    bw_refusal: Some(bwshare::bw_refusal),
    bw_page: Some(bwshare::bw_page),
    bw_debt_name: Some(bwshare::bw_debt_name),
    bw_info: Some(bwshare::bw_info),
    bw_mine: Some(bwshare::bw_mine),
    conf_event: Some(telepoll::conf_event),
    events_start: Some(telepoll::events_start),
    poll: Some(telepoll::poll),
    polled: Some(telepoll::polled),
    conf_ox_init: Some(oxthas::conf_ox_init),
    conf_ox: Some(oxthas::conf_ox),
    conf_ox_over: Some(oxthas::conf_ox_over),
    ox_start: Some(oxthas::ox_start),
    ox_choose: Some(oxthas::ox_choose),
    ox_go: Some(oxthas::ox_go),
    ox_end: Some(oxthas::ox_end),
    ox_retries: Some(oxthas::ox_retries),
};

/// The table; the one symbol of the core that the shim links to.
#[unsafe(no_mangle)]
pub extern "C" fn nap_core_table() -> *const nap_core {
    &raw const CORE
}
