//! [`State`]: the room's tables in boxes, as httpd has them in the segment.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::micros::Micros;
use crate::nap::client_caps::ClientCaps;
use crate::nap::ticket::name_hash;
use crate::room::children::Child;
use crate::room::gate::{Gate, GateView};
use crate::room::history::History;
use crate::room::owner::Life;
use crate::room::permits::Permits;
use crate::room::places::{Place, Places, PlacesHead};
use crate::room::recent::Recent;
use crate::room::terms::Terms;
use crate::room::wakes::Wakes;
use crate::room::{Room, Tables};

/// One room with one gate, and all that belongs to it.
pub struct State {
    rooms: [Room; 1],
    gates: Box<[Gate]>,
    permits: Arc<[Permits]>,
    recent: Box<[Recent]>,
    head: PlacesHead,
    entries: Vec<Place>,
    wakes: Vec<AtomicU32>,
    history: Box<History>,
    clients: Box<ClientCaps>,
    /// The children.
    pub children: Vec<Child>,
    /// Random number of this state's life; tickets carry it.
    pub epoch: u64,
    started: u32,
}

impl State {
    /// A gate with these settings, and tables for so many places and children.
    pub fn new(terms: Terms, places: usize, children: usize, epoch: u64) -> State {
        let mut state = State {
            rooms: [Room {
                used: 1,
                n_pages: 1,
                ..Room::default()
            }],
            gates: Gate::unused(1),
            permits: Arc::new([Permits::default()]),
            recent: Box::new([Recent::default()]),
            head: PlacesHead::default(),
            entries: vec![Place::default(); places],
            wakes: (0..places).map(|_| AtomicU32::new(0)).collect(),
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
        state
    }

    /// The gate, to look at.
    pub fn gate(&self) -> &Gate {
        &self.gates[0]
    }

    /// Its settings, to change in place.
    pub fn terms_mut(&mut self) -> &mut Terms {
        &mut self.gates[0].terms
    }

    /// Run Ready.
    pub fn permits(&self) -> &Permits {
        &self.permits[0]
    }

    /// Run Ready for those who do not hold the lock.
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

    /// An operation on all tables, as under the lock; what is to be woken after it.
    pub fn locked<R>(&mut self, act: impl FnOnce(&mut Tables<'_>, &mut Wakes) -> R) -> (R, Wakes) {
        let mut wakes = Wakes::default();
        let mut tables = Tables {
            rooms: &mut self.rooms,
            gates: &mut self.gates,
            permits: &self.permits,
            recent: &self.recent,
            places: Places {
                head: &mut self.head,
                entries: &mut self.entries,
                wakes: &self.wakes,
            },
            history: &mut self.history,
            clients: &mut self.clients,
            children: &self.children,
            epoch: self.epoch,
            node: 0,
        };
        let result = act(&mut tables, &mut wakes);
        (result, wakes)
    }

    /// An operation on the gate.
    pub fn at_gate<R>(
        &mut self,
        now: Micros,
        act: impl FnOnce(&mut GateView<'_>) -> R,
    ) -> (R, Wakes) {
        self.locked(|tables, wakes| {
            let mut view = tables.gate(0, now, wakes).expect("there is one gate");
            act(&mut view)
        })
    }

    /// A child begins its life in a free entry.
    pub fn child_starts(&mut self) -> Option<u16> {
        let at = self
            .children
            .iter()
            .position(|child| child.pid.load(Relaxed) == 0)?;
        let child = &self.children[at];
        self.started += 1;
        child.pid.store(self.started, Relaxed);
        child.epoch.store(self.started & 0xff_ffff, Relaxed);
        for counter in [&child.running, &child.waiting, &child.secondary] {
            counter.store(0, Relaxed);
        }
        Some(at as u16)
    }

    /// The parent has noticed a death: all that child held is taken back.
    pub fn child_ends(&mut self, at: u16, now: Micros) -> Wakes {
        let child = &self.children[at as usize];
        let life = child.life(at as usize);
        child.pid.store(0, Relaxed);
        match life {
            Some(life) => {
                self.locked(|tables, wakes| tables.sweep(life, now, wakes))
                    .1
            }
            None => Wakes::default(),
        }
    }

    /// The present life of a child.
    pub fn life(&self, at: u16) -> Option<Life> {
        self.children.get(at as usize)?.life(at as usize)
    }
}
