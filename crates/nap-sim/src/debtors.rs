//! [`Debtors`]: mod_bwshare in front of the room, as the shim has it. It is asked before the room is. What is charged,
//! refused and excused is decided in [`nap_core::bwshare::till`]; here are its [`Books`] in virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::client::{Client, Prefixes};
use nap_core::bwshare::horizons::HORIZONS;
use nap_core::bwshare::limits::Limits;
use nap_core::bwshare::service::Service;
use nap_core::bwshare::table::Stripe;
use nap_core::bwshare::till::charge::Charge;
use nap_core::bwshare::till::last_client::LastClient;
use nap_core::bwshare::till::limit::Limit;
use nap_core::bwshare::till::{Books, Till};
use nap_core::bwshare::trace::TraceSet;
use nap_core::micros::Micros;

const SECRET: [u8; 16] = *b"nobody will tell";
/// Stripes of the table: room for 16 x 266 clients.
const STRIPES: usize = 16;

/// What a visitor who owes too much is told.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// How long to wait.
    pub wait: Micros,
    /// The client waited as long as told before, and nothing has been charged to their address since.
    pub again: bool,
    charge: Charge,
}

/// What all visitors owe.
pub struct Debtors {
    till: Till<Stripes>,
    /// When each may come again, as long as nothing more is charged to them.
    told: BTreeMap<u64, Micros>,
}

/// Debts without a trace, and without horizons to steer.
struct Stripes(RefCell<Vec<Stripe>>);

impl Books for Stripes {
    fn stripes(&self) -> usize {
        STRIPES
    }

    fn rows(&self) -> usize {
        0
    }

    fn at<R>(&self, at: usize, act: impl FnOnce(&mut Stripe, &mut [TraceSet]) -> R) -> Option<R> {
        Some(act(self.0.borrow_mut().get_mut(at)?, &mut []))
    }

    fn lowered(&self, _: usize) -> [u32; HORIZONS] {
        [0; HORIZONS]
    }

    fn service<R>(&self, _: usize, _: impl FnOnce(&mut Service) -> R) -> Option<R> {
        None
    }

    fn byte_unit(&self, _: u8) -> f64 {
        0.0
    }
}

impl Debtors {
    /// New debtors: nobody owes anything yet.
    pub fn new(limits: Limits) -> Debtors {
        Debtors {
            till: Till {
                books: Stripes(RefCell::new(vec![Stripe::default(); STRIPES])),
                limits: vec![Limit::new(limits)],
                secret: SECRET,
            },
            told: BTreeMap::new(),
        }
    }

    /// One more request from this address; an error if it may not be answered yet.
    pub fn enters(&mut self, address: [u8; 16], now: Micros) -> Result<(), Slow> {
        let (mut charge, mut last) = (Charge::default(), LastClient::default());
        let now_ns = || nanoseconds(now);
        if !(self.till).enter(&mut charge, &mut last, &address, now_ns) {
            self.told.remove(&charge.key);
            return Ok(());
        }
        let wait = Micros(charge.wait_us);
        let told = self.told.insert(charge.key, now + wait);
        let again = told.is_some_and(|told| told <= now);
        Err(Slow {
            wait,
            again,
            charge,
        })
    }

    /// Is one who owes too much let in all the same? `prime`: with a ticket in its prime window; `member`: of a
    /// session.
    pub fn excuses(&mut self, mut slow: Slow, prime: bool, member: bool, now: Micros) -> bool {
        let (ticket, now_ns) = (prime.then_some(Micros::ZERO), nanoseconds(now));
        let excused = (self.till).excuse(&mut slow.charge, now_ns, || ticket, || member);
        if excused {
            self.told.remove(&slow.charge.key);
        }
        excused
    }

    /// What one who owes too much owes, with one more file, as multiples of the maxima: files, bytes.
    pub fn owed(&self, slow: &Slow, now: Micros) -> [f64; 2] {
        let (key, now_ns) = (slow.charge.key, nanoseconds(now));
        let account = self.till.books.of(key, |stripe, _| stripe.account(key));
        let (account, limits) = (account.unwrap_or_default(), &self.till.limits[0].limits[0]);
        let files = limits.files.units(account.files_ns(now_ns)) + 1.0;
        let bytes = limits.bytes.units(account.bytes_ns(now_ns));
        [files / limits.files.max(), bytes / limits.bytes.max()]
    }

    /// This many bytes have been sent to the address.
    pub fn sent(&mut self, address: [u8; 16], bytes: u64, now: Micros) {
        let key = Client::of(address, Prefixes::DEFAULT, 0, &SECRET).key;
        let charge = Charge {
            key,
            ..Charge::default()
        };
        self.till.bytes(&charge, bytes, || nanoseconds(now));
        self.told.remove(&key);
    }
}

fn nanoseconds(now: Micros) -> u64 {
    now.0.saturating_mul(SECOND_NS / 1_000_000)
}
