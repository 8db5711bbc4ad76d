//! TelePolling of the site's own events: what is in force, a poll.

use std::ffi::{c_char, c_int};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use super::contract::{NAP_LOG_ERROR, nap_event_conf, nap_poll, nap_str};
use super::guard::guard;
use super::process;
use super::setup::{arguments, same_layout, told};
use crate::shm::segment::Segment;
use nap_core::conf::EventConf;
use nap_core::micros::Micros;
use nap_core::telepoll::{Event, Phase, owner};

same_layout!(EventConf as nap_event_conf: name base_us rate mode form k m of index);

/// Names of the events in force, with their indices.
static NAMES: Mutex<Vec<(String, usize)>> = Mutex::new(Vec::new());

/// # Safety
/// nap.h: `event` is live and ours for the call, or null.
unsafe fn event_conf<'a>(event: *mut nap_event_conf) -> Option<&'a mut EventConf> {
    // SAFETY: the two types have the same fields in the same places (same_layout!), integers and
    // a byte array only; liveness and exclusivity are the caller's promise.
    unsafe { event.cast::<EventConf>().as_mut() }
}

pub unsafe extern "C" fn conf_event(
    event: *mut nap_event_conf,
    argv: *const nap_str,
    argc: usize,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises.
        let (event, args) = unsafe { (event_conf(event), arguments(argv, argc)) };
        let result = match event {
            Some(event) => EventConf::read(&args).map(|conf| *event = conf),
            None => Err("no event".into()),
        };
        // SAFETY: nap.h's promise.
        unsafe { told(result, err) }
    })
}

pub unsafe extern "C" fn events_start(events: *const *mut nap_event_conf, n: usize) {
    guard((), || {
        let Some(process) = process::process() else {
            return;
        };
        let pointers = match events.is_null() {
            true => &[],
            // SAFETY: nap.h: `n` pointers, borrowed for the call.
            false => unsafe { std::slice::from_raw_parts(events, n) },
        };
        // SAFETY: each is live and ours for the call (nap.h).
        let confs = pointers
            .iter()
            .filter_map(|conf| unsafe { event_conf(*conf) });
        let names = put_in_force(&process.segment, confs.collect());
        for name in names.iter().filter(|(_, index)| index.is_none()) {
            let line = format!(
                "TelePoll {}: the table of events is full until a full restart; it is not levelled",
                name.0
            );
            process.host.log(NAP_LOG_ERROR, &line);
        }
        *NAMES
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()) = names
            .into_iter()
            .filter_map(|(name, index)| Some((name, index?)))
            .collect();
    });
}

/// Assigns entries by name; first it frees those that are no longer named.
fn put_in_force(segment: &Segment, confs: Vec<&mut EventConf>) -> Vec<(String, Option<usize>)> {
    let table = segment.events();
    let owners: Vec<u64> = confs.iter().map(|conf| owner(conf.name.as_str())).collect();
    for event in table.iter() {
        if !owners.contains(&event.owner.load(Relaxed)) {
            event.clear();
        }
    }
    let place = |wanted: u64| {
        let of = |whose| {
            table
                .iter()
                .position(|event| event.owner.load(Relaxed) == whose)
        };
        of(wanted).or_else(|| of(0))
    };
    let mut names = Vec::with_capacity(confs.len());
    for (conf, owner) in confs.into_iter().zip(owners) {
        let index = place(owner);
        conf.index = index.map_or(-1, |index| index as i64);
        if let Some(event) = index.and_then(|index| table.get(index)) {
            event.owner.store(owner, Relaxed);
            event.set(&conf.terms());
        }
        names.push((conf.name.as_str().to_owned(), index));
    }
    names
}

/// The events in force, by name.
pub fn events(segment: &Segment) -> Vec<(String, &'static Event)> {
    let names = NAMES
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let table = segment.events();
    (names.iter())
        .filter_map(|(name, index)| Some((name.clone(), table.get(*index)?)))
        .collect()
}

pub unsafe extern "C" fn poll(event: i64, p: *mut nap_poll) -> c_int {
    guard(0, || {
        // SAFETY: nap.h: `p` is live and ours for the call.
        let (Some(process), Some(p)) = (process::process(), unsafe { p.as_mut() }) else {
            return 0;
        };
        let segment = &process.segment;
        let polled = event_at(segment, event).and_then(|event| event.poll(segment.now()));
        let Some(told) = polled else {
            return 0;
        };
        *p = nap_poll {
            wait_us: told.wait.0,
            period: told.period,
            event,
            tally: u32::from(told.phase == Phase::Tally),
            spare: 0,
        };
        1
    })
}

pub unsafe extern "C" fn polled(event: i64, took_us: u64) {
    guard((), || {
        if let Some(process) = process::process()
            && let Some(event) = event_at(&process.segment, event)
        {
            event.answered(process.segment.now(), Micros(took_us));
        }
    });
}

fn event_at(segment: &Segment, event: i64) -> Option<&'static Event> {
    segment.events().get(usize::try_from(event).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::segment::Dims;

    #[test]
    fn events_keep_their_entries_by_name_and_make_room_for_others() {
        let dims = Dims {
            children: 1,
            rooms: 1,
            gates: 1,
            places: 1,
            stripes: 0,
            trace_sets: 0,
            executors: 0,
            flights: 0,
            session_sets: 0,
        };
        let segment = Segment::anonymous(dims).expect("shared memory");
        let force = |names: &[&str]| {
            let mut confs: Vec<EventConf> = names
                .iter()
                .map(|name| EventConf::read(&[name]).expect("good"))
                .collect();
            put_in_force(&segment, confs.iter_mut().collect());
            confs.iter().map(|conf| conf.index).collect::<Vec<_>>()
        };
        assert_eq!(force(&["a", "b"]), [0, 1]);
        segment.events()[1].poll(Micros::from_secs(5));
        // b keeps its entry and what is in it; a's entry is now c's.
        assert_eq!(force(&["c", "b"]), [0, 1]);
        let level = |at: usize| segment.events()[at].level(Micros::from_secs(5));
        assert_eq!(level(1).map(|level| level.polls), Some(1));
        assert_eq!(level(0).map(|level| level.polls), Some(0));
        let many: Vec<String> = (0..65).map(|n| format!("e{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(force(&many).last(), Some(&-1));
    }
}
