//! [`Sale`]: at what rate tickets are sold and why; and if permits stand empty while tickets are out, why
//! they do.
//!
//! The rate is the server's, unless a setting allows less. Each such setting is a [`Cap`]; the lowest is
//! shown, with the value that would be enough.

use super::line::line;
use super::report::{Clock, rounded};
use super::snapshot::GateShot;
use super::why::seconds;
use nap_core::micros::Micros;
use nap_core::nap::ledger::{claimed, early, sellable};
use nap_core::room::control::{Control, Mode};
use nap_core::room::gate::Empty;
use nap_core::room::terms::how;

/// A sale below this share of the server's rate is too slow.
const ALL: f64 = 0.9;
/// Tickets whose time has come before they tell whether their holders do.
const HOLDERS: u32 = 10;
/// If all permits could do this many times the rate sold for, that rate is too low.
const FASTER: f64 = 1.05;
/// How long permits must stand empty before the error log and the administrator are told.
const LONG: Micros = Micros::from_secs(5);

line! {
    /// The sale of tickets.
    pub(super) struct Sale of(gate: &GateShot, control: Option<&Control>, clock: Clock) {
        rate_per_s: f64 = rounded(gate.offer.rate),
        sold_per_s: f64 = rounded(gate.offer.sold),
        early_s: f64 = early(gate.offer.prime, gate.terms.bound).as_secs_f64(),
        prime_s: f64 = gate.offer.prime.as_secs_f64(),
        depth: u32 = gate.offer.depth,
        why: String = why(gate),
        empty_s: f64 = Micros(gate.counts.empty_us).as_secs_f64(),
        empty_since: Option<String> = gate.empty.map(|empty| clock.stamp(empty.since)),
        /// Why they stand empty, or would.
        #[serde(skip)]
        cause: String = cause(gate, control.map_or(Mode::Open, Control::mode)),
        empty_why: Option<String> = gate.empty.map(|empty| sentence(gate, &empty, &cause, clock)),
        /// Not everybody is let in, by hand: permits stand empty because of that.
        #[serde(skip)]
        by_hand: bool = control.is_some_and(|own| own.mode() != Mode::Open),
        /// Permits have stood empty for longer than [`LONG`].
        #[serde(skip)]
        is_long: bool = gate.empty.is_some_and(|empty| clock.now - empty.since > LONG),
    }
}

/// A setting that allows only so many tickets a second, and the value that would allow all.
struct Cap {
    per_s: f64,
    why: String,
}

impl Sale {
    /// See [`super::Report::line_for_empty`].
    pub fn line_for_log(&self, lately: Micros) -> Option<String> {
        match &self.empty_why {
            _ if self.by_hand => None,
            Some(why) if self.is_long => Some(why.clone()),
            None if lately > LONG => Some(format!(
                "Permits stood empty for {} while tickets were out that started later: {}.",
                tenths(lately),
                self.cause
            )),
            _ => None,
        }
    }
}

/// At what rate tickets are sold, and why not faster.
fn why(gate: &GateShot) -> String {
    let (offer, bound) = (&gate.offer, gate.terms.bound);
    let sold = format!("{} tickets a second are sold", rate(offer.sold));
    let open = match gate.terms.re_access.how {
        how::FIXED => format!(
            "NapReAccess has places for {} of them",
            gate.terms.re_access.n
        ),
        _ => format!("{} such windows may be open at once", sellable(offer.depth)),
    };
    let windows = format!(
        "a holder is let in from {} before the ticket's start until {} after it, and {open}",
        tenths(early(offer.prime, bound)),
        tenths(offer.prime),
    );
    match lowest_cap(gate) {
        Some(cap) => format!(
            "{sold}, {} of the {} a second that the server is estimated to do: {}. Now {windows}.",
            percent(offer.sold / offer.rate),
            rate(offer.rate),
            cap.why
        ),
        None => format!("{sold}, all that the server is estimated to do: {windows}."),
    }
}

/// What keeps the sale below the server's rate, if anything does.
fn lowest_cap(gate: &GateShot) -> Option<Cap> {
    let caps = [share(gate), slot_tickets(gate), windows(gate)];
    let low = |cap: &Cap| cap.per_s < ALL * gate.offer.rate;
    let caps = caps.into_iter().flatten().filter(low);
    caps.min_by(|a, b| a.per_s.total_cmp(&b.per_s))
}

fn share(gate: &GateShot) -> Option<Cap> {
    (gate.terms.share.how == how::FIXED).then(|| Cap {
        per_s: gate.phi * gate.offer.rate,
        why: format!(
            "NapTicketShare {} keeps the rest for newcomers; 1 or auto sells all of it",
            gate.phi
        ),
    })
}

fn slot_tickets(gate: &GateShot) -> Option<Cap> {
    let (terms, offer) = (&gate.terms, &gate.offer);
    let period_s = terms.slot_period.as_secs_f64();
    let wanted = (offer.rate * period_s).ceil();
    let every = format!("in each NapSlotPeriod of {}", seconds(terms.slot_period));
    match terms.slot_tickets.how {
        how::FIXED => Some(Cap {
            per_s: f64::from(terms.slot_tickets.n) / period_s.max(1e-6),
            why: format!(
                "NapSlotTickets {} {every}; {wanted} or auto sells all of it",
                terms.slot_tickets.n
            ),
        }),
        how::PAPER => Some(Cap {
            per_s: offer.sold,
            why: format!(
                "NapSlotTickets paper sells what one permit does; {wanted} {every}, or auto, sells all \
                 of it"
            ),
        }),
        _ => None,
    }
}

/// No more windows may be open at once than the wait limit bears.
fn windows(gate: &GateShot) -> Option<Cap> {
    let (terms, offer) = (&gate.terms, &gate.offer);
    if terms.re_access.how == how::FIXED {
        return None;
    }
    let takes = |prime| claimed(prime, terms.bound).as_secs_f64();
    let (places, by_law_s) = (f64::from(sellable(offer.depth)), takes(offer.prime_by_law));
    let sells_all = |s: &u64| offer.rate * takes(Micros::from_secs(*s)) * ALL <= places;
    let whole_s = (1..=60).take_while(sells_all).last().unwrap_or(0);
    // For the windows of our law, L is too small by this factor.
    let short = offer.rate * by_law_s / places.max(1.0);
    let prime = match terms.prime {
        Micros::ZERO => None,
        told => Some(format!("NapTicketPrime {}", seconds(told))),
    };
    let enough = match (terms.wait_limit.how, whole_s) {
        (how::FIXED | how::PAPER, _) if short > 1.0 / ALL => format!(
            "NapWaitLimit {}, or auto,",
            (f64::from(offer.depth) * short).ceil()
        ),
        (_, _) if short > 1.0 / ALL => format!(
            "NapWaitMax {} s",
            (terms.bound.as_secs_f64() * short).ceil()
        ),
        (_, 0) => "auto".to_owned(),
        (_, s) => format!("{s} s or auto"),
    };
    // Even with windows of our law too few might be sold.
    let both = match (&prime, short > 1.0 / ALL) {
        (Some(_), true) => "NapTicketPrime auto and ",
        _ => "",
    };
    let set = prime.unwrap_or_else(|| match terms.wait_limit.how {
        how::FIXED => format!("NapWaitLimit {}", terms.wait_limit.n),
        how::PAPER => "NapWaitLimit paper".to_owned(),
        _ => format!("NapWaitMax {}", seconds(terms.bound)),
    });
    let (open, long) = (places, early(offer.prime, terms.bound) + offer.prime);
    Some(Cap {
        per_s: places / takes(offer.prime),
        why: format!(
            "{set} makes windows of {} of which {open} may be open at once; {both}{enough} sells all of it",
            tenths(long)
        ),
    })
}

/// Why permits stand empty while tickets are out: the likeliest reason by what is known.
fn cause(gate: &GateShot, admits: Mode) -> String {
    let (offer, terms) = (&gate.offer, &gate.terms);
    match admits {
        Mode::Closed => return "the room is closed by hand".to_owned(),
        Mode::Tickets => {
            return "only ticket holders are let in, by hand, and only in their time".to_owned();
        }
        Mode::Open => {}
    }
    if let Some((how, interval_s)) = gate.starts {
        return match how {
            how::FIXED => format!(
                "NapSessionStart fixes the session interval at {interval_s} s; auto finds it"
            ),
            _ => format!(
                "the session interval was longer when these tickets were sold, or their holders do not \
                 come; it is {interval_s:.3} s now"
            ),
        };
    }
    if terms.re_access.how == how::FIXED {
        return format!(
            "with NapReAccess {}, the paper's form, tickets start only after the longest wait that all who \
             wait may have; auto sells at the server's speed",
            terms.re_access.n
        );
    }
    if let Some(cap) = lowest_cap(gate) {
        return format!(
            "{} tickets a second are sold, and the server is estimated to do {}: {}",
            rate(offer.sold),
            rate(offer.rate),
            cap.why
        );
    }
    if let Some(Empty { due, absent, .. }) = gate.empty
        && due >= HOLDERS
        && absent > due / 3
    {
        return format!(
            "their holders do not come: of {due} tickets that have started since then {absent} have not \
             been presented"
        );
    }
    let few_empty = gate
        .empty
        .is_some_and(|empty| 4 * empty.permits < 3 * gate.permits);
    match offer.most.filter(|most| *most > FASTER * offer.rate) {
        Some(_) if few_empty => format!(
            "the server's speed was estimated too low; {} tickets a second are sold now, and more once three \
             in four permits stand empty",
            rate(offer.sold)
        ),
        Some(most) => format!(
            "the server's speed was estimated too low; {} tickets a second are sold now, half as many again \
             with each second that permits stand empty, up to {}, what {} permits do at {:.3} s each",
            rate(offer.sold),
            rate(most),
            gate.permits,
            gate.service_mean_s.unwrap_or_default()
        ),
        None => format!(
            "the tickets that are out were sold when the server's speed was estimated too low; those sold \
             now are sold at {} a second, all that it is estimated to do",
            rate(offer.sold)
        ),
    }
}

fn sentence(gate: &GateShot, empty: &Empty, cause: &str, clock: Clock) -> String {
    let out = match gate.outstanding {
        1 => "1 ticket is".to_owned(),
        n => format!("{n} tickets are"),
    };
    let what = match (gate.starts, empty.permits, gate.permits) {
        (Some(_), ..) => "nobody has taken the turn to start a session".to_owned(),
        (None, 1, of) => format!("1 of {of} permits has stood empty"),
        (None, n, of) => format!("{n} of {of} permits have stood empty"),
    };
    format!(
        "Since {} ({:.0} s) {what} while {out} out, of which the next starts in {}: {cause}.",
        clock.wall_at(empty.since).time(),
        (clock.now - empty.since).as_secs_f64(),
        tenths(empty.next - clock.now)
    )
}

/// `0.8 s`.
fn tenths(span: Micros) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

/// `12 %`, rounded down.
fn percent(share: f64) -> String {
    match 100.0 * share {
        n if n < 1.0 => "less than 1 %".to_owned(),
        n => format!("{:.0} %", n.floor()),
    }
}

/// A rate a second, as precise as is useful.
fn rate(per_s: f64) -> String {
    match per_s {
        n if n >= 10.0 => format!("{n:.0}"),
        n if n >= 1.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}
