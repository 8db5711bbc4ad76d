//! What an administrator orders, carried out in the segment: by a child for a form that was sent here, and by the agent
//! for what was ordered at another node of the fleet.

#![forbid(unsafe_code)]

use nap_core::control::{Command, Which};
use nap_core::fleet::orders::{Order, Posted};
use nap_core::micros::Micros;

use crate::shm::segment::Segment;

/// Carries out an order for this node alone. False: there is no such room or session. None: the lock cannot be taken.
pub fn carry_out(segment: &Segment, command: &Command) -> Option<bool> {
    under_lock(segment, command, |act| act())
}

/// Carries out an order for all nodes, and posts it for the others unless there is no such room here. A session may be
/// at another node. The second part is None if it is not posted: too many wait.
pub fn order_all(segment: &Segment, command: &Command) -> Option<(bool, Option<Posted>)> {
    let (link, now) = (segment.link()?, segment.now());
    let told = command.for_all()?;
    under_lock(segment, command, |act| {
        let done = act();
        let elsewhere = matches!(command, Command::End(_));
        let posted = (done || elsewhere).then(|| link.orders.post(&told, now));
        (done, posted.flatten())
    })
}

/// Carries out what was ordered elsewhere at `at`, fleet time, unless a later order about it is known here. False: it was no
/// news, or there is no such room or session here. None: the lock cannot be taken.
pub fn hear(segment: &Segment, order: &Order, at: Micros, offset: i64) -> Option<bool> {
    let (Some(link), Some(command)) = (segment.link(), Command::heard(order)) else {
        return Some(false);
    };
    under_lock(segment, &command, |act| match order.matter.stands() {
        true => link.orders.hear(order, at, offset, act),
        false => act(),
    })
}

/// Does something with a way to carry out the order, all under the lock.
fn under_lock<R>(
    segment: &Segment,
    command: &Command,
    act: impl FnOnce(&mut dyn FnMut() -> bool) -> R,
) -> Option<R> {
    match command {
        Command::Room(room, order) => {
            let room = room.as_deref();
            segment.locked(|tables| act(&mut || tables.order(room, order)))
        }
        Command::End(Which::Id(id)) => {
            segment.locked_sessions(|members| act(&mut || members.revoke(*id)))
        }
        // Whose they are is known to httpd's processes alone.
        Command::End(Which::Cookie { .. }) | Command::Forgive(_) => None,
    }
}
