//! `nap-preview`: the ticket page as visitors would see it, for the administrator. It refuses nobody and
//! sells no ticket.

use super::pages::{say, wall_now};
use super::process::{Process, Setup};
use super::request::Request;
use crate::page::POLICY;
use crate::page::accept::Format;
use crate::page::preview::List;
use crate::page::sample::Sample;

/// The page in the state that the query names; without a query, the list of states.
pub fn preview(process: &Process, setup: &Setup, q: Request<'_>, query: &str) {
    let answer = process.host.answer(q.r);
    answer.set(c"Cache-Control", "no-store");
    answer.set(c"X-Robots-Tag", "noindex");
    if query.is_empty() {
        answer.set(c"Content-Security-Policy", POLICY);
        let list = List::of(q.ticket_path(), setup.pages.iter().map(|own| own.name()));
        return answer.body(Format::Html.content_type(), &list.to_html());
    }
    let query = query.as_bytes();
    let sample = Sample::of_query(query, wall_now());
    let own = Sample::own_page(query).and_then(|number| setup.pages.get(number));
    let page = sample.page(q.ticket_path(), 503);
    say(&answer, own, &page, Format::Html, sample.language);
}
