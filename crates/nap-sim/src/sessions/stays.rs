//! Accesses of a shop in its room: in, to a place or a page, out, as `ffi` does it in httpd.

use std::sync::atomic::Ordering::Relaxed;

use super::{Access, Event, Job, Kind, Met, Patience, Shop, Stand, arrival};
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::Tables;
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::gate::Leaving;
use nap_core::room::owner::Owner;
use nap_core::room::starts::End;
use nap_core::room::stay::{Asks, Stay};
use nap_core::room::verdict::Verdict;
use nap_core::room::wakes::Wakes;

impl Shop {
    pub(super) fn leave_room(&mut self, job: &Job, access: &Access) {
        if !self.has_room() {
            return;
        }
        let leaving = Leaving {
            permit: job.permit,
            owner: access.owner,
            entered: access.asked,
            granted: job.granted,
            ..self.met(access)
        };
        let (now, mut stay) = (self.now, access.stay);
        let ends = self.setup.sessions.is_some_and(|sessions| sessions.ends);
        let pages = self.clients[access.client].pages;
        let last = ends && !access.orphan && access.page + 1 == pages;
        let (_, wakes) = self.state.locked(|tables, wakes| {
            if let Some(mut page) = tables.gate(stay.page, now, wakes) {
                page.leave(&leaving);
            }
            let work = now - job.granted;
            let mut members = tables.membership();
            match last {
                true => members.end(&mut stay, access.owner, work, End::Finished),
                false => members.leave(&mut stay, access.owner, work, now),
            }
        });
        self.woken(&wakes);
    }

    /// What a page gate that sells tickets is told of an access. A session gate's members have their places
    /// by another law, and what they met is not asked for.
    fn met(&self, access: &Access) -> Leaving {
        let met = match self.lobby {
            None => access.met,
            Some(_) => Met::default(),
        };
        Leaving {
            waited: met.waited,
            queue: met.queue,
            predicted: met.predicted,
            slot: met.redeemed.map_or(0, |ticket| ticket.slot),
            index: met.redeemed.map_or(0, |ticket| ticket.index),
            ..Leaving::default()
        }
    }

    pub(super) fn enters(&mut self, token: u64, key: u64) {
        let parking = self.parking();
        let access = &self.accesses[&token];
        let (now, mut stay) = (self.now, access.stay);
        let keys = [key];
        let anywhere = self.setup.sessions.is_some_and(|s| s.anywhere);
        let asks = Asks {
            keys: if key == 0 { &[] } else { &keys },
            starts: anywhere || access.page == 0,
        };
        let tickets: Vec<Ticket> = access.ticket.into_iter().collect();
        let arrival = Arrival {
            parking,
            ..arrival(access.owner, &tickets, access.client)
        };
        let in_sessions = self.lobby.is_some();
        let ((verdict, redeemed, alarm), wakes) = self.state.locked(|tables, wakes| {
            if in_sessions
                && let Some(permit) = try_member(tables, &mut stay, asks.keys, arrival.owner, now)
            {
                return (Some(Verdict::Run(permit)), None, None);
            }
            let (verdict, redeemed) = match in_sessions {
                true => tables.enter_stay(&mut stay, asks, &arrival, now, wakes),
                false => {
                    let page = tables.gate(stay.page, now, wakes);
                    let entered = page.map(|mut page| (page.enter(&arrival), page.redeemed.take()));
                    entered.map_or((None, None), |(verdict, redeemed)| {
                        (Some(verdict), redeemed)
                    })
                }
            };
            let alarm = match &verdict {
                Some(Verdict::Wait(seat)) => tables.alarm_of(&stay, seat.place, now, wakes),
                _ => None,
            };
            (verdict, redeemed, alarm)
        });
        self.set_stay(token, stay);
        if let Some(access) = self.accesses.get_mut(&token) {
            access.met.redeemed = redeemed;
            access.short = parking != Parking::Anybody;
        }
        self.told(token, verdict, alarm);
        self.woken(&wakes);
    }

    fn set_stay(&mut self, token: u64, stay: Stay) {
        if let Some(access) = self.accesses.get_mut(&token) {
            access.stay = stay;
        }
    }

    pub(super) fn looks(&mut self, token: u64) {
        let Some(access) = self.accesses.get(&token) else {
            return;
        };
        let Stand::Waits { place, mut until } = access.stand else {
            return;
        };
        let (now, mut stay) = (self.now, access.stay);
        let tickets: Vec<Ticket> = access.ticket.into_iter().collect();
        let arrival = arrival(access.owner, &tickets, access.client);
        let in_sessions = self.lobby.is_some();
        let ((verdict, alarm), wakes) = self.state.locked(|tables, wakes| {
            let before = stay.gate;
            let verdict = match in_sessions {
                true => tables.look_up_stay(&mut stay, place, &mut until, &arrival, now, wakes),
                false => tables
                    .gate(stay.gate, now, wakes)
                    .and_then(|mut page| page.look_up(place, &mut until, &arrival)),
            };
            let place = match &verdict {
                Some(Verdict::Wait(seat)) => seat.place,
                None if stay.gate == before => place,
                _ => return (verdict.map(Some).or(Some(None)), None),
            };
            let alarm = tables.alarm_of(&stay, place, now, wakes);
            (verdict.map(Some), alarm)
        });
        self.set_stay(token, stay);
        match verdict {
            Some(verdict) => {
                self.places.remove(&place);
                self.told(token, verdict, alarm);
            }
            None => self.waits(token, place, until, alarm),
        }
        self.woken(&wakes);
    }

    fn waits(&mut self, token: u64, place: u32, until: Micros, alarm: Option<Micros>) {
        if let Some(access) = self.accesses.get_mut(&token) {
            access.stand = Stand::Waits { place, until };
        }
        self.places.insert(place, token);
        let when = alarm.map_or(until, |alarm| alarm.min(until));
        if when - self.now < Micros::from_secs(24 * 3600) {
            self.at(when.max(self.now + Micros(1)), Event::Look(token));
        }
    }

    fn told(&mut self, token: u64, verdict: Option<Verdict>, alarm: Option<Micros>) {
        match verdict {
            None => self.runs(token, u32::MAX),
            Some(Verdict::Run(permit)) => self.runs(token, permit),
            Some(Verdict::Wait(seat)) => {
                if let Some(access) = self.accesses.get_mut(&token) {
                    access.met = Met {
                        waited: true,
                        queue: seat.queue,
                        predicted: seat.predicted,
                        redeemed: seat.redeemed.or(access.met.redeemed),
                    };
                }
                self.waits(token, seat.place, seat.until, alarm);
            }
            Some(Verdict::Refuse(refusal)) => {
                let access = self.accesses.remove(&token).expect("it has just been told");
                if access.orphan {
                    return;
                }
                self.outcome.members_refused += u64::from(access.stay.session != 0);
                let forgotten = access.stay.session == 0 && access.key != 0;
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
    fn is_spared(&self, access: &Access) -> bool {
        let own = (self.accesses.values()).filter(|own| own.client == access.client);
        let mut waiting = own.filter(|own| matches!(own.stand, Stand::Waits { .. }));
        let members = self
            .state
            .places()
            .iter()
            .filter(|p| p.owner.is_some() && p.session != 0);
        let mut dead = members.filter(|p| !self.accesses.contains_key(&p.owner.0));
        access.short && (waiting.next().is_some() || dead.next().is_some())
    }

    /// Whether the visitor came with a good ticket in its prime window, and was not told to wait.
    fn was_prime(&self, access: &Access) -> bool {
        let known = !access.met.waited && !self.clients[access.client].cut_off;
        let in_time = |ticket: Ticket| (ticket.start..ticket.prime_end).contains(&access.asked);
        known && access.ticket.is_some_and(in_time)
    }

    pub(super) fn runs(&mut self, token: u64, permit: u32) {
        let now = self.now;
        let Some(access) = self.accesses.get_mut(&token) else {
            return;
        };
        access.stand = Stand::Runs;
        let page = access.stay.page;
        let Kind { service, heavy, .. } = self.setup.kinds[access.kind];
        if !access.orphan {
            let client = &mut self.clients[access.client];
            client.ticket = None;
            if access.stay.begun {
                client.key = access.owner.0.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
                let (key, owner) = (client.key, access.owner);
                let stay = &mut access.stay;
                self.state
                    .locked(|tables, _| tables.membership().name(stay, owner, key, now));
            }
        }
        if self.watched {
            self.audit_page(page);
        }
        let left_s = service.draw(&mut self.rng);
        self.searches += usize::from(heavy);
        self.jobs.push(Job {
            token,
            heavy,
            left_s,
            permit,
            granted: now,
        });
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
            self.at(self.now + Micros(50), Event::Look(token));
        }
    }
}

/// A member who finds a free permit runs, and the page's gate is not looked at.
fn try_member(
    tables: &mut Tables<'_>,
    stay: &mut Stay,
    keys: &[u64],
    owner: Owner,
    now: Micros,
) -> Option<u32> {
    let asked = (stay.room, stay.page);
    stay.session = tables.membership().enter(asked, keys, owner, now);
    let permits = (tables.permits.get(stay.page as usize)).filter(|_| stay.session != 0)?;
    let permit = permits.claim(owner)?;
    stay.gate = stay.page;
    permits.passed.fetch_add(1, Relaxed);
    Some(permit)
}
