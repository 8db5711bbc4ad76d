//! Accesses of a shop in its room: in, to a place or a page, out; what `ffi` does in httpd.

use std::sync::atomic::Ordering::Relaxed;

use super::{Access, Event, HEAVY, Job, PAGES, Shop, Stand, arrival};
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::room::gate::Leaving;
use crate::room::starts::End;
use crate::room::stay::{Asks, Stay};
use crate::room::verdict::Verdict;
use crate::room::wakes::Wakes;

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
            ..Leaving::default()
        };
        let (now, mut stay) = (self.now, access.stay);
        let last = !access.orphan && access.page == PAGES - 1;
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

    pub(super) fn enters(&mut self, token: u64, key: u64) {
        let access = &self.accesses[&token];
        let (now, mut stay) = (self.now, access.stay);
        let keys = [key];
        let asks = Asks {
            keys: if key == 0 { &[] } else { &keys },
            starts: access.page == 0,
        };
        let tickets: Vec<Ticket> = access.ticket.into_iter().collect();
        let arrival = arrival(access.owner, &tickets, access.client);
        let ((verdict, alarm), wakes) = self.state.locked(|tables, wakes| {
            let (verdict, _) = tables.enter_stay(&mut stay, asks, &arrival, now, wakes);
            let alarm = match &verdict {
                Some(Verdict::Wait(seat)) => tables.alarm_of(&stay, seat.place, now, wakes),
                _ => None,
            };
            (verdict, alarm)
        });
        // In httpd most members come in without the lock, and are counted there.
        if let Some(Verdict::Run(_)) = verdict
            && let Some(permits) = self.state.all_permits().get(stay.gate as usize)
        {
            permits.passed.fetch_add(1, Relaxed);
        }
        self.set_stay(token, stay);
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
        let ((verdict, alarm), wakes) = self.state.locked(|tables, wakes| {
            let before = stay.gate;
            let verdict = tables.look_up_stay(&mut stay, place, &mut until, &arrival, now, wakes);
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
            Some(Verdict::Wait(seat)) => self.waits(token, seat.place, seat.until, alarm),
            Some(Verdict::Refuse(refusal)) => {
                let access = self.accesses.remove(&token).expect("it has just been told");
                if access.orphan {
                    return;
                }
                self.outcome.members_refused += u64::from(access.stay.session != 0);
                match access.page {
                    0 if refusal.ticket.is_some() => self.outcome.tickets += 1,
                    0 => self.outcome.untold += 1,
                    _ => self.outcome.mid_session += 1,
                }
                if self.is_deaf() {
                    return self.thinks(access.client);
                }
                let client = &mut self.clients[access.client];
                client.ticket = refusal.ticket;
                client.due = self.now + refusal.retry_after;
                self.page_waits(access.client, true);
            }
        }
    }

    pub(super) fn runs(&mut self, token: u64, permit: u32) {
        let now = self.now;
        let Some(access) = self.accesses.get_mut(&token) else {
            return;
        };
        access.stand = Stand::Runs;
        let heavy = access.page == HEAVY;
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
        let spread = self.setup.spread[usize::from(heavy)];
        let factor = 1.0 - spread + 2.0 * spread * self.rng.unit();
        let left_s = self.setup.work_s[usize::from(heavy)] * factor;
        self.searches += usize::from(heavy);
        self.jobs.push(Job {
            token,
            heavy,
            left_s,
            permit,
            granted: now,
        });
    }

    /// Who has been woken looks at his place.
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
