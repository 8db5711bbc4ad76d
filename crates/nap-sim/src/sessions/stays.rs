//! Accesses of a shop in its room: in, to a place or a page, out.

use super::{Kind, PageAccess, Patience, Shop, ShopEvent, ShopJob, arrival};
use crate::house::Simulated;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access::{self, Look, Waiting, flag};
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::stay::Asks;
use nap_core::room::verdict::Verdict;
use nap_core::room::wakes::Wakes;

impl Shop {
    /// What an access finds around it.
    pub(super) fn house(&mut self, access: &PageAccess, parking: Parking) -> Simulated<'_> {
        Simulated {
            now: self.now,
            owner: access.at.owner,
            page: access.gate,
            lobby: self.lobby,
            workers: self.state.workers,
            waiting: Waiting::Told(parking),
            outside: 0,
            asked_members: false,
            wakes: Vec::new(),
            state: &mut self.state,
        }
    }

    pub(super) fn leave_room(&mut self, access: &mut PageAccess) {
        if !self.has_room() {
            return;
        }
        let ends = self.setup.sessions.is_some_and(|sessions| sessions.ends);
        let pages = self.clients[access.client].pages;
        let mut house = self.house(access, Parking::Nobody);
        if ends && !access.orphan && access.page + 1 == pages {
            access.at.end_session(&mut house);
        }
        access.at.leave(&mut house);
        let wakes = house.wakes;
        self.all_woken(&wakes);
    }

    pub(super) fn enters(&mut self, token: u64, key: u64) {
        let parking = self.parking();
        let mut access = self.accesses.remove(&token).expect("it has just come");
        let keys = [key];
        let keys = if key == 0 { &[] } else { &keys[..] };
        let anywhere = self.setup.sessions.is_some_and(|s| s.anywhere);
        let starts = anywhere || access.page == 0;
        let tickets: Vec<Ticket> = access.ticket.into_iter().collect();
        let mut arrival = arrival(access.at.owner, &tickets, access.client);
        let mut house = self.house(&access, parking);
        let verdict = comes(&mut access.at, &mut house, keys, starts, &mut arrival);
        // It has left a session behind where it was refused: a member was.
        let (is_member, wakes) = (house.asked_members, house.wakes);
        access.short = parking != Parking::Anybody;
        self.accesses.insert(token, access);
        self.told(token, verdict, is_member);
        self.all_woken(&wakes);
    }

    pub(super) fn looks(&mut self, token: u64) {
        let waits = self.accesses.get(&token).and_then(PageAccess::place);
        let Some(place) = waits else {
            return;
        };
        let mut access = self.accesses.remove(&token).expect("just seen");
        let tickets: Vec<Ticket> = access.ticket.into_iter().collect();
        let arrival = arrival(access.at.owner, &tickets, access.client);
        let mut house = self.house(&access, Parking::Nobody);
        let look = access.at.look_up(&mut house, &arrival);
        let (is_member, wakes) = (house.asked_members, house.wakes);
        self.accesses.insert(token, access);
        match look {
            Look::Lost => unreachable!("a lock is always to be had here"),
            Look::Waits => self.waits(token),
            Look::Decided(verdict) => {
                self.places.remove(&place);
                self.told(token, verdict, is_member);
            }
        }
        self.all_woken(&wakes);
    }

    fn waits(&mut self, token: u64) {
        let access = &self.accesses[&token];
        let (place, when) = (access.at.place, access.at.looks_at());
        self.places.insert(place, token);
        if when - self.now < Micros::from_secs(24 * 3600) {
            self.at(when.max(self.now + Micros(1)), ShopEvent::Look(token));
        }
    }

    /// `is_member`: of a refusal, it was a member's.
    fn told(&mut self, token: u64, verdict: Option<Verdict>, is_member: bool) {
        match verdict {
            // No gate here is in a fleet.
            None | Some(Verdict::Run(_) | Verdict::Ask(_)) => self.runs(token),
            Some(Verdict::Wait(_)) => self.waits(token),
            Some(Verdict::Refuse(refusal)) => {
                let access = self.accesses.remove(&token).expect("it has just been told");
                if access.orphan {
                    return;
                }
                self.outcome.members_refused += u64::from(is_member);
                let forgotten = !is_member && access.key != 0;
                self.outcome.forgotten += u64::from(forgotten && !self.is_spared(&access));
                self.outcome.turned_away += u64::from(self.was_prime(&access));
                match refusal.ticket {
                    _ if access.page > 0 && self.lobby.is_some() => self.outcome.mid_session += 1,
                    None => self.outcome.untold += 1,
                    // The ticket was presented again before its time.
                    held if held == access.ticket => {}
                    Some(ticket) => {
                        self.outcome.tickets += 1;
                        let told_s = (ticket.start - self.now).as_secs_f64();
                        self.outcome.told_s.push(told_s);
                    }
                }
                if self.is_deaf() {
                    return self.thinks(access.client);
                }
                let client = &mut self.clients[access.client];
                (client.ticket, client.cut_off) = (refusal.ticket, false);
                client.due = self.now + refusal.retry_after;
                let waited = client.due - client.since.unwrap_or(self.now);
                let no_show = self.setup.faults.no_show;
                if client.ticket.is_some() && no_show > 0.0 && self.faults.chance(no_show) {
                    (client.ticket, client.since) = (None, None);
                    return self.thinks(access.client);
                }
                match self.setup.patience {
                    Patience::Goes(_) if waited > client.patience => self.gives_up(access.client),
                    _ => self.page_waits(access.client, true),
                }
            }
        }
    }

    /// Where hardly any worker is left, a session waits with one access, and further ones are a stranger's.
    /// The waiting one may have been cut off, and its child's death not been noticed yet.
    fn is_spared(&self, access: &PageAccess) -> bool {
        let own = (self.accesses.values()).filter(|own| own.client == access.client);
        let mut waiting = own.filter(|own| own.place().is_some());
        let members = self
            .state
            .places()
            .iter()
            .filter(|p| p.owner.is_some() && p.session != 0);
        let mut dead = members.filter(|p| !self.accesses.contains_key(&p.owner.0));
        access.short && (waiting.next().is_some() || dead.next().is_some())
    }

    /// Whether the visitor came with a good ticket in its prime window, and was not told to wait.
    fn was_prime(&self, access: &PageAccess) -> bool {
        let known = access.at.until == Micros::ZERO && !self.clients[access.client].cut_off;
        let in_time = |ticket: Ticket| (ticket.start..ticket.prime_end).contains(&access.asked);
        known && access.ticket.is_some_and(in_time)
    }

    pub(super) fn runs(&mut self, token: u64) {
        let mut access = self.accesses.remove(&token).expect("it has just been told");
        let page = access.gate;
        let Kind { service, heavy, .. } = self.setup.kinds[access.kind];
        if !access.orphan {
            let client = &mut self.clients[access.client];
            client.ticket = None;
            if access.at.has(flag::BEGUN) {
                let key = access.at.owner.0.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
                client.key = key;
                access
                    .at
                    .name_session(&mut self.house(&access, Parking::Nobody), key);
            }
        }
        self.accesses.insert(token, access);
        if self.watched {
            self.audit_page(page);
        }
        let left_s = service.draw(&mut self.rng);
        self.searches += usize::from(heavy);
        self.jobs.push(ShopJob {
            token,
            heavy,
            left_s,
        });
    }

    pub(super) fn all_woken(&mut self, wakes: &[Wakes]) {
        for wakes in wakes {
            self.woken(wakes);
        }
    }

    /// A woken waiter looks at its place.
    pub(super) fn woken(&mut self, wakes: &Wakes) {
        if wakes.is_empty() && wakes.listed().is_some() {
            return;
        }
        let woken: Vec<u64> = match wakes.listed() {
            Some(listed) => listed
                .iter()
                .filter_map(|place| self.places.get(place).copied())
                .collect(),
            None => self.places.values().copied().collect(),
        };
        for token in woken {
            self.at(self.now + Micros(50), ShopEvent::Look(token));
        }
    }
}

/// An access comes, in httpd's order: a member, or a newcomer if nobody waits, gets in without the lock.
fn comes(
    at: &mut access::Access,
    house: &mut Simulated<'_>,
    keys: &[u64],
    starts: bool,
    arrival: &mut Arrival<'_>,
) -> Option<Verdict> {
    let brings = !arrival.tickets.is_empty();
    let runs = match house.lobby {
        None => at.try_enter(house),
        Some(_) => match at.try_member(house, 0, keys) {
            Some(false) if at.session == 0 && !starts && !brings => at.try_enter(house),
            runs => runs == Some(true),
        },
    };
    house.asked_members = false;
    if !runs {
        let asks = Asks { keys: &[], starts };
        return at.enter(house, asks, arrival).0;
    }
    if brings && at.has(flag::TICKETS) {
        at.redeem(house, arrival);
    }
    Some(Verdict::Run(at.permit))
}
