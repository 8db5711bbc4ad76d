//! [`SessionsPlan`]: a run of sessions as decided before it starts.

use std::iter::Peekable;
use std::str::Chars;

use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Uri};
use nap_core::micros::Micros;
use nap_rng::Rng;

use super::args::{Law, SessionsArgs};
use crate::args::{Accept, Source};
use crate::plan::{Manners, Route, Target};

/// The number of values of `{number}`.
const NUMBERS: u64 = 10_000;

/// The whole run, checked.
pub struct SessionsPlan {
    pub label: String,
    pub site: String,
    pub pages: Vec<PlannedPage>,
    pub clients: u32,
    pub sessions: u32,
    pub think: Micros,
    pub law: Law,
    pub ramp: Micros,
    pub duration: Option<Micros>,
    pub stop: Micros,
    pub seed: u64,
    /// At least one timeout.
    pub timeouts: Vec<Micros>,
    /// Index of the page to go back to.
    pub restart: usize,
    pub manners: Manners,
    pub retry: Micros,
    pub bound: Micros,
    pub source: Source,
    pub route: Route,
    pub headers: HeaderMap,
    /// Where ticket holders ask whether they may come earlier.
    pub status: Option<Uri>,
}

/// One page of the session.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedPage {
    pub method: Method,
    /// As given, without query or form.
    pub path: String,
    /// Path and query, or only the path of a posted page; with the site before it for HTTP/2.
    uri: Template,
    /// Empty unless posted.
    body: Template,
}

/// Text with places for numbers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Template(Vec<String>);

impl Template {
    fn new(text: &str) -> Self {
        Template(text.split("{number}").map(str::to_owned).collect())
    }

    fn fill(&self, rng: &mut Rng) -> String {
        let mut parts = self.0.iter();
        let mut text = parts.next().cloned().unwrap_or_default();
        for part in parts {
            text += &format!("{}{part}", rng.below(NUMBERS));
        }
        text
    }
}

impl PlannedPage {
    fn parse(text: &str, before: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("page {text:?}: {why}"));
        let (method, rest) = match text.strip_prefix("POST:") {
            Some(rest) => (Method::POST, rest),
            None => (Method::GET, text),
        };
        if !rest.starts_with('/') {
            return wrong("a page is /path[?query], or POST:/path[?form]");
        }
        if let Some(place) = unknown_place(rest.chars().peekable()) {
            return wrong(&format!(
                "{place} is no place for a number: only {{number}} is"
            ));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (uri, body) = match method == Method::POST {
            true => (path, query),
            false => (rest, ""),
        };
        let page = PlannedPage {
            path: path.to_owned(),
            uri: Template::new(&format!("{before}{uri}")),
            body: Template::new(body),
            method,
        };
        match page.uri.fill(&mut Rng::new(0, 0)).parse::<Uri>() {
            Ok(_) => Ok(page),
            Err(e) => wrong(&e.to_string()),
        }
    }

    /// A request's target and body.
    pub fn ask(&self, rng: &mut Rng) -> (Uri, Bytes) {
        // The number does not change what kind of URI it is; one was tried.
        let uri = self.uri.fill(rng).parse().unwrap_or_default();
        (uri, self.body.fill(rng).into())
    }
}

/// The first `{...}` that is not `{number}`.
fn unknown_place(mut text: Peekable<Chars<'_>>) -> Option<String> {
    while text.find(|c| *c == '{').is_some() {
        let name: String = text.by_ref().take_while(|c| *c != '}').collect();
        if name != "number" {
            return Some(format!("{{{name}}}"));
        }
    }
    None
}

impl SessionsPlan {
    /// Check the command line; the error is a sentence for the user.
    pub fn check(args: SessionsArgs, seed: u64) -> Result<Self, String> {
        let common = args.common;
        let target = Target::parse(&args.site, common.allow_remote)?;
        if target.whole.path() != "/" || target.whole.query().is_some() {
            return Err(format!(
                "{}: the site alone, http://host[:port]; its pages come after it",
                args.site
            ));
        }
        if args.restart as usize > args.pages.len() {
            return Err(format!(
                "--restart: a session has {} pages, not {}",
                args.pages.len(),
                args.restart
            ));
        }
        let site = args.site.trim_end_matches('/');
        let before = if common.h2c { site } else { "" };
        let pages: Result<_, String> = args
            .pages
            .iter()
            .map(|p| PlannedPage::parse(p, before))
            .collect();
        Ok(SessionsPlan {
            pages: pages?,
            source: target.source(common.source)?,
            route: common.route(&target),
            headers: common.request_headers(&target, Accept::Html)?,
            status: args
                .status
                .map(|path| format!("{before}{path}").parse())
                .transpose()
                .map_err(|e| format!("--status: {e}"))?,
            manners: Manners::obedient(common.retry),
            restart: args.restart as usize - 1,
            site: site.to_owned(),
            label: common.label,
            clients: args.clients,
            sessions: args.sessions,
            think: args.think,
            law: args.think_law,
            ramp: args.ramp,
            duration: args.duration,
            stop: common.stop,
            timeouts: args.timeout,
            retry: common.retry,
            bound: common.bound,
            seed,
        })
    }

    /// How long to think this time.
    pub fn think(&self, rng: &mut Rng) -> Micros {
        match self.law {
            Law::Fixed => self.think,
            Law::Exponential => Micros::from_secs_f64(rng.exponential(self.think.as_secs_f64())),
        }
    }

    /// How long a client of this session waits for a page.
    pub fn timeout(&self, rng: &mut Rng) -> Micros {
        let which = rng.below(self.timeouts.len() as u64) as usize;
        self.timeouts.get(which).copied().unwrap_or(Micros::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn plan(words: &[&str]) -> Result<SessionsPlan, String> {
        let site = ["nap-load sessions", "http://127.0.0.1:8080"];
        let words = [&site, words].concat();
        SessionsPlan::check(
            SessionsArgs::try_parse_from(words).map_err(|e| e.to_string())?,
            7,
        )
    }

    #[test]
    fn pages_are_asked_with_numbers_of_their_own() {
        let plan = plan(&[
            "/login",
            "/list?a={number}&b={number}",
            "POST:/buy?article={number}",
        ])
        .expect("a plan");
        let mut rng = Rng::new(1, 1);
        let (uri, body) = plan.pages[0].ask(&mut rng);
        assert_eq!((uri.to_string().as_str(), body.len()), ("/login", 0));
        let (uri, _) = plan.pages[1].ask(&mut rng);
        let (again, _) = plan.pages[1].ask(&mut rng);
        assert_ne!(uri, again);
        assert!(!uri.to_string().contains("{number}"), "{uri}");
        let (uri, body) = plan.pages[2].ask(&mut rng);
        assert_eq!(uri.to_string(), "/buy");
        assert!(body.starts_with(b"article="), "{body:?}");
        assert!(body.len() > "article=".len());
        assert_eq!(plan.pages[2].method, Method::POST);
    }

    #[test]
    fn over_http2_a_page_is_asked_with_its_site() {
        let plan = plan(&["--h2c", "/login", "/end"]).expect("a plan");
        let (uri, _) = plan.pages[0].ask(&mut Rng::new(1, 1));
        assert_eq!(uri.to_string(), "http://127.0.0.1:8080/login");
    }

    #[test]
    fn think_times_are_equal_or_have_the_mean() {
        let fixed = plan(&["--think", "2s", "/a", "/b"]).expect("a plan");
        let mut rng = Rng::new(7, 1);
        assert_eq!(fixed.think(&mut rng), Micros::from_secs(2));
        let words = ["--think", "2s", "--think-law", "exponential", "/a", "/b"];
        let random = plan(&words).expect("a plan");
        let sum: f64 = (0..10_000)
            .map(|_| random.think(&mut rng).as_secs_f64())
            .sum();
        assert!((sum / 10_000.0 - 2.0).abs() < 0.1, "{sum}");
    }

    #[test]
    fn each_session_has_one_of_the_timeouts() {
        let plan = plan(&["--timeout", "30s,60s", "/a", "/b"]).expect("a plan");
        let mut rng = Rng::new(7, 1);
        let short = (0..1000)
            .filter(|_| plan.timeout(&mut rng) == Micros::from_secs(30))
            .count();
        assert!(short.abs_diff(500) < 100, "{short}");
    }

    #[test]
    fn bad_plans_are_refused_with_a_reason() {
        for (words, want) in [
            (&["/a"][..], "PAGE"),
            (&["a", "/b"], "a page is /path"),
            (&["/a", "/b?x={m}"], "only {number}"),
            (&["/a b", "/c"], "\"/a b\""),
            (&["/a", "/b", "--restart", "3"], "2 pages"),
            (&["/a", "/b", "--restart", "0"], "--restart"),
            (&["/a", "/b", "--timeout", "0"], "--timeout"),
            (&["/a", "/b", "--timeout", "30s,"], "--timeout"),
            (&["/a", "/b", "--think-law", "normal"], "--think-law"),
            (&["/a", "/b", "--clients", "0"], "--clients"),
            (&["/a", "/b", "--header", "nonsense"], "--header"),
        ] {
            let error = plan(words).err().unwrap_or_else(|| panic!("{words:?}"));
            assert!(error.contains(want), "{words:?}: {error}");
        }
        for (site, want) in [
            ("http://192.0.2.1", "--allow-remote"),
            ("https://127.0.0.1", "only http"),
            ("http://127.0.0.1/shop", "the site alone"),
        ] {
            let args =
                SessionsArgs::try_parse_from(["nap-load sessions", site, "/a", "/b"]).expect(site);
            let error = SessionsPlan::check(args, 1).err().expect(site);
            assert!(error.contains(want), "{site}: {error}");
        }
    }
}
