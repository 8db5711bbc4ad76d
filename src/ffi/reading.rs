//! Who reads the body of a request before its access enters.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

use super::contract::{NAP_READERS_FEW, NAP_READERS_MANY, NAP_READERS_TOO_MANY, nap_readers};
use super::guard::guard;
use super::process;
use crate::room::children::Readers;

pub unsafe extern "C" fn reading(more: c_int) -> nap_readers {
    guard(NAP_READERS_FEW, || {
        let (Some(process), Some(alive)) = (process::process(), process::alive()) else {
            return NAP_READERS_FEW;
        };
        let count = &alive.child.reading;
        match more {
            1 => _ = count.fetch_add(1, Relaxed),
            -1 => _ = count.fetch_sub(1, Relaxed),
            _ => {}
        }
        let (segment, life) = (&process.segment, alive.life());
        let workers = segment.workers();
        match workers.readers(workers.reading_in(segment.children(), life)) {
            Readers::Few => NAP_READERS_FEW,
            Readers::Many => NAP_READERS_MANY,
            Readers::TooMany => NAP_READERS_TOO_MANY,
        }
    })
}
