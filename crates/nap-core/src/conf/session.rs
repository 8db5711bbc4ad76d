//! `NapSession`, `NapSessionStart`, `NapSessionQueue`: the sessions of a room.
//!
//! The regular expressions that begin and end a session (`start=`, `end=`) are compiled by httpd
//! and stay with the shim.

use super::cookie::cookie_name;
use super::directive::Directive::{Session, SessionQueue, SessionStart};
use super::room::RoomConf;
use super::server::ServerConf;
use super::values::*;

/// Millionths of a queue.
const ONE: i64 = 1_000_000;

/// `SameSite` of the module's own session cookie (RFC 6265bis, 4.1.2.7), by its number in the room's settings: it comes
/// along with navigations from other sites but not with their forms' POST, only from this site, or from anywhere.
const SAME_SITE: [&str; 3] = ["Lax", "Strict", "None"];

impl RoomConf {
    pub(super) fn session(&mut self, args: &[&str]) -> Result<(), String> {
        self.session = 1;
        for option in args {
            match option.split_once('=') {
                Some(("cookie", name)) => {
                    self.session_cookie = cookie_name("NapSession: cookie=", name)?;
                }
                Some(("idle", _)) => {
                    let times = Words::time(SECOND..=24 * HOUR);
                    self.session_idle_us = option_value(Session, option, times)?;
                }
                Some(("parallel", _)) => {
                    self.session_parallel = option_value(Session, option, Words::count(1..=32))?;
                }
                Some((name, value)) if name.eq_ignore_ascii_case("SameSite") => {
                    let known = Words::choice(&SAME_SITE).read(value);
                    self.session_same_site = known.map_err(|_| {
                        let what = "is not known; use SameSite=Lax, Strict or None";
                        wrong("NapSession", option, what)
                    })?;
                }
                None if option.eq_ignore_ascii_case("Partitioned") => {
                    self.session_partitioned = 1;
                }
                _ => {
                    let known =
                        "cookie=, start=, end=, idle=, parallel=, SameSite= and Partitioned";
                    return Err(unknown_option(Session, option, known));
                }
            }
        }
        let attributes = [self.session_same_site, self.session_partitioned];
        if !self.session_cookie.as_str().is_empty() && attributes != [UNSET; 2] {
            return Err(
                "NapSession: SameSite= and Partitioned are for the cookie that the module makes; with cookie= \
                 set them where the application makes its own"
                    .into(),
            );
        }
        Ok(())
    }

    /// Attributes of the module's own cookie, with the first semicolon. `SameSite=None` and
    /// `Partitioned` need `Secure`: over plain http browsers would not keep such a cookie, so there
    /// it is a `Lax` one.
    pub fn session_attributes(&self, tls: bool) -> String {
        let set = usize::try_from(self.session_same_site).ok();
        let word = set.and_then(|n| SAME_SITE.get(n)).copied();
        let same_site = word.filter(|word| tls || *word != "None").unwrap_or("Lax");
        let partitioned = tls && self.session_partitioned == 1;
        let mut text = format!("; Path=/; HttpOnly; SameSite={same_site}");
        text.push_str(if tls { "; Secure" } else { "" });
        text.push_str(if partitioned { "; Partitioned" } else { "" });
        text
    }

    pub(super) fn session_start(&mut self, args: &[&str]) -> Result<(), String> {
        let (first, options) = args.split_at(args.len().min(1));
        let words = Words::time(MILLISECOND..=10 * MINUTE).auto().paper();
        self.session_start = one(SessionStart, first, words)?;
        if self.session_start >= 0 && !options.is_empty() {
            let which = "threshold=, inc=, dec=, min= and max= go with auto or paper";
            return Err(format!("NapSessionStart: {which}"));
        }
        for option in options {
            let paper = self.session_start == PAPER;
            let step = Words::time(MILLISECOND..=10 * SECOND);
            let range = Words::time(MILLISECOND..=10 * MINUTE);
            let (field, words) = match option.split_once('=') {
                Some(("threshold", _)) => (&mut self.start_threshold, Words::share(0, 1000)),
                Some(("inc" | "dec", _)) if !paper => {
                    return Err("NapSessionStart: inc= and dec= go with paper only".into());
                }
                Some(("inc", _)) => (&mut self.start_inc_us, step),
                Some(("dec", _)) => (&mut self.start_dec_us, step),
                Some(("min", _)) => (&mut self.start_min_us, range),
                Some(("max", _)) => (&mut self.start_max_us, range),
                _ => {
                    let known = "threshold=, inc=, dec=, min= and max=";
                    return Err(unknown_option(SessionStart, option, known));
                }
            };
            *field = option_value(SessionStart, option, words)?;
        }
        if self.start_threshold == 0 {
            return Err(
                "NapSessionStart: threshold=0 would start fewer and fewer sessions, as no \
                        queue is shorter; use a number above 0"
                    .into(),
            );
        }
        Ok(())
    }

    pub(super) fn finish_sessions(&mut self, server: &ServerConf) -> Result<(), String> {
        let title = self.title();
        for (field, which) in [
            (self.session_start, SessionStart),
            (self.session_queue, SessionQueue),
        ] {
            if self.session != 1 && field != UNSET {
                return Err(format!(
                    "{title}: {} is about sessions, but the room has none; add NapSession",
                    which.name()
                ));
            }
        }
        if self.session != 1 && self.progress == 1 && !self.is_page() {
            return Err(format!(
                "{title}: NapPriority progress compares members of sessions, but the room has none; \
                 add NapSession"
            ));
        }
        or_default(&mut self.session, 0);
        if self.session == 0 {
            return Ok(());
        }
        if server.store.is_used() && !server.store.is_sticky() && !self.is_page() {
            return Err(format!(
                "{title}: NapSession with NapStore wants \"sticky\": members must come back to the server that knows them"
            ));
        }
        or_default(&mut self.session_start, AUTO);
        let paper = self.session_start == PAPER;
        let given = self.start_min_us;
        for (field, default) in [
            (&mut self.session_idle_us, 30 * MINUTE),
            (&mut self.session_parallel, 16),
            (&mut self.session_queue, AUTO),
            (&mut self.start_threshold, 5 * ONE),
            (&mut self.start_inc_us, 10 * MILLISECOND),
            (&mut self.start_dec_us, 10 * MILLISECOND),
            (
                &mut self.start_min_us,
                if paper { 20 * MILLISECOND } else { MILLISECOND },
            ),
            (&mut self.start_max_us, (10 * SECOND).max(given)),
        ] {
            or_default(field, default);
        }
        if self.start_min_us > self.start_max_us {
            return Err(format!(
                "{title}: NapSessionStart: min={} is more than max={}",
                Time(self.start_min_us),
                Time(self.start_max_us)
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::Directive;
    use crate::conf::samples::{room, server, set};

    fn said(lines: &[&str]) -> Result<RoomConf, String> {
        let mut shop = room();
        for line in lines {
            let mut words = line.split(' ');
            let name = words.next().expect("a name");
            let which = Directive::ALL.iter().find(|d| d.name() == name);
            shop.directive(*which.expect("known"), &words.collect::<Vec<_>>())?;
        }
        shop.finish(&server(400, 25))?;
        Ok(shop)
    }

    #[test]
    fn a_room_has_no_sessions_unless_it_is_said_and_then_the_defaults() {
        assert_eq!(said(&[]).expect("good").session, 0);
        let shop = said(&["NapSession"]).expect("good");
        assert_eq!((shop.session, shop.session_cookie.as_str()), (1, ""));
        assert_eq!(shop.session_idle_us, 30 * MINUTE);
        assert_eq!((shop.session_parallel, shop.session_start), (16, AUTO));
        assert_eq!(shop.start_threshold, 5 * ONE);
        assert_eq!((shop.start_min_us, shop.start_max_us), (1_000, 10 * SECOND));
    }

    #[test]
    fn what_is_said_is_taken() {
        let shop = said(&["NapSession samesite=none partitioned"]).expect("good");
        assert_eq!(
            [false, true].map(|tls| shop.session_attributes(tls)),
            [
                "; Path=/; HttpOnly; SameSite=Lax",
                "; Path=/; HttpOnly; SameSite=None; Secure; Partitioned"
            ]
        );
        let shop = said(&["NapSession"]).expect("good");
        assert_eq!(
            [false, true].map(|tls| shop.session_attributes(tls)),
            [
                "; Path=/; HttpOnly; SameSite=Lax",
                "; Path=/; HttpOnly; SameSite=Lax; Secure"
            ]
        );
        let shop = said(&[
            "NapSession cookie=PHPSESSID idle=10min parallel=6",
            "NapSessionStart paper threshold=2.5 inc=20ms dec=5ms min=50ms max=20s",
            "NapSessionQueue 40",
        ])
        .expect("good");
        assert_eq!(shop.session_cookie.as_str(), "PHPSESSID");
        assert_eq!(shop.session_idle_us, 10 * MINUTE);
        assert_eq!((shop.session_parallel, shop.session_queue), (6, 40));
        assert_eq!(shop.start_threshold, 2_500_000);
        assert_eq!((shop.start_inc_us, shop.start_dec_us), (20_000, 5_000));
        assert_eq!(
            set("NapSessionStart 500ms", |r| r.session_start),
            Ok(500_000)
        );
    }

    #[test]
    fn nonsense_is_told_in_a_sentence() {
        let cases: [(&[&str], &str); 11] = [
            (
                &["NapSessionQueue 5"],
                "room shop: NapSessionQueue is about sessions, but the room has none; add \
                 NapSession",
            ),
            (
                &["NapSession cookie=a;b"],
                "NapSession: cookie=\"a;b\" is not a cookie's name; use 1 to 63 letters, digits or \
                 any of !#$%&'*+-.^_`|~ (RFC 6265)",
            ),
            (
                &["NapSession parallel=33"],
                "NapSession: \"parallel=33\" is out of range; use a number from 1 to 32",
            ),
            (
                &["NapSession", "NapSessionStart auto threshold=0"],
                "NapSessionStart: threshold=0 would start fewer and fewer sessions, as no queue is \
                 shorter; use a number above 0",
            ),
            (
                &["NapSession", "NapSessionStart auto inc=5ms"],
                "NapSessionStart: inc= and dec= go with paper only",
            ),
            (
                &["NapSession", "NapSessionStart 1s max=5s"],
                "NapSessionStart: threshold=, inc=, dec=, min= and max= go with auto or paper",
            ),
            (
                &["NapSession", "NapSessionStart auto min=2s max=1s"],
                "room shop: NapSessionStart: min=2s is more than max=1s",
            ),
            (
                &["NapSession", "NapSessionStart 0ms"],
                "NapSessionStart: \"0ms\" is out of range; use auto, paper, or e.g. 500ms, 4s or \
                 5min, from 1ms to 10min",
            ),
            (
                &["NapSession SameSite=no"],
                "NapSession: \"SameSite=no\" is not known; use SameSite=Lax, Strict or None",
            ),
            (
                &["NapSession cookie=PHPSESSID SameSite=None"],
                "NapSession: SameSite= and Partitioned are for the cookie that the module makes; with cookie= \
                 set them where the application makes its own",
            ),
            (
                &["NapSession idle=1000h"],
                "NapSession: \"idle=1000h\" is out of range; use e.g. 500ms, 4s or 5min, from 1s to 24h",
            ),
        ];
        for (lines, sentence) in cases {
            let said = said(lines).map(drop);
            assert_eq!(said, Err(sentence.into()), "{lines:?}");
        }
    }
}
