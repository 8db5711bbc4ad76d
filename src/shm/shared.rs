//! [`Shared`]: the marker of types that may live in the segment.

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
use nap_core::sqs::page_scheduler::Pacer;
use nap_core::sqs::page_scheduler::PageScheduler;
use nap_core::sqs::sessions::SessionSet;
use nap_core::telepoll::Event;
use std::sync::atomic::AtomicU32;

/// Types that may be laid over shared memory that another process, or an older server, has written.
///
/// # Safety
/// `repr(C)`; integers, atomics and arrays of them only (no pointers, references, handles, `bool`,
/// `enum`, `Option`); every bit pattern is a value; all zero is empty.
pub unsafe trait Shared {}

// SAFETY: an integer.
unsafe impl Shared for AtomicU32 {}
// SAFETY: repr(C), atomics only.
unsafe impl Shared for Child {}
// SAFETY: repr(C), integers and integer arrays only.
unsafe impl Shared for Room {}
// SAFETY: repr(C), atomics only.
unsafe impl Shared for Permits {}
// SAFETY: repr(C), integers and integer arrays only, floats as bits and checked on reading.
unsafe impl Shared for Gate {}
// SAFETY: repr(C), integers only.
unsafe impl Shared for PlacesHead {}
// SAFETY: repr(C), integers only.
unsafe impl Shared for Place {}
// SAFETY: repr(C), integers and integer arrays only.
unsafe impl Shared for History {}
// SAFETY: repr(C), integers and integer arrays only.
unsafe impl Shared for ClientCaps {}
// SAFETY: repr(C), integers and arrays of atomics only, floats as bits and checked on reading.
unsafe impl Shared for Starts {}
// SAFETY: repr(C), integers and integer arrays only.
unsafe impl Shared for SessionSet {}
// SAFETY: repr(C), atomics only.
unsafe impl Shared for Control {}
// SAFETY: repr(C), atomics only.
unsafe impl Shared for Recent {}
// SAFETY: repr(C), integers and integer arrays only.
unsafe impl Shared for Page {}
// SAFETY: repr(C), integers and integer arrays only, floats as bits and checked on reading.
unsafe impl Shared for PageScheduler {}
// SAFETY: repr(C), integers only.
unsafe impl Shared for Pacer {}
// SAFETY: repr(C), atomics only, and integers that nobody touches.
unsafe impl Shared for Event {}
