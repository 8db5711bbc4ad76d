//! Strings in both directions.

use std::ffi::c_char;

use super::contract::{NAP_ERR_MAX, nap_str};

/// Bytes that httpd lends us for the call.
///
/// # Safety
/// `ptr` is null or points to `len` bytes that live as long as `'a` (nap.h: borrowed for the call).
pub unsafe fn bytes<'a>(s: nap_str) -> &'a [u8] {
    if s.ptr.is_null() || s.len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(s.ptr.cast::<u8>(), s.len) }
}

/// The same as text; what is not UTF-8 becomes empty.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn text<'a>(s: nap_str) -> &'a str {
    // SAFETY: the caller's promise.
    std::str::from_utf8(unsafe { bytes(s) }).unwrap_or("")
}

/// Text lent to httpd for one call.
pub fn lend(s: &str) -> nap_str {
    nap_str {
        ptr: s.as_ptr().cast::<c_char>(),
        len: s.len(),
    }
}

/// Writes a message into `err[NAP_ERR_MAX]`, cut if it must be, with a final zero.
///
/// # Safety
/// `err` is null or has room for `NAP_ERR_MAX` bytes.
pub unsafe fn put_error(err: *mut c_char, message: &str) {
    if err.is_null() {
        return;
    }
    let most = NAP_ERR_MAX as usize - 1;
    let mut len = message.len().min(most);
    while !message.is_char_boundary(len) {
        len -= 1;
    }
    // SAFETY: len < NAP_ERR_MAX, so bytes and final zero fit (the caller's promise).
    unsafe {
        std::ptr::copy_nonoverlapping(message.as_ptr().cast::<c_char>(), err, len);
        *err.add(len) = 0;
    }
}
