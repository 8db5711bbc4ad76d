//! [`Jar`]: one visitor's cookies, as far as one site on one path needs them.
//!
//! Name, value and Max-Age are kept (a Max-Age of zero or less deletes). Domain, Path, Expires
//! and Secure are ignored: a visitor of nap-load knows one site and one path.

use nap_core::micros::Micros;

/// The cookies of one visitor.
#[derive(Default)]
pub struct Jar(Vec<Cookie>);

struct Cookie {
    name: String,
    value: String,
    /// When it expires; `Micros::MAX` for a cookie without Max-Age.
    dies: Micros,
}

/// Name and value of one `Set-Cookie`, and how long it is valid.
pub struct SetCookie<'a> {
    pub name: &'a str,
    pub value: &'a str,
    /// `None`: no Max-Age. Zero: delete.
    pub max_age: Option<Micros>,
}

impl<'a> SetCookie<'a> {
    /// Read one `Set-Cookie` value; `None` when it has no `name=`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (name, value) = parts.next()?.split_once('=')?;
        let max_age = parts
            .filter_map(|part| part.split_once('='))
            .filter(|(key, _)| key.eq_ignore_ascii_case("max-age"))
            .filter_map(|(_, secs)| secs.trim().parse::<i64>().ok())
            .next_back()
            .map(|secs| Micros::from_secs(secs.max(0).unsigned_abs()));
        let (name, value) = (name.trim(), value.trim().trim_matches('"'));
        (!name.is_empty()).then_some(SetCookie {
            name,
            value,
            max_age,
        })
    }

    /// Whether this deletes the cookie of its name.
    pub fn deletes(&self) -> bool {
        self.max_age == Some(Micros::ZERO)
    }
}

impl Jar {
    /// Keep, replace or delete it as the server says.
    pub fn store(&mut self, cookie: &SetCookie<'_>, now: Micros) {
        self.remove(cookie.name);
        if !cookie.deletes() {
            self.0.push(Cookie {
                name: cookie.name.to_owned(),
                value: cookie.value.to_owned(),
                dies: cookie.max_age.map_or(Micros::MAX, |age| now + age),
            });
        }
    }

    /// Forget the cookie of this name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|cookie| cookie.name != name);
    }

    /// The `Cookie` header at `now` without the cookie `but`; `None` when there is nothing to send.
    pub fn header(&self, now: Micros, but: Option<&str>) -> Option<String> {
        let mut line = String::new();
        for cookie in self
            .0
            .iter()
            .filter(|c| c.dies > now && Some(c.name.as_str()) != but)
        {
            if !line.is_empty() {
                line.push_str("; ");
            }
            line.push_str(&cookie.name);
            line.push('=');
            line.push_str(&cookie.value);
        }
        (!line.is_empty()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::{Jar, SetCookie};
    use nap_core::micros::Micros;

    fn store(jar: &mut Jar, text: &str, now: u64) {
        jar.store(&SetCookie::parse(text).expect(text), Micros::from_secs(now));
    }

    #[test]
    fn a_cookie_is_kept_replaced_outlived_and_deleted() {
        let mut jar = Jar::default();
        store(&mut jar, "sid=1; Path=/", 0);
        store(
            &mut jar,
            "nap-board=abc; Max-Age=60; HttpOnly; SameSite=Lax",
            0,
        );
        let at = |jar: &Jar, s| jar.header(Micros::from_secs(s), None);
        assert_eq!(at(&jar, 1).as_deref(), Some("sid=1; nap-board=abc"));
        assert_eq!(at(&jar, 60).as_deref(), Some("sid=1"));
        assert_eq!(
            jar.header(Micros::ZERO, Some("nap-board")).as_deref(),
            Some("sid=1")
        );
        store(&mut jar, "nap-board=def;max-age=60", 2);
        assert_eq!(at(&jar, 3).as_deref(), Some("sid=1; nap-board=def"));
        store(&mut jar, "nap-board=; Max-Age=0", 4);
        store(&mut jar, "sid=gone; Max-Age=-1", 4);
        assert_eq!(at(&jar, 4), None);
    }

    #[test]
    fn nonsense_is_no_cookie() {
        assert!(SetCookie::parse("").is_none());
        assert!(SetCookie::parse("; Max-Age=0").is_none());
        assert!(SetCookie::parse("=x").is_none());
    }
}
