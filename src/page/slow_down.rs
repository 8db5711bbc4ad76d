//! [`SlowDown`]: what a client that owes too much is told: how long to wait, and why.

use askama::Template;
use serde::Serialize;

use super::accept::{Format, Language};
use super::assets::{ICON, SCRIPT, STYLE};
use super::problem::title;
use super::{Rendered, filled, templates};
use crate::wall::{Wall, Written, countdown};
use nap_core::bwshare::limits::Debt;
use nap_core::micros::Micros;

/// A refusal for debts.
#[derive(Clone, Copy, Debug)]
pub struct SlowDown<'a> {
    /// Span until the client is let in.
    pub retry_after: Micros,
    /// What there was too much of.
    pub reason: Debt,
    /// Status of the answer.
    pub status: u16,
    /// Now, on the server's wall.
    pub wall: Wall,
    /// The request's method: only GET and HEAD can be repeated; what others sent is lost.
    pub method: &'a str,
    /// `NapTicketPath`: style and script lie under it.
    pub path: &'a str,
}

struct View<'a> {
    page: &'a SlowDown<'a>,
    language: Language,
}

templates! {
    View:
    Html "slow-down.html",
    Text "slow-down.txt",
}

/// The reason in two sentences.
#[derive(Template)]
#[template(path = "slow-down-why.txt")]
struct SlowDownWhy {
    reason: Debt,
    language: Language,
}

/// Problem details (RFC 9457).
#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    reason: &'a str,
    retry_after: u64,
}

impl SlowDown<'_> {
    /// The page in the form and language the visitor prefers.
    pub fn render(&self, format: Format, language: Language) -> Rendered {
        let page = self;
        let body = match format {
            Format::Html => filled(2048, &Html(View { page, language })),
            Format::Text => filled(512, &Text(View { page, language })),
            Format::Json => serde_json::to_string(&Problem {
                kind: "about:blank",
                title: title(self.status),
                status: self.status,
                detail: self.why(language),
                reason: self.reason.name(),
                retry_after: self.seconds(),
            })
            .unwrap_or_default(),
        };
        Rendered {
            content_type: format.content_type(),
            body,
        }
    }

    /// `Retry-After`: whole seconds, enough and never one too many.
    pub fn seconds(&self) -> u64 {
        self.retry_after.secs_ceil().max(1)
    }

    fn why(&self, language: Language) -> String {
        let reason = self.reason;
        filled(256, &SlowDownWhy { reason, language })
    }

    /// Does the page ask again by itself when it is time?
    fn comes_back(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }

    fn wait(&self) -> Written {
        countdown(Micros::from_secs(self.seconds()))
    }

    fn again(&self) -> Wall {
        self.wall.after(self.retry_after).ceil()
    }

    fn again_clock(&self) -> Written {
        self.again().time_seen_from(self.wall)
    }

    fn return_ms(&self) -> u64 {
        self.seconds() * 1000
    }

    /// A mark that differs for each page that is sent.
    fn mark(&self) -> String {
        format!("{:x}", self.wall.unix.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(reason: Debt, wait_ms: u64) -> SlowDown<'static> {
        SlowDown {
            retry_after: Micros::from_millis(wait_ms),
            reason,
            status: 429,
            wall: Wall {
                unix: Micros(1_769_828_400_250_000),
                offset_min: 540,
                change: None,
            },
            method: "GET",
            path: "/nap-ticket",
        }
    }

    /// Coming back would be a GET, and the form silently lost.
    #[test]
    fn what_was_sent_is_to_be_sent_again_and_nothing_happens_by_itself() {
        let posted = SlowDown {
            method: "POST",
            ..page(Debt::Files, 64_100)
        };
        for (language, words) in [
            (
                Language::En,
                ["Back button and send it again", "send it again then"],
            ),
            (
                Language::Ja,
                ["「戻る」でフォームに戻り", "もう一度送信してください"],
            ),
        ] {
            let [html, text] =
                [Format::Html, Format::Text].map(|format| posted.render(format, language).body);
            assert!(
                html.contains(words[0]) && text.contains(words[1]),
                "{html} {text}"
            );
            assert!(html.contains("12:01:05"), "{html}");
            for gone in [
                "data-return-ms",
                "refresh",
                "<script",
                "data-go",
                "nap-auto",
                "need only wait",
            ] {
                assert!(!html.contains(gone) && !text.contains(gone), "{gone}");
            }
        }
    }

    #[test]
    fn it_says_how_long_and_why_in_plain_words() {
        let page = page(Debt::Files, 64_100);
        assert_eq!(
            page.render(Format::Text, Language::En).body,
            "Please wait 1:05\n\n\
             Your address has asked for more pages and files than its share in a short time. So \
             that the server stays quick for everybody, it answers you again at 12:01:05 by its \
             clock (UTC+09:00).\n\
             Nothing else is wrong: you need only wait.\n"
        );
        for language in Language::ALL {
            let html = page.render(Format::Html, language).body;
            for needle in [
                &format!("<html lang=\"{}\">", language.tag()),
                "content=\"65\"",
                "data-return-ms=\"65000\"",
                "1:05",
                "12:01:05",
                "/nap-ticket/nap.css?v=",
            ] {
                assert!(html.contains(needle), "{needle} in {html}");
            }
        }
    }

    #[test]
    fn each_reason_has_its_own_sentence_in_each_language() {
        let mut seen = std::collections::HashSet::new();
        for of in [Debt::Files, Debt::Bytes, Debt::Network] {
            for language in Language::ALL {
                let why = page(of, 1).why(language);
                assert!(why.len() > 30 && why.trim() == why, "{why:?}");
                for format in [Format::Html, Format::Text] {
                    let body = page(of, 1).render(format, language).body;
                    assert!(body.contains(&why) && !body.contains("  "), "{body}");
                }
                assert!(seen.insert(why), "{of:?} {language:?}");
            }
        }
    }

    #[test]
    fn programs_are_told_in_problem_details() {
        let body = page(Debt::Bytes, 1_001)
            .render(Format::Json, Language::En)
            .body;
        let problem: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(problem["status"], 429);
        assert_eq!(problem["retry_after"], 2);
        assert_eq!(problem["reason"], "bytes");
        assert_eq!(problem["title"], "Too Many Requests");
    }
}
