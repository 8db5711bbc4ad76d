//! The once-a-second work of rooms with sessions: how often sessions may start, by the queues of
//! the pages they come to, and which are over. Where rooms share a page each counts its share of it
//! ([`Users`]).

use super::Tables;
use super::starts::{Starts, Wish};
use super::stay::{idle, lives};
use crate::micros::Micros;
use crate::sqs::capacity::{PAGES, PageNow, Users};
use crate::sqs::interval::Queues;

/// The table is gone through in this many parts, one for each second, whenever its turn comes. A
/// tick may be late; if parts were picked by the tick's own second alone, some might never have
/// their turn.
const PARTS: u64 = 16;

impl Tables<'_> {
    pub(super) fn tick_sessions(&mut self, since: Micros) {
        let now = self.now;
        for page in self.pages.iter_mut() {
            page.users = Users::NONE;
        }
        let rooms = 0..self.rooms.len().min(self.starts.len());
        // A room no longer named has sessions that go on, but nobody will start another.
        let named = self.rooms.iter().filter(|room| room.used != 0);
        let newest = named.map(|room| room.generation).max().unwrap_or(0);
        let with_sessions = |tables: &Self, at: usize| {
            tables.starts[at].terms.on != 0 && tables.rooms[at].generation == newest
        };
        for at in rooms.clone() {
            if with_sessions(self, at) {
                self.count_flow(at);
            }
        }
        for at in rooms {
            if with_sessions(self, at) {
                let (wish, queues) = (self.wish(at), self.queues(at));
                let pages = self.pages_now(at, wish != Wish::Nobody);
                self.starts[at].tick(now, queues, pages, wish, &self.laws.step);
            }
        }
        let second = now.secs_floor();
        let passed = second.saturating_sub(since.secs_floor()).clamp(1, PARTS);
        let size = self.sessions.sets.len().div_ceil(PARTS as usize);
        let (starts, children) = (&mut *self.starts, self.children);
        for ago in 0..passed {
            let part = (second.wrapping_sub(ago) % PARTS) as usize;
            if part == 0 {
                starts.iter_mut().for_each(Starts::end_survey);
            }
            let part = part * size..(part + 1) * size;
            self.sessions.reap(
                part.clone(),
                now,
                |owner| lives(children, owner),
                idle(starts),
            );
            let open = |starts: &Starts| starts.terms.on != 0 && starts.demand.is_open();
            if starts.iter().any(open) {
                for (_, session) in self.sessions.known(part) {
                    let room = session.room.wrapping_sub(1) as usize;
                    if let Some(starts) = starts.get_mut(room) {
                        starts.survey.ask(session, now);
                    }
                }
            }
        }
    }

    /// Which visitors would start a session in the room at `at`.
    fn wish(&self, at: usize) -> Wish {
        let at = self.rooms[at].session_gate.wrapping_sub(1) as usize;
        match (self.gates.get(at), self.permits.get(at)) {
            (Some(lobby), _) if !lobby.queue.is_empty() => Wish::Queue,
            (Some(lobby), Some(turns)) if turns.outstanding() > 0 && lobby.claims_ahead() > 0 => {
                Wish::Holders
            }
            _ => Wish::Nobody,
        }
    }

    /// Notes at the pages how often the sessions of the room at `at` have come to them.
    fn count_flow(&mut self, at: usize) {
        let wants = self.wish(at) != Wish::Nobody;
        let capacity = &mut self.starts[at].capacity;
        capacity.second();
        for (gate, flow) in capacity.gates().flatten() {
            if let Some(page) = self.pages.get_mut(gate as usize) {
                page.users.add(flow, wants);
            }
        }
    }

    /// The pages that sessions of the room at `at` have come to, by number. `wants`: would somebody
    /// start a session there?
    fn pages_now(&self, at: usize, wants: bool) -> [PageNow; PAGES] {
        let mut now = [PageNow::NONE; PAGES];
        for (now, known) in now.iter_mut().zip(self.starts[at].capacity.gates()) {
            let gate = known.and_then(|(gate, _)| self.gates.get(gate as usize));
            let (Some((at, flow)), Some(gate)) = (known, gate) else {
                continue;
            };
            let users = self.pages.get(at as usize).map(|page| page.users);
            let busy = self.permits.get(at as usize).map_or(1.0, |permits| {
                f64::from(permits.running()) / f64::from(permits.limit().max(1))
            });
            *now = PageNow {
                queue: gate.queue.len(),
                passes: gate.departures.present(),
                share: users.map_or(1.0, |users| users.share(flow, wants)),
                busy,
            };
        }
        now
    }

    /// The queues at the pages of the room at `at`, and at those of other rooms that its sessions
    /// come to: they wait there as well. What the configuration no longer names does not count.
    fn queues(&self, at: usize) -> Queues {
        let room = self.rooms[at];
        let known = self.starts[at].capacity.gates().flatten();
        let others = known.filter(|(gate, _)| room.page_gates().all(|own| own != *gate));
        let all = room.page_gates().chain(others.map(|(gate, _)| gate));
        let named = all.filter(|gate| self.is_named(*gate));
        Queues::of(named.filter_map(|gate| Some(self.gates.get(gate as usize)?.queue.len())))
    }

    fn is_named(&self, gate: u32) -> bool {
        let own = self.gates.get(gate as usize);
        let room = own.and_then(|own| self.rooms.get(own.room as usize));
        let page = self.pages.get(gate as usize);
        room.zip(page)
            .is_none_or(|(room, page)| page.generation == room.generation)
    }

    pub(super) fn count_sessions(&mut self) {
        for starts in self.starts.iter_mut() {
            starts.live = 0;
        }
        for session in self.sessions.all() {
            let room = session.room.wrapping_sub(1) as usize;
            if let Some(starts) = self.starts.get_mut(room) {
                starts.live = starts.live.saturating_add(1);
            }
        }
    }
}
