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
use nap_rng::Rng;

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
    /// How long a ticket is presented again whose answer was lost.
    pub again: Option<Micros>,
    pub node_header: Option<HeaderName>,
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
        let node_header = args.node_header.map(|name| {
            let wrong = |_| format!("--node-header: {name:?} is no name of a header");
            name.parse().map_err(wrong)
        });
        let route = args.common.route(&target);
        Ok(Plan {
            node_header: node_header.transpose()?,
            again: args.again,
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
mod tests;
