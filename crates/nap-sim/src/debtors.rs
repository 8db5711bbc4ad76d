//! [`Debtors`]: mod_bwshare in front of the room, as the shim has it. It is asked before the room is, and a
//! ticket in its prime window is charged but not refused.

use std::collections::BTreeMap;

use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::client::{Client, Prefixes};
use nap_core::bwshare::limits::{Answer, Limits};
use nap_core::bwshare::table::{Stripe, stripe_of};
use nap_core::bwshare::visit::Visit;
use nap_core::micros::Micros;

const SECRET: [u8; 16] = *b"nobody will tell";
/// Stripes of the table: room for 16 x 266 clients.
const STRIPES: usize = 16;

/// What a visitor who owes too much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// How long to wait.
    pub wait: Micros,
    /// The client waited as long as told before, and nothing has been charged to their address since.
    pub again: bool,
}

/// What all visitors owe.
pub struct Debtors {
    limits: Limits,
    stripes: Vec<Stripe>,
    /// When each may come again, as long as nothing more is charged to them.
    told_ns: BTreeMap<u64, u64>,
}

impl Debtors {
    /// New debtors: nobody owes anything yet.
    pub fn new(limits: Limits) -> Debtors {
        Debtors {
            limits,
            stripes: vec![Stripe::EMPTY; STRIPES],
            told_ns: BTreeMap::new(),
        }
    }

    /// One more request from this address; an error if it may not be answered yet.
    pub fn enters(&mut self, address: [u8; 16], now: Micros) -> Result<(), Slow> {
        let (key, now_ns) = (key_of(address), nanoseconds(now));
        let limits = self.limits;
        match self.stripe(key).enter(key, &limits, now_ns) {
            Answer::Pass => {
                self.told_ns.remove(&key);
                Ok(())
            }
            Answer::Refuse { wait_ns, .. } => {
                let told = self.told_ns.get(&key).copied();
                let again = told.is_some_and(|told_ns| told_ns <= now_ns);
                self.told_ns.insert(key, now_ns.saturating_add(wait_ns));
                let wait = Micros(wait_ns.div_ceil(SECOND_NS / 1_000_000));
                Err(Slow { wait, again })
            }
        }
    }

    /// Whether the address owes little enough for a member of a session.
    pub fn is_moderate(&mut self, address: [u8; 16], now: Micros) -> bool {
        let (key, limits) = (key_of(address), self.limits);
        let mut visit = Visit {
            stripe: self.stripe(key),
            trace: None,
            limits: &limits,
            now_ns: nanoseconds(now),
        };
        visit.as_member(key) == Answer::Pass
    }

    /// What the address owes, with one more file, as multiples of the maxima: files, bytes.
    pub fn owed(&mut self, address: [u8; 16], now: Micros) -> [f64; 2] {
        let (key, limits, now_ns) = (key_of(address), self.limits, nanoseconds(now));
        let account = self.stripe(key).account(key);
        let files = limits.files.units(account.files_ns(now_ns)) + 1.0;
        let bytes = limits.bytes.units(account.bytes_ns(now_ns));
        [files / limits.files.max(), bytes / limits.bytes.max()]
    }

    /// The address is let in all the same.
    pub fn excused(&mut self, address: [u8; 16], now: Micros) {
        let (key, limits) = (key_of(address), self.limits);
        self.stripe(key).charge_file(key, &limits, nanoseconds(now));
        self.told_ns.remove(&key);
    }

    /// This many bytes have been sent to the address.
    pub fn sent(&mut self, address: [u8; 16], bytes: u64, now: Micros) {
        let (key, limits) = (key_of(address), self.limits);
        self.stripe(key)
            .charge_bytes(key, &limits, bytes, nanoseconds(now));
        self.told_ns.remove(&key);
    }

    fn stripe(&mut self, key: u64) -> &mut Stripe {
        &mut self.stripes[stripe_of(key, STRIPES)]
    }
}

fn key_of(address: [u8; 16]) -> u64 {
    Client::of(address, Prefixes::DEFAULT, 0, &SECRET).key
}

fn nanoseconds(now: Micros) -> u64 {
    now.0.saturating_mul(SECOND_NS / 1_000_000)
}
