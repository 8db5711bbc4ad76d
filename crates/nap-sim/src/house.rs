//! [`Simulated`]: what an access finds around it in a simulated world; [`arrival`]: with what it usually comes.

use super::state::State;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::Tables;
use nap_core::room::access::{House, Waiting};
use nap_core::room::arrival::Arrival;
use nap_core::room::children::{Child, Parking, Workers};
use nap_core::room::owner::Owner;
use nap_core::room::part::Part;
use nap_core::room::permits::Permits;
use nap_core::room::recent::Recent;
use nap_core::room::stay::Membership;
use nap_core::room::wakes::Wakes;

/// A [`House`] for one call: the clock stands still meanwhile.
pub struct Simulated<'w> {
    /// The room's state.
    pub state: &'w mut State,
    /// Now.
    pub now: Micros,
    /// Whose access it is.
    pub owner: Owner,
    /// The gate of the page it asks for.
    pub page: u32,
    /// The session gate; none: there are no sessions.
    pub lobby: Option<u32>,
    /// Workers of the server.
    pub workers: Workers,
    /// Who may wait.
    pub waiting: Waiting,
    /// Connections that no worker has taken up.
    pub outside: u32,
    /// The tables that tell a member have been asked.
    pub asked_members: bool,
    /// What is to be woken after the call.
    pub wakes: Vec<Wakes>,
}

impl House for Simulated<'_> {
    fn now(&self) -> Micros {
        self.now
    }

    fn next_owner(&self) -> Owner {
        self.owner
    }

    fn page(&self) -> u32 {
        self.page
    }

    fn permits(&self) -> &Permits {
        &self.state.all_permits()[self.page as usize]
    }

    fn recent(&self) -> Option<&Recent> {
        self.state.recent(self.page)
    }

    fn sessions(&self, home: u32) -> Option<(u32, u32)> {
        let lobby = self.lobby.filter(|_| home != 0)?;
        Some((0, lobby))
    }

    fn child(&self) -> &Child {
        &self.state.children[usize::from(self.owner.life().child)]
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }

    fn outside(&self, _: Micros) -> Option<u32> {
        Some(self.outside)
    }

    fn absent(&self) -> u32 {
        self.workers.absent(&self.state.children, self.owner.life())
    }

    fn locked<R>(&mut self, act: impl FnOnce(&mut Tables<'_>) -> R) -> Option<R> {
        let now = self.now;
        let (result, wakes) = self.state.locked(now, act);
        self.wakes.push(wakes);
        Some(result)
    }

    fn members<R>(
        &mut self,
        act: impl FnOnce(&mut Membership<'_>, &dyn Fn() -> Micros) -> R,
    ) -> Option<R> {
        self.asked_members = true;
        let now = self.now;
        self.locked(|tables| act(&mut tables.membership(), &|| now))
    }
}

/// An access that may wait and was taken up at once. What else it brings, the caller states.
pub fn arrival(owner: Owner, tickets: &[Ticket]) -> Arrival<'_> {
    Arrival {
        owner,
        parking: Parking::Anybody,
        left: u32::MAX,
        waited: Micros::ZERO,
        stood: Micros::ZERO,
        secondary: false,
        tickets,
        told: None,
        patient: false,
        again: false,
        forged: false,
        of_visit: &[],
        part: Part::Call,
        client: [0; 16],
        client_hash: [owner.0, 1],
        method: b"GET",
        uri: b"/",
        kind: 0,
        priority: 0,
        secret: [0; 16],
        random: 0,
    }
}
