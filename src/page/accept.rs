//! What a visitor can read: [`Format`] by Accept, [`Language`] by Accept-Language.
//!
//! Both headers are lists of ranges with a weight (RFC 9110, 12.4.2 and 12.5). Weights are kept
//! in thousandths, which is as many digits as there may be. The most specific range that matches a
//! type gives it its weight. Among types of one weight the one that was named more exactly wins
//! (`application/json, */*` wants JSON), and then our preference.

/// In which form a refusal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A page.
    Html,
    /// RFC 9457 problem details with the ticket.
    Json,
    /// Plain text, for clients that accept neither.
    Text,
}

impl Format {
    /// The form that `accept`, the value of the Accept header, prefers; HTML where it is empty.
    pub fn by_accept(accept: &[u8]) -> Format {
        if accept.trim_ascii().is_empty() {
            return Format::Html;
        }
        let rank = |kind: &[u8], subtype: &[u8]| rank(accept, kind, subtype);
        let json = rank(b"application", b"json").max(rank(b"application", b"problem+json"));
        // The first is what we prefer; max_by_key would give the last of equals.
        [
            (rank(b"text", b"html"), Format::Html),
            (json, Format::Json),
            (rank(b"text", b"plain"), Format::Text),
        ]
        .into_iter()
        .filter(|&(rank, _)| rank.weight > 0)
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map_or(Format::Text, |(_, format)| format)
    }

    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Html => "text/html; charset=utf-8",
            Format::Json => "application/problem+json",
            Format::Text => "text/plain; charset=utf-8",
        }
    }
}

/// A language the pages are written in: a folder under `templates/` each.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Japanese.
    Ja,
}

impl Language {
    /// All of them; the first is for visitors who read none.
    pub const ALL: [Language; 2] = [Language::En, Language::Ja];

    /// The language that `accept`, the value of the Accept-Language header, prefers; among those of one
    /// weight the one named first. A language that is not listed counts as `*`, if that is listed.
    pub fn by_accept_language(accept: &[u8]) -> Language {
        let mut best = (0, Language::default());
        for range in list(accept) {
            let language = match range.value {
                b"*" => Language::ALL
                    .into_iter()
                    .find(|one| one.weight(accept).is_none()),
                value => Language::ALL.into_iter().find(|one| one.is(value)),
            };
            if let Some(language) = language
                && range.weight > best.0
            {
                best = (range.weight, language);
            }
        }
        best.1
    }

    /// Its tag (RFC 5646), as in the `lang` attribute.
    pub fn tag(self) -> &'static str {
        match self {
            Language::En => "en",
            Language::Ja => "ja",
        }
    }

    /// Is `range` this language, or this language in some country?
    fn is(self, range: &[u8]) -> bool {
        let first = range.split(|&b| b == b'-').next().unwrap_or(range);
        first.eq_ignore_ascii_case(self.tag().as_bytes())
    }

    fn weight(self, accept: &[u8]) -> Option<u16> {
        let own = list(accept).filter(|range| self.is(range.value));
        own.map(|range| range.weight).max()
    }
}

/// How much a type is wanted; the greater, the more.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Thousandths.
    weight: u16,
    /// 1 `*/*`, 2 `type/*`, 3 `type/subtype`.
    exact: u8,
}

fn rank(accept: &[u8], kind: &[u8], subtype: &[u8]) -> Rank {
    let mut best = Rank::default();
    for range in list(accept) {
        let Some(slash) = range.value.iter().position(|&b| b == b'/') else {
            continue;
        };
        let (of, rest) = range.value.split_at(slash);
        let exact = match (of, &rest[1..]) {
            (b"*", b"*") => 1,
            (of, b"*") if of.eq_ignore_ascii_case(kind) => 2,
            (of, sub) if of.eq_ignore_ascii_case(kind) && sub.eq_ignore_ascii_case(subtype) => 3,
            _ => continue,
        };
        let weight = range.weight;
        if exact > best.exact || exact == best.exact && weight > best.weight {
            best = Rank { weight, exact };
        }
    }
    best
}

/// One range of a list: what, and how much.
struct Range<'a> {
    value: &'a [u8],
    /// Thousandths, 0..=1000.
    weight: u16,
}

/// The ranges of a list, in its order; empty ones are skipped, as RFC 9110 5.6.1 asks.
fn list(header: &[u8]) -> impl Iterator<Item = Range<'_>> {
    split(header, b',').filter_map(|element| {
        let mut parts = split(element, b';');
        let value = parts.next().filter(|value| !value.is_empty())?;
        let weight = parts.find_map(weight).unwrap_or(1000);
        Some(Range { value, weight })
    })
}

/// The weight, if this parameter is one; anything but a number is ignored.
fn weight(parameter: &[u8]) -> Option<u16> {
    let value = match parameter {
        [b'q' | b'Q', b'=', value @ ..] => value,
        _ => return None,
    };
    let (&first, rest) = value.split_first()?;
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] => digits,
        _ => return None,
    };
    if !first.is_ascii_digit() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut thousandths = u16::from(first - b'0');
    for place in 0..3 {
        let digit = digits.get(place).map_or(0, |digit| digit - b'0');
        thousandths = thousandths * 10 + u16::from(digit);
    }
    Some(thousandths.min(1000))
}

/// The parts between separators outside quoted strings, without blanks around them.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |&b| {
        if escaped {
            escaped = false;
            return false;
        }
        match b {
            b'"' => quoted = !quoted,
            b'\\' => escaped = quoted,
            _ => return b == separator && !quoted,
        }
        false
    })
    .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_what_accept_prefers() {
        use Format::{Html, Json, Text};
        let cases: &[(&str, Format)] = &[
            ("", Html),
            ("  ", Html),
            ("*/*", Html),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Html,
            ),
            ("text/html, application/json", Html),
            ("application/json, text/html", Html),
            ("text/html;q=0.5, application/json", Json),
            ("text/html;q=0.8, application/json;q=0.799", Html),
            ("application/json", Json),
            ("APPLICATION/JSON", Json),
            ("application/problem+json", Json),
            ("application/*", Json),
            ("application/json, text/plain, */*", Json),
            ("application/json;q=0, */*", Html),
            (
                "application/json;q=0, application/problem+json;q=0, text/html;q=0, */*",
                Text,
            ),
            ("text/*", Html),
            ("text/*, text/html;q=0", Text),
            ("text/*;q=0.3, application/json;q=0.2", Html),
            ("text/plain", Text),
            ("text/plain, */*;q=0.1", Text),
            ("image/png", Text),
            ("image/avif,image/webp,*/*;q=0.8", Html),
            ("*/*;q=0", Text),
            (
                "application/json;profile=\"a,b;q=0\\\"\";q=0.9, text/html;q=0.8",
                Json,
            ),
            ("text/html;level=1;q=0.3, application/json;q=0.4", Json),
            ("text/html ; Q=0.3 , application/json ; q=0.4", Json),
            ("text/html;q=, application/json;q=0.9", Html),
            ("text/html;q=abc, application/json;q=0.9", Html),
            ("text/html;q=-1, application/json;q=7", Html),
            ("text/html;q=0.12345, application/json;q=0.124", Json),
            (",,,", Text),
            (";q=1", Text),
            ("/", Text),
            ("text", Text),
            ("\"", Text),
            ("application/json\"", Text),
        ];
        for (accept, expected) in cases {
            assert_eq!(
                Format::by_accept(accept.as_bytes()),
                *expected,
                "{accept:?}"
            );
        }
        assert_eq!(Format::by_accept(b"\xff\xfe/\x80, application/json"), Json);
    }

    #[test]
    fn the_language_is_what_accept_language_prefers() {
        use Language::{En, Ja};
        let cases: &[(&str, Language)] = &[
            ("", En),
            ("ja", Ja),
            ("JA-jp", Ja),
            ("jav", En),
            ("ja-JP,ja;q=0.9,en-US;q=0.8,en;q=0.7", Ja),
            ("en-US,en;q=0.9,ja;q=0.8", En),
            ("en;q=0.8, ja;q=0.9", Ja),
            ("ja, en", Ja),
            ("en, ja", En),
            ("fr, ja;q=0.5", Ja),
            ("fr", En),
            ("fr, *;q=0.5", En),
            ("en;q=0, *", Ja),
            ("ja;q=0.5, *;q=0.8", En),
            ("ja;q=0.5, *;q=0.2", Ja),
            ("en;q=0, ja;q=0", En),
            ("en;q=0.001, ja;q=0", En),
            ("*", En),
            ("-", En),
            (",;q,ja;q=0.1", Ja),
        ];
        for (accept, expected) in cases {
            let language = Language::by_accept_language(accept.as_bytes());
            assert_eq!(language, *expected, "{accept:?}");
        }
    }
}
