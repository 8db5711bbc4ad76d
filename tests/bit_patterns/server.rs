//! A server without processes: what its children and its parent do over a segment, whatever lies there.

use crate::DIMS;
use mod_nap::info::{Beside, Busiest, Files, Report, Snapshot};
use mod_nap::shm::clock;
use mod_nap::shm::segment::Segment;
use mod_nap::wall::Wall;
use nap_core::micros::Micros;
use nap_core::nap::ticket::{Ticket, name_hash};
use nap_core::room::Tables;
use nap_core::room::arrival::Arrival;
use nap_core::room::children::{Parking, Workers};
use nap_core::room::gate::{GateView, Leaving};
use nap_core::room::owner::{Life, Owner};
use nap_core::room::part::Part;
use nap_core::room::permits::PERMITS;
use nap_core::room::starts::{End, StartTerms};
use nap_core::room::stay::Stay;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::Verdict;
use nap_core::sqs::page_scheduler::{Pace, law};
use nap_core::telepoll::{Form, Mode, PollTerms};
use nap_rng::Rng;

/// An access a test knows of.
#[derive(Clone, Copy)]
enum Access {
    Runs { gate: u32, permit: u32 },
    Waits { gate: u32, place: u32 },
}

/// A server's children over one segment, none of which is a real process here.
pub(crate) struct Server {
    segment: Segment,
    rng: Rng,
    lives: Vec<Life>,
    accesses: Vec<(Owner, Access)>,
    tickets: Vec<Ticket>,
    serial: u32,
    /// How far the time inside is ahead of the segment's.
    ahead: Micros,
}

impl Server {
    pub(crate) fn start(segment: Segment, rng: Rng) -> Server {
        segment.set_workers(Workers {
            per_pool: 8,
            reserve: 1,
            threaded: 1,
            pools: 3,
            parked: 0,
            on_workers: 0,
        });
        let mut server = Server {
            segment,
            rng,
            lives: Vec::new(),
            accesses: Vec::new(),
            tickets: Vec::new(),
            serial: 0,
            ahead: Micros::ZERO,
        };
        server.configure();
        (0..3).for_each(|_| server.child_starts());
        server
    }

    /// What the parent does at every start: it enters rooms by name and sets their settings.
    fn configure(&mut self) {
        let terms = self.terms();
        let (rng, ahead) = (&mut self.rng, self.ahead);
        let poll = PollTerms {
            mode: [Mode::Level, Mode::Relevel, Mode::Concentrate][rng.below(3) as usize],
            form: [Form::Smooth, Form::Paper][rng.below(2) as usize],
            k: 1 + rng.below(9) as u16,
            ..PollTerms::new(Micros::from_secs(10), 500.0)
        };
        let [pace, start] = [rng.below(3), rng.below(3)];
        self.segment.events()[0].set(&poll);
        self.segment.locked(|tables| {
            for page in tables.pacing.iter_mut() {
                let pace = Pace {
                    law: [law::FIXED, law::AUTO, law::PAPER][pace as usize],
                    start: 2,
                    lo: 1,
                    hi: 64,
                    ..Pace::default()
                };
                page.configure(pace, tables.now + ahead);
            }
            for starts in tables.starts.iter_mut() {
                starts.set(StartTerms {
                    on: 1,
                    how: [how::FIXED, how::AUTO, how::PAPER][start as usize],
                    parallel: 2,
                    cores: 2,
                    idle: Micros::from_secs(60),
                    interval: Micros::from_millis(100),
                    threshold: 5_000_000,
                    min: Micros::from_millis(1),
                    max: Micros::from_secs(10),
                    ..StartTerms::default()
                });
            }
            for (at, gate) in tables.gates.iter_mut().enumerate() {
                gate.kind = 1;
                (gate.room_hash, gate.gate_hash) = (at as u32, name_hash(""));
                gate.terms = terms;
                tables.permits[at].set_limit(terms.run_ready);
            }
        });
    }

    fn terms(&mut self) -> Terms {
        let mut choose = |n: u64| match self.rng.below(4) {
            0 => Choice {
                how: how::PAPER,
                n: 0,
            },
            1 => Choice {
                how: how::FIXED,
                n: self.rng.below(n) as u32,
            },
            _ => Choice::default(),
        };
        let [wait_limit, slot_tickets] = [choose(20), choose(20)];
        let share = choose(1_000_000);
        let re_access = Choice {
            how: if choose(9).how == how::FIXED {
                how::FIXED
            } else {
                how::AUTO
            },
            n: 2,
        };
        Terms {
            bound: Micros::from_secs(4),
            run_ready: 1 + self.rng.below(3) as u32,
            history: 100,
            wait_limit,
            re_access,
            slot_period: Micros::from_secs(10),
            slot_tickets,
            lifetime: Micros::from_secs(300),
            prime: Micros::from_secs(5),
            horizon: Micros::from_secs(24 * 3600),
            poll: Micros::from_secs(10),
            share,
            overbook: Choice {
                how: how::FIXED,
                n: 1_250_000,
            },
            per_client: Choice {
                how: how::FIXED,
                n: 1000,
            },
            bind: self.rng.below(2) as u32,
            parked: 18,
            ..Terms::default()
        }
    }

    fn child_starts(&mut self) {
        let pid = 100 + self.rng.below(1 << 20) as u32;
        self.lives.extend(self.segment.child_starts(pid));
    }

    fn owner(&mut self) -> Option<Owner> {
        self.serial += 1;
        let at = self.rng.below(self.lives.len() as u64) as usize;
        Some(Owner::new(*self.lives.get(at)?, self.serial))
    }

    fn at_gate<R>(&self, gate: u32, act: impl FnOnce(&mut GateView<'_>) -> R) -> Option<R> {
        self.ahead_of(|tables| Some(act(&mut tables.gate(gate)?)))
            .flatten()
    }

    /// Acts under the lock at a later time than the segment's.
    fn ahead_of<R>(&self, act: impl FnOnce(&mut Tables<'_>) -> R) -> Option<R> {
        self.segment.locked(|tables| {
            tables.now = tables.now + self.ahead;
            act(tables)
        })
    }

    /// Anything that can happen to a server.
    fn happens(&mut self) {
        match self.rng.below(32) {
            24..=29 => self.member_comes(),
            30..=31 => self.is_polled(),
            0..=7 => self.comes(),
            8..=12 => self.goes(),
            13..=15 => self.looks_up(),
            16 => self.passes_at_once(),
            17 => self.ahead = self.ahead + Micros(self.rng.below(20_000_000)),
            18 => self.child_dies(),
            19 => self.child_starts(),
            20 => self.configure(),
            21 => self.is_looked_at(),
            22 => self.ticks(),
            _ => {
                self.ahead_of(|tables| tables.mend());
            }
        }
    }

    /// An access of one of a few sessions; it begins, names, leaves or ends it, or stays.
    fn member_comes(&mut self) {
        let Some(owner) = self.owner() else { return };
        let [room, page] = [3, 20].map(|n| self.rng.below(n) as u32);
        let keys = [0; 2].map(|_| 1 + self.rng.below(40));
        let (what, ahead) = (self.rng.below(8), self.ahead);
        let idle = Micros::from_secs(60);
        let now = self.segment.now();
        self.segment.locked_sessions(|members| {
            let now = now + ahead;
            let mut stay = Stay {
                room,
                session: members.enter((room, page), &keys, owner, now),
                ..Stay::default()
            };
            if stay.session == 0 {
                let begun = members
                    .sessions
                    .start(owner.0, (room, idle), owner.0, now, |_| ());
                stay.session = begun.map_or(0, |at| at + 1);
                stay.begun = begun.is_some();
            }
            match what {
                0 => members.end(&mut stay, owner, Micros(5), End::Finished),
                1 => drop(members.revoke(keys[0])),
                2..=4 => members.name(&mut stay, owner, keys[1], now),
                _ => {}
            }
            if what > 2 {
                members.leave(&mut stay, owner, Micros::from_millis(what), now);
            }
        });
    }

    fn is_polled(&mut self) {
        let (event, now) = (&self.segment.events()[0], self.segment.now() + self.ahead);
        event.poll(now);
        event.answered(now, Micros(self.rng.below(10_000_000)));
    }

    fn comes(&mut self) {
        let Some(owner) = self.owner() else { return };
        let gate = self.rng.below(2) as u32;
        let tickets = self.some_tickets();
        let arrival = self.arrival(owner, &tickets);
        let verdict = self.at_gate(gate, |view| view.enter(&arrival));
        self.told(gate, owner, verdict);
    }

    fn some_tickets(&mut self) -> Vec<Ticket> {
        let known = self.tickets.len() as u64;
        let wild = Ticket {
            epoch: self.segment.head().epoch,
            room: self.rng.below(2) as u32,
            gate: name_hash(""),
            slot: self.rng.bits() as u32 >> self.rng.below(32),
            index: self.rng.bits() as u32 >> self.rng.below(32),
            serial: self.rng.bits() as u32,
            start: Micros(self.rng.bits() >> self.rng.below(64)),
            prime_end: Micros(self.rng.bits() >> self.rng.below(64)),
            end: Micros(self.rng.bits() >> self.rng.below(64)),
            id: self.rng.bits(),
            ..Ticket::default()
        };
        match self.rng.below(4) {
            0 => vec![wild],
            1 | 2 if known > 0 => {
                let ticket = self.tickets[self.rng.below(known) as usize];
                // Holders come when it is time.
                if self.rng.chance(0.7) {
                    let now = self.segment.now() + self.ahead;
                    self.ahead = self.ahead + (ticket.start - now).min(Micros::from_secs(3600));
                }
                vec![ticket]
            }
            _ => vec![],
        }
    }

    fn arrival<'t>(&mut self, owner: Owner, tickets: &'t [Ticket]) -> Arrival<'t> {
        let client = self.rng.below(4);
        Arrival {
            owner,
            parking: match self.rng.below(6) {
                0 => Parking::Nobody,
                1 => Parking::Holders,
                2 => Parking::Sparing,
                _ => Parking::Anybody,
            },
            left: self.rng.below(99) as u32,
            waited: Micros(self.rng.bits()),
            stood: Micros(self.rng.bits()),
            secondary: false,
            tickets,
            told: None,
            patient: false,
            again: false,
            forged: false,
            of_visit: &[],
            part: Part::Call,
            client: [client as u8; 16],
            client_hash: [client, client >> 1],
            method: b"GET",
            uri: b"/",
            kind: 0,
            priority: 0,
            secret: self.segment.head().secret,
            random: self.rng.bits(),
        }
    }

    fn told(&mut self, gate: u32, owner: Owner, verdict: Option<Verdict>) {
        match verdict {
            Some(Verdict::Run(permit)) => {
                self.accesses.push((owner, Access::Runs { gate, permit }));
            }
            Some(Verdict::Wait(seat)) => {
                let place = seat.place;
                self.accesses.push((owner, Access::Waits { gate, place }));
            }
            Some(Verdict::Refuse(refusal)) => self.tickets.extend(refusal.ticket),
            None | Some(Verdict::Ask(_)) => {}
        }
        self.tickets.truncate(64);
    }

    fn passes_at_once(&mut self) {
        let Some(owner) = self.owner() else { return };
        if let Some(permits) = self.segment.permits(0)
            && let Some(permit) = permits.claim(owner)
        {
            permits.first_byte(permit, owner, self.segment.now() + self.ahead);
            self.accesses
                .push((owner, Access::Runs { gate: 0, permit }));
        }
    }

    fn someone(&mut self) -> Option<(Owner, Access)> {
        let known = self.accesses.len() as u64;
        (known > 0).then(|| self.accesses.swap_remove(self.rng.below(known) as usize))
    }

    fn goes(&mut self) {
        if let Some((owner, access)) = self.someone() {
            self.leaves(owner, access);
        }
    }

    fn leaves(&mut self, owner: Owner, access: Access) {
        match access {
            Access::Runs { gate, permit } => {
                let leaving = Leaving {
                    permit,
                    owner,
                    entered: Micros(self.rng.bits() >> self.rng.below(64)),
                    granted: self.segment.now(),
                    waited: self.rng.chance(0.5),
                    kind: 0,
                    queue: self.rng.below(30) as u32,
                    predicted: Micros(self.rng.bits() >> self.rng.below(64)),
                    slot: self.rng.below(3) as u32,
                    index: self.rng.below(3) as u32,
                    absent: self.rng.below(30) as u32,
                };
                self.at_gate(gate, |view| view.leave(&leaving));
            }
            Access::Waits { gate, place } => {
                self.at_gate(gate, |view| view.gone(place, owner));
            }
        }
    }

    fn looks_up(&mut self) {
        let Some((owner, access)) = self.someone() else {
            return;
        };
        let Access::Waits { gate, place } = access else {
            return self.accesses.push((owner, access));
        };
        let tickets = self.some_tickets();
        let arrival = self.arrival(owner, &tickets);
        let how = self.rng.below(4);
        let verdict = self.at_gate(gate, |view| match how {
            0 => Some(view.deadline(place, &arrival)),
            1 => Some(view.stopping(place, &arrival)),
            2 => view.look_up(place, &mut { Micros::MAX }, &arrival),
            _ => view.look_up(place, &mut { Micros::ZERO }, &arrival),
        });
        match verdict.flatten() {
            None => self.accesses.push((owner, access)),
            verdict => self.told(gate, owner, verdict),
        }
    }

    fn ticks(&mut self) {
        self.ahead_of(|tables| tables.tick_since(tables.now - Micros::from_secs(1)));
    }

    fn child_dies(&mut self) {
        let at = self.rng.below(self.lives.len() as u64) as usize;
        if let Some(&life) = self.lives.get(at)
            && let Some(child) = self.segment.children().get(life.child as usize)
        {
            let pid = child.pid.load(std::sync::atomic::Ordering::Relaxed);
            self.lives.remove(at);
            self.accesses.retain(|(owner, _)| owner.life() != life);
            self.segment.child_ends(pid);
        }
    }

    fn is_looked_at(&self) {
        let mut snapshot = Snapshot::new(2, 2);
        self.ahead_of(|tables| snapshot.take(tables, tables.now));
        let wall = Wall {
            unix: Micros(clock::wall()),
            offset_min: 0,
            change: None,
        };
        let event = &self.segment.events()[0];
        let beside = Beside {
            children: self.segment.children(),
            recent: self.segment.recent(),
            controls: self.segment.controls(),
            events: vec![("score".to_owned(), event)],
            events_offset: self.segment.link().map_or(0, |link| {
                link.offset.load(std::sync::atomic::Ordering::Relaxed)
            }),
        };
        let busiest = Busiest::gather(|part, busiest| {
            let now = self.segment.now();
            self.segment.locked_sessions(|members| {
                busiest.take(part, &members.sessions, now + self.ahead);
            });
        });
        let report = Report::of(&snapshot, &beside, wall, &self.segment.workers()).with_sessions(
            busiest,
            wall,
            |_| Some("site".to_owned()),
        );
        for line in report.to_metrics(None).lines() {
            let value = line.rsplit_once(' ').expect("a value").1;
            assert!(
                line.starts_with('#') || value.parse::<f64>().is_ok_and(f64::is_finite),
                "{line}"
            );
        }
        assert!(report.to_server_status(None).ends_with('\n'));
        assert!(report.to_json().starts_with('{'));
        let files = Files {
            style: "s",
            script: "s",
            icon: "i",
        };
        assert!(!report.to_html(files, None).is_empty());
        assert!(!report.line_for_start(1).is_empty());
    }

    pub(crate) fn live_on(&mut self, steps: u32) {
        for _ in 0..steps {
            self.happens();
        }
    }

    /// When all known accesses have left, a few seconds put the rest right.
    pub(crate) fn heals(&mut self) {
        self.configure();
        while let Some((owner, access)) = self.accesses.pop() {
            self.leaves(owner, access);
        }
        // A life without an access, and whatever nobody reports, goes with its child.
        while !self.lives.is_empty() {
            self.child_dies();
        }
        for child in self.segment.children() {
            child.pid.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        for _ in 0..DIMS.gates as usize * (PERMITS + DIMS.places as usize) / 64 + 2 {
            self.ticks();
        }
        self.child_starts();
        for gate in 0..DIMS.gates {
            let permits = self.segment.permits(gate).expect("a gate");
            assert_eq!(
                (permits.running(), permits.waiting()),
                (0, 0),
                "gate {gate}"
            );
            let owner = self.owner().expect("a child lives");
            let mut arrival = self.arrival(owner, &[]);
            arrival.parking = Parking::Anybody;
            let verdict = self.at_gate(gate, |view| view.enter(&arrival));
            assert!(matches!(verdict, Some(Verdict::Run(_))), "{verdict:?}");
            let more = (0..).map_while(|_| permits.claim(self.owner()?)).take(9);
            assert_eq!(more.count() as u32 + 1, permits.limit(), "gate {gate}");
        }
    }
}
