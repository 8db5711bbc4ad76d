//! Visitors of a shop: they ask for pages, think, hold tickets, break off.

use super::{Keeping, OPENS, PageAccess, Patience, Shop, ShopEvent, Think, hash_of};
use nap_core::micros::Micros;
use nap_core::room::access;
use nap_core::room::arrival::bind_of;
use nap_core::room::children::Parking;
use nap_core::room::owner::Owner;
use nap_core::room::verdict::Turn;

impl Shop {
    pub(super) fn turns_page(&mut self, at: usize) {
        let now = self.now;
        let client = &mut self.clients[at];
        client.page += 1;
        if client.page == client.pages {
            self.heard = now;
            let came = client.came.take().unwrap_or(now);
            self.outcome.sessions += 1;
            self.outcome.took_s.push((now - came).as_secs_f64());
            (client.page, client.key, client.ticket) = (0, 0, None);
            if std::mem::take(&mut client.inside) {
                self.inside -= 1;
            }
            if self.setup.once {
                return self.goes_home();
            }
        }
        let page = self.clients[at].page;
        self.clients[at].kind = self.kind_of(page);
        self.thinks(at);
    }

    fn goes_home(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.outcome.done_s = Some((self.now - OPENS).as_secs_f64());
        }
    }

    /// The visitor has lost patience, and goes for good.
    pub(super) fn gives_up(&mut self, at: usize) {
        let client = &self.clients[at];
        self.outcome.broken_off[client.kind] += 1;
        self.outcome.mid_session += u64::from(client.page > 0);
        self.outcome.gone += 1;
        self.heard = self.now;
        self.goes_home();
    }

    pub(super) fn thinks(&mut self, at: usize) {
        let think_s = match self.setup.think {
            Think::Fixed(seconds) => seconds,
            Think::Exponential(mean) => self.rng.exponential(mean),
        };
        self.at(
            self.now + Micros::from_secs_f64(think_s),
            ShopEvent::Ask(at),
        );
    }

    pub(super) fn asks(&mut self, at: usize) {
        let Some(life) = self.taken_by(at) else {
            return;
        };
        self.serial += 1;
        let owner = Owner::new(life, self.serial);
        let (now, token) = (self.now, owner.0);
        let client = &mut self.clients[at];
        client.came.get_or_insert(now);
        let since = *client.since.get_or_insert(now);
        if self.comes_later(at) {
            return;
        }
        let client = &mut self.clients[at];
        if let Keeping::SessionLimit(most) = self.setup.way
            && client.page == 0
            && !client.inside
        {
            if self.inside >= most {
                self.outcome.untold += 1;
                return self.thinks(at);
            }
            (client.inside, self.inside) = (true, self.inside + 1);
        }
        self.outcome.requests += 1;
        let page = self.setup.kinds[client.kind].gate;
        let mut own = access::Access::new(owner);
        own.home = u32::from(self.lobby.is_some());
        let access = PageAccess {
            client: at,
            page: client.page,
            kind: client.kind,
            gate: page,
            at: own,
            asked: now,
            ticket: client.ticket,
            key: client.key,
            orphan: client.robot,
            short: false,
        };
        let key = client.key;
        let patience = client.patience;
        let from = match self.setup.patience {
            Patience::Returns(_) => now,
            Patience::Goes(_) => since,
        };
        if patience < Micros::MAX {
            self.at((from + patience).max(now), ShopEvent::BreakOff(token));
        }
        self.accesses.insert(token, access);
        match self.has_room() {
            true => self.enters(token, key),
            false => self.runs(token),
        }
    }

    /// The visitor's page has a ticket; it asks where they stand, or brings them back. `begins`: it is new.
    pub(super) fn page_waits(&mut self, at: usize, begins: bool) {
        let client = &self.clients[at];
        let remaining = client.due - self.now;
        let id = client.ticket.map_or(0, |ticket| ticket.id);
        let lobby = &self.state.all_permits()[self.door(client.kind) as usize];
        let (asks, out) = (&lobby.calls.asks, lobby.outstanding());
        let next = match begins {
            true => asks.begin(id, self.now, remaining, out),
            false => asks.next(id, self.now, remaining, out),
        };
        let next = next.unwrap_or(remaining);
        if client.asks && client.ticket.is_some() && next < remaining {
            return self.at(self.now + next, ShopEvent::Poll(at));
        }
        let late = Micros::from_secs_f64(self.setup.reaction_s * self.rng.unit());
        self.at(self.now + remaining + late, ShopEvent::Ask(at));
    }

    pub(super) fn polls(&mut self, at: usize) {
        let Some(ticket) = self.clients[at].ticket else {
            return;
        };
        let (now, bind) = (self.now, bind_of(hash_of(at)[0]));
        let door = self.door(self.clients[at].kind);
        let looks = (self.state.all_permits()[door as usize].calls).look_is_due(now);
        let (turn, wakes) = self.state.locked(now, |tables| {
            let mut lobby = tables.gate(door)?;
            if looks {
                lobby.look_round();
            }
            Some(lobby.asked(&ticket, bind))
        });
        self.woken(&wakes);
        match turn {
            Some(Turn::Wait) => self.page_waits(at, false),
            _ => self.at(now, ShopEvent::Ask(at)),
        }
    }

    /// The visitor's patience is over: they hang up, and begin again at the second page.
    pub(super) fn breaks_off(&mut self, token: u64) {
        let deaf = self.is_deaf();
        let Some(access) = self.accesses.get_mut(&token) else {
            return;
        };
        access.orphan = true;
        let at = access.client;
        // The server does not notice it for a running access: that work is wasted.
        if let Some(place) = access.place()
            && !deaf
        {
            let mut access = self.accesses.remove(&token).expect("just seen");
            self.places.remove(&place);
            let mut house = self.house(&access, Parking::Nobody);
            access.at.gone(&mut house);
            let wakes = house.wakes;
            self.all_woken(&wakes);
        }
        if matches!(self.setup.patience, Patience::Goes(_)) {
            return self.gives_up(at);
        }
        let client = &mut self.clients[at];
        self.outcome.broken_off[client.kind] += 1;
        client.since = None;
        if client.page > 0 {
            self.outcome.mid_session += 1;
            client.page = 1;
        }
        let page = client.page;
        self.clients[at].kind = self.kind_of(page);
        self.thinks(at);
    }
}
