//! The form that came with a refused POST, kept in the page and sent again from it (`NapKeepForm`).
//!
//! Only a form of this very origin is kept: otherwise a stranger's page could have its POST carried
//! out by ours, with the Origin of the site. A form is kept whole or not at all; what cannot be
//! written as HTML fields so that a browser sends the same again (files, control characters, a
//! charset that is neither UTF-8 nor the configured one) is not. Urlencoded forms follow WHATWG URL 5.1, multipart ones RFC 7578.

use nap_core::charset::Charset;

/// Fields a kept form may have.
const FIELDS: usize = 1000;

/// What became of the form of a refused access.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub enum Sent<'a> {
    /// There was none.
    #[default]
    Nothing,
    /// It is in the page.
    Kept(&'a SentForm),
    /// It could not be kept.
    Lost,
}

/// A form as the page gives it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentForm {
    /// How it is encoded.
    pub encoding: Encoding,
    /// The charset its bytes are in, and go back in.
    pub charset: Charset,
    /// Its fields, in their order.
    pub fields: Vec<Field>,
}

/// One field; of bytes: as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<T = String> {
    /// Its name.
    pub name: T,
    /// Its value; empty for a file.
    pub value: T,
    /// A choice of file that was left empty.
    pub file: bool,
}

/// A form's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// application/x-www-form-urlencoded.
    Urlencoded,
    /// multipart/form-data.
    Multipart,
}

/// Where a request says that it comes from, and where it went. Empty: it does not say.
#[derive(Clone, Copy, Default, Debug)]
pub struct FormSource<'a> {
    /// Sec-Fetch-Site.
    pub fetch_site: &'a [u8],
    /// Origin.
    pub origin: &'a [u8],
    /// Referer.
    pub referer: &'a [u8],
    /// `http` or `https`.
    pub scheme: &'a [u8],
    /// Host, with its port if that is not the scheme's.
    pub host: &'a [u8],
}

impl Encoding {
    /// The encoding a Content-Type names; none: not one of a form that can be kept.
    pub fn of(content_type: &[u8]) -> Option<Encoding> {
        let kind = content_type.split(|&b| b == b';').next()?.trim_ascii();
        let is_kind = |one: &Encoding| kind.eq_ignore_ascii_case(one.name().as_bytes());
        let all = [Encoding::Urlencoded, Encoding::Multipart];
        all.into_iter().find(is_kind)
    }

    /// Its name, as in the `enctype` attribute.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Urlencoded => "application/x-www-form-urlencoded",
            Encoding::Multipart => "multipart/form-data",
        }
    }
}

impl FormSource<'_> {
    /// Does the request come from a page of this very origin? If it does not say, no.
    pub fn is_same_origin(&self) -> bool {
        if !self.fetch_site.is_empty() {
            return self.fetch_site == b"same-origin";
        }
        let said = match self.origin {
            b"" => self.referer,
            origin => origin,
        };
        let Some((scheme, host)) = origin(said) else {
            return false;
        };
        !self.host.is_empty()
            && scheme.eq_ignore_ascii_case(self.scheme)
            && without_port(scheme, host).eq_ignore_ascii_case(without_port(self.scheme, self.host))
    }
}

/// Scheme and host with port of an absolute address.
fn origin(address: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = address.iter().position(|&b| b == b':')?;
    let (scheme, rest) = address.split_at(colon);
    let rest = rest.strip_prefix(b"://")?;
    let end = rest.iter().position(|b| b"/?#\\".contains(b));
    let host = &rest[..end.unwrap_or(rest.len())];
    (!host.is_empty() && !host.contains(&b'@')).then_some((scheme, host))
}

/// The host, without the port that its scheme has anyway.
fn without_port<'a>(scheme: &[u8], host: &'a [u8]) -> &'a [u8] {
    let usual: &[u8] = match scheme.eq_ignore_ascii_case(b"https") {
        true => b":443",
        false => b":80",
    };
    host.strip_suffix(usual).unwrap_or(host)
}

impl SentForm {
    /// The form in `body`, in UTF-8 or else in the `other` charset; none: it cannot be given back as
    /// it was.
    pub fn parse(content_type: &[u8], body: &[u8], other: Option<Charset>) -> Option<SentForm> {
        let encoding = Encoding::of(content_type)?;
        let sent = match encoding {
            Encoding::Urlencoded => urlencoded(body),
            Encoding::Multipart => multipart(&parameter(content_type, b"boundary")?, body)?,
        };
        if sent.len() > FIELDS {
            return None;
        }
        let said = parameter(content_type, b"charset");
        let said = said.as_deref().map(Charset::named);
        // Bytes that are valid UTF-8 go back unchanged, whatever charset was meant.
        [Some(Charset::UTF_8), other]
            .into_iter()
            .flatten()
            .filter(|&charset| said.is_none_or(|said| said == Some(charset)))
            .find_map(|charset| {
                let fields = sent.iter().map(|field| field.in_charset(charset));
                Some(SentForm {
                    encoding,
                    charset,
                    fields: fields.collect::<Option<_>>()?,
                })
            })
    }
}

type Bytes = Field<Vec<u8>>;

impl Bytes {
    fn in_charset(&self, charset: Charset) -> Option<Field> {
        let field = Field {
            name: written(&self.name, charset)?,
            value: written(&self.value, charset)?,
            file: self.file,
        };
        // In a hidden field of this name browsers put the charset they send the form in (WHATWG
        // HTML 4.10.22.4).
        let told = field.name.eq_ignore_ascii_case("_charset_");
        (!told || field.value == charset.name()).then_some(field)
    }
}

/// As HTML can hold it: text, and no control characters but line ends as browsers send them.
fn written(bytes: &[u8], charset: Charset) -> Option<String> {
    let text = charset.text_of(bytes)?;
    let rest = text.replace("\r\n", "");
    let held = |c: char| c == '\t' || !(c.is_control() || is_noncharacter(c));
    rest.chars().all(held).then_some(text)
}

fn is_noncharacter(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}

fn urlencoded(body: &[u8]) -> Vec<Bytes> {
    let pairs = body.split(|&b| b == b'&').filter(|pair| !pair.is_empty());
    pairs
        .take(FIELDS + 1)
        .map(|pair| {
            let mut parts = pair.splitn(2, |&b| b == b'=');
            let mut part = || decoded(parts.next().unwrap_or_default());
            Bytes {
                name: part(),
                value: part(),
                file: false,
            }
        })
        .collect()
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let digit = |sign: u8| char::from(sign).to_digit(16);
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        out.push(match (first, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = after;
                    (high << 4 | low) as u8
                }
                _ => b'%',
            },
            _ => first,
        });
    }
    out
}

fn multipart(boundary: &[u8], body: &[u8]) -> Option<Vec<Bytes>> {
    if boundary.is_empty() || boundary.len() > 70 {
        return None;
    }
    let line = [b"\r\n--", boundary].concat();
    // The first delimiter has no line end before it.
    let mut rest = body.strip_prefix(&line[2..])?;
    let mut fields = Vec::new();
    loop {
        rest = match rest {
            [b'-', b'-', ..] => return Some(fields),
            [b'\r', b'\n', after @ ..] => after,
            _ => return None,
        };
        let end = find(rest, &line)?;
        let (part, after) = (&rest[..end], &rest[end + line.len()..]);
        fields.push(part_of(part)?);
        if fields.len() > FIELDS {
            return None;
        }
        rest = after;
    }
}

fn part_of(part: &[u8]) -> Option<Bytes> {
    let head = find(part, b"\r\n\r\n")?;
    let value = &part[head + 4..];
    let mut headers = part[..head].split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let disposition = headers.find_map(|line| {
        let colon = line.iter().position(|&b| b == b':')?;
        let named = line[..colon].eq_ignore_ascii_case(b"content-disposition");
        named.then(|| &line[colon + 1..])
    })?;
    let name = unescaped(&parameter(disposition, b"name")?);
    let file = match parameter(disposition, b"filename") {
        None => false,
        Some(file) if file.is_empty() && value.is_empty() => true,
        Some(_) => return None,
    };
    Some(Bytes {
        name,
        value: value.to_vec(),
        file,
    })
}

/// The three characters that browsers escape in a name (WHATWG HTML 4.10.22.8).
fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match rest {
            [b'%', b'2', b'2', after @ ..] => (b'"', after),
            [b'%', b'0', b'D', after @ ..] => (b'\r', after),
            [b'%', b'0', b'A', after @ ..] => (b'\n', after),
            _ => (first, after),
        };
        out.push(byte);
        rest = after;
    }
    out
}

/// A parameter of a header's value, without its quotes.
fn parameter(value: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    let mut rest = &value[value.iter().position(|&b| b == b';')?..];
    while let Some(after) = rest.strip_prefix(b";") {
        let equals = after.iter().position(|&b| b == b'=')?;
        let name = after[..equals].trim_ascii();
        let text = &after[equals + 1..];
        let (found, end) = match text.strip_prefix(b"\"") {
            // Browsers escape a quote as %22, so the next one ends it.
            Some(quoted) => {
                let end = quoted.iter().position(|&b| b == b'"')?;
                (&quoted[..end], end + 2)
            }
            None => {
                let end = text.iter().position(|&b| b == b';').unwrap_or(text.len());
                (text[..end].trim_ascii(), end)
            }
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(found.to_vec());
        }
        rest = text.get(end..)?.trim_ascii_start();
    }
    None
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const URLENCODED: &[u8] = b"application/x-www-form-urlencoded";
    const MULTIPART: &[u8] = b"multipart/form-data; boundary=----x";

    fn pairs(form: &SentForm) -> Vec<(&str, &str)> {
        let fields = form.fields.iter();
        fields.map(|f| (&f.name[..], &f.value[..])).collect()
    }

    fn read(content_type: &[u8], body: &[u8]) -> Option<Vec<(String, String)>> {
        SentForm::parse(content_type, body, None).map(|form| {
            let own = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
            pairs(&form).into_iter().map(own).collect()
        })
    }

    #[test]
    fn urlencoded_forms_are_read_as_browsers_write_them() {
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(&[u8], Option<Pairs<'_>>)] = &[
            (b"", Some(&[])),
            (b"a=1&b=", Some(&[("a", "1"), ("b", "")])),
            (b"a=1&a=2", Some(&[("a", "1"), ("a", "2")])),
            (b"a+b=%e3%81%82+%2B", Some(&[("a b", "\u{3042} +")])),
            (b"t=one%0D%0Atwo", Some(&[("t", "one\r\ntwo")])),
            (b"a=b=c&&=d", Some(&[("a", "b=c"), ("", "d")])),
            (b"p=100%&q=%zz", Some(&[("p", "100%"), ("q", "%zz")])),
            (b"s=%3Cscript%3E%22'", Some(&[("s", "<script>\"'")])),
            (b"a=%82%a0", None),
            (b"a=%00", None),
            (b"a=one%0Atwo", None),
            (b"a=%1B", None),
            (b"a=%ef%bf%be", None),
        ];
        for (body, expected) in cases {
            let form = SentForm::parse(URLENCODED, body, None);
            assert_eq!(form.as_ref().map(pairs).as_deref(), *expected, "{body:?}");
        }
        let many = "a=1&".repeat(FIELDS + 1);
        assert_eq!(SentForm::parse(URLENCODED, many.as_bytes(), None), None);
        assert!(SentForm::parse(URLENCODED, &many.as_bytes()[4..], None).is_some());
    }

    #[test]
    fn multipart_forms_without_files_are_read() {
        let body =
            b"------x\r\nContent-Disposition: form-data; name=\"a%22b\"\r\n\r\none\r\ntwo\r\n\
            ------x\r\ncontent-disposition: form-data; name=submit\r\n\r\n\r\n------x--\r\n";
        assert_eq!(
            read(MULTIPART, body).expect("a form"),
            [
                ("a\"b".to_owned(), "one\r\ntwo".to_owned()),
                ("submit".to_owned(), String::new())
            ]
        );
        let file = |name: &str, content: &str| {
            format!(
                "------x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"{name}\"\r\n\
                 Content-Type: application/octet-stream\r\n\r\n{content}\r\n------x--\r\n"
            )
        };
        let empty =
            SentForm::parse(MULTIPART, file("", "").as_bytes(), None).expect("no file was chosen");
        assert!(empty.fields[0].file);
        for (name, content) in [("x.txt", "x"), ("x.txt", ""), ("", "x")] {
            assert_eq!(
                SentForm::parse(MULTIPART, file(name, content).as_bytes(), None),
                None
            );
        }
        assert_eq!(read(b"multipart/form-data", body), None, "no boundary");
        for torn in 0..body.len() - 4 {
            assert_eq!(read(MULTIPART, &body[..torn]), None, "cut at {torn}");
        }
    }

    #[test]
    fn other_types_and_charsets_are_not_kept() {
        for (kind, kept) in [
            ("application/x-www-form-urlencoded", true),
            ("Application/X-WWW-Form-Urlencoded ; charset=UTF-8", true),
            ("application/x-www-form-urlencoded; charset=\"utf-8\"", true),
            (
                "application/x-www-form-urlencoded; charset=shift_jis",
                false,
            ),
            ("text/plain", false),
            ("application/json", false),
            ("", false),
        ] {
            assert_eq!(read(kind.as_bytes(), b"a=1").is_some(), kept, "{kind}");
        }
        for (body, kept) in [
            (&b"a=1&_charset_=UTF-8"[..], true),
            (b"_charset_=", false),
            (b"a=1&_Charset_=Shift_JIS", false),
        ] {
            assert_eq!(read(URLENCODED, body).is_some(), kept, "{body:?}");
        }
    }

    #[test]
    fn a_form_in_the_configured_charset_is_kept_in_it() {
        let kinds = ["", "; charset=sjis", "; charset=utf-8", "; charset=euc-jp"];
        let [any, shift_jis, utf_8, euc_jp] =
            kinds.map(|kind| format!("application/x-www-form-urlencoded{kind}"));
        type Read<'a> = Option<(&'a str, &'a str)>;
        let cases: [(&str, &[u8], Read<'_>); 11] = [
            (&any, b"a=%82%a0", Some(("Shift_JIS", "\u{3042}"))),
            (
                &any,
                b"a=%82%a0&_charset_=Shift_JIS",
                Some(("Shift_JIS", "\u{3042}")),
            ),
            (&any, b"a=1&_charset_=Shift_JIS", Some(("Shift_JIS", "1"))),
            (&any, b"a=1&_charset_=EUC-JP", None),
            (&any, b"a=%e3%81%82", Some(("UTF-8", "\u{3042}"))),
            (&any, b"a=%82%a0&b=%ff", None),
            // Half-width katakana, or one letter: the same bytes go back.
            (&any, b"a=%c3%a5", Some(("UTF-8", "\u{e5}"))),
            (
                &shift_jis,
                b"a=%c3%a5",
                Some(("Shift_JIS", "\u{ff83}\u{ff65}")),
            ),
            (&utf_8, b"a=%82%a0", None),
            (&euc_jp, b"a=%82%a0", None),
            (&any, b"a=%82%a0%00", None),
        ];
        let configured = Charset::named(b"shift_jis");
        for (kind, body, expected) in cases {
            let form = SentForm::parse(kind.as_bytes(), body, configured);
            let told = form
                .as_ref()
                .map(|form| (form.charset.name(), &form.fields[0].value[..]));
            assert_eq!(told, expected, "{kind} {}", body.escape_ascii());
            assert!(form.is_none_or(|form| form.charset == Charset::UTF_8
                || SentForm::parse(kind.as_bytes(), body, None).is_none()));
        }
        let part = [
            &b"------x\r\nContent-Disposition: form-data; name=\"\x96\x5c\"\r\n\r\n\x82\xa0\r\n"[..],
            b"------x--",
        ];
        let form = SentForm::parse(MULTIPART, &part.concat(), configured).expect("a form");
        assert_eq!(pairs(&form), [("\u{66b4}", "\u{3042}")]);
    }

    #[test]
    fn only_a_page_of_the_same_origin_has_its_form_kept() {
        let cases = [
            ("same-origin", "", "", true),
            ("same-site", "http://a.example:81", "", false),
            (
                "cross-site",
                "http://a.example:81",
                "http://a.example:81/",
                false,
            ),
            ("none", "", "", false),
            ("Same-Origin", "", "", false),
            ("", "http://a.example:81", "", true),
            ("", "HTTP://A.Example:81", "http://evil.example/", true),
            ("", "http://evil.example", "http://a.example:81/", false),
            ("", "null", "http://a.example:81/", false),
            ("", "https://a.example:81", "", false),
            ("", "http://a.example", "", false),
            ("", "http://a.example:81.evil.example", "", false),
            ("", "", "http://a.example:81/form?x", true),
            ("", "", "http://a.example:81@evil.example/", false),
            ("", "", "http://evil.example\\@a.example:81/", false),
            ("", "", "", false),
        ];
        for (site, origin, referer, same) in cases {
            let source = FormSource {
                fetch_site: site.as_bytes(),
                origin: origin.as_bytes(),
                referer: referer.as_bytes(),
                scheme: b"http",
                host: b"a.example:81",
            };
            assert_eq!(source.is_same_origin(), same, "{source:?}");
        }
        let usual = FormSource {
            origin: b"https://a.example",
            scheme: b"https",
            host: b"a.example:443",
            ..FormSource::default()
        };
        assert!(usual.is_same_origin());
        assert!(!FormSource { host: b"", ..usual }.is_same_origin());
    }

    proptest! {
        #[test]
        fn what_a_browser_encodes_comes_back(fields in prop::collection::vec(("[^\\p{C}]{1,20}", "[^\\p{C}]{0,40}"), 0..20)) {
            let mut body = form_urlencoded::Serializer::new(String::new());
            body.extend_pairs(&fields);
            prop_assert_eq!(read(URLENCODED, body.finish().as_bytes()), Some(fields));
        }

        #[test]
        fn no_body_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..400), head in "[ -~]{0,60}") {
            SentForm::parse(URLENCODED, &body, None);
            let framed = [&b"------x\r\n"[..], head.as_bytes(), b"\r\n\r\n", &body, b"\r\n------x--"].concat();
            SentForm::parse(MULTIPART, &framed, None);
            SentForm::parse(head.as_bytes(), &framed, None);
            FormSource { origin: &body, referer: head.as_bytes(), ..FormSource::default() }.is_same_origin();
        }
    }
}
