//! A state that a page can be in, without refusing anybody: for the administrator's preview, and to
//! try out a page of the administrator's own.

use std::sync::LazyLock;

use super::accept::Language;
use super::form::{Encoding, Field, Sent, SentForm};
use super::{PageTicket, Promise, RefusalPage};
use crate::wall::Wall;
use nap_core::charset::Charset;
use nap_core::micros::Micros;
use nap_core::room::verdict::Reason;

/// One state.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Why the visitor was refused.
    pub reason: Reason,
    /// What the visitor has been promised.
    pub promise: Promise,
    /// The language the visitor reads.
    pub language: Language,
    /// What became of the form they sent.
    pub form: Sent<'static>,
    /// When this is.
    pub wall: Option<Wall>,
}

/// Spans until start, end of the prime window and end of a sample's ticket, in seconds.
const SPANS: [u64; 3] = [195, 200, 495];

/// A form of two fields, in the page.
static KEPT: LazyLock<SentForm> = LazyLock::new(|| {
    let field = |name: &str, value: &str| Field {
        name: name.into(),
        value: value.into(),
        file: false,
    };
    SentForm {
        encoding: Encoding::Urlencoded,
        charset: Charset::UTF_8,
        fields: vec![field("name", "Ada"), field("text", "<b>\"one\"\r\ntwo")],
    }
});

impl Default for Sample {
    /// The commonest.
    fn default() -> Sample {
        Sample {
            reason: Reason::Full,
            promise: Promise::Soon,
            language: Language::En,
            form: Sent::Nothing,
            wall: None,
        }
    }
}

impl Sample {
    /// Every combination.
    pub fn all() -> impl Iterator<Item = Sample> {
        let forms = [Sent::Nothing, Sent::Kept(&KEPT), Sent::Lost];
        let count = Reason::COUNT * Promise::ALL.len() * forms.len() * Language::ALL.len();
        (0..count).map(move |mut n| {
            let mut one_of = |all: usize| {
                let at = n % all;
                n /= all;
                at
            };
            Sample {
                reason: Reason::of(one_of(Reason::COUNT) as u32),
                promise: Promise::ALL[one_of(Promise::ALL.len())],
                form: forms[one_of(forms.len())],
                language: Language::ALL[one_of(Language::ALL.len())],
                wall: None,
            }
        })
    }

    /// The state that a query names by `reason`, `promise`, `form` and `language`. Anything it does not
    /// name, or names wrongly, is as on the commonest page.
    pub fn of_query(query: &[u8], wall: Wall) -> Sample {
        let mut sample = Sample {
            wall: Some(wall),
            ..Sample::default()
        };
        for (name, value) in form_urlencoded::parse(query) {
            match &*name {
                "reason" => {
                    let reasons = (0..Reason::COUNT as u32).map(Reason::of);
                    let named = reasons.into_iter().find(|one| one.name() == value);
                    sample.reason = named.unwrap_or(sample.reason);
                }
                "promise" => sample.promise = Promise::named(&value).unwrap_or_default(),
                "language" => {
                    let named = Language::ALL.into_iter().find(|one| one.tag() == value);
                    sample.language = named.unwrap_or_default();
                }
                "form" => {
                    sample.form = match &*value {
                        "kept" => Sent::Kept(&KEPT),
                        "lost" => Sent::Lost,
                        _ => Sent::Nothing,
                    };
                }
                _ => {}
            }
        }
        sample
    }

    /// The number of the own page that a query names.
    pub fn own_page(query: &[u8]) -> Option<usize> {
        form_urlencoded::parse(query)
            .find(|(name, _)| name == "page")
            .and_then(|(_, number)| number.parse().ok())
    }

    /// Its page, for a site whose ticket page lives at `path`.
    pub fn page<'a>(&'a self, path: &'a str, status: u16) -> RefusalPage<'a> {
        let [from, prime, until] = SPANS.map(Micros::from_secs);
        let gone = match self.promise {
            Promise::Soon | Promise::None => Micros::ZERO,
            Promise::Now => from,
            Promise::Late => prime,
        };
        let ticket = PageTicket {
            token: "preview",
            id: 0,
            from: from - gone,
            prime: prime - gone,
            until: until - gone,
        };
        RefusalPage {
            reason: self.reason,
            ticket: (self.promise != Promise::None).then_some(ticket),
            retry_after: from - gone,
            status,
            // 2026-01-31 12:00:00 in Tokyo.
            wall: self.wall.unwrap_or(Wall {
                unix: Micros(1_769_828_400_000_000),
                offset_min: 540,
                change: None,
            }),
            room: "site",
            path,
            sent: self.form,
            ..RefusalPage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_in_the_state_it_names() {
        let mut seen = 0;
        for sample in Sample::all() {
            assert_eq!(sample.page("", 503).promise(), sample.promise, "{sample:?}");
            seen += 1;
        }
        assert_eq!(seen, Reason::COUNT * 4 * 3 * 2);
    }

    #[test]
    fn a_query_names_a_state_and_nonsense_names_the_commonest() {
        let of = |query: &str| Sample::of_query(query.as_bytes(), Wall::default());
        let late = of("reason=broken&promise=late&form=kept&language=ja&page=3");
        assert_eq!(
            (late.reason, late.promise, late.language),
            (Reason::Broken, Promise::Late, Language::Ja)
        );
        assert_eq!(late.form, Sent::Kept(&KEPT));
        assert_eq!(of("reason=").reason, Reason::None);
        let common = of("reason=%00&promise=x&form=&language=fr&&=");
        assert_eq!(
            (common.reason, common.promise, common.language),
            (Reason::Full, Promise::Soon, Language::En)
        );
        assert_eq!(common.form, Sent::Nothing);
    }
}
