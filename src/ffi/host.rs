//! What httpd lets us call, as safe methods.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::contract::{nap_host, nap_str};
use super::text::lend;
use nap_core::micros::Micros;

/// The host's functions, copied: the shim's table is static, but the shim may be reloaded.
#[derive(Clone, Copy)]
pub struct Host(nap_host);

/// The answer a request is getting.
pub struct Answer<'a> {
    host: &'a Host,
    r: *mut c_void,
}

impl Host {
    /// The table behind `host`; None if there is none.
    ///
    /// # Safety
    /// `host` is null or points to a table whose functions are null or callable from any thread.
    pub unsafe fn new(host: *const nap_host) -> Option<Host> {
        // SAFETY: the caller's promise.
        unsafe { host.as_ref() }.copied().map(Host)
    }

    /// One line to the error log.
    pub fn log(&self, level: u32, line: &str) {
        if let Some(log) = self.0.log {
            // SAFETY: callable (new()); the line lives through the call.
            unsafe { log(level as c_int, lend(line)) };
        }
    }

    /// One line to NapTicketLog.
    pub fn ticket_log(&self, line: &str) {
        if let Some(log) = self.0.ticket_log {
            // SAFETY: as above.
            unsafe { log(lend(line)) };
        }
    }

    /// The name that DNS or the hosts file gives an address (v4 as ::ffff:a.b.c.d). Takes as long as
    /// the look-up does, so the caller must hold no lock.
    pub fn name_of(&self, address: &[u8; 16]) -> Option<String> {
        let mut name = [0u8; 256];
        // SAFETY: callable (new()); the address is 16 bytes, and the name ends with a zero within
        // its size.
        let found = unsafe {
            self.0.name_of?(
                address.as_ptr(),
                name.as_mut_ptr().cast::<c_char>(),
                name.len(),
            )
        };
        let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        (found != 0 && name.chars().all(plain)).then(|| name.to_owned())
    }

    /// How long ago the last of the request `r` came; zero: not known.
    pub fn received(&self, r: *mut c_void) -> Micros {
        let Some(received) = self.0.received else {
            return Micros::ZERO;
        };
        // SAFETY: callable (new()); `r` is the request the shim handed us for this call.
        Micros::from_millis(unsafe { received(r) }.into())
    }

    /// Connections that the kernel has accepted and no worker has taken; `u32::MAX`: not known.
    pub fn outside(&self) -> u32 {
        // SAFETY: callable (new()).
        self.0
            .outside
            .map_or(u32::MAX, |outside| unsafe { outside() })
    }

    /// The answer of the request `r`.
    pub fn answer(&self, r: *mut c_void) -> Answer<'_> {
        Answer { host: self, r }
    }
}

type HeaderFn = Option<unsafe extern "C" fn(*mut c_void, *const c_char, nap_str)>;
type TextFn = Option<unsafe extern "C" fn(*mut c_void, nap_str)>;

impl Answer<'_> {
    fn header(&self, function: HeaderFn, name: &'static CStr, value: &str) {
        if let Some(function) = function {
            // SAFETY: `r` is the request the shim handed us for this call; the value lives through
            // it, the name as long as we do.
            unsafe { function(self.r, name.as_ptr(), lend(value)) };
        }
    }

    fn text(&self, function: TextFn, text: &str) {
        if let Some(function) = function {
            // SAFETY: as in header().
            unsafe { function(self.r, lend(text)) };
        }
    }

    /// Add a header that survives an error redirect.
    pub fn add(&self, name: &'static CStr, value: &str) {
        self.header(self.host.0.err_header, name, value);
    }

    /// Set a header that survives an error redirect.
    pub fn set(&self, name: &'static CStr, value: &str) {
        self.header(self.host.0.set_err_header, name, value);
    }

    /// A variable for the document that answers in place of the request.
    pub fn variable(&self, name: &str, value: &str) {
        if let Some(variable) = self.host.0.variable {
            // SAFETY: as in header(); both are copied.
            unsafe { variable(self.r, lend(name), lend(value)) };
        }
    }

    /// Content type, then body.
    pub fn body(&self, content_type: &str, body: &str) {
        self.text(self.host.0.content_type, content_type);
        self.more(body);
    }

    /// More of the body.
    pub fn more(&self, body: &str) {
        self.text(self.host.0.write, body);
    }
}
