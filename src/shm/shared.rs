//! [`Shared`]: the marker of types that may live in the segment.

use crate::nap::client_caps::ClientCaps;
use crate::room::Room;
use crate::room::children::Child;
use crate::room::control::Control;
use crate::room::gate::Gate;
use crate::room::history::History;
use crate::room::page::Page;
use crate::room::permits::Permits;
use crate::room::places::{Place, PlacesHead};
use crate::room::recent::Recent;
use crate::room::starts::Starts;
use crate::sqs::page_scheduler::{Pacer, PageScheduler};
use crate::sqs::sessions::SessionSet;
use crate::telepoll::Event;
use std::sync::atomic::AtomicU32;

/// Types that may be put over shared memory another process, or an older server, has written.
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
