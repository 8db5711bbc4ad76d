//! What a shop's visitors owe: mod_bwshare in front of the room, as `ffi` has it; and robots.

use super::{OPENS, PageAccess, Shop, ShopClient, ShopEvent, hash_of};
use nap_core::bwshare::visit::BEYOND;
use nap_core::micros::Micros;
use nap_core::room::arrival::bind_of;

impl Shop {
    pub(super) fn send_robots(&mut self) {
        let Some(debts) = self.setup.debts else {
            return;
        };
        for _ in 0..debts.robots {
            self.clients.push(ShopClient {
                page: 0,
                pages: self.setup.kinds.len(),
                kind: 0,
                key: 0,
                ticket: None,
                cut_off: false,
                asks: false,
                patience: Micros::MAX,
                since: None,
                due: Micros::ZERO,
                came: None,
                inside: false,
                robot: true,
            });
            let first = Micros::from_secs_f64(debts.every.as_secs_f64() * self.rng.unit());
            self.at(OPENS + first, ShopEvent::Ask(self.clients.len() - 1));
        }
    }

    /// The visitor asks for a page; true: not before they have paid what they owe.
    pub(super) fn comes_later(&mut self, at: usize) -> bool {
        let Some(debts) = self.setup.debts else {
            return false;
        };
        let wait = self.slows_down(at);
        let next = match (self.clients[at].robot, wait) {
            (true, _) => Some(debts.every),
            (false, Some(wait)) => {
                let late = self.setup.reaction_s * self.rng.unit();
                Some(wait + Micros::from_secs_f64(late))
            }
            (false, None) => None,
        };
        if let Some(next) = next {
            self.at(self.now + next, ShopEvent::Ask(at));
        }
        wait.is_some()
    }

    /// One more request from this visitor; Some: they owe too much, for this long.
    fn slows_down(&mut self, at: usize) -> Option<Micros> {
        let (now, address) = (self.now, address(at));
        let slow = self.debtors.as_mut()?.enters(address, now).err()?;
        let (prime, member) = (self.holds_prime(at), self.is_member(at));
        let debtors = self.debtors.as_mut()?;
        if debtors.excuses(slow, prime, member, now) {
            self.outcome.excused += 1;
            return None;
        }
        // Computed from amounts, while the rule goes by times: the last digits may differ.
        let most = BEYOND as f64 - 1e-9;
        let owes_little = debtors.owed(&slow, now).iter().all(|owed| *owed < most);
        self.outcome.members_slowed += u64::from(member && owes_little);
        self.outcome.slowed[usize::from(self.clients[at].robot)] += 1;
        Some(slow.wait)
    }

    fn holds_prime(&mut self, at: usize) -> bool {
        let client = &self.clients[at];
        let (Some(ticket), door) = (client.ticket, self.door(client.kind)) else {
            return false;
        };
        let (now, bind) = (self.now, bind_of(hash_of(at)[0]));
        let (prime, _) = self.state.locked(now, |tables| {
            let gate = tables.gate(door);
            gate.is_some_and(|gate| gate.until_prime(&ticket, bind) == Some(Micros::ZERO))
        });
        prime
    }

    fn is_member(&mut self, at: usize) -> bool {
        let (now, key) = (self.now, self.clients[at].key);
        let known = (self.state).locked(Micros::ZERO, |tables| {
            tables.membership().sessions.knows(key, 0, now)
        });
        key != 0 && known.0
    }

    /// The page is sent, and its reader asks for its parts.
    pub(super) fn is_sent(&mut self, access: &PageAccess) {
        let (Some(debts), now) = (self.setup.debts, self.now) else {
            return;
        };
        let parts = match access.orphan {
            true => 0,
            false => debts.parts,
        };
        for part in 0..=parts {
            if part > 0 && self.slows_down(access.client).is_some() {
                continue;
            }
            if let Some(debtors) = &mut self.debtors {
                debtors.sent(address(access.client), debts.bytes, now);
            }
        }
    }
}

/// 10.x.y.z, a different one for each client.
fn address(client: usize) -> [u8; 16] {
    let [.., x, y, z] = (client as u32).to_be_bytes();
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, x, y, z]
}
