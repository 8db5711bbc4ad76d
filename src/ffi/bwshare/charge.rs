//! A request's charge: its entry, its excuse, its bytes. What becomes of it is decided in [`nap_core::bwshare::till`];
//! here are its pointers checked.

use std::ffi::c_int;
use std::mem::offset_of;

use super::{in_force, now_ns};
use crate::ffi::arrival::until_prime;
use crate::ffi::contract::{
    NAP_BW_DRY, NAP_BW_EXCUSED, NAP_NONE, nap_client, nap_request, nap_reserved, nap_visit,
};
use crate::ffi::guard::guard;
use crate::ffi::process::{self, RoomSetup};
use crate::ffi::request::Request;
use crate::ffi::session::is_member;
use crate::shm::debts::nanoseconds;
use nap_core::bwshare::till::charge::{Charge, Reservation, flag};
use nap_core::bwshare::till::last_client::LastClient;
use nap_core::micros::Micros;

const _: () = {
    assert!(size_of::<nap_visit>() == size_of::<Charge>());
    assert!(align_of::<nap_visit>() == align_of::<Charge>());
    assert!(offset_of!(nap_visit, limits) == offset_of!(Charge, limits));
    assert!(offset_of!(nap_visit, flags) == offset_of!(Charge, flags));
    assert!(offset_of!(nap_visit, key) == offset_of!(Charge, key));
    assert!(offset_of!(nap_visit, status) == offset_of!(Charge, status));
    assert!(offset_of!(nap_visit, own) == offset_of!(Charge, debt));
    assert!(size_of::<nap_client>() == size_of::<LastClient>());
    assert!(align_of::<nap_client>() == align_of::<LastClient>());
    assert!(size_of::<nap_reserved>() == size_of::<Reservation>());
    assert!(align_of::<nap_reserved>() == align_of::<Reservation>());
    assert!(offset_of!(nap_reserved, bytes) == offset_of!(Reservation, bytes));
    assert!(NAP_BW_DRY == flag::DRY_RUN && NAP_BW_EXCUSED == flag::EXCUSED);
};

/// # Safety
/// `v` is null or a live nap_visit that nobody writes during the call.
#[inline]
pub(super) unsafe fn charge<'a>(v: *const nap_visit) -> Option<&'a Charge> {
    // SAFETY: the caller's promise; the two have one layout (above), integers of which every value is good.
    unsafe { v.cast::<Charge>().as_ref() }
}

/// # Safety
/// `v` is null or a live nap_visit, ours for the call.
#[inline]
unsafe fn charge_mut<'a>(v: *mut nap_visit) -> Option<&'a mut Charge> {
    // SAFETY: as above.
    unsafe { v.cast::<Charge>().as_mut() }
}

pub unsafe extern "C" fn bw_enter(
    v: *mut nap_visit,
    last: *mut nap_client,
    address: *const u8,
) -> c_int {
    guard(0, || {
        // SAFETY: nap.h: a live visit, the connection's client, and the 16 bytes of an address; layouts: as above.
        let given = unsafe {
            (
                charge_mut(v),
                last.cast::<LastClient>().as_mut(),
                address.cast::<[u8; 16]>().as_ref(),
            )
        };
        let (Some(charge), Some(last), Some(address)) = given else {
            return None;
        };
        // A process that is not in the children table would hold its latches for ever if it died.
        let (Some(till), Some(_)) = (in_force(), process::alive()) else {
            return None;
        };
        Some(till.enter(charge, last, address, now_ns).into())
    })
}

pub unsafe extern "C" fn bw_excuse(
    v: *mut nap_visit,
    q: *const nap_request,
    room: u32,
    owner: u32,
) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promises.
        let (charge, q) = unsafe { (charge_mut(v)?, Request::of(q)?) };
        let till = in_force()?;
        let (Some(process), Some(setup)) = (process::process(), process::setup()) else {
            return Some(till.excuse(charge, now_ns(), || None, || false).into());
        };
        let nowhere = room == NAP_NONE;
        let in_room = |own: &&RoomSetup| nowhere || [room, owner].contains(&(own.room as u32));
        let rooms = || setup.rooms.iter().filter(in_room);
        // A ticket is a promise, whatever its holder owes; but outside rooms nothing redeems it.
        let held = |own| until_prime(q, process, setup, own);
        let ticket = || rooms().filter(|_| !nowhere).filter_map(held).min();
        let member = |own| is_member(q, process, own);
        let now_ns = now_ns();
        let excused = till.excuse(charge, now_ns, ticket, || rooms().any(member));
        Some(excused.into())
    })
}

pub unsafe extern "C" fn bw_bytes(v: *const nap_visit, bytes: u64, now_us: u64) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let charge = unsafe { charge(v) }?;
        in_force()?.bytes(charge, bytes, || at(now_us));
        Some(())
    });
}

/// The time that `leave` returned, or now.
#[inline]
fn at(now_us: u64) -> u64 {
    match now_us {
        0 => now_ns(),
        now_us => nanoseconds(Micros(now_us)),
    }
}

pub unsafe extern "C" fn bw_reserve(
    v: *const nap_visit,
    reserved: *mut nap_reserved,
    bytes: u64,
    now_us: u64,
) {
    guard((), || {
        // SAFETY: nap.h's promises; layouts: as above.
        let (charge, to) = unsafe { (charge(v)?, reserved.cast::<Reservation>().as_mut()?) };
        *to = in_force()?.reserve(charge, bytes, at(now_us))?;
        Some(())
    });
}

pub unsafe extern "C" fn bw_return(
    v: *const nap_visit,
    reserved: *const nap_reserved,
    unsent: u64,
) {
    guard((), || {
        // SAFETY: nap.h's promises; the shim asks only where bw_reserve has written. Layouts: as above.
        let (charge, back) = unsafe { (charge(v)?, reserved.cast::<Reservation>().as_ref()?) };
        in_force()?.give_back(charge, back, unsent, now_ns());
        Some(())
    });
}
