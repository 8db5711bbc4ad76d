//! Directives: from an administrator's words to a checked configuration.
//!
//! [`RoomConf::directive`] and [`ServerConf::directive`] take one directive as httpd split it and
//! store plain numbers; [`RoomConf::finish`] puts the defaults in and checks what only makes sense
//! together. Both types have the fields of `nap_room_conf` and `nap_server_conf` in
//! `c_shim/nap.h`, in the same order, so that ffi can cast. Numbers are read digit by digit as
//! decimals (no floats, hence no NaN and no rounding). Every message is one sentence with
//! directive, value and allowed range: httpd prints it and does not start.

use std::fmt::Display;
use std::ops::RangeInclusive;

use Directive::*;

/// A setting nobody made.
pub const UNSET: i64 = -1;
/// "By our law": the value follows from measurement or from other settings.
pub const AUTO: i64 = -2;
/// "As the paper says".
pub const PAPER: i64 = -3;
/// Switched off.
pub const OFF: i64 = -4;

const MILLISECOND: i64 = 1_000;
const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const K: i64 = 1 << 10;
const M: i64 = 1 << 20;
const G: i64 = 1 << 30;

/// Where the directives' names and numbers are kept in step with `nap_directive` of nap.h.
macro_rules! directives {
    ($($variant:ident = $number:literal $name:literal,)*) => {
        /// The directives the core parses; numbers as in `nap_directive`.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Directive { $($variant = $number,)* }

        impl Directive {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Directive] = &[$($variant,)*];

            /// As the administrator writes it.
            pub fn name(self) -> &'static str {
                match self { $($variant => $name,)* }
            }

            /// The directive with this number in `nap_directive`.
            pub fn from_number(number: u32) -> Option<Directive> {
                match number { $($number => Some($variant),)* _ => None }
            }
        }
    };
}

directives! {
    RunReady = 1 "NapRunReady",
    WaitMax = 2 "NapWaitMax",
    WaitLimit = 3 "NapWaitLimit",
    ReAccess = 4 "NapReAccess",
    History = 5 "NapHistory",
    Reserve = 6 "NapReserve",
    Download = 7 "NapDownload",
    SlotPeriod = 8 "NapSlotPeriod",
    SlotTickets = 9 "NapSlotTickets",
    TicketLifetime = 10 "NapTicketLifetime",
    TicketPrime = 11 "NapTicketPrime",
    TicketHorizon = 12 "NapTicketHorizon",
    TicketShare = 13 "NapTicketShare",
    Overbook = 14 "NapOverbook",
    TicketsPerClient = 15 "NapTicketsPerClient",
    TicketCookie = 16 "NapTicketCookie",
    TicketBind = 17 "NapTicketBind",
    TicketStatus = 18 "NapTicketStatus",
    TicketPath = 19 "NapTicketPath",
    Tables = 20 "NapTables",
    Admit = 21 "NapAdmit",
}

/// A text of fixed size, ended by the first zero byte; C's `char[N]`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// Nothing in it.
    pub const EMPTY: Self = Text([0; N]);

    /// A copy of `s`, or `None` if it has a zero byte or does not fit with its final zero.
    pub fn new(s: &str) -> Option<Self> {
        let mut text = Self::EMPTY;
        let room = text
            .0
            .get_mut(..s.len())
            .filter(|_| s.len() < N && !s.contains('\0'))?;
        room.copy_from_slice(s.as_bytes());
        Some(text)
    }

    /// Its characters; empty should they not be UTF-8.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(N);
        std::str::from_utf8(&self.0[..end]).unwrap_or("")
    }

    /// Nobody has set it.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// A room as configured; `nap_room_conf`. Numbers are [`UNSET`] until a directive sets them,
/// after [`RoomConf::finish`] none is, but where the field says so.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomConf {
    /// 1..63 of `A-Za-z0-9_.-`.
    pub name: Text<64>,
    /// The ticket cookie; empty: `nap-<room>`, under TLS `__Host-nap-<room>`.
    pub cookie: Text<64>,
    /// Further attributes of the cookie, joined by "; ".
    pub cookie_attributes: Text<256>,
    /// Permits; 1..10000. After `finish` never [`AUTO`].
    pub run_ready: i64,
    /// The bound, 100 ms .. 10 min.
    pub wait_max_us: i64,
    /// Places in Wait and Re Access, or [`AUTO`], [`PAPER`].
    pub wait_limit: i64,
    /// Places of a static Re Access, or [`AUTO`]: the ledger.
    pub re_access: i64,
    /// Finished accesses the wait limit looks at; 10..1000.
    pub history: i64,
    /// Bytes after which a body is a long answer; 1K..1G or [`OFF`].
    pub download: i64,
    /// Length of a slot; 1 s .. 1 h.
    pub slot_period_us: i64,
    /// Tickets a slot, or [`AUTO`], [`PAPER`].
    pub slot_tickets: i64,
    /// From a ticket's start to its end; 5 s .. 24 h.
    pub ticket_lifetime_us: i64,
    /// Prime window; 1 s .. 1 h. After `finish` never [`AUTO`].
    pub ticket_prime_us: i64,
    /// How far ahead tickets are sold; 1 min .. 24 h (the ledger's ring).
    pub ticket_horizon_us: i64,
    /// Share of the capacity sold as tickets, millionths, or [`AUTO`].
    pub ticket_share_ppm: i64,
    /// Tickets sold per place, millionths (1..2), or [`AUTO`], [`OFF`].
    pub overbook_ppm: i64,
    /// Live tickets a client, or [`AUTO`]: max(16, 5 % of those out).
    pub tickets_per_client: i64,
    /// 0 none, 1 the client's prefix.
    pub ticket_bind: i64,
    /// 1: admission in access_checker.
    pub admit_early: i64,
    /// 1: files of the default handler are scheduled too.
    pub schedule_static: i64,
    /// Least permits of `NapRunReady auto`; may stay [`UNSET`].
    pub run_ready_min: i64,
    /// Most permits of `NapRunReady auto`; may stay [`UNSET`].
    pub run_ready_max: i64,
    /// Accesses the page scheduler will look at; may stay [`UNSET`].
    pub run_ready_history: i64,
}

/// The server as configured and as its MPM runs it; `nap_server_conf`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerConf {
    /// Workers kept free; [`UNSET`]: `reserve_percent` counts.
    pub reserve: i64,
    /// The same in per cent of a child's threads (prefork: of all children).
    pub reserve_percent: i64,
    /// `NapTables waiters=`; [`UNSET`]: from the MPM. Likewise the next three.
    pub table_waiters: i64,
    /// Clients remembered.
    pub table_clients: i64,
    /// Requests remembered.
    pub table_trace: i64,
    /// Sessions remembered.
    pub table_sessions: i64,
    /// Where the ticket page lives; empty: [`TICKET_PATH`].
    pub ticket_path: Text<256>,
    /// Children the MPM may ever run.
    pub server_limit: u32,
    /// Threads a child may ever have.
    pub thread_limit: u32,
    /// Threads a child has; 1 on prefork.
    pub threads_per_child: u32,
    /// MaxRequestWorkers; 0: not known.
    pub max_workers: u32,
    /// 0 on prefork.
    pub threaded: u32,
    /// Processors online.
    pub cores: u32,
}

/// Default of `NapTicketPath`.
pub const TICKET_PATH: &str = "/.nap/ticket";

/// Something the administrator should know although the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark(pub String);

impl RoomConf {
    /// A room nothing was said about yet.
    pub fn new(name: &str) -> Result<RoomConf, String> {
        let letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let good = !name.is_empty() && name.chars().all(letter);
        let text = Text::new(name).filter(|_| good).ok_or_else(|| {
            format!(
                "<NapRoom>: {} is not a name for a room; use 1 to 63 of A-Z a-z 0-9 _ . -",
                shown(name)
            )
        })?;
        Ok(RoomConf {
            name: text,
            ..RoomConf::UNSET
        })
    }

    const UNSET: RoomConf = RoomConf {
        name: Text::EMPTY,
        cookie: Text::EMPTY,
        cookie_attributes: Text::EMPTY,
        run_ready: UNSET,
        wait_max_us: UNSET,
        wait_limit: UNSET,
        re_access: UNSET,
        history: UNSET,
        download: UNSET,
        slot_period_us: UNSET,
        slot_tickets: UNSET,
        ticket_lifetime_us: UNSET,
        ticket_prime_us: UNSET,
        ticket_horizon_us: UNSET,
        ticket_share_ppm: UNSET,
        overbook_ppm: UNSET,
        tickets_per_client: UNSET,
        ticket_bind: UNSET,
        admit_early: UNSET,
        schedule_static: UNSET,
        run_ready_min: UNSET,
        run_ready_max: UNSET,
        run_ready_history: UNSET,
    };

    /// One directive inside `<NapRoom>`; the error is the sentence to show.
    pub fn directive(&mut self, which: Directive, args: &[&str]) -> Result<(), String> {
        let value = |words| one(which, args, words);
        match which {
            RunReady => self.run_ready(args)?,
            WaitMax => self.wait_max_us = value(Words::time(100 * MILLISECOND..=10 * MINUTE))?,
            WaitLimit if args == ["work"] => return Err(not_yet(which, "work")),
            WaitLimit => self.wait_limit = value(Words::count(0..=100_000).auto().paper())?,
            ReAccess => self.re_access = value(Words::count(0..=100_000).auto())?,
            History => self.history = value(Words::count(10..=1000))?,
            Download => self.download = value(Words::size(K..=G).off())?,
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
            Admit => self.admit_early = value(Words::choice(&["late", "early"]))?,
            Reserve | TicketStatus | TicketPath | Tables => {
                return Err(format!("{} does not belong inside <NapRoom>", which.name()));
            }
        }
        Ok(())
    }

    fn run_ready(&mut self, args: &[&str]) -> Result<(), String> {
        if args.first() == Some(&"paper") {
            return Err(not_yet(RunReady, "paper"));
        }
        let permits = 1..=10_000;
        let (first, options) = args.split_at(args.len().min(1));
        self.run_ready = one(RunReady, first, Words::count(permits.clone()).auto())?;
        if self.run_ready != AUTO && !options.is_empty() {
            return Err("NapRunReady: min=, max= and history= go with auto only".into());
        }
        for option in options {
            let (field, range) = match option.split_once('=') {
                Some(("min", _)) => (&mut self.run_ready_min, permits.clone()),
                Some(("max", _)) => (&mut self.run_ready_max, permits.clone()),
                Some(("history", _)) => (&mut self.run_ready_history, 1..=10_000),
                _ => return Err(unknown_option(RunReady, option, "min=, max= and history=")),
            };
            *field = option_value(RunReady, option, Words::count(range))?;
        }
        if self.run_ready_max != UNSET && self.run_ready_min > self.run_ready_max {
            let (min, max) = (self.run_ready_min, self.run_ready_max);
            return Err(format!("NapRunReady: min={min} is more than max={max}"));
        }
        Ok(())
    }

    fn cookie(&mut self, args: &[&str]) -> Result<(), String> {
        let Some((&name, attributes)) = args.split_first() else {
            return Err("NapTicketCookie: wants the cookie's name, then its attributes".into());
        };
        let text = Text::new(name).filter(|_| !name.is_empty() && name.bytes().all(is_token));
        self.cookie = text.ok_or_else(|| {
            format!(
                "NapTicketCookie: {} is not a cookie's name; use 1 to 63 letters, digits or \
                 any of !#$%&'*+-.^_`|~ (RFC 6265)",
                shown(name)
            )
        })?;
        for attribute in attributes {
            cookie_attribute(name, attribute)?;
        }
        let joined = attributes.join("; ");
        self.cookie_attributes = Text::new(&joined).ok_or_else(|| {
            "NapTicketCookie: the attributes are longer than 255 bytes together".to_string()
        })?;
        Ok(())
    }

    /// Puts the defaults in, then checks what only makes sense together.
    pub fn finish(&mut self, server: &ServerConf) -> Result<Option<Remark>, String> {
        self.default_times();
        let remark = self.fit_run_ready(server)?;
        for (field, default) in [
            (&mut self.wait_limit, AUTO),
            (&mut self.re_access, AUTO),
            (&mut self.history, 100),
            (&mut self.download, M),
            (&mut self.slot_period_us, 10 * SECOND),
            (&mut self.slot_tickets, AUTO),
            (&mut self.ticket_share_ppm, AUTO),
            (&mut self.overbook_ppm, AUTO),
            (&mut self.tickets_per_client, AUTO),
            (&mut self.ticket_bind, 0),
            (&mut self.admit_early, 0),
            (&mut self.schedule_static, 0),
        ] {
            or_default(field, default);
        }
        self.check_times()?;
        Ok(remark)
    }

    /// A default gives way to what was set beside it, so that one directive alone never makes the
    /// combination wrong.
    fn default_times(&mut self) {
        or_default(&mut self.wait_max_us, 4 * SECOND);
        let life_was_set = self.ticket_lifetime_us != UNSET;
        if matches!(self.ticket_prime_us, UNSET | AUTO) {
            self.ticket_prime_us = self.wait_max_us.max(5 * SECOND);
            if life_was_set {
                self.ticket_prime_us = self.ticket_prime_us.min(self.ticket_lifetime_us);
            }
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
        let ordered = [
            (
                TicketPrime,
                self.ticket_prime_us,
                TicketLifetime,
                self.ticket_lifetime_us,
            ),
            (
                TicketLifetime,
                self.ticket_lifetime_us,
                TicketHorizon,
                self.ticket_horizon_us,
            ),
            (
                SlotPeriod,
                self.slot_period_us,
                TicketHorizon,
                self.ticket_horizon_us,
            ),
        ];
        for (shorter, a, longer, b) in ordered {
            if a > b {
                return Err(format!(
                    "room {}: {} {} is longer than {} {}",
                    self.name.as_str(),
                    shorter.name(),
                    Time(a),
                    longer.name(),
                    Time(b)
                ));
            }
        }
        Ok(())
    }

    /// The permits, so that beside them and the reserve somebody can still wait: waiting takes a
    /// worker too.
    fn fit_run_ready(&mut self, server: &ServerConf) -> Result<Option<Remark>, String> {
        let reserve = server.reserve();
        let workers = i64::from(server.max_workers);
        let known = workers > 0;
        let auto = matches!(self.run_ready, UNSET | AUTO);
        if auto {
            let wish = 4.max(2 * i64::from(server.cores));
            let min = self.run_ready_min.max(1);
            let max = if self.run_ready_max == UNSET {
                i64::MAX
            } else {
                self.run_ready_max
            };
            let fits = if known {
                workers.saturating_sub(reserve + 1).max(min)
            } else {
                max
            };
            self.run_ready = wish.max(min).min(max).min(fits);
        }
        let wanted = self.workers_wanted(reserve);
        if known && self.run_ready.saturating_add(reserve) >= workers {
            return Err(format!(
                "room {}: NapRunReady {}{} and NapReserve {reserve} leave nobody to wait under \
                 MaxRequestWorkers {workers}; this room wants MaxRequestWorkers {wanted}",
                self.name.as_str(),
                self.run_ready,
                if auto { " (auto)" } else { "" },
            ));
        }
        Ok((known && wanted > workers).then(|| {
            let waiting = workers - reserve - self.run_ready;
            Remark(format!(
                "room {}: MaxRequestWorkers {workers} lets at most {waiting} wait beside \
                 {} running and {reserve} in reserve; this room wants MaxRequestWorkers {wanted}",
                self.name.as_str(),
                self.run_ready
            ))
        }))
    }

    /// Running, waiting and in reserve. Before anything is measured, those who can wait are taken
    /// as Little's law has them at 250 ms a permit: run_ready x bound / 250 ms.
    fn workers_wanted(&self, reserve: i64) -> i64 {
        let waiting = match self.wait_limit {
            n if n >= 0 => n.saturating_add(self.re_access.max(0)),
            _ => self.run_ready.saturating_mul(self.wait_max_us) / (250 * MILLISECOND),
        };
        self.run_ready
            .saturating_add(waiting)
            .saturating_add(reserve)
    }
}

impl ServerConf {
    /// A server nothing was said about yet.
    pub const fn new() -> ServerConf {
        ServerConf {
            reserve: UNSET,
            reserve_percent: UNSET,
            table_waiters: UNSET,
            table_clients: UNSET,
            table_trace: UNSET,
            table_sessions: UNSET,
            ticket_path: Text::EMPTY,
            server_limit: 0,
            thread_limit: 0,
            threads_per_child: 0,
            max_workers: 0,
            threaded: 0,
            cores: 0,
        }
    }

    /// One directive of the server; the error is the sentence to show.
    pub fn directive(&mut self, which: Directive, args: &[&str]) -> Result<(), String> {
        match which {
            Reserve => self.keep_free(args),
            TicketPath => self.ticket_path(args),
            Tables => self.tables(args),
            _ => Err(format!("{} belongs inside <NapRoom>", which.name())),
        }
    }

    fn keep_free(&mut self, args: &[&str]) -> Result<(), String> {
        let percent = args.first().and_then(|arg| arg.strip_suffix('%'));
        let words = Words::reserve(if percent.is_some() {
            0..=90
        } else {
            0..=10_000
        });
        let value = one(Reserve, args, words)?;
        (self.reserve, self.reserve_percent) = if percent.is_some() {
            (UNSET, value)
        } else {
            (value, UNSET)
        };
        Ok(())
    }

    /// Workers kept free over the whole server, a number; at least 1 unless 0 was asked for. In
    /// per cent it is taken of each child's threads, rounded up, as every child keeps its own.
    pub fn reserve(&self) -> i64 {
        if self.reserve != UNSET {
            return self.reserve.max(0);
        }
        let percent = if self.reserve_percent < 0 {
            10
        } else {
            self.reserve_percent
        };
        let share = |n: i64| (n * percent + 99) / 100;
        let (workers, threads) = (
            i64::from(self.max_workers),
            i64::from(self.threads_per_child),
        );
        if self.threaded == 0 || threads == 0 {
            return share(workers);
        }
        share(threads).saturating_mul((workers + threads - 1) / threads)
    }

    fn ticket_path(&mut self, args: &[&str]) -> Result<(), String> {
        let [path] = args else {
            return Err(wants_one(TicketPath));
        };
        let plain = |b: u8| b.is_ascii_graphic() && !b"?#%\\\"<>".contains(&b);
        let normal =
            !path.contains("//") && !path.split('/').any(|part| part == "." || part == "..");
        let good = path.starts_with('/') && *path != "/" && path.bytes().all(plain) && normal;
        self.ticket_path = Text::new(path).filter(|_| good).ok_or_else(|| {
            format!(
                "NapTicketPath: {} is not a path; use e.g. {TICKET_PATH}: a \"/\" in front, \
                 something behind it, up to 255 plain characters, no query",
                shown(path)
            )
        })?;
        Ok(())
    }

    fn tables(&mut self, args: &[&str]) -> Result<(), String> {
        const NAMES: &str = "waiters=, clients=, trace= and sessions=";
        if args.is_empty() {
            return Err(format!("NapTables: wants at least one of {NAMES}"));
        }
        for option in args {
            let (field, range) = match option.split_once('=') {
                Some(("waiters", _)) => (&mut self.table_waiters, 16..=M),
                Some(("clients", _)) => (&mut self.table_clients, K..=16 * M),
                Some(("trace", _)) => (&mut self.table_trace, 0..=16 * M),
                Some(("sessions", _)) => (&mut self.table_sessions, K..=16 * M),
                _ => return Err(unknown_option(Tables, option, NAMES)),
            };
            *field = option_value(Tables, option, Words::size(range))?;
        }
        Ok(())
    }
}

impl Default for ServerConf {
    fn default() -> Self {
        Self::new()
    }
}

/// `NapTicketStatus`: the status a refusal is answered with.
pub fn ticket_status(arg: &str) -> Result<u16, String> {
    const CODES: [u16; 3] = [503, 429, 200];
    let index = one(TicketStatus, &[arg], Words::choice(&["503", "429", "200"]))?;
    Ok(CODES[index.clamp(0, 2) as usize])
}

/// What a directive's value may be.
struct Words {
    kind: Kind,
    range: RangeInclusive<i64>,
    words: Vec<(&'static str, i64)>,
}

#[derive(Clone, Copy)]
enum Kind {
    Count,
    Reserve,
    Size,
    Time,
    Share,
    Choice,
}

impl Words {
    fn of(kind: Kind, range: RangeInclusive<i64>) -> Words {
        Words {
            kind,
            range,
            words: Vec::new(),
        }
    }
    fn count(range: RangeInclusive<i64>) -> Words {
        Words::of(Kind::Count, range)
    }
    fn reserve(range: RangeInclusive<i64>) -> Words {
        Words::of(Kind::Reserve, range)
    }
    fn size(range: RangeInclusive<i64>) -> Words {
        Words::of(Kind::Size, range)
    }
    fn time(range: RangeInclusive<i64>) -> Words {
        Words::of(Kind::Time, range)
    }
    fn share(from: i64, to: i64) -> Words {
        Words::of(Kind::Share, from * 1_000_000..=to * 1_000_000)
    }
    /// One of these words; the value is its index.
    fn choice(words: &[&'static str]) -> Words {
        Words {
            words: words.iter().copied().zip(0..).collect(),
            ..Words::of(Kind::Choice, 0..=0)
        }
    }
    fn auto(self) -> Words {
        self.word("auto", AUTO)
    }
    fn paper(self) -> Words {
        self.word("paper", PAPER)
    }
    fn off(self) -> Words {
        self.word("off", OFF)
    }
    fn word(mut self, word: &'static str, value: i64) -> Words {
        self.words.push((word, value));
        self
    }

    /// The value of `text`, or what is wrong with it: "is not a time; use ...".
    fn read(&self, text: &str) -> Result<i64, String> {
        if let Some(&(_, value)) = self
            .words
            .iter()
            .find(|(w, _)| text.eq_ignore_ascii_case(w))
        {
            return Ok(value);
        }
        match self.kind.read(text) {
            Some(value) if self.range.contains(&value) => Ok(value),
            Some(_) => Err(format!("is out of range; use {}", self.hint())),
            None => Err(format!("is not {}; use {}", self.kind.noun(), self.hint())),
        }
    }

    fn hint(&self) -> String {
        let (from, to) = (*self.range.start(), *self.range.end());
        let numbers = match self.kind {
            Kind::Choice => None,
            Kind::Count => Some(format!("a number from {from} to {to}")),
            Kind::Reserve => Some("a number of workers from 0 to 10000 or 0% to 90%".to_string()),
            Kind::Size => Some(format!(
                "e.g. 512K or 1M, from {} to {}",
                Size(from),
                Size(to)
            )),
            Kind::Time => Some(format!(
                "e.g. 500ms, 4s or 5min, from {} to {}",
                Time(from),
                Time(to)
            )),
            Kind::Share => Some(format!(
                "a number from {} to {}",
                from / 1_000_000,
                to / 1_000_000
            )),
        };
        let words = self.words.iter().map(|(w, _)| w.to_string());
        let all: Vec<String> = words.chain(numbers).collect();
        match all.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, first)) => format!("{}, or {last}", first.join(", ")),
            None => String::new(),
        }
    }
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Kind::Count | Kind::Reserve | Kind::Share => "a number",
            Kind::Size => "a size",
            Kind::Time => "a time",
            Kind::Choice => "known",
        }
    }

    /// The value in this kind's unit (count, bytes, microseconds, millionths); `None`: none. What
    /// is too large for any range comes back as `i64::MAX`.
    fn read(self, text: &str) -> Option<i64> {
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let millionths = decimal(number)?;
        let factor = match (self, unit.to_ascii_lowercase().as_str()) {
            (Kind::Count, "") | (Kind::Reserve, "" | "%") => 1,
            (Kind::Share, "") => 1_000_000,
            (Kind::Size, "") => 1,
            (Kind::Size, "k" | "kb") => K,
            (Kind::Size, "m" | "mb") => M,
            (Kind::Size, "g" | "gb") => G,
            (Kind::Time, "" | "s") => SECOND,
            (Kind::Time, "ms") => MILLISECOND,
            (Kind::Time, "min") => MINUTE,
            (Kind::Time, "h") => HOUR,
            _ => return None,
        };
        let product = millionths.saturating_mul(i128::from(factor));
        // "1.5" is no count and "0.0000001s" no time of ours
        (product % 1_000_000 == 0).then(|| i64::try_from(product / 1_000_000).unwrap_or(i64::MAX))
    }
}

/// `12`, `0.5` in millionths; digits on both sides of a point, at most six behind it.
fn decimal(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
        return None;
    }
    let significant = whole.trim_start_matches('0');
    // far past every range, and saturating before it could overflow
    let whole = if significant.len() > 18 {
        10i128.pow(18)
    } else {
        format!("0{significant}").parse().ok()?
    };
    let fraction: i128 = format!("{fraction:0<6}").parse().ok()?;
    Some(whole * 1_000_000 + fraction)
}

fn one(which: Directive, args: &[&str], words: Words) -> Result<i64, String> {
    let [arg] = args else {
        return Err(wants_one(which));
    };
    words
        .read(arg)
        .map_err(|what| format!("{}: {} {what}", which.name(), shown(arg)))
}

fn option_value(which: Directive, option: &str, words: Words) -> Result<i64, String> {
    let value = option.split_once('=').map_or("", |(_, value)| value);
    words
        .read(value)
        .map_err(|what| format!("{}: {} {what}", which.name(), shown(option)))
}

fn unknown_option(which: Directive, option: &str, known: &str) -> String {
    format!(
        "{}: {} is not an option; there are {known}",
        which.name(),
        shown(option)
    )
}

fn wants_one(which: Directive) -> String {
    format!("{}: wants exactly one value", which.name())
}

fn not_yet(which: Directive, word: &str) -> String {
    format!(
        "{}: \"{word}\" is not available yet; use auto or a number",
        which.name()
    )
}

fn or_default(field: &mut i64, default: i64) {
    if *field == UNSET {
        *field = default;
    }
}

/// A value as the administrator wrote it, quoted, without control characters, cut at 60.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(60).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}

/// RFC 6265 4.1.1 takes RFC 2616's token.
fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// Only attributes that cannot contradict what the module itself writes.
fn cookie_attribute(cookie: &str, attribute: &str) -> Result<(), String> {
    let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
    let plain = value
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b";,\"\\".contains(&b));
    let name = name.to_ascii_lowercase();
    let known = match name.as_str() {
        "domain" => !value.is_empty(),
        "path" => value.starts_with('/'),
        "samesite" => ["Strict", "Lax", "None"]
            .iter()
            .any(|w| w.eq_ignore_ascii_case(value)),
        "secure" | "httponly" | "partitioned" => !attribute.contains('='),
        _ => false,
    };
    if !known || !plain {
        return Err(format!(
            "NapTicketCookie: {} is not an attribute; use Domain=, Path=/..., SameSite=Strict, \
             Lax or None, Secure, Partitioned (Max-Age follows the ticket)",
            shown(attribute)
        ));
    }
    if cookie.starts_with("__Host-") && (name == "domain" || name == "path" && value != "/") {
        return Err(format!(
            "NapTicketCookie: browsers refuse {} on a cookie whose name begins with __Host-",
            shown(attribute)
        ));
    }
    Ok(())
}

/// A time in its largest whole unit.
struct Time(i64);

impl Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (unit, name) in [
            (HOUR, "h"),
            (MINUTE, "min"),
            (SECOND, "s"),
            (MILLISECOND, "ms"),
        ] {
            if self.0 % unit == 0 {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}us", self.0)
    }
}

/// A size in its largest whole unit.
struct Size(i64);

impl Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (unit, name) in [(G, "G"), (M, "M"), (K, "K")] {
            if self.0 != 0 && self.0 % unit == 0 {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> RoomConf {
        RoomConf::new("shop").expect("a good name")
    }

    fn server(max_workers: u32, threads_per_child: u32) -> ServerConf {
        let threaded = u32::from(threads_per_child > 1);
        ServerConf {
            max_workers,
            threads_per_child,
            threaded,
            cores: 2,
            ..ServerConf::new()
        }
    }

    /// Sets one directive on a fresh room and shows the one field that must have changed.
    fn set(line: &str, field: fn(&RoomConf) -> i64) -> Result<i64, String> {
        let mut room = room();
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let which = *Directive::ALL
            .iter()
            .find(|d| d.name() == name)
            .expect("a directive");
        room.directive(which, &words.collect::<Vec<_>>())?;
        Ok(field(&room))
    }

    #[test]
    fn directives_keep_their_numbers() {
        for (n, &which) in (1..).zip(Directive::ALL) {
            assert_eq!(which as u32, n);
            assert_eq!(Directive::from_number(n), Some(which));
        }
        assert_eq!(Directive::from_number(0), None);
        assert_eq!(Directive::from_number(99), None);
    }

    #[test]
    fn values_are_read_with_their_units() {
        type Row = (&'static str, fn(&RoomConf) -> i64, i64);
        let table: &[Row] = &[
            ("NapRunReady 10", |r| r.run_ready, 10),
            ("NapRunReady auto", |r| r.run_ready, AUTO),
            (
                "NapRunReady auto min=3 max=20 history=50",
                |r| r.run_ready_max,
                20,
            ),
            ("NapRunReady auto min=3", |r| r.run_ready_min, 3),
            ("NapRunReady auto history=50", |r| r.run_ready_history, 50),
            ("NapWaitMax 4", |r| r.wait_max_us, 4_000_000),
            ("NapWaitMax 500ms", |r| r.wait_max_us, 500_000),
            ("NapWaitMax 2.5s", |r| r.wait_max_us, 2_500_000),
            ("NapWaitMax 10MIN", |r| r.wait_max_us, 600_000_000),
            ("NapWaitLimit auto", |r| r.wait_limit, AUTO),
            ("NapWaitLimit paper", |r| r.wait_limit, PAPER),
            ("NapWaitLimit 0", |r| r.wait_limit, 0),
            ("NapReAccess 50", |r| r.re_access, 50),
            ("NapHistory 100", |r| r.history, 100),
            ("NapDownload 1M", |r| r.download, 1 << 20),
            ("NapDownload 64k", |r| r.download, 65536),
            ("NapDownload 1.5M", |r| r.download, 1_572_864),
            ("NapDownload Off", |r| r.download, OFF),
            ("NapSlotPeriod 300s", |r| r.slot_period_us, 300_000_000),
            ("NapSlotTickets paper", |r| r.slot_tickets, PAPER),
            (
                "NapTicketLifetime 24h",
                |r| r.ticket_lifetime_us,
                86_400_000_000,
            ),
            ("NapTicketPrime auto", |r| r.ticket_prime_us, AUTO),
            (
                "NapTicketHorizon 1h",
                |r| r.ticket_horizon_us,
                3_600_000_000,
            ),
            ("NapTicketShare 0.25", |r| r.ticket_share_ppm, 250_000),
            ("NapTicketShare 1", |r| r.ticket_share_ppm, 1_000_000),
            ("NapOverbook off", |r| r.overbook_ppm, OFF),
            ("NapOverbook 1.25", |r| r.overbook_ppm, 1_250_000),
            ("NapTicketsPerClient 3", |r| r.tickets_per_client, 3),
            ("NapTicketBind prefix", |r| r.ticket_bind, 1),
            ("NapAdmit early", |r| r.admit_early, 1),
            ("NapAdmit late", |r| r.admit_early, 0),
        ];
        for (line, field, want) in table {
            assert_eq!(set(line, *field), Ok(*want), "{line}");
        }
    }

    #[test]
    fn nonsense_is_told_with_directive_value_and_range() {
        let table = [
            (
                "NapWaitMax 4x",
                "NapWaitMax: \"4x\" is not a time; use e.g. 500ms, 4s or 5min, from 100ms to 10min",
            ),
            (
                "NapWaitMax 11min",
                "NapWaitMax: \"11min\" is out of range; use e.g. 500ms, 4s or 5min, from 100ms to 10min",
            ),
            (
                "NapRunReady 0",
                "NapRunReady: \"0\" is out of range; use auto, or a number from 1 to 10000",
            ),
            (
                "NapRunReady paper",
                "NapRunReady: \"paper\" is not available yet; use auto or a number",
            ),
            (
                "NapWaitLimit work",
                "NapWaitLimit: \"work\" is not available yet; use auto or a number",
            ),
            (
                "NapRunReady 4 min=2",
                "NapRunReady: min=, max= and history= go with auto only",
            ),
            (
                "NapRunReady auto min=5 max=4",
                "NapRunReady: min=5 is more than max=4",
            ),
            (
                "NapRunReady auto low=1",
                "NapRunReady: \"low=1\" is not an option; there are min=, max= and history=",
            ),
            (
                "NapRunReady auto min=",
                "NapRunReady: \"min=\" is not a number; use a number from 1 to 10000",
            ),
            (
                "NapDownload 1T",
                "NapDownload: \"1T\" is not a size; use off, or e.g. 512K or 1M, from 1K to 1G",
            ),
            (
                "NapTicketShare 1.5",
                "NapTicketShare: \"1.5\" is out of range; use auto, or a number from 0 to 1",
            ),
            (
                "NapTicketBind full",
                "NapTicketBind: \"full\" is not known; use none, or prefix",
            ),
            ("NapHistory 1 2", "NapHistory: wants exactly one value"),
            (
                "NapTicketPath /x",
                "NapTicketPath does not belong inside <NapRoom>",
            ),
        ];
        for (line, want) in table {
            assert_eq!(set(line, |_| 0), Err(want.to_string()), "{line}");
        }
    }

    #[test]
    fn no_number_however_odd_is_taken_or_overflows() {
        let odd = [
            "",
            " ",
            "-1",
            "-4s",
            "+4",
            "NaN",
            "nan",
            "inf",
            "1e30",
            "1e3s",
            "0x10",
            "4 s",
            "4ss",
            "s",
            ".",
            ".5",
            "5.",
            "1.2.3",
            "1.0000001",
            "99999999999999999999999999999999999999999999",
            "9223372036854775808",
            "18446744073709551616h",
            "\u{664}s",
            "4\0",
            "4s\n",
            "-0",
        ];
        let numeric = Directive::ALL.iter().filter(|d| {
            !matches!(
                d,
                TicketCookie | TicketBind | TicketStatus | TicketPath | Tables | Admit | Reserve
            )
        });
        for which in numeric {
            for value in odd {
                let mut room = room();
                let error = room.directive(*which, &[value]).expect_err(value);
                assert!(
                    error.starts_with(which.name()) && error.contains("from"),
                    "{error}"
                );
                assert!(!error.contains('\n') && !error.contains('\0'), "{error:?}");
            }
            assert!(room().directive(*which, &[]).is_err());
        }
        for value in odd {
            assert!(
                ServerConf::new().directive(Reserve, &[value]).is_err(),
                "{value}"
            );
            assert!(ticket_status(value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_long_value_is_cut_in_the_message() {
        let error = room()
            .directive(WaitMax, &["x".repeat(9000).as_str()])
            .expect_err("not a time");
        assert!(error.len() < 200, "{error}");
    }

    #[test]
    fn a_room_has_a_plain_name() {
        for good in ["a", "shop", "A-1_b.c", &"x".repeat(63)] {
            assert_eq!(
                RoomConf::new(good).map(|r| r.name.as_str().to_string()),
                Ok(good.to_string())
            );
        }
        for bad in ["", "a b", "a/b", "ä", "a\"", "a\0", &"x".repeat(64)] {
            assert!(
                RoomConf::new(bad).expect_err(bad).contains("1 to 63"),
                "{bad}"
            );
        }
    }

    #[test]
    fn an_empty_room_gets_the_defaults_of_the_table() {
        let mut room = room();
        assert_eq!(room.finish(&server(400, 25)), Ok(None));
        let want = RoomConf {
            run_ready: 4,
            wait_max_us: 4 * SECOND,
            wait_limit: AUTO,
            re_access: AUTO,
            history: 100,
            download: M,
            slot_period_us: 10 * SECOND,
            slot_tickets: AUTO,
            ticket_lifetime_us: 5 * MINUTE,
            ticket_prime_us: 5 * SECOND,
            ticket_horizon_us: 24 * HOUR,
            ticket_share_ppm: AUTO,
            overbook_ppm: AUTO,
            tickets_per_client: AUTO,
            ticket_bind: 0,
            admit_early: 0,
            schedule_static: 0,
            ..RoomConf::new("shop").expect("a good name")
        };
        assert_eq!(room, want);
    }

    #[test]
    fn run_ready_auto_follows_cores_options_and_workers() {
        let run_ready = |line: &str, cores, workers| {
            let mut room = room();
            room.directive(RunReady, &line.split(' ').collect::<Vec<_>>())
                .expect("a good line");
            let server = ServerConf {
                cores,
                ..server(workers, 1)
            };
            room.finish(&server).map(|_| room.run_ready)
        };
        assert_eq!(run_ready("auto", 1, 400), Ok(4));
        assert_eq!(run_ready("auto", 16, 400), Ok(32));
        assert_eq!(run_ready("auto max=8", 16, 400), Ok(8));
        assert_eq!(run_ready("auto min=12", 2, 400), Ok(12));
        assert_eq!(
            run_ready("auto", 64, 20),
            Ok(17),
            "2 in reserve, 1 may wait"
        );
        assert!(run_ready("auto", 2, 1).is_err());
    }

    #[test]
    fn a_default_gives_way_to_what_was_set_beside_it() {
        let prime_and_life = |lines: &[(Directive, &str)]| {
            let mut room = room();
            for (which, value) in lines {
                room.directive(*which, &[value]).expect("a good line");
            }
            room.finish(&server(4000, 25)).map(|_| {
                (
                    room.ticket_prime_us / SECOND,
                    room.ticket_lifetime_us / SECOND,
                )
            })
        };
        assert_eq!(prime_and_life(&[(WaitMax, "8s")]), Ok((8, 300)));
        assert_eq!(prime_and_life(&[(WaitMax, "10min")]), Ok((600, 600)));
        assert_eq!(
            prime_and_life(&[(WaitMax, "20s"), (TicketLifetime, "10s")]),
            Ok((10, 10))
        );
        assert_eq!(prime_and_life(&[(TicketHorizon, "1min")]), Ok((5, 60)));
    }

    #[test]
    fn combinations_that_cannot_be_are_refused() {
        type Row = (&'static [(Directive, &'static str)], u32, &'static str);
        let table: &[Row] = &[
            (
                &[(TicketPrime, "2min"), (TicketLifetime, "1min")],
                400,
                "room shop: NapTicketPrime 2min is longer than NapTicketLifetime 1min",
            ),
            (
                &[(TicketLifetime, "2h"), (TicketHorizon, "90min")],
                400,
                "room shop: NapTicketLifetime 2h is longer than NapTicketHorizon 90min",
            ),
            (
                &[(SlotPeriod, "5min"), (TicketHorizon, "2min")],
                400,
                "room shop: NapSlotPeriod 5min is longer than NapTicketHorizon 2min",
            ),
            (
                &[(RunReady, "140")],
                150,
                "room shop: NapRunReady 140 and NapReserve 18 leave nobody to wait under \
                 MaxRequestWorkers 150; this room wants MaxRequestWorkers 2398",
            ),
        ];
        for (lines, workers, want) in table {
            let mut room = room();
            for (which, value) in *lines {
                room.directive(*which, &[value]).expect("a good line");
            }
            assert_eq!(room.finish(&server(*workers, 25)), Err(want.to_string()));
        }
    }

    #[test]
    fn too_few_workers_are_remarked_on() {
        let mut room = room();
        room.directive(RunReady, &["10"]).expect("a good line");
        let remark = room
            .finish(&server(150, 25))
            .expect("it starts")
            .expect("a remark");
        assert_eq!(
            remark.0,
            "room shop: MaxRequestWorkers 150 lets at most 122 wait beside 10 running and 18 in \
             reserve; this room wants MaxRequestWorkers 188"
        );
        assert_eq!(room.finish(&server(0, 0)), Ok(None), "workers not known");
    }

    #[test]
    fn the_reserve_is_kept_in_every_child() {
        let reserve = |arg: &str, workers, threads| {
            let mut server = server(workers, threads);
            server.directive(Reserve, &[arg]).map(|()| server.reserve())
        };
        assert_eq!(reserve("5", 150, 25), Ok(5));
        assert_eq!(reserve("10%", 150, 25), Ok(18), "3 of 25 in 6 children");
        assert_eq!(reserve("10%", 150, 1), Ok(15));
        assert_eq!(reserve("0%", 150, 25), Ok(0));
        assert_eq!(server(150, 25).reserve(), 18, "10% unless set");
        for bad in ["91%", "-1", "10001", "5%%", "%"] {
            let error = reserve(bad, 150, 25).expect_err(bad);
            assert!(error.contains("from 0 to 10000 or 0% to 90%"), "{error}");
        }
    }

    #[test]
    fn the_last_of_two_reserves_counts() {
        let mut server = server(100, 1);
        server.directive(Reserve, &["20%"]).expect("good");
        server.directive(Reserve, &["3"]).expect("good");
        assert_eq!(server.reserve(), 3);
    }

    #[test]
    fn cookies_are_named_as_rfc_6265_allows() {
        let cookie = |words: &[&str]| {
            let mut room = room();
            room.directive(TicketCookie, words).map(|()| {
                format!(
                    "{}|{}",
                    room.cookie.as_str(),
                    room.cookie_attributes.as_str()
                )
            })
        };
        assert_eq!(cookie(&["kiku"]), Ok("kiku|".into()));
        assert_eq!(
            cookie(&["a", "Domain=example.org", "Secure"]),
            Ok("a|Domain=example.org; Secure".into())
        );
        assert_eq!(
            cookie(&["__Host-a", "Path=/", "SameSite=strict"]),
            Ok("__Host-a|Path=/; SameSite=strict".into())
        );
        let bad: &[&[&str]] = &[
            &[],
            &[""],
            &["a b"],
            &["a=b"],
            &["a;b"],
            &["\u{e4}"],
            &["a\"b"],
            &["a", "Max-Age=3"],
            &["a", "Path=x"],
            &["a", "Domain=x; Secure"],
            &["a", "Secure=1"],
            &["a", "x\r\nSet-Cookie: y"],
            &["a", "Domain=a\r\nb"],
            &["__Host-a", "Domain=example.org"],
            &["__Host-a", "Path=/x"],
            &["a", "SameSite=no"],
        ];
        for words in bad {
            assert!(
                cookie(words)
                    .expect_err("bad")
                    .starts_with("NapTicketCookie: "),
                "{words:?}"
            );
        }
        assert!(cookie(&[&"x".repeat(64)]).is_err());
        assert!(cookie(&["a", &format!("Path=/{}", "x".repeat(300))]).is_err());
    }

    #[test]
    fn the_ticket_path_is_a_plain_path() {
        let path = |p: &str| ServerConf::new().directive(TicketPath, &[p]);
        for good in ["/.nap/ticket", "/warten", "/a-b_c~d/e.html"] {
            assert_eq!(path(good), Ok(()), "{good}");
        }
        let long = format!("/{}", "x".repeat(255));
        for bad in [
            "",
            "/",
            "x",
            "http://a/b",
            "/a b",
            "/a?b",
            "/a#b",
            "/a//b",
            "/../a",
            "/a/.",
            "/%2e",
            "/\u{e4}",
            &long,
        ] {
            assert!(
                path(bad).expect_err(bad).starts_with("NapTicketPath: "),
                "{bad}"
            );
        }
    }

    #[test]
    fn tables_have_sizes_by_name() {
        let mut server = ServerConf::new();
        let args = ["clients=1M", "waiters=512", "trace=0", "sessions=64K"];
        assert_eq!(server.directive(Tables, &args), Ok(()));
        let sizes = [
            server.table_clients,
            server.table_waiters,
            server.table_trace,
            server.table_sessions,
        ];
        assert_eq!(sizes, [1 << 20, 512, 0, 65536]);
        for bad in [
            "clients",
            "clients=",
            "clients=-1",
            "clients=1e30",
            "rooms=3",
            "=",
            "waiters=2",
            "clients=17M",
        ] {
            assert!(
                server
                    .directive(Tables, &[bad])
                    .expect_err(bad)
                    .starts_with("NapTables: "),
                "{bad}"
            );
        }
        assert!(server.directive(Tables, &[]).is_err());
    }

    #[test]
    fn a_ticket_status_is_one_of_three() {
        assert_eq!(
            ["503", "429", "200"].map(ticket_status),
            [Ok(503), Ok(429), Ok(200)]
        );
        assert_eq!(
            ticket_status("500"),
            Err("NapTicketStatus: \"500\" is not known; use 503, 429, or 200".into())
        );
    }

    #[test]
    fn a_directive_in_the_wrong_place_says_where_it_belongs() {
        let error = ServerConf::new().directive(WaitMax, &["4s"]);
        assert_eq!(error, Err("NapWaitMax belongs inside <NapRoom>".into()));
    }
}
