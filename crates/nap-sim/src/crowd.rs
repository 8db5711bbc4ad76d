//! [`Client`]: a visitor, their ticket, and what they do when told to wait.

use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::verdict::Refusal;
use nap_rng::Rng;

/// Shares of visitors who are not obedient, and what they do instead.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Manners {
    /// Tickets that are never presented.
    pub no_show: f64,
    /// Tickets presented after their prime window.
    pub late: f64,
    /// Visitors who come ten times a second, whatever they are told.
    pub hammer: f64,
    /// Waits broken off by closing the connection.
    pub give_up: f64,
    /// Waits during which the same ticket is presented a second time.
    pub second_tab: f64,
    /// Requests that carry something that is no good ticket: forged, used, or another room's.
    pub fake: f64,
    /// Images and prefetches among the requests.
    pub unsold: f64,
    /// Visitors whose page asks from time to time whether they may come earlier.
    pub asks: f64,
    /// Early calls that do not reach the holder.
    pub deaf: f64,
    /// Number of addresses the visitors share; 0: each has their own.
    pub addresses: u32,
    /// The obedient come up to this long after the time they were told.
    pub reaction: Micros,
    /// The obedient come back by hand: this long after the time they were told, lognormal with this median in
    /// seconds and this sigma. None: their page brings them back, see `reaction`.
    pub by_hand: Option<(f64, f64)>,
    /// The late come up to this long after the prime window's end.
    pub lateness: Micros,
    /// Pause after an answer before the next post.
    pub think: Micros,
    /// Mean patience (exponential), counted from a post's first request; 0: unlimited. A visitor who is told
    /// of a later time gives that post up.
    pub patience: Micros,
}

impl Default for Manners {
    fn default() -> Manners {
        Manners {
            no_show: 0.0,
            late: 0.0,
            hammer: 0.0,
            give_up: 0.0,
            second_tab: 0.0,
            fake: 0.0,
            unsold: 0.0,
            asks: 0.0,
            deaf: 0.0,
            addresses: 0,
            reaction: Micros::from_millis(200),
            by_hand: None,
            lateness: Micros::from_secs(30),
            think: Micros::ZERO,
            patience: Micros::ZERO,
        }
    }
}

/// How often hammering visitors come.
const HAMMER: Micros = Micros::from_millis(100);

/// A visitor.
#[derive(Clone, Debug)]
pub struct Client {
    /// Address as 16 bytes.
    pub address: [u8; 16],
    /// Hashes of the address's prefix and of the wider one.
    pub hash: [u64; 2],
    /// Comes ten times a second.
    pub hammers: bool,
    /// How long the visitor waits in all; zero: for ever.
    pub patience: Micros,
    /// The visitor's page asks where they stand.
    pub asks: bool,
    /// Number of the post in progress.
    pub post: u32,
    /// When the visitor began it.
    pub begun: Micros,
    /// The visitor's ticket.
    pub jar: Option<Ticket>,
    /// The last ticket the visitor used.
    pub spent: Option<Ticket>,
    /// When the visitor had all they wanted.
    pub finished: Option<Micros>,
}

/// What a visitor does after a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// Come again at that time.
    Retry(Micros),
    /// Ask from time to time; come again when told, or at that time.
    Ask(Micros),
    /// Let the ticket lapse; begin another post at that time.
    Abandon(Micros),
}

impl Client {
    /// Visitor number `n`.
    pub fn new(n: u32, manners: &Manners, rng: &mut Rng) -> Client {
        let number = if manners.addresses == 0 {
            n
        } else {
            n % manners.addresses
        };
        let mut address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
        address[12..].copy_from_slice(&number.to_be_bytes());
        // Addresses are spread over the net: no two share the wider prefix.
        let hash = [0, 1].map(|stream| Rng::new(u64::from(number), stream).bits());
        Client {
            address,
            hash,
            hammers: rng.chance(manners.hammer),
            patience: match manners.patience {
                Micros::ZERO => Micros::ZERO,
                mean => Micros::from_secs_f64(rng.exponential(mean.as_secs_f64())).max(Micros(1)),
            },
            asks: manners.asks > 0.0 && rng.chance(manners.asks),
            post: 0,
            begun: Micros::ZERO,
            jar: None,
            spent: None,
            finished: None,
        }
    }

    /// What the visitor does after a refusal at `now`.
    pub fn refused(
        &mut self,
        refusal: &Refusal,
        manners: &Manners,
        now: Micros,
        rng: &mut Rng,
    ) -> Move {
        self.jar = refusal.ticket.or(self.jar);
        if self.hammers {
            return Move::Retry(now + HAMMER);
        }
        let up_to = |most: Micros, rng: &mut Rng| Micros(rng.below(most.0));
        let told = (now + refusal.retry_after).max(now + Micros(1));
        if self.patience != Micros::ZERO && told - self.begun > self.patience {
            self.jar = None;
            return Move::Abandon(now + Micros::from_secs(5) + up_to(Micros::from_secs(25), rng));
        }
        let Some(ticket) = refusal.ticket else {
            return Move::Retry(told + up_to(manners.reaction, rng));
        };
        if rng.chance(manners.no_show) {
            self.jar = None;
            return Move::Abandon(now + Micros::from_secs(5) + up_to(Micros::from_secs(25), rng));
        }
        if rng.chance(manners.late) {
            return Move::Retry(ticket.prime_end.max(now) + up_to(manners.lateness, rng));
        }
        let due = told
            + match manners.by_hand {
                None => up_to(manners.reaction, rng),
                Some((median, sigma)) => {
                    Micros::from_secs_f64(median * (sigma * rng.normal()).exp())
                }
            };
        match self.asks {
            true => Move::Ask(due),
            false => Move::Retry(due),
        }
    }
}
