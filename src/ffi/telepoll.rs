//! TelePolling of the site's own events: what is in force, a poll.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use super::conf::any;
use super::contract::{NAP_LOG_ERROR, nap_conf, nap_poll, nap_polls_calls};
use super::guard::{guard, lock};
use super::process::{self, Setup};
use super::text::{slice, slice_mut};
use crate::shm::segment::Segment;
use nap_core::conf::{AnyConf, EventConf};
use nap_core::micros::Micros;
use nap_core::telepoll::{Event, Phase, owner};

/// Names of the events in force, with their indices.
static NAMES: Mutex<Vec<(String, usize)>> = Mutex::new(Vec::new());

pub const CALLS: nap_polls_calls = nap_polls_calls {
    start: Some(events_start),
    poll: Some(poll),
    polled: Some(polled),
};

unsafe extern "C" fn events_start(events: *const *const nap_conf, n: usize, indices: *mut i64) {
    guard((), || {
        let process = process::process()?;
        // SAFETY: nap.h: `n` pointers and places for as many indices, ours for the call.
        let (events, indices) = unsafe { (slice(events, n), slice_mut(indices, n)) };
        // SAFETY: nap.h: each is live.
        let confs = events.iter().map(|conf| match unsafe { any(*conf) } {
            Some(AnyConf::Event(event)) => event.as_ref(),
            _ => None,
        });
        let confs = confs.collect::<Option<Vec<&EventConf>>>()?;
        let placed = put_in_force(&process.segment, &confs);
        for (conf, _) in (confs.iter().zip(&placed)).filter(|(_, index)| index.is_none()) {
            let line = format!(
                "TelePoll {}: the table of events is full until a full restart; it is not levelled",
                conf.name.as_str()
            );
            process.host.log(NAP_LOG_ERROR, &line);
        }
        for (told, index) in indices.iter_mut().zip(&placed) {
            *told = index.map_or(-1, |index| index as i64);
        }
        *lock(&NAMES) = (confs.iter().zip(placed))
            .filter_map(|(conf, index)| Some((conf.name.as_str().to_owned(), index?)))
            .collect();
        Some(())
    });
}

/// Assigns entries by name, the index of each; first it frees those that are no longer named.
fn put_in_force(segment: &Segment, confs: &[&EventConf]) -> Vec<Option<usize>> {
    let table = segment.events();
    let owners: Vec<u64> = confs.iter().map(|conf| owner(conf.name.as_str())).collect();
    for event in table.iter() {
        if !owners.contains(&event.owner.load(Relaxed)) {
            event.clear();
        }
    }
    let of = |whose| {
        table
            .iter()
            .position(|event| event.owner.load(Relaxed) == whose)
    };
    let entries = confs.iter().zip(owners).map(|(conf, owner)| {
        let index = of(owner).or_else(|| of(0))?;
        let event = table.get(index)?;
        event.owner.store(owner, Relaxed);
        event.set(&conf.terms());
        Some(index)
    });
    entries.collect()
}

/// The events in force, by name.
pub fn events(segment: &Segment) -> Vec<(String, &'static Event)> {
    let table = segment.events();
    (lock(&NAMES).iter())
        .filter_map(|(name, index)| Some((name.clone(), table.get(*index)?)))
        .collect()
}

unsafe extern "C" fn poll(event: i64, p: *mut nap_poll) -> c_int {
    guard(0, || {
        // SAFETY: nap.h: `p` is live and ours for the call.
        let p = unsafe { p.as_mut() }?;
        let segment = &process::process()?.segment;
        let told = event_at(segment, event)?.poll(now(segment))?;
        *p = nap_poll {
            wait_us: told.wait.0,
            period: told.period,
            event,
            tally: u64::from(told.phase == Phase::Tally),
        };
        Some(1)
    })
}

unsafe extern "C" fn polled(event: i64, took_us: u64) {
    guard((), || {
        let segment = &process::process()?.segment;
        event_at(segment, event)?.answered(now(segment), Micros(took_us));
        Some(())
    });
}

/// Periods are those of all nodes of a fleet: they are cut by its time.
fn now(segment: &Segment) -> Micros {
    let offset = process::setup().map_or(0, Setup::offset);
    Micros(segment.now().0.saturating_add_signed(offset))
}

fn event_at(segment: &Segment, event: i64) -> Option<&'static Event> {
    segment.events().get(usize::try_from(event).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;

    #[test]
    fn events_keep_their_entries_by_name_and_make_room_for_others() {
        let dims = Dims {
            children: 1,
            rooms: 1,
            gates: 1,
            places: 1,
            stripes: 0,
            trace_sets: 0,
            untold: 0,
            executors: 0,
            flights: 0,
            session_sets: 0,
            guest_sets: 0,
        };
        let segment = Segment::anonymous(dims).expect("shared memory");
        let force = |names: &[&str]| {
            let confs = names
                .iter()
                .map(|name| EventConf::read(&[name]).expect("good"));
            let confs: Vec<EventConf> = confs.collect();
            put_in_force(&segment, &confs.iter().collect::<Vec<_>>())
        };
        assert_eq!(force(&["a", "b"]), [Some(0), Some(1)]);
        segment.events()[1].poll(Micros::from_secs(5));
        // b keeps its entry and what is in it; a's entry is now c's.
        assert_eq!(force(&["c", "b"]), [Some(0), Some(1)]);
        let level = |at: usize| segment.events()[at].level(Micros::from_secs(5));
        assert_eq!(level(1).map(|level| level.polls), Some(1));
        assert_eq!(level(0).map(|level| level.polls), Some(0));
        let many: Vec<String> = (0..65).map(|n| format!("e{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(force(&many).last(), Some(&None));
    }
}
