//! [`Request`]: a request that httpd lends us for a call. Its promise is taken once; what it says is then read
//! without another.

use super::contract::nap_request;
use super::text::{bytes, slice, text};

/// A request. It and its strings live as long as `'a`.
#[derive(Clone, Copy)]
pub struct Request<'a>(&'a nap_request);

impl std::ops::Deref for Request<'_> {
    type Target = nap_request;

    fn deref(&self) -> &nap_request {
        self.0
    }
}

/// Methods that give strings of these names.
macro_rules! strings {
    ($($name:ident)+) => {
        $(pub fn $name(self) -> &'a [u8] {
            // SAFETY: the promise of of().
            unsafe { bytes(self.0.$name) }
        })+
    };
}

impl<'a> Request<'a> {
    /// # Safety
    /// nap.h: `q` is null, or it and its strings live as long as `'a`.
    pub unsafe fn of(q: *const nap_request) -> Option<Request<'a>> {
        // SAFETY: the caller's promise.
        unsafe { q.as_ref() }.map(Request)
    }

    strings! { method uri accept accept_language fetch_dest purpose ticket_header ticket_query form_type form_body }

    /// Its Cookie headers.
    pub fn cookies(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        // SAFETY: the promise of of(): n_cookies strings.
        let headers = unsafe { slice(self.0.cookies, self.0.n_cookies) };
        // SAFETY: as above.
        headers.iter().map(|header| unsafe { bytes(*header) })
    }

    /// NapTicketPath.
    pub fn ticket_path(self) -> &'a str {
        // SAFETY: the promise of of().
        unsafe { text(self.0.ticket_path) }
    }

    /// The ticket that was sold when it was refused, sealed.
    pub fn issued(self) -> &'a str {
        // SAFETY: as above.
        unsafe { text(self.0.issued) }
    }
}
