//! The list of states in which a ticket page can be viewed (`SetHandler nap-preview`).

use askama::Template;

use super::assets::{ICON, STYLE};
use super::filled;

/// Links to the page in each state.
#[derive(Template)]
#[template(path = "preview.html")]
pub struct List<'a> {
    path: &'a str,
    /// Name, and how a query names it.
    pages: Vec<(String, String)>,
}

/// States worth a look: name and query.
const STATES: &[(&str, &str)] = &[
    ("A ticket was issued", "reason=full&promise=soon"),
    (
        "The same, with a form",
        "reason=full&promise=soon&form=kept",
    ),
    (
        "The same, the form could not be kept",
        "reason=full&promise=soon&form=lost",
    ),
    ("Early", "reason=early&promise=soon"),
    ("Late: exchanged", "reason=late&promise=soon"),
    ("Deferred by the server", "reason=deferred&promise=soon"),
    ("A broken promise", "reason=broken&promise=soon"),
    ("Its time has come", "reason=early&promise=now"),
    ("Its prime window is over", "reason=stopping&promise=late"),
    ("No ticket: too many", "reason=cap&promise=none"),
    ("No ticket: sold out", "reason=sold-out&promise=none"),
    ("No ticket: not a page", "reason=not-sold&promise=none"),
    ("Taken over", "reason=taken-over&promise=none"),
    ("Closed by hand", "reason=closed&promise=none"),
    ("Asked for by hand", "reason=&promise=soon"),
    ("Asked for by hand, no ticket", "reason=&promise=none"),
];

impl<'a> List<'a> {
    /// For a site whose ticket page lives at `path`; `own`: the files of NapTicketPage.
    pub fn of<'b>(path: &'a str, own: impl Iterator<Item = &'b str>) -> List<'a> {
        let built_in = ("the built-in page".to_owned(), String::new());
        let own = own.enumerate();
        let own = own.map(|(number, name)| (name.to_owned(), format!("&page={number}")));
        List {
            path,
            pages: std::iter::once(built_in).chain(own).collect(),
        }
    }

    /// As a page.
    pub fn to_html(&self) -> String {
        filled(8192, self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::*;
    use crate::wall::Wall;

    #[test]
    fn each_link_leads_to_another_state() {
        let mut seen = std::collections::HashSet::new();
        for (name, query) in STATES {
            let sample = Sample::of_query(query.as_bytes(), Wall::default());
            let state = (
                sample.reason.name(),
                format!("{:?}{:?}", sample.promise, sample.form),
            );
            assert!(seen.insert(state), "{name}");
        }
        let html = List::of("/nap-ticket", ["/a<b>.html"].into_iter()).to_html();
        assert!(
            html.contains("/a&#60;b&#62;.html") && html.contains("page=0"),
            "{html}"
        );
        assert_eq!(html.matches("<a ").count(), 2 * 2 * STATES.len());
    }
}
