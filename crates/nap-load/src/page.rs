//! [`Page`]: the ticket page in a browser, as its script (`templates/assets/nap.js`) behaves.
//!
//! It asks where it stands when it was told to. It comes when it is called, and when its ticket's time has
//! come; if it has not heard of the server lately, it asks first. Pure: the page's text, the answers and the
//! clock are arguments.

use nap_core::micros::Micros;
use serde_json::Value;

/// An alarm is set this much later than the time it is for.
const ALARM: Micros = Micros::from_millis(5);
/// A question is given up after this time.
pub const PATIENCE: Micros = Micros::from_secs(8);
/// Without a network it asks again after 2, 4, 8 and then this many seconds.
const NO_NETWORK: Micros = Micros::from_secs(10);
/// A page that was told this recently that its ticket waits comes without asking again. A page that asks at
/// the longest interval of the default `NapPoll`, spread, always was.
const FRESH: Micros = Micros::from_secs(20);
/// A page that never had an answer asks this many times.
const UNHEARD: u32 = 3;

/// A page that asks.
#[derive(Debug)]
pub struct Page {
    /// Where it asks; None: it has found that nobody answers.
    asks: Option<String>,
    /// When it comes in any case, a point of the run.
    due: Micros,
    /// When it asks next; None: at `due`.
    next: Option<Micros>,
    /// When it was last told that its ticket waits.
    told: Option<Micros>,
    /// It has a form to send again.
    has_form: bool,
    answered: bool,
    missed: u32,
    /// It sends its ticket in a header, as its cookie was not kept.
    pub by_header: bool,
}

/// What the page does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Pause(Micros),
    Ask,
    Come,
    /// Its ticket is no good: it says so and stays.
    Stay,
}

impl Page {
    /// A page received at `heard`; `None` if it has no ticket script.
    pub fn read(html: &str, heard: Micros) -> Option<Self> {
        let ms = |name| attribute(html, name)?.parse().ok().map(Micros::from_millis);
        Some(Page {
            asks: Some(attribute(html, "data-ask")?.to_owned()),
            due: heard + ms("data-return-ms")?,
            next: Some(heard + ms("data-ask-ms")?),
            told: Some(heard),
            has_form: html.contains(" id=\"nap-form\""),
            answered: false,
            missed: 0,
            by_header: false,
        })
    }

    /// The path it asks at.
    pub fn path(&self) -> &str {
        self.asks.as_deref().unwrap_or("")
    }

    /// What to do at `now`.
    pub fn step(&self, now: Micros) -> Step {
        let over = now >= self.due;
        let told = self.told.filter(|_| !self.has_form);
        if over && told.is_some_and(|told| now < told + FRESH) {
            return Step::Come;
        }
        match (&self.asks, self.next) {
            (None, _) if over => Step::Come,
            (None, _) => Step::Pause(self.due),
            (Some(_), Some(next)) if now >= next => Step::Ask,
            (Some(_), Some(next)) if over => Step::Pause(next + ALARM),
            (Some(_), Some(next)) => Step::Pause(self.due.min(next + ALARM)),
            (Some(_), None) if over => Step::Ask,
            (Some(_), None) => Step::Pause(self.due),
        }
    }

    /// An answer came at `now` (`None`: no answer); returns what the page does next.
    pub fn hear(&mut self, says: Option<&Value>, now: Micros) -> Step {
        (self.next, self.told) = (None, None);
        let Some(says) = says else {
            self.missed += 1;
            if !self.answered && self.missed >= UNHEARD {
                self.asks = None;
            }
            let pause = Micros::from_secs(1 << self.missed.min(4));
            self.next = Some(now + pause.min(NO_NETWORK));
            return self.step(now);
        };
        self.missed = 0;
        let after = |name| {
            let seconds: f64 = says[name].as_f64()?;
            Some(now + Micros::from_secs_f64(seconds))
        };
        match says["state"].as_str() {
            Some("wait") => {
                self.due = after("from").unwrap_or(self.due);
                self.next = after("ask").filter(|ask| *ask < self.due);
                self.told = Some(now);
            }
            Some("in") => self.next = after("ask").or(Some(now + NO_NETWORK)),
            Some("now" | "late" | "over") => return Step::Come,
            Some("none") if !self.answered && !self.by_header => {
                self.by_header = true;
                self.next = Some(now);
                return Step::Ask;
            }
            Some("none" | "used") => return Step::Stay,
            _ => self.asks = None,
        }
        self.answered = true;
        match self.step(now) {
            Step::Ask => Step::Pause(now + ALARM),
            step => step,
        }
    }
}

/// The value of an element's attribute, the first with that name in the page.
pub fn attribute<'a>(html: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = html.split_once(&format!(" {name}=\""))?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HTML: &str = r#"<main id="nap" data-mark="m.1" data-return-ms="9000" data-wait="0:09"
 data-ask-ms="2000" data-ask="/nap-ticket/status" data-worker="/nap-ticket/w.js">"#;

    fn ms(ms: u64) -> Micros {
        Micros::from_millis(ms)
    }

    fn page() -> Page {
        Page::read(HTML, ms(1000)).expect("a page that asks")
    }

    #[test]
    fn a_page_says_where_and_when_it_asks() {
        let page = page();
        assert_eq!(page.path(), "/nap-ticket/status");
        assert_eq!(page.step(ms(1000)), Step::Pause(ms(3005)));
        assert_eq!(page.step(ms(3005)), Step::Ask);
        assert!(Page::read("<p>busy</p>", ms(0)).is_none());
        assert!(Page::read(r#"<main id="nap" data-return-ms="9000">"#, ms(0)).is_none());
    }

    #[test]
    fn what_it_hears_moves_it() {
        let cases = [
            // Asked again before its time, or at it.
            (
                json!({"state": "wait", "from": 6, "ask": 2}),
                Step::Pause(ms(5005)),
            ),
            (
                json!({"state": "wait", "from": 6, "ask": 6}),
                Step::Pause(ms(9000)),
            ),
            (json!({"state": "in", "ask": 1}), Step::Pause(ms(4005))),
            (json!({"state": "now", "from": 3}), Step::Come),
            (json!({"state": "late"}), Step::Come),
            (json!({"state": "over"}), Step::Come),
            (json!({"state": "used"}), Step::Stay),
            // The cookie was not kept: ask once more, with the header.
            (json!({"state": "none"}), Step::Ask),
            // Not the module's answer: it comes at its time.
            (json!({"state": "elsewhere"}), Step::Pause(ms(10_000))),
            (json!({}), Step::Pause(ms(10_000))),
        ];
        for (says, want) in cases {
            assert_eq!(page().hear(Some(&says), ms(3000)), want, "{says}");
        }
    }

    #[test]
    fn at_its_time_it_comes_and_asks_once_more_where_it_has_heard_nothing_lately() {
        let after = |s: u64| {
            let mut page = page();
            let wait = json!({"state": "wait", "from": s, "ask": s});
            page.hear(Some(&wait), ms(3000));
            page
        };
        let page = after(6);
        assert_eq!(page.step(ms(8999)), Step::Pause(ms(9000)));
        assert_eq!(page.step(ms(9000)), Step::Come);
        // The computer slept.
        assert_eq!(page.step(ms(24_000)), Step::Ask);
        let form = format!("{HTML}<form id=\"nap-form\">");
        let page = Page::read(&form, ms(1000)).expect("a page that asks");
        assert_eq!(
            page.step(ms(10_000)),
            Step::Ask,
            "another tab may have sent"
        );
        let mut page = after(20);
        assert_eq!(page.step(ms(23_000)), Step::Ask);
        let now = json!({"state": "now", "from": 0});
        assert_eq!(page.hear(Some(&now), ms(23_001)), Step::Come);
    }

    #[test]
    fn a_ticket_unknown_by_header_too_ends_it() {
        let mut page = page();
        let none = json!({"state": "none"});
        assert_eq!(page.hear(Some(&none), ms(3000)), Step::Ask);
        assert!(page.by_header);
        assert_eq!(page.hear(Some(&none), ms(3001)), Step::Stay);
    }

    #[test]
    fn who_never_has_an_answer_comes_at_his_time() {
        let mut page = page();
        assert_eq!(page.hear(None, ms(3000)), Step::Pause(ms(5005)));
        assert_eq!(page.hear(None, ms(5005)), Step::Pause(ms(9010)));
        assert_eq!(page.hear(None, ms(9010)), Step::Pause(ms(10_000)));
        assert_eq!(page.step(ms(10_000)), Step::Come);
        // A page that had an answer goes on asking until the network is back.
        let mut page = self::page();
        page.hear(
            Some(&json!({"state": "wait", "from": 6, "ask": 1})),
            ms(3000),
        );
        for at in [4000, 6000, 10_000] {
            page.hear(None, ms(at));
        }
        assert_eq!(page.step(ms(10_000)), Step::Pause(ms(18_005)));
    }
}
