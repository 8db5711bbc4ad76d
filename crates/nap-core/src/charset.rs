//! [`Charset`]: what characters a form's bytes stand for (WHATWG Encoding Standard).

use encoding_rs::{Encoding, UTF_8};

/// A charset that a browser can send a form in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

impl Charset {
    /// What nearly all sites have.
    pub const UTF_8: Charset = Charset(UTF_8);

    /// The charset with this name, any that it goes by: `Shift_JIS`, `sjis`. None: there is no such
    /// charset, or browsers send forms of such pages as UTF-8 (UTF-16).
    pub fn named(name: &[u8]) -> Option<Charset> {
        let found = Encoding::for_label_no_replacement(name)?;
        (found.output_encoding() == found).then_some(Charset(found))
    }

    /// Its name as browsers write it in a form's `_charset_`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The text of these bytes. None: a browser would not send the same bytes for it.
    pub fn text_of(self, bytes: &[u8]) -> Option<String> {
        let text = self
            .0
            .decode_without_bom_handling_and_without_replacement(bytes)?;
        let (again, ..) = self.0.encode(&text);
        (*again == *bytes).then(|| text.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_pages_and_only_what_forms_are_sent_in() {
        for (name, expected) in [
            ("Shift_JIS", Some("Shift_JIS")),
            (" sjis ", Some("Shift_JIS")),
            ("euc-jp", Some("EUC-JP")),
            ("latin1", Some("windows-1252")),
            ("utf8", Some("UTF-8")),
            ("utf-16", None),
            ("hz-gb-2312", None),
            ("klingon", None),
            ("", None),
        ] {
            let named = Charset::named(name.as_bytes());
            assert_eq!(named.map(Charset::name), expected, "{name}");
        }
    }

    #[test]
    fn only_what_comes_back_byte_by_byte_is_text() {
        let cases: [(&str, &[u8], Option<&str>); 8] = [
            ("utf-8", b"\xe3\x81\x82", Some("\u{3042}")),
            ("utf-8", b"\x82\xa0", None),
            ("utf-8", b"\xef\xbb\xbfa", Some("\u{feff}a")),
            ("shift_jis", b"\x82\xa0\\", Some("\u{3042}\\")),
            ("shift_jis", b"\x82", None),
            // One character has two codes: browsers send the other one.
            ("shift_jis", b"\x87\x90", None),
            ("iso-2022-jp", b"\x1b$B$\"\x1b(B", Some("\u{3042}")),
            ("iso-2022-jp", b"\x1b(B\x1b$B$\"\x1b(B", None),
        ];
        for (name, bytes, expected) in cases {
            let charset = Charset::named(name.as_bytes()).expect("a charset");
            assert_eq!(
                charset.text_of(bytes).as_deref(),
                expected,
                "{name} {bytes:x?}"
            );
        }
    }
}
