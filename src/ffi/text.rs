//! Strings in both directions.

use std::ffi::c_char;

use super::contract::{NAP_ERR_MAX, nap_str};

/// Bytes that httpd lends us for the call.
///
/// # Safety
/// `ptr` is null or points to `len` bytes that live as long as `'a` (nap.h: borrowed for the call).
pub unsafe fn bytes<'a>(s: nap_str) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { slice(s.ptr.cast::<u8>(), s.len) }
}

/// `n` things that httpd lends us for the call.
///
/// # Safety
/// `first` is null, or points to `n` that live as long as `'a`.
pub unsafe fn slice<'a, T>(first: *const T, n: usize) -> &'a [T] {
    match first.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(first, n) },
    }
}

/// The same, to be written to.
///
/// # Safety
/// As [`slice`], and nobody else looks at them.
pub unsafe fn slice_mut<'a, T>(first: *mut T, n: usize) -> &'a mut [T] {
    match first.is_null() {
        true => &mut [],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts_mut(first, n) },
    }
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
