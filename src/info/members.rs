//! [`Busiest`]: the sessions that have had most work done, for an administrator who wants to end one.

use super::line::line;
use super::report::{Clock, Report, rounded};
use crate::wall::{Wall, hex};
use nap_core::micros::Micros;
use nap_core::sqs::session::Session;
use nap_core::sqs::sessions::Sessions;

/// Sessions shown.
const SHOWN: usize = 20;
/// The table is read in so many parts; the lock is taken for each.
const PARTS: usize = 16;

/// Plain copies of what is shown.
pub struct Busiest {
    now: Micros,
    /// With the keys they are known by.
    rows: Vec<(u64, Session)>,
}

line! {
    /// One session.
    pub(super) struct SessionLine of(key: u64, one: &Session, room: String, clock: Clock) {
        id: String = hex(key).as_str().to_owned(),
        room: String = room,
        started: String = clock.stamp(one.started),
        seen: String = clock.stamp(one.seen),
        accesses: u32 = one.accesses,
        in_hand: usize = one.in_hand(),
        work_s: f64 = rounded(one.work.as_secs_f64()),
    }
}

impl Busiest {
    /// With memory for all that is shown; `part` is called for each part of the table, to
    /// [`take`](Busiest::take) it under the lock.
    pub fn gather(mut part: impl FnMut(usize, &mut Busiest)) -> Busiest {
        let mut busiest = Busiest {
            now: Micros::ZERO,
            rows: Vec::with_capacity(SHOWN),
        };
        (0..PARTS).for_each(|at| part(at, &mut busiest));
        busiest
    }

    /// Under the lock: what a part of the table has.
    pub fn take(&mut self, part: usize, sessions: &Sessions<'_>, now: Micros) {
        self.now = now;
        let size = sessions.sets.len().div_ceil(PARTS);
        for (key, session) in sessions.known(part * size..(part + 1) * size) {
            if self.rows.len() < SHOWN {
                self.rows.push((key, *session));
                continue;
            }
            let least = self.rows.iter_mut().min_by_key(|(_, one)| one.work);
            if let Some(least) = least.filter(|(_, one)| one.work < session.work) {
                *least = (key, *session);
            }
        }
    }
}

impl Report {
    /// The same with sessions one by one; `room`: the name of the one at this index of the segment.
    pub fn with_sessions(
        mut self,
        mut busiest: Busiest,
        wall: Wall,
        room: impl Fn(u32) -> Option<String>,
    ) -> Report {
        busiest
            .rows
            .sort_by_key(|(key, one)| (std::cmp::Reverse(one.work), *key));
        let now = busiest.now;
        let clock = Clock { now, wall };
        let line = |(key, one): &(u64, Session)| {
            let room = room(one.room.checked_sub(1)?)?;
            Some(SessionLine::of(*key, one, room, clock))
        };
        self.sessions = busiest.rows.iter().filter_map(line).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::sqs::sessions::SessionSet;

    #[test]
    fn those_with_most_work_are_shown() {
        let mut sets = vec![SessionSet::default(); 8];
        let mut table = Sessions { sets: &mut sets };
        let now = Micros::from_secs(1000);
        for n in 1..=30 {
            let begun = table.start(1 << 60 | n, (0, Micros::from_secs(60)), n, now, |_| ());
            let bound = table.bind(begun.expect("room"), n, n, now, |_| ());
            let bound = bound.expect("room");
            table.leave(bound, n, Micros::from_millis(n), now);
        }
        let busiest = Busiest::gather(|part, busiest| busiest.take(part, &table, now));
        let mut keys: Vec<u64> = busiest.rows.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        assert_eq!(keys, (11..=30).collect::<Vec<u64>>());
    }
}
