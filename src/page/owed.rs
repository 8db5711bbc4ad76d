//! [`Owed`]: what a visitor sees of their own debts, if the administrator lets them.

use serde::Serialize;

use super::accept::{Format, Language};
use super::{filled, templates};
use crate::wall::{Written, countdown};
use nap_core::bwshare::limits::Debt;
use nap_core::micros::Micros;

/// What a client owes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Owed {
    /// Requests.
    pub files: Due,
    /// Bytes.
    pub bytes: Due,
    /// Until it may have more; 0: now.
    #[serde(serialize_with = "seconds", rename = "wait_s")]
    pub wait: Micros,
    /// Why it has to wait, if it has to.
    #[serde(serialize_with = "name")]
    pub reason: Option<Debt>,
}

/// A debt against its limits.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Due {
    /// What is owed.
    pub debt: f64,
    /// What may be owed.
    pub max: f64,
    /// What is paid off a second.
    pub rate: f64,
}

struct View<'a> {
    owed: &'a Owed,
    language: Language,
}

templates! {
    View:
    Html "owed.html",
    Text "owed.txt",
}

impl Due {
    fn percent(&self) -> String {
        format!("{:.0} %", (self.debt / self.max * 100.0).ceil())
    }
}

impl Owed {
    /// The page in the form and language the visitor prefers: its media type, and itself.
    pub fn render(&self, format: Format, language: Language) -> (&'static str, String) {
        let view = View {
            owed: self,
            language,
        };
        match format {
            Format::Html => (format.content_type(), filled(1024, &Html(view))),
            Format::Text => (format.content_type(), filled(256, &Text(view))),
            Format::Json => (
                "application/json",
                serde_json::to_string(self).unwrap_or_default(),
            ),
        }
    }

    fn wait(&self) -> Written {
        countdown(self.wait)
    }
}

fn seconds<S: serde::Serializer>(span: &Micros, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(span.secs_ceil())
}

fn name<S: serde::Serializer>(why: &Option<Debt>, to: S) -> Result<S::Ok, S::Error> {
    why.map(Debt::name).serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owed(wait_ms: u64) -> Owed {
        let due = |debt, max, rate| Due { debt, max, rate };
        Owed {
            files: due(12.0, 30.0, 0.05),
            bytes: due(0.0, 5e5, 1000.0),
            wait: Micros::from_millis(wait_ms),
            reason: (wait_ms > 0).then_some(Debt::Network),
        }
    }

    #[test]
    fn a_visitor_is_told_what_he_owes_in_his_language_and_form() {
        let html = owed(0).render(Format::Html, Language::En).1;
        assert!(
            html.contains("12.0 of 30") && html.contains("40 %"),
            "{html}"
        );
        assert!(html.contains("need not wait"), "{html}");
        let html = owed(61_500).render(Format::Html, Language::Ja).1;
        assert!(
            html.contains("lang=\"ja\"") && html.contains("1:02"),
            "{html}"
        );
        let text = owed(61_500).render(Format::Text, Language::En).1;
        assert!(
            text.contains("12.0 of 30") && text.contains("1:02"),
            "{text}"
        );
        let (kind, json) = owed(61_500).render(Format::Json, Language::En);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((kind, &json["wait_s"]), ("application/json", &62.into()));
        assert_eq!(json["files"]["debt"], 12.0);
        assert_eq!(json["reason"], "network");
        assert!(text.contains("network that your address"), "{text}");
        let free = owed(0).render(Format::Json, Language::En).1;
        assert!(free.contains("\"reason\":null"), "{free}");
    }
}
