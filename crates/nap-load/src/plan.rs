//! [`Plan`]: the run as decided before it starts, and what a visitor does after each answer.
//!
//! Everything here is pure: shares, addresses and moves follow from the seed, and the clock is an argument.
//! In a closed crowd the shares are exact counts, dealt out by the seed; in an open one each newcomer draws.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use nap_core::micros::Micros;

use crate::args::{Accept, Args, Arrivals, Common, Manner, Present, Slow, Source};
use crate::slow::Form;
use crate::ticket::{Group, Ticket};
use nap_core::rng::Rng;

/// How a visitor behaves throughout the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Obedient,
    Impatient,
    Hammer,
    NoShow,
    Late,
    Abort,
    /// The visitor's page asks.
    Asks,
}

impl Behaviour {
    pub const ALL: [Behaviour; 7] = [
        Behaviour::Obedient,
        Behaviour::Impatient,
        Behaviour::Hammer,
        Behaviour::NoShow,
        Behaviour::Late,
        Behaviour::Abort,
        Behaviour::Asks,
    ];

    pub fn name(self) -> &'static str {
        [
            "obedient",
            "impatient",
            "hammering",
            "no-show",
            "late",
            "aborting",
            "asking",
        ][self as usize]
    }

    /// Whether the visitor does as told.
    pub fn obeys(self) -> bool {
        matches!(self, Behaviour::Obedient | Behaviour::Asks)
    }
}

/// What a refused visitor does next; times are points of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Try again at that time.
    Retry(Micros),
    /// Give this post up, forget the ticket, and go on at that time.
    GiveUp(Micros),
}

/// The run's manners: shares, and the times that go with them.
#[derive(Clone, Debug)]
pub struct Manners {
    /// Every behaviour but the obedient, in the order of [`Behaviour::ALL`].
    others: [Option<Manner>; 6],
    obey_retry_after: bool,
    retry: Micros,
}

/// No pause is shorter: a server that says "come back in 0 seconds" must not make us spin.
const SHORTEST_PAUSE: Micros = Micros::from_millis(10);
/// How long after the tail's start the late come, at most, unless told otherwise.
const LATENESS: Micros = Micros::from_secs(30);

impl Manners {
    /// All visitors are obedient.
    pub fn obedient(retry: Micros) -> Self {
        Manners {
            others: [None; 6],
            obey_retry_after: false,
            retry,
        }
    }

    /// The behaviours of `n` visitors: exact shares, in an order that depends on the seed.
    pub fn deal(&self, n: u32, seed: u64) -> Vec<Behaviour> {
        let mut hands = vec![Behaviour::Obedient; n as usize];
        let (mut from, mut sum) = (0, 0.0);
        for (behaviour, share) in self.shares() {
            // Rounding the running sum keeps the total right however the shares are divided.
            sum += share;
            let upto = ((sum * f64::from(n)).round() as usize).min(hands.len());
            hands[from..upto].fill(behaviour);
            from = upto;
        }
        Rng::new(seed, u64::MAX).shuffle(&mut hands);
        hands
    }

    /// The behaviour of one newcomer in an open run.
    pub fn draw(&self, rng: &mut Rng) -> Behaviour {
        let mut rest = rng.unit();
        for (behaviour, share) in self.shares() {
            if rest < share {
                return behaviour;
            }
            rest -= share;
        }
        Behaviour::Obedient
    }

    /// How long `behaviour` keeps a connection open, if not for ever.
    pub fn patience(&self, behaviour: Behaviour) -> Option<Micros> {
        (behaviour == Behaviour::Abort)
            .then(|| self.time(behaviour))
            .flatten()
    }

    /// What to do after a refusal. `ticket` is the one now held; `sent` is when the refused try began, `now`
    /// when its answer was read.
    pub fn after_refusal(
        &self,
        behaviour: Behaviour,
        ticket: Option<&Ticket>,
        retry_after: Option<Micros>,
        (sent, now): (Micros, Micros),
        rng: &mut Rng,
    ) -> Move {
        let soonest = now + SHORTEST_PAUSE;
        let time = self.time(behaviour);
        let as_told = now + retry_after.unwrap_or(self.retry);
        let at = match (behaviour, ticket) {
            (Behaviour::Hammer, _) => {
                return Move::Retry((sent + time.unwrap_or(self.retry)).max(now));
            }
            (Behaviour::Impatient, _) => now + time.unwrap_or(self.retry),
            (Behaviour::NoShow, Some(ticket)) => {
                return Move::GiveUp(time.map_or(ticket.window.from, |t| now + t).max(soonest));
            }
            (Behaviour::Late, Some(ticket)) => {
                let tail = ticket.window.until - ticket.window.prime;
                let random = rng.unit() * tail.min(LATENESS).as_secs_f64();
                let delay = time.unwrap_or(Micros::from_secs_f64(random));
                ticket.window.prime + delay
            }
            _ if self.obey_retry_after => as_told,
            (_, Some(ticket)) if ticket.group(now) == Group::Early => ticket.window.from,
            // A fresh ticket that is good at once, or one kept through a refusal that names none.
            (_, Some(ticket)) if ticket.group(now) == Group::Prime && !ticket.presented => now,
            _ => as_told,
        };
        Move::Retry(at.max(soonest))
    }

    /// When to come back after an answer that was an error.
    pub fn after_error(&self, behaviour: Behaviour, (sent, now): (Micros, Micros)) -> Micros {
        match (behaviour, self.time(behaviour)) {
            (Behaviour::Hammer, Some(period)) => (sent + period).max(now + SHORTEST_PAUSE),
            _ => now + self.retry,
        }
    }

    fn shares(&self) -> impl Iterator<Item = (Behaviour, f64)> {
        let given = Behaviour::ALL[1..].iter().zip(&self.others);
        given.filter_map(|(behaviour, manner)| Some((*behaviour, manner.as_ref()?.share)))
    }

    fn time(&self, behaviour: Behaviour) -> Option<Micros> {
        self.others
            .get((behaviour as usize).wrapping_sub(1))?
            .as_ref()?
            .time
    }
}

/// How visitors arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crowd {
    /// All there from the start, spread over `ramp`.
    Closed { ramp: Micros },
    /// Fresh ones at `rate` per second.
    Open { rate: f64, arrivals: Arrivals },
}

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    /// Absolute, which HTTP/2 needs.
    pub whole: Uri,
    /// Path and query, which HTTP/1 needs.
    path: Uri,
}

/// How a visitor's connections are made.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub address: SocketAddr,
    pub h2c: bool,
    pub keepalive: bool,
}

impl Target {
    pub fn parse(url: &str, allow_remote: bool) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|e| format!("{url}: {e}"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some(other) => return Err(format!("{url}: {other} is not spoken here, only http")),
            None => {
                return Err(format!(
                    "{url}: write the whole of it, http://host[:port]/path"
                ));
            }
        }
        let host = uri.host().ok_or_else(|| format!("{url}: no host"))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = (bare, uri.port_u16().unwrap_or(80))
            .to_socket_addrs()
            .map_err(|e| format!("{url}: {e}"))?
            // localhost may mean ::1 first, where visitors cannot have their own addresses.
            .min_by_key(SocketAddr::is_ipv6)
            .ok_or_else(|| format!("{url}: no address"))?;
        if !address.ip().is_loopback() && !allow_remote {
            return Err(format!(
                "{url}: {} is not this machine; load on others needs --allow-remote",
                address.ip()
            ));
        }
        let path = uri
            .path_and_query()
            .cloned()
            .map_or_else(Uri::default, Uri::from);
        Ok(Target {
            address,
            whole: uri,
            path,
        })
    }

    /// The URI that a request gives: HTTP/2 needs the whole.
    pub fn uri(&self, h2c: bool) -> &Uri {
        if h2c { &self.whole } else { &self.path }
    }

    /// Where the target's visitors come from.
    pub fn source(&self, given: Option<Source>) -> Result<Source, String> {
        match (given, self.can_spread()) {
            (Some(Source::One), _) | (None, false) => Ok(Source::One),
            (None, true) => Ok(Source::Distinct),
            (Some(given), true) => Ok(given),
            (Some(_), false) => Err(format!(
                "--source: only a target in 127.0.0.0/8 can be visited from many addresses, not {}",
                self.address.ip()
            )),
        }
    }

    /// Another path of the same site.
    pub fn beside(&self, path: &str, h2c: bool) -> Option<Uri> {
        let path = path.parse().ok()?;
        let mut parts = self.uri(h2c).clone().into_parts();
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).ok()
    }

    fn can_spread(&self) -> bool {
        self.address.is_ipv4() && self.address.ip().is_loopback()
    }
}

/// The whole run, checked.
pub struct Plan {
    pub label: String,
    pub url: String,
    pub target: Target,
    pub crowd: Crowd,
    pub clients: u32,
    pub posts: u32,
    pub think: Micros,
    pub duration: Option<Micros>,
    pub stop: Micros,
    pub seed: u64,
    pub manners: Manners,
    pub bound: Micros,
    pub source: Source,
    /// Slow readers and senders.
    pub slow: [Option<(Slow, Target)>; 2],
    /// How the senders send, in turn.
    pub slow_forms: Vec<Form>,
    pub retry: Micros,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub present: Present,
    pub route: Route,
    pub timeout: Micros,
}

impl Plan {
    /// Check the command line; the error is a sentence for the user.
    pub fn check(args: Args, seed: u64) -> Result<Self, String> {
        let target = Target::parse(&args.url, args.common.allow_remote)?;
        let others = [
            args.impatient,
            args.hammer,
            args.no_show,
            args.late,
            args.abort,
            args.asks,
        ];
        let sum: f64 = others.iter().flatten().map(|manner| manner.share).sum();
        if sum > 1.0 + 1e-9 {
            return Err(format!(
                "the shares add up to {sum}, more than all visitors"
            ));
        }
        let source = target.source(args.common.source)?;
        let crowd = match args.open {
            Some(rate) => Crowd::Open {
                rate,
                arrivals: args.arrivals,
            },
            None => Crowd::Closed { ramp: args.ramp },
        };
        let open = args.open.is_some();
        let slow = |given: &Option<Slow>| match given {
            Some(slow) => {
                let target = Target::parse(&slow.url, args.common.allow_remote)?;
                Ok(Some((slow.clone(), target)))
            }
            None => Ok::<_, String>(None),
        };
        let slow = [slow(&args.slow_read)?, slow(&args.slow_send)?];
        let bytes = args.slow_bytes as usize;
        let slow_forms = args.slow_way.iter().map(|&way| Form { way, bytes });
        let body = match args.get {
            true => Bytes::new(),
            false => form(&args.form, args.post_bytes as usize)?,
        };
        let mut headers = args.common.request_headers(&target, args.accept)?;
        if !args.get {
            headers.entry(header::CONTENT_TYPE).or_insert(FORM);
        }
        let route = args.common.route(&target);
        Ok(Plan {
            headers,
            method: if args.get { Method::GET } else { Method::POST },
            manners: Manners {
                others,
                obey_retry_after: args.retry_after,
                retry: args.common.retry,
            },
            clients: args.clients.unwrap_or(if open { 10_000 } else { 100 }),
            posts: args.posts.unwrap_or(if open { 1 } else { 10 }),
            duration: args.duration.or(open.then_some(Micros::from_secs(60))),
            label: args.common.label,
            url: args.url,
            think: args.think,
            stop: args.common.stop,
            bound: args.common.bound,
            retry: args.common.retry,
            present: args.present,
            route,
            timeout: args.timeout,
            target,
            crowd,
            seed,
            source,
            slow,
            slow_forms: slow_forms.collect(),
            body,
        })
    }

    /// The address visitor `i` comes from; `None` leaves it to the kernel.
    pub fn address(&self, i: u32) -> Option<Ipv4Addr> {
        self.source.address(i)
    }

    /// The address slow visitor `i` of this target comes from.
    pub fn slow_address(&self, i: u32, target: &Target) -> Option<Ipv4Addr> {
        (self.source != Source::One && target.can_spread()).then(|| slow_loopback(i))
    }
}

impl Source {
    /// The address visitor `i` comes from; `None` leaves it to the kernel.
    pub fn address(self, i: u32) -> Option<Ipv4Addr> {
        match self {
            Source::Distinct => Some(loopback(i)),
            Source::One => None,
            Source::Behind(n) => Some(loopback(i / n)),
        }
    }
}

/// The address of slow reader `i`, beyond the networks of ordinary visitors.
fn slow_loopback(i: u32) -> Ipv4Addr {
    let [.., high, low] = i.to_be_bytes();
    Ipv4Addr::new(127, 255, high, low.max(1))
}

/// The loopback address of number `i`: each in another /24, until those of 127.1.0.0 up are used up
/// (65,024), then a further host in each.
fn loopback(i: u32) -> Ipv4Addr {
    const NETS: u32 = 254 * 256;
    let [_, _, high, low] = (i % NETS).to_be_bytes();
    Ipv4Addr::new(127, 1 + high, low, 1 + (i / NETS % 254) as u8)
}

fn form(begin: &str, size: usize) -> Result<Bytes, String> {
    if begin.len() > size {
        return Err(format!(
            "--post-bytes: {size} is less than --form's {} bytes",
            begin.len()
        ));
    }
    let mut body = begin.as_bytes().to_vec();
    body.resize(size, b'x');
    Ok(body.into())
}

impl Common {
    pub fn route(&self, target: &Target) -> Route {
        Route {
            address: target.address,
            h2c: self.h2c,
            keepalive: !self.no_keepalive,
        }
    }

    /// The head of every request.
    pub fn request_headers(&self, target: &Target, accept: Accept) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        if !self.h2c {
            let authority = target.whole.authority().map_or("", |a| a.as_str());
            let host =
                HeaderValue::from_str(authority).map_err(|e| format!("{}: {e}", target.whole))?;
            headers.insert(header::HOST, host);
        }
        let agent = concat!("nap-load/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        let accept = match accept {
            Accept::Html => "text/html,*/*;q=0.8",
            Accept::Json => "application/json",
        };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if self.no_keepalive {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        for line in &self.header {
            let wrong = || format!("--header: {line:?} is not \"Name: value\"");
            let (name, value) = line.split_once(':').ok_or_else(wrong)?;
            let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
            headers.insert(name, value.trim().parse().map_err(|_| wrong())?);
        }
        Ok(headers)
    }
}

/// Content type of a posted form.
pub const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::{Offer, Window};
    use clap::Parser;

    fn plan(line: &str) -> Result<Plan, String> {
        let words = format!("nap-load http://127.0.0.1:8080/board {line}");
        let args = Args::try_parse_from(words.split_whitespace()).map_err(|e| e.to_string())?;
        Plan::check(args, 7)
    }

    fn manners(line: &str) -> Manners {
        plan(line).expect(line).manners
    }

    fn ticket() -> Ticket {
        let secs = Micros::from_secs;
        let window = Window {
            from: secs(3),
            prime: secs(8),
            until: secs(303),
        };
        let offer = Offer {
            token: "t".into(),
            id: None,
            cookie: None,
            window,
        };
        Ticket::new(offer, secs(100))
    }

    #[test]
    fn shares_are_exact_and_the_seeds_own() {
        let manners = manners("--hammer 0.3@10 --no-show 0.25 --late 1%");
        let dealt = manners.deal(200, 7);
        let count = |behaviour| dealt.iter().filter(|b| **b == behaviour).count();
        assert_eq!(count(Behaviour::Hammer), 60);
        assert_eq!(count(Behaviour::NoShow), 50);
        assert_eq!(count(Behaviour::Late), 2);
        assert_eq!(count(Behaviour::Obedient), 88);
        assert_eq!(dealt, manners.deal(200, 7));
        assert_ne!(dealt, manners.deal(200, 8));
    }

    #[test]
    fn shares_that_fill_the_crowd_leave_nobody_out() {
        let dealt = manners("--hammer 0.333@10 --no-show 0.333 --late 0.334").deal(7, 1);
        assert!(!dealt.contains(&Behaviour::Obedient), "{dealt:?}");
    }

    #[test]
    fn open_draws_come_near_the_shares() {
        let manners = manners("--hammer 0.3@10 --no-show 0.2");
        let mut rng = Rng::new(7, 0);
        let drawn: Vec<_> = (0..10_000).map(|_| manners.draw(&mut rng)).collect();
        let count = |behaviour| drawn.iter().filter(|b| **b == behaviour).count();
        assert!(count(Behaviour::Hammer).abs_diff(3000) < 200);
        assert!(count(Behaviour::NoShow).abs_diff(2000) < 200);
    }

    #[test]
    fn each_behaviour_does_what_its_name_says() {
        let ms = Micros::from_millis;
        let (ticket, times) = (ticket(), (ms(99_980), ms(100_000)));
        let cases = [
            ("", Behaviour::Obedient, Move::Retry(ms(103_000))),
            (
                "--retry-after",
                Behaviour::Obedient,
                Move::Retry(ms(104_000)),
            ),
            (
                "--impatient 500ms",
                Behaviour::Impatient,
                Move::Retry(ms(100_500)),
            ),
            ("--hammer 1@10", Behaviour::Hammer, Move::Retry(ms(100_080))),
            ("--no-show 1", Behaviour::NoShow, Move::GiveUp(ms(103_000))),
            (
                "--no-show 1@1s",
                Behaviour::NoShow,
                Move::GiveUp(ms(101_000)),
            ),
            ("--late 1@2s", Behaviour::Late, Move::Retry(ms(110_000))),
            ("--abort 1@2s", Behaviour::Abort, Move::Retry(ms(103_000))),
            // A client whose page does not ask.
            ("--asks 1", Behaviour::Asks, Move::Retry(ms(103_000))),
        ];
        for (line, behaviour, want) in cases {
            let told = Some(Micros::from_secs(4));
            let mut rng = Rng::new(1, 1);
            let got = manners(line).after_refusal(behaviour, Some(&ticket), told, times, &mut rng);
            assert_eq!(got, want, "{line}");
        }
    }

    #[test]
    fn the_late_come_in_the_tail() {
        let manners = manners("--late 1");
        let ticket = ticket();
        for stream in 0..100 {
            let mut rng = Rng::new(1, stream);
            let times = (Micros::from_secs(100), Micros::from_secs(100));
            match manners.after_refusal(Behaviour::Late, Some(&ticket), None, times, &mut rng) {
                Move::Retry(at) => assert_eq!(ticket.group(at), Group::Late),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_refusal_without_a_ticket_is_obeyed_as_told_or_after_retry() {
        let manners = manners("--retry 2s --no-show 1");
        let now = Micros::from_secs(50);
        let mut rng = Rng::new(1, 1);
        let mut after =
            |told| manners.after_refusal(Behaviour::NoShow, None, told, (now, now), &mut rng);
        assert_eq!(
            after(Some(Micros::from_secs(7))),
            Move::Retry(Micros::from_secs(57))
        );
        assert_eq!(after(None), Move::Retry(Micros::from_secs(52)));
        assert_eq!(after(Some(Micros::ZERO)), Move::Retry(now + SHORTEST_PAUSE));
    }

    #[test]
    fn visitors_live_in_networks_of_their_own() {
        let distinct = plan("").expect("plan");
        let nets: std::collections::HashSet<_> = (0..65_024)
            .map(|i| distinct.address(i).expect("an address").octets())
            .inspect(|octets| assert!(octets[1] >= 1 && octets[3] == 1))
            .map(|octets| [octets[0], octets[1], octets[2]])
            .collect();
        assert_eq!(nets.len(), 65_024);
        assert_eq!(distinct.address(65_024), Some(Ipv4Addr::new(127, 1, 0, 2)));
        assert_eq!(plan("--source one").expect("plan").address(3), None);
        let behind = plan("--source 20").expect("plan");
        assert_eq!(behind.address(19), behind.address(0));
        assert_ne!(behind.address(20), behind.address(0));
    }

    #[test]
    fn bad_plans_are_refused_with_a_reason() {
        for (line, want) in [
            ("--hammer 0.7@10 --no-show 0.4", "add up"),
            ("--post-bytes 3", "--form"),
            ("--header nonsense", "--header"),
            ("--slow-read 2@1000:http://192.0.2.1/", "--allow-remote"),
            ("--slow-send 2@1:http://192.0.2.1/", "--allow-remote"),
            ("--clients 0", "--clients"),
            ("--get --post-bytes 9", "--get"),
            ("--hamster 0.3@10", "--hammer"),
            ("--arrivals even", "--open"),
        ] {
            let error = plan(line).err().expect(line);
            assert!(error.contains(want), "{line}: {error}");
        }
        for (url, want) in [
            ("http://192.0.2.1/", "--allow-remote"),
            ("https://127.0.0.1/", "only http"),
            ("127.0.0.1:80", "http://"),
        ] {
            let args = Args::try_parse_from(["nap-load", url]).expect(url);
            let error = Plan::check(args, 1).err().expect(url);
            assert!(error.contains(want), "{url}: {error}");
        }
    }

    #[test]
    fn another_path_is_on_the_same_site() {
        let target = plan("").expect("plan").target;
        let beside = |path, h2c| target.beside(path, h2c).map(|uri| uri.to_string());
        assert_eq!(beside("/a?b", false).as_deref(), Some("/a?b"));
        assert_eq!(
            beside("/a", true).as_deref(),
            Some("http://127.0.0.1:8080/a")
        );
        assert_eq!(beside("a b", false), None);
    }

    #[test]
    fn a_form_has_its_size() {
        assert_eq!(plan("").expect("plan").body.len(), 1024);
        assert_eq!(plan("--get").expect("plan").body.len(), 0);
    }
}
