//! [`Shared`]: the marker of types that may live in the segment.

use nap_core::fleet::guests::GuestSet;
use nap_core::fleet::letters::Letter;
use nap_core::fleet::link::Link;
use nap_core::fleet::member::Member;
use nap_core::fleet::stake::Stake;
use nap_core::nap::client_caps::ClientCaps;
use nap_core::room::Room;
use nap_core::room::children::Child;
use nap_core::room::control::Control;
use nap_core::room::gate::Gate;
use nap_core::room::history::History;
use nap_core::room::page::Page;
use nap_core::room::permits::Permits;
use nap_core::room::place::Place;
use nap_core::room::places::PlacesHead;
use nap_core::room::recent::Recent;
use nap_core::room::starts::Starts;
use nap_core::sqs::page_scheduler::{Pacer, PageScheduler};
use nap_core::sqs::sessions::SessionSet;
use nap_core::telepoll::Event;
use std::sync::atomic::AtomicU32;

/// Types that may be laid over shared memory that another process, or an older server, has written.
///
/// # Safety
/// `repr(C)`; integers, atomics and arrays of them only (no pointers, references, handles, `bool`,
/// `enum`, `Option`); every bit pattern is a value; all zero is empty.
pub unsafe trait Shared {}

macro_rules! shared {
    ($($kind:ty),+ $(,)?) => { $(
        // SAFETY: repr(C); integers, atomics and arrays of them only. Floats are kept as bits, and checked on reading.
        unsafe impl Shared for $kind {}
    )+ };
}

shared! {
    AtomicU32, Child, Room, Permits, Gate, PlacesHead, Place, History, ClientCaps, Starts, SessionSet, Control,
    Recent, Page, PageScheduler, Pacer, Event, Link, Member, Stake, GuestSet, Letter,
}
