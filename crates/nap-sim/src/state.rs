//! [`State`]: the room's tables in boxes; httpd has them in the segment.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use nap_core::fleet::guests::GuestSet;
use nap_core::fleet::stake::Stake;
use nap_core::micros::Micros;
use nap_core::nap::client_caps::ClientCaps;
use nap_core::nap::laws::Laws;
use nap_core::nap::ticket::name_hash;
use nap_core::room::children::{Child, Workers};
use nap_core::room::control::Control;
use nap_core::room::gate::{Gate, GateView, PAGE, SESSION};
use nap_core::room::history::History;
use nap_core::room::owner::Life;
use nap_core::room::page::Page;
use nap_core::room::permits::Permits;
use nap_core::room::place::Place;
use nap_core::room::places::{Places, PlacesHead};
use nap_core::room::recent::Recent;
use nap_core::room::starts::{StartTerms, Starts};
use nap_core::room::terms::Terms;
use nap_core::room::wakes::Wakes;
use nap_core::room::{Room, Tables};
use nap_core::sqs::page_scheduler::Pacer;
use nap_core::sqs::page_scheduler::{Pace, PageScheduler};
use nap_core::sqs::sessions::{SessionSet, Sessions, sets_for};
use nap_core::telepoll;

/// Polls a second, at most.
const POLLS: f64 = 500.0;

/// One room with one gate, and all that belongs to it.
pub struct State {
    rooms: [Room; 1],
    gates: Box<[Gate]>,
    permits: Arc<[Permits]>,
    recent: Box<[Recent]>,
    controls: Box<[Control]>,
    head: PlacesHead,
    entries: Vec<Place>,
    wakes: Vec<AtomicU32>,
    pacing: Box<[PageScheduler]>,
    pacer: Pacer,
    /// The laws' constants.
    pub laws: Laws,
    /// The server's workers; None: places are not shared out.
    pub workers: Workers,
    pages: Vec<Page>,
    starts: [Starts; 1],
    sets: Vec<SessionSet>,
    /// What the gate knows of its fleet; empty: it is in none.
    pub stakes: Box<[Stake]>,
    /// Holders whose ticket another node sold.
    pub guests: Box<[GuestSet]>,
    /// This server's number in its fleet.
    pub node: u8,
    history: Box<History>,
    clients: Box<ClientCaps>,
    /// The children.
    pub children: Vec<Child>,
    /// Random number of this state's life; tickets carry it.
    pub epoch: u64,
    started: u32,
}

impl State {
    /// One gate with these settings, and tables for this many places and children.
    pub fn new(terms: Terms, places: usize, children: usize, epoch: u64) -> State {
        let mut state = State {
            rooms: [Room {
                used: 1,
                n_pages: 1,
                ..Room::default()
            }],
            gates: Gate::unused(1),
            permits: Arc::new([Permits::default()]),
            pacing: Box::new([PageScheduler::default()]),
            pacer: Pacer::default(),
            workers: Workers::default(),
            laws: Laws::CHOSEN,
            pages: vec![Page::EMPTY],
            recent: Box::new([Recent::default()]),
            controls: Box::new([Control::default()]),
            head: PlacesHead::default(),
            entries: vec![Place::default(); places],
            wakes: (0..places).map(|_| AtomicU32::new(0)).collect(),
            starts: [Starts::default()],
            sets: Vec::new(),
            stakes: Box::default(),
            guests: Box::default(),
            node: 0,
            history: Box::default(),
            clients: Box::new(ClientCaps::EMPTY),
            children: (0..children).map(|_| Child::default()).collect(),
            epoch,
            started: 0,
        };
        state.rooms[0].pages[0] = 1;
        let gate = &mut state.gates[0];
        (gate.kind, gate.room_hash, gate.gate_hash) = (1, name_hash("sim"), name_hash(""));
        gate.terms = terms;
        state.permits[0].set_limit(terms.run_ready);
        let polls = telepoll::PollTerms::new(terms.poll, POLLS);
        state.permits[0].calls.asks.set(&polls);
        state
    }

    /// A room with these settings for its pages. If it has sessions (at most this many), its last gate is a
    /// session gate.
    pub fn with_pages(
        pages: &[Terms],
        sessions: Option<(Terms, StartTerms, u64)>,
        places: usize,
        epoch: u64,
    ) -> State {
        let lobby = sessions.map(|(lobby, ..)| lobby);
        let n = pages.len() + usize::from(lobby.is_some());
        let mut state = State::new(Terms::default(), places, 1, epoch);
        state.gates = Gate::unused(n);
        state.permits = (0..n).map(|_| Permits::default()).collect();
        state.recent = (0..n).map(|_| Recent::default()).collect();
        state.pages = vec![Page::EMPTY; n];
        state.rooms[0].n_pages = pages.len() as u32;
        let lobby_number = lobby.map_or(0, |_| n as u32);
        state.rooms[0].session_gate = lobby_number;
        for (at, terms) in pages.iter().chain(&lobby).enumerate() {
            let gate = &mut state.gates[at];
            let is_lobby = at == pages.len();
            gate.kind = if is_lobby { SESSION } else { PAGE };
            gate.lobby = if is_lobby { 0 } else { lobby_number };
            gate.room_hash = name_hash("sim");
            gate.gate_hash = name_hash(&at.to_string());
            gate.terms = *terms;
            state.permits[at].set_limit(terms.run_ready);
            let polls = telepoll::PollTerms::new(terms.poll, POLLS);
            state.permits[at].calls.asks.set(&polls);
            if !is_lobby {
                state.rooms[0].pages[at] = at as u32 + 1;
            }
        }
        state.pacing = (0..n).map(|_| PageScheduler::default()).collect();
        if let Some((_, starts, most)) = sessions {
            state.sets = vec![SessionSet::default(); sets_for(most) as usize];
            state.starts[0].set(starts);
        }
        state
    }

    /// Sets the limits of the pages: fixed, or found by themselves.
    pub fn pace_pages(&mut self, pace: &[Pace], now: Micros) {
        let pages = self.pacing.iter_mut().zip(self.permits.iter());
        for ((page, permits), pace) in pages.zip(pace) {
            permits.set_limit(page.configure(*pace, now));
        }
    }

    /// Permits of each gate.
    pub fn all_permits(&self) -> &[Permits] {
        &self.permits
    }

    /// The room's starts, to look at.
    pub fn starts(&self) -> &Starts {
        &self.starts[0]
    }

    /// Shares out places among the gates as these workers allow.
    pub fn share_places(&mut self, workers: Workers) {
        self.workers = workers;
        self.locked(Micros::ZERO, |tables| tables.share_places());
    }

    /// All gates, to look at.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// Lets Run Ready's limit find itself, and shares out places as these workers allow.
    pub fn pace(&mut self, pace: Pace, workers: Workers, now: Micros) {
        self.workers = workers;
        self.permits[0].set_limit(self.pacing[0].configure(pace, now));
    }

    /// The gate, to look at.
    pub fn gate(&self) -> &Gate {
        &self.gates[0]
    }

    /// The gate's settings, to change in place.
    pub fn terms_mut(&mut self) -> &mut Terms {
        &mut self.gates[0].terms
    }

    /// Run Ready.
    pub fn permits(&self) -> &Permits {
        &self.permits[0]
    }

    /// A gate's last minutes.
    pub fn recent(&self, gate: u32) -> Option<&Recent> {
        self.recent.get(gate as usize)
    }

    /// Run Ready for callers that do not hold the lock.
    #[cfg(all(test, feature = "models"))]
    pub fn shared_permits(&self) -> Arc<[Permits]> {
        Arc::clone(&self.permits)
    }

    /// What the waiter on a place would read.
    pub fn wake_word(&self, place: u32) -> u32 {
        self.wakes
            .get(place as usize)
            .map_or(0, |word| word.load(SeqCst))
    }

    /// The table of places.
    pub fn places(&self) -> &[Place] {
        &self.entries
    }

    /// Runs an operation on all tables, as under the lock; returns what is to be woken after it.
    pub fn locked<R>(&mut self, now: Micros, act: impl FnOnce(&mut Tables<'_>) -> R) -> (R, Wakes) {
        let mut wakes = Wakes::default();
        let mut tables = Tables {
            rooms: &mut self.rooms,
            gates: &mut self.gates,
            permits: &self.permits,
            pages: &mut self.pages,
            pacing: &mut self.pacing,
            pacer: Some(&mut self.pacer),
            recent: &self.recent,
            controls: &self.controls,
            places: Places {
                head: &mut self.head,
                entries: &mut self.entries,
                wakes: &self.wakes,
            },
            starts: &mut self.starts,
            sessions: Sessions {
                sets: &mut self.sets,
            },
            stakes: &mut self.stakes,
            guests: &mut self.guests,
            history: &mut self.history,
            clients: &mut self.clients,
            children: &self.children,
            workers: self.workers,
            epoch: self.epoch,
            node: self.node,
            laws: &self.laws,
            now,
            wakes: &mut wakes,
        };
        let result = act(&mut tables);
        (result, wakes)
    }

    /// Runs an operation on the gate.
    pub fn at_gate<R>(
        &mut self,
        now: Micros,
        act: impl FnOnce(&mut GateView<'_>) -> R,
    ) -> (R, Wakes) {
        self.locked(now, |tables| {
            act(&mut tables.gate(0).expect("there is one gate"))
        })
    }

    /// Starts a child's life in a free entry.
    pub fn child_starts(&mut self) -> Option<u16> {
        let at = self
            .children
            .iter()
            .position(|child| child.pid.load(Relaxed) == 0)?;
        let child = &self.children[at];
        self.started += 1;
        child.pid.store(self.started, Relaxed);
        child.epoch.store(self.started & 0xff_ffff, Relaxed);
        for counter in [
            &child.running,
            &child.waiting,
            &child.secondary,
            &child.parked,
        ] {
            counter.store(0, Relaxed);
        }
        Some(at as u16)
    }

    /// The parent has noticed a death: everything that child held is taken back.
    pub fn child_ends(&mut self, at: u16, now: Micros) -> Wakes {
        let child = &self.children[at as usize];
        let life = child.life(at as usize);
        child.pid.store(0, Relaxed);
        match life {
            Some(life) => self.locked(now, |tables| tables.sweep(life)).1,
            None => Wakes::default(),
        }
    }

    /// The present life of a child.
    pub fn life(&self, at: u16) -> Option<Life> {
        self.children.get(at as usize)?.life(at as usize)
    }
}
