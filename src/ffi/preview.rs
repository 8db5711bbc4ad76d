//! `nap-preview`: the ticket page as visitors would see it, for the administrator. It refuses nobody and
//! sells no ticket.

use super::contract::{nap_request, nap_str};
use super::guard::guard;
use super::pages::{say, wall_now};
use super::process;
use super::text::{bytes, text};
use crate::page::POLICY;
use crate::page::accept::Format;
use crate::page::preview::List;
use crate::page::sample::Sample;

pub unsafe extern "C" fn preview(q: *const nap_request, query: nap_str) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let (Some(process), Some(setup), Some(q)) =
            (process::process(), process::setup(), unsafe { q.as_ref() })
        else {
            return;
        };
        // SAFETY: nap.h's promise: the strings are live for the call.
        let (path, query) = unsafe { (text(q.ticket_path), bytes(query)) };
        let answer = process.host.answer(q.r);
        answer.set(c"Cache-Control", "no-store");
        answer.set(c"X-Robots-Tag", "noindex");
        if query.is_empty() {
            answer.set(c"Content-Security-Policy", POLICY);
            let list = List::of(path, setup.pages.iter().map(|own| own.name()));
            return answer.body(Format::Html.content_type(), &list.to_html());
        }
        let sample = Sample::of_query(query, wall_now());
        let own = Sample::own_page(query).and_then(|number| setup.pages.get(number));
        let page = sample.page(path, 503);
        say(&answer, own, &page, Format::Html, sample.language);
    });
}
