//! Accesses by the driver's less travelled ways: turned down, stopped, detached, out for its body and in again.

use std::sync::atomic::Ordering::Relaxed;

use crate::house::{Simulated, arrival};
use crate::state::State;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access::{self, Access, House, Look, Waiting, flag};
use nap_core::room::children::{Parking, Workers};
use nap_core::room::owner::{Life, Owner};
use nap_core::room::stay::Asks;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::Verdict;

/// A room of one permit and one child.
struct Room {
    state: State,
    life: Life,
    now: Micros,
    serial: u32,
}

impl Room {
    fn new(wait_limit: u32) -> Room {
        let fixed = |n| Choice { how: how::FIXED, n };
        let terms = Terms {
            bound: Micros::from_secs(4),
            run_ready: 1,
            history: 100,
            wait_limit: fixed(wait_limit),
            re_access: fixed(4),
            slot_period: Micros::from_secs(10),
            slot_tickets: fixed(10),
            lifetime: Micros::from_secs(60),
            prime: Micros::from_secs(5),
            horizon: Micros::from_secs(3600),
            poll: Micros::from_secs(3),
            parked: 20,
            ..Terms::default()
        };
        let mut state = State::new(terms, 8, 2, 7);
        let child = state.child_starts().expect("room for a child");
        Room {
            life: state.life(child).expect("it lives"),
            state,
            now: Micros::from_secs(1000),
            serial: 0,
        }
    }

    fn house(&mut self, owner: Owner) -> Simulated<'_> {
        Simulated {
            now: self.now,
            owner,
            page: 0,
            lobby: None,
            workers: Workers::default(),
            waiting: Waiting::Told(Parking::Anybody),
            outside: 0,
            asked_members: false,
            wakes: Vec::new(),
            state: &mut self.state,
        }
    }

    /// One more access comes, with this ticket if it has one.
    fn comes(&mut self, flags: u32, ticket: Option<Ticket>) -> (Access, Option<Verdict>) {
        self.serial += 1;
        let mut access = Access::new(Owner::new(self.life, self.serial));
        access.flags = flags;
        let mut house = self.house(access.owner);
        if access.try_enter(&house) {
            return (access, None);
        }
        let tickets = Vec::from_iter(ticket);
        let mut arrival = arrival(access.owner, &tickets);
        let asks = Asks {
            keys: &[],
            starts: false,
        };
        let (verdict, _) = access.enter(&mut house, asks, &mut arrival);
        (access, verdict)
    }

    /// Workers that run, wait, and accesses that wait parked.
    fn counts(&self) -> [u32; 3] {
        let child = &self.state.children[0];
        [&child.running, &child.waiting, &child.parked].map(|n| n.load(Relaxed))
    }
}

#[test]
fn workers_and_parked_accesses_are_counted_on_every_way_out() {
    let mut room = Room::new(4);
    let (mut first, _) = room.comes(0, None);
    assert_eq!(first.state, access::AccessState::Running);
    let (mut parked, _) = room.comes(flag::PARKS, None);
    let (mut blocked, _) = room.comes(0, None);
    assert_eq!(room.counts(), [1, 1, 1]);

    first.leave(&mut room.house(first.owner));
    let arrived = arrival(parked.owner, &[]);
    let look = parked.look_up(&mut room.house(parked.owner), &arrived);
    assert!(
        matches!(look, Look::Decided(Some(Verdict::Run(_)))),
        "{look:?}"
    );
    assert_eq!(room.counts(), [1, 1, 0]);

    parked.turned_down(&mut room.house(parked.owner));
    assert_eq!(parked.state, access::AccessState::Left);
    blocked.gone(&mut room.house(blocked.owner));
    assert_eq!(room.counts(), [0, 0, 0]);
    assert_eq!(room.state.permits().running(), 0);
}

#[test]
fn a_holder_whose_turn_came_as_the_server_stops_keeps_the_ticket_that_is_used_up() {
    let mut room = Room::new(2);
    let (mut first, _) = room.comes(0, None);
    let mut waiting = Vec::new();
    let ticket = loop {
        match room.comes(0, None) {
            (access, Some(Verdict::Wait(_))) => waiting.push(access),
            (_, Some(Verdict::Refuse(refusal))) => break refusal.ticket.expect("one is sold"),
            other => panic!("{other:?}"),
        }
    };
    room.now = ticket.start;
    let (mut holder, verdict) = room.comes(0, Some(ticket));
    let Some(Verdict::Wait(_)) = verdict else {
        panic!("it is its time, and the permit is in use: {verdict:?}");
    };
    assert_eq!(holder.ticket().map(|t| t.id), Some(ticket.id));
    for access in &mut waiting {
        access.gone(&mut room.house(access.owner));
    }
    first.leave(&mut room.house(first.owner));

    let tickets = [ticket];
    let arrived = arrival(holder.owner, &tickets);
    let verdict = holder.stopping(&mut room.house(holder.owner), &arrived);
    assert!(matches!(verdict, Some(Verdict::Run(_))), "{verdict:?}");
    assert_eq!(holder.ticket().map(|t| t.id), Some(ticket.id));
    assert_eq!(room.counts(), [1, 0, 0]);
}

#[test]
fn an_access_out_for_its_body_leaves_its_permit_to_others_and_waits_for_it_again() {
    let mut room = Room::new(4);
    let (mut slow, _) = room.comes(flag::PARKS, None);
    assert!(slow.step_out(&mut room.house(slow.owner)));
    assert!(!slow.step_out(&mut room.house(slow.owner)), "it has none");
    let (mut other, _) = room.comes(0, None);
    assert_eq!(other.state, access::AccessState::Running);
    assert_eq!(room.counts(), [2, 0, 0]);

    slow.step_in(&mut room.house(slow.owner));
    assert_eq!(slow.state, access::AccessState::Returning);
    // It has a worker already, and waits on that.
    assert_eq!(room.counts(), [1, 1, 0]);

    other.detach(&mut room.house(other.owner));
    let look = slow.looks_again(&mut room.house(slow.owner));
    assert!(
        matches!(look, Look::Decided(Some(Verdict::Run(_)))),
        "{look:?}"
    );
    assert_eq!(room.counts(), [2, 0, 0]);
    for access in [&mut slow, &mut other] {
        access.leave(&mut room.house(access.owner));
        access.leave(&mut room.house(access.owner));
    }
    assert_eq!(room.counts(), [0, 0, 0], "to leave twice does no harm");
    assert_eq!(room.state.permits().running(), 0);
}

#[test]
fn an_access_of_a_dry_run_passes_and_leaves_nothing_behind() {
    let mut room = Room::new(4);
    let mut access = Access::new(Owner::new(room.life, 1));
    access.pass_dry(&mut room.house(access.owner));
    assert_eq!(access.state, access::AccessState::New);
    access.leave(&mut room.house(access.owner));
    assert_eq!(room.counts(), [0, 0, 0]);
    assert_eq!(room.house(access.owner).permits().running(), 0);
}
