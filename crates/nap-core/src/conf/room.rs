//! [`RoomConf`]: a room as configured.

use super::cookie::{cookie_attribute, cookie_name};
use super::directive::Directive::{self, *};
use super::page::goes_with_a_page;
use super::server::ServerConf;
use super::settings::settings;
use super::telepoll::{FORMS, MODES};
use super::text::Text;
use super::values::*;
use crate::charset::Charset;
use crate::micros::Micros;
use crate::nap::laws::Laws;
use crate::nap::ledger::{prime_borne, share_at_most};

settings! {
/// A room as configured. Numbers are [`UNSET`] until a directive sets them; after
/// [`RoomConf::finish`] none is, unless the field says so.
RoomConf {
    /// 1..63 of `A-Za-z0-9_.-`.
    name: Text<64> = Text::EMPTY;
    /// The same for a page; empty: the room itself.
    page: Text<64> = Text::EMPTY;
    /// The ticket cookie; empty: `nap-<room>`, under TLS `__Host-nap-<room>`.
    cookie: Text<64> = Text::EMPTY;
    /// Further attributes of the cookie, joined by "; ".
    cookie_attributes: Text<256> = Text::EMPTY;
    /// Permits; 1..1024, or [`AUTO`], [`PAPER`]: after `finish` the number it begins with.
    run_ready: i64 = UNSET;
    /// Permits of the room's other gates, together; [`UNSET`]: there are none.
    beside: i64 = UNSET;
    /// The bound, 100 ms .. 10 min.
    wait_max_us: i64 = UNSET;
    /// Places in Wait and Re Access, or [`AUTO`], [`PAPER`].
    wait_limit: i64 = UNSET => AUTO;
    /// Places of a static Re Access, or [`AUTO`]: the ledger.
    re_access: i64 = UNSET => AUTO;
    /// How many finished accesses the wait limit looks at; 10..1000.
    history: i64 = UNSET => 100;
    /// Body bytes after which an answer is a long one; 1K..1G or [`OFF`].
    download: i64 = UNSET => M;
    /// Bytes of a request's body that are read before its access enters, 1K .. 1G, or [`OFF`].
    body: i64 = UNSET => 64 * K;
    /// Length of a slot; 1 s .. 1 h.
    slot_period_us: i64 = UNSET => 10 * SECOND;
    /// Tickets per slot, or [`AUTO`], [`PAPER`].
    slot_tickets: i64 = UNSET => AUTO;
    /// From a ticket's start to its end; 5 s .. 24 h.
    ticket_lifetime_us: i64 = UNSET;
    /// Prime window; 1 s .. 1 h. After `finish` 0 for [`AUTO`]: as long as the wait limit bears it.
    ticket_prime_us: i64 = UNSET;
    /// How far ahead tickets are sold; 1 min .. 24 h (the ledger's ring).
    ticket_horizon_us: i64 = UNSET;
    /// Share of the capacity sold as tickets, millionths, or [`AUTO`].
    ticket_share_ppm: i64 = UNSET => AUTO;
    /// Tickets sold per place, millionths (1..2), or [`AUTO`], [`OFF`].
    overbook_ppm: i64 = UNSET => AUTO;
    /// Live tickets per client, or [`AUTO`]: no cap, but fewer where they lapse.
    tickets_per_client: i64 = UNSET => AUTO;
    /// 0 none, 1 the client's prefix.
    ticket_bind: i64 = UNSET => 0;
    /// 1: admission in access_checker.
    admit_early: i64 = UNSET => 0;
    /// 1: files of the default handler are scheduled too.
    schedule_static: i64 = UNSET => 0;
    /// How the permits are found: [`law`](crate::sqs::page_scheduler::law).
    run_ready_law: i64 = UNSET;
    /// 1: the work is done elsewhere, so the page's own progress counts.
    run_ready_own: i64 = UNSET;
    /// 1: `NapRunReady n shared`.
    run_ready_shared: i64 = UNSET => 0;
    /// Least permits of `NapRunReady auto` and `paper`.
    run_ready_min: i64 = UNSET;
    /// Most permits of `NapRunReady auto` and `paper`.
    run_ready_max: i64 = UNSET;
    /// How many intervals the paper's law looks back.
    run_ready_history: i64 = UNSET;
    /// Bytes of a refused form that its page gives back; 1K..1M or [`OFF`].
    keep_form: i64 = UNSET => 64 * K;
    /// Holders ask no more often than this where they stand; 1 s .. 1 h.
    poll_base_us: i64 = UNSET => 3 * SECOND;
    /// How many polls a second all of them may make together; 1..100000.
    poll_rate: i64 = UNSET => 500;
    /// 0 level, 1 relevel, 2 concentrate.
    poll_mode: i64 = UNSET => 0;
    /// Concentrate: into the first 1/k of the base interval; 1..100.
    poll_k: i64 = UNSET => 2;
    /// 0 smooth, 1 paper.
    poll_form: i64 = UNSET => 0;
    /// Charset of forms that are not UTF-8, by its own name; empty: none are kept.
    form_charset: Text<64> = Text::EMPTY;
    /// The application's cookie by which a session is known; empty: one of ours.
    session_cookie: Text<64> = Text::EMPTY;
    /// 1: the room has sessions.
    session: i64 = UNSET;
    /// A session is over when nothing has come for this long; 1 s .. 24 h.
    session_idle_us: i64 = UNSET;
    /// How many accesses of one session may wait or run at once; 1..32.
    session_parallel: i64 = UNSET;
    /// SameSite of our own cookie: 0 Lax, 1 Strict, 2 None.
    session_same_site: i64 = UNSET;
    /// 1: it is Partitioned.
    session_partitioned: i64 = UNSET;
    /// The session interval, 1 ms .. 10 min, or [`AUTO`], [`PAPER`].
    session_start: i64 = UNSET;
    /// How many accesses may wait to start one; 1..100000, or [`AUTO`].
    session_queue: i64 = UNSET;
    /// Mean page queue from which on there are too many sessions, millionths.
    start_threshold: i64 = UNSET;
    /// The paper's step up; 1 ms .. 10 s.
    start_inc_us: i64 = UNSET;
    /// The paper's step down; likewise.
    start_dec_us: i64 = UNSET;
    /// Least interval; 1 ms .. 10 min.
    start_min_us: i64 = UNSET;
    /// Largest interval; likewise.
    start_max_us: i64 = UNSET;
    /// 1: among members, the session nearest its end is served first.
    progress: i64 = UNSET => 0;
}
}

/// A ticket share of less than this of what the server does is worth a remark.
const ALL: f64 = 0.9;

impl RoomConf {
    /// A room for which nothing has been set yet.
    pub fn new(name: &str) -> Result<RoomConf, String> {
        Ok(RoomConf {
            name: named("<NapRoom>", "a room", name)?,
            ..RoomConf::UNSET
        })
    }

    /// Reads one directive inside `<NapRoom>` or `<NapPage>`; the error is the sentence to show.
    pub fn directive(&mut self, which: Directive, args: &[&str]) -> Result<(), String> {
        if self.is_page() && !goes_with_a_page(which) {
            return Err(format!("{} does not belong inside <NapPage>", which.name()));
        }
        let value = |words| one(which, args, words);
        match which {
            RunReady => self.set_run_ready(args)?,
            WaitMax => self.wait_max_us = value(Words::time(100 * MILLISECOND..=10 * MINUTE))?,
            WaitLimit => {
                let words = Words::count(0..=100_000).auto().paper();
                self.wait_limit = value(words.word("work", WORK))?;
            }
            ReAccess => self.re_access = value(Words::count(0..=100_000).auto())?,
            History => self.history = value(Words::count(10..=1000))?,
            Download => self.download = value(Words::size(K..=G).off())?,
            Body => self.body = value(Words::size(K..=G).off())?,
            KeepForm => self.keep_form(args)?,
            Poll => self.poll(args)?,
            SlotPeriod => self.slot_period_us = value(Words::time(SECOND..=HOUR))?,
            SlotTickets => self.slot_tickets = value(Words::count(1..=100_000).auto().paper())?,
            TicketLifetime => self.ticket_lifetime_us = value(Words::time(5 * SECOND..=24 * HOUR))?,
            TicketPrime => self.ticket_prime_us = value(Words::time(SECOND..=HOUR).auto())?,
            TicketHorizon => self.ticket_horizon_us = value(Words::time(MINUTE..=24 * HOUR))?,
            TicketShare => self.ticket_share_ppm = value(Words::share(0, 1).auto())?,
            Overbook => self.overbook_ppm = value(Words::share(1, 2).auto().off())?,
            TicketsPerClient => self.tickets_per_client = value(Words::count(1..=100_000).auto())?,
            TicketCookie => self.cookie(args)?,
            TicketBind => self.ticket_bind = value(Words::choice(&["none", "prefix"]))?,
            Session => self.session(args)?,
            SessionStart => self.session_start(args)?,
            SessionQueue => self.session_queue = value(Words::count(1..=100_000).auto())?,
            Priority => self.priority(args)?,
            Admit => self.admit_early = value(Words::choice(&["late", "early"]))?,
            Static => self.schedule_static = value(Words::choice(&["Off", "On"]))?,
            Reserve | TicketPath | Tables | Park | Store | Node => {
                return Err(format!("{} does not belong inside <NapRoom>", which.name()));
            }
        }
        Ok(())
    }

    fn keep_form(&mut self, args: &[&str]) -> Result<(), String> {
        let (size, charset) = args.split_at(args.len().min(1));
        self.keep_form = one(KeepForm, size, Words::size(K..=M).off())?;
        self.form_charset = match charset {
            [] => Text::EMPTY,
            [_] if self.keep_form == OFF => {
                return Err("NapKeepForm: a charset goes with a size only".into());
            }
            [name] => Charset::named(name.as_bytes())
                .and_then(|charset| Text::new(charset.name()))
                .ok_or_else(|| {
                    let what = "is not a charset that browsers send forms in; use a name of the WHATWG Encoding \
                                Standard, as Shift_JIS, EUC-JP or windows-1252";
                    wrong("NapKeepForm", name, what)
                })?,
            _ => return Err("NapKeepForm: wants a size, and at most one charset".into()),
        };
        Ok(())
    }

    /// `progress`, or a number whose expression the shim keeps.
    fn priority(&mut self, args: &[&str]) -> Result<(), String> {
        match args {
            ["progress"] => self.progress = 1,
            [number, _] => {
                one(Priority, &[number], Words::count(1..=PRIORITIES))?;
            }
            _ => {
                return Err(format!(
                    "NapPriority: wants a number from 1 to {PRIORITIES} and an expression, or \
                     progress alone"
                ));
            }
        }
        Ok(())
    }

    fn poll(&mut self, args: &[&str]) -> Result<(), String> {
        let options = "base=, rate=, mode=, k= and form=";
        if args.is_empty() {
            return Err(format!("NapPoll: wants one or more of {options}"));
        }
        for option in args {
            let (field, words) = match option.split_once('=') {
                Some(("base", _)) => (&mut self.poll_base_us, Words::time(SECOND..=HOUR)),
                Some(("rate", _)) => (&mut self.poll_rate, Words::count(1..=100_000)),
                Some(("mode", _)) => (&mut self.poll_mode, Words::choice(MODES)),
                Some(("k", _)) => (&mut self.poll_k, Words::count(1..=100)),
                Some(("form", _)) => (&mut self.poll_form, Words::choice(FORMS)),
                _ => return Err(unknown_option(Poll, option, options)),
            };
            *field = option_value(Poll, option, words)?;
        }
        Ok(())
    }

    fn check_poll(&self) -> Result<(), String> {
        let (base, rate) = (self.poll_base_us, self.poll_rate);
        if base.saturating_mul(rate) < 2 * SECOND {
            return Err(format!(
                "{}: NapPoll base={} rate={rate} leaves room for one poll; base times rate must be 2 or more",
                self.title(),
                Time(base)
            ));
        }
        Ok(())
    }

    fn cookie(&mut self, args: &[&str]) -> Result<(), String> {
        let Some((&name, attributes)) = args.split_first() else {
            return Err("NapTicketCookie: wants the cookie's name, then its attributes".into());
        };
        self.cookie = cookie_name("NapTicketCookie: ", name)?;
        for attribute in attributes {
            cookie_attribute(name, attribute)?;
        }
        let joined = attributes.join("; ");
        self.cookie_attributes = Text::new(&joined).ok_or_else(|| {
            "NapTicketCookie: the attributes are longer than 255 bytes together".to_string()
        })?;
        Ok(())
    }

    /// Puts the defaults in, then checks what must fit together. Returns what the administrator should know although
    /// the server starts.
    pub fn finish(&mut self, server: &ServerConf) -> Result<Option<String>, String> {
        self.default_times();
        let too_few = self.fit_run_ready(server)?;
        self.put_defaults();
        self.check_times()?;
        self.check_shared(server)?;
        self.finish_sessions(server)?;
        self.check_poll()?;
        let said: Vec<String> = too_few.into_iter().chain(self.prime_remark()).collect();
        let title = self.title();
        Ok((!said.is_empty()).then(|| format!("{title}: {}", said.join(". "))))
    }

    /// A default gives way to what was set beside it, so that one directive alone never makes the
    /// combination wrong.
    fn default_times(&mut self) {
        or_default(&mut self.wait_max_us, 4 * SECOND);
        if matches!(self.ticket_prime_us, UNSET | AUTO) {
            self.ticket_prime_us = 0;
        }
        let horizon = self.ticket_horizon_us;
        let most = if horizon == UNSET { 24 * HOUR } else { horizon };
        or_default(
            &mut self.ticket_lifetime_us,
            (5 * MINUTE).max(self.ticket_prime_us).min(most),
        );
        or_default(&mut self.ticket_horizon_us, 24 * HOUR);
    }

    fn check_times(&self) -> Result<(), String> {
        let (lifetime, horizon) = (self.ticket_lifetime_us, self.ticket_horizon_us);
        for (shorter, a, longer, b) in [
            (TicketPrime, self.ticket_prime_us, TicketLifetime, lifetime),
            (TicketLifetime, lifetime, TicketHorizon, horizon),
            (SlotPeriod, self.slot_period_us, TicketHorizon, horizon),
        ] {
            if a > b {
                return Err(format!(
                    "{}: {} {} is longer than {} {}",
                    self.title(),
                    shorter.name(),
                    Time(a),
                    longer.name(),
                    Time(b)
                ));
            }
        }
        Ok(())
    }

    /// Adjusts the permits so that beside them and the reserve somebody can still wait, where
    /// waiting takes a worker too.
    fn fit_run_ready(&mut self, server: &ServerConf) -> Result<Vec<String>, String> {
        let reserve = server.reserve();
        let workers = i64::from(server.max_workers);
        let known = workers > 0;
        let auto = self.begin_run_ready(workers, reserve, server.cores);
        let beside = self.beside.max(0);
        let running = self.run_ready.saturating_add(beside);
        let taken = running.saturating_add(reserve);
        let (enough, too_many, wanted) = match server.hold_who_waits() {
            true => (
                taken < workers,
                "leave no worker to wait on under",
                self.workers_wanted(reserve),
            ),
            false => (taken <= workers, "are more than", taken),
        };
        if known && !enough {
            return Err(format!(
                "{}: NapRunReady {}{}{} and {} {too_many} MaxRequestWorkers {workers}; this room wants \
                 MaxRequestWorkers {wanted}",
                self.title(),
                self.run_ready,
                auto,
                match beside {
                    0 => String::new(),
                    n => format!(", {n} of its pages"),
                },
                server.reserve_in_words(),
            ));
        }
        if !server.hold_who_waits() {
            return Ok(Vec::new());
        }
        let of_all = (known && wanted > workers).then(|| {
            let waiting = workers - reserve - running;
            format!(
                "MaxRequestWorkers {workers} lets at most {waiting} wait beside {running} running and \
                 {reserve} in reserve; this room wants MaxRequestWorkers {wanted}",
            )
        });
        let of_one = server.threads_remark(running as u32);
        Ok(of_all.into_iter().chain(of_one).collect())
    }

    /// A remark on a prime window that the bound cannot bear at full rate, with one that it can.
    fn prime_remark(&self) -> Option<String> {
        let (prime, bound) = (self.ticket_prime_us, self.wait_max_us);
        let micros = |us: i64| Micros(us.max(0) as u64);
        let window_min = Laws::CHOSEN.sale.window_min;
        // At one access a second L is the bound in seconds; use a thousand to have no fraction.
        let by_law = |bound: i64| {
            let depth = micros(bound).0 / 1000;
            prime_borne(depth as u32, 1000.0, micros(bound), window_min)
        };
        let sells_all = |bound: &i64| share_at_most(by_law(*bound), micros(*bound)) >= ALL;
        let least = || (1..=10).map(|s| s * SECOND).find(sells_all);
        let (window, said) = match prime {
            1.. => (
                micros(prime),
                format!("NapTicketPrime {} with ", Time(prime)),
            ),
            _ => (by_law(bound), String::new()),
        };
        let share = share_at_most(window, micros(bound));
        // The paper's form has separate places for holders.
        if self.re_access >= 0 || share >= ALL {
            return None;
        }
        let whole =
            (1..).take_while(|&s| share_at_most(Micros::from_secs(s), micros(bound)) >= ALL);
        let enough = match whole.last().unwrap_or(0) {
            _ if prime <= 0 => format!("NapWaitMax {}", Time(least()?)),
            _ if !sells_all(&bound) => format!("auto with NapWaitMax {}", Time(least()?)),
            0 => "auto".to_owned(),
            s => format!("{s}s or auto"),
        };
        Some(format!(
            "{said}NapWaitMax {}: tickets are sold for at most {:.0} % of what the server does; {enough} sells \
             all of it",
            Time(bound),
            (100.0 * share).floor()
        ))
    }

    /// Workers for running, waiting and the reserve. Before anything is measured, the number that
    /// can wait follows from Little's law at 250 ms a permit: run_ready x bound / 250 ms.
    fn workers_wanted(&self, reserve: i64) -> i64 {
        let waiting = match self.wait_limit {
            n if n >= 0 => n.saturating_add(self.re_access.max(0)),
            _ => self.run_ready.saturating_mul(self.wait_max_us) / (250 * MILLISECOND),
        };
        self.run_ready
            .saturating_add(self.beside.max(0))
            .saturating_add(waiting)
            .saturating_add(reserve)
    }
}

#[cfg(test)]
mod tests;
