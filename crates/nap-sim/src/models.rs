//! loom's models of Run Ready's lock-free way in and out (`room::permits`): every interleaving of a few
//! accesses at one gate, and every value the memory model lets a thread read.
//!
//! The threads run what httpd's do: `try_enter` and `leave` without the lock, and the gate's own operations
//! under it (`ffi::access`). Only `make test-models` runs them: elsewhere the permits' atomics are not
//! loom's.

use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use super::state::State;
use nap_core::micros::Micros;
use nap_core::room::arrival::Arrival;
use nap_core::room::atomic::{FENCE, Fence};
use nap_core::room::children::Parking;
use nap_core::room::gate::Leaving;
use nap_core::room::owner::{Life, Owner};
use nap_core::room::part::Part;
use nap_core::room::permits::Permits;
use nap_core::room::places::wake;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::Verdict;

const NOW: Micros = Micros::from_secs(1000);
/// Preemptions of a thread besides those where it blocks: most faults need one or two.
const PREEMPTIONS: usize = 2;
/// A gate's operations need more stack than loom's default.
const STACK: usize = 1 << 20;

/// A gate that several threads use.
struct Site {
    state: Mutex<State>,
    permits: std::sync::Arc<[Permits]>,
}

/// What became of an access.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stands {
    Runs(u32),
    Waits(u32),
    Refused,
}

impl Site {
    fn new(run_ready: u32) -> Site {
        let fixed = |n| Choice { how: how::FIXED, n };
        let terms = Terms {
            bound: Micros::from_secs(4),
            run_ready,
            history: 100,
            wait_limit: fixed(8),
            slot_period: Micros::from_secs(10),
            slot_tickets: fixed(10),
            lifetime: Micros::from_secs(60),
            prime: Micros::from_secs(5),
            horizon: Micros::from_secs(3600),
            poll: Micros::from_secs(3),
            parked: 20,
            ..Terms::EMPTY
        };
        let state = State::new(terms, 4, 4, 7);
        let permits = state.shared_permits();
        Site {
            state: Mutex::new(state),
            permits,
        }
    }

    fn permits(&self) -> &Permits {
        &self.permits[0]
    }

    fn locked<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().expect("no panic under it"))
    }

    /// `try_enter`, then `enter` if that was not enough.
    fn enter(&self, who: Owner) -> Stands {
        match self.permits().enter(who, Some(|| 0)) {
            Some(permit) => Stands::Runs(permit),
            None => self.enter_locked(who),
        }
    }

    fn enter_locked(&self, owner: Owner) -> Stands {
        let arrival = Arrival {
            owner,
            parking: Parking::Anybody,
            left: u32::MAX,
            waited: Micros::ZERO,
            stood: Micros::ZERO,
            secondary: false,
            tickets: &[],
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
        };
        let verdict = self.locked(|state| state.at_gate(NOW, |view| view.enter(&arrival)).0);
        match verdict {
            Verdict::Run(permit) => Stands::Runs(permit),
            Verdict::Wait(seat) => Stands::Waits(seat.place),
            Verdict::Refuse(_) => Stands::Refused,
        }
    }

    /// `leave` of an access that came in at once and holds no ticket.
    fn leave(&self, permit: u32, who: Owner) {
        let leaving = Leaving {
            permit,
            owner: who,
            entered: NOW,
            granted: NOW,
            ..Leaving::default()
        };
        let Some(way_out) = self.permits().way_out() else {
            self.locked(|state| state.at_gate(NOW, |view| view.leave(&leaving)));
            return;
        };
        if way_out.leave(permit, who, Micros::from_millis(1)) {
            self.locked(|state| state.at_gate(NOW, |view| view.serve()));
        }
    }

    /// Whether the access runs by now, whichever way it came in.
    fn runs(&self, stands: Stands) -> bool {
        match stands {
            Stands::Runs(_) => true,
            Stands::Waits(place) => self.locked(|state| state.wake_word(place)) == wake::GRANTED,
            Stands::Refused => false,
        }
    }
}

/// Permits alone: only one thread does here what needs the lock.
fn run_ready(limit: u32) -> Arc<Permits> {
    let permits = Permits::default();
    permits.set_limit(limit);
    Arc::new(permits)
}

fn visitor(child: u16) -> Owner {
    Owner::new(Life { child, epoch: 1 }, 1)
}

fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let builder = thread::Builder::new().stack_size(STACK);
    builder.spawn(run).expect("fewer threads than loom allows")
}

fn model(run: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    for fence in [Fence::Before, Fence::AfterWrites] {
        FENCE.set(fence);
        builder.check(move || spawn(run).join().expect("no panic"));
    }
}

#[test]
fn one_of_two_gets_the_only_permit() {
    model(|| {
        let permits = run_ready(1);
        let other = Arc::clone(&permits);
        let thread = spawn(move || other.claim(visitor(2)));
        let first = permits.claim(visitor(1));
        let second = thread.join().expect("no panic");
        assert!(first.is_some() != second.is_some(), "{first:?} {second:?}");
    });
}

#[test]
fn a_lowered_limit_holds_for_every_claim_after_it() {
    model(|| {
        let permits = run_ready(2);
        let other = Arc::clone(&permits);
        let thread = spawn(move || other.claim(visitor(1)));
        permits.set_limit(1);
        let next = permits.claim_in_turn(visitor(2));
        let before = thread.join().expect("no panic");
        assert!(next.is_none() || before.is_none(), "{before:?} {next:?}");
    });
}

#[test]
fn a_limit_lowered_and_raised_again_is_never_more_than_the_larger_one() {
    model(|| {
        let permits = run_ready(2);
        let other = Arc::clone(&permits);
        let thread = spawn(move || other.claim(visitor(1)));
        let held = [1, 2].map(|limit| {
            permits.set_limit(limit);
            permits.claim_in_turn(visitor(1 + limit as u16))
        });
        let before = thread.join().expect("no panic");
        let running = held.iter().chain([&before]).flatten().count();
        assert!(running <= 2, "{before:?} {held:?}");
        assert_eq!(permits.running() as usize, running);
    });
}

#[test]
fn nobody_sleeps_beside_a_permit_that_came_free() {
    model(|| {
        let site = Arc::new(Site::new(1));
        let permit = site.permits().claim(visitor(1)).expect("free");
        let other = Arc::clone(&site);
        let thread = spawn(move || other.leave(permit, visitor(1)));
        let stands = site.enter(visitor(2));
        thread.join().expect("no panic");
        assert!(site.runs(stands), "{stands:?}");
        assert_eq!(site.permits().running(), 1);
    });
}

#[test]
fn a_permit_snatched_on_its_way_to_a_waiter_comes_to_him_afterwards() {
    model(|| {
        let site = Arc::new(Site::new(1));
        let permit = site.permits().claim(visitor(1)).expect("free");
        let leaver = Arc::clone(&site);
        let leaving = spawn(move || leaver.leave(permit, visitor(1)));
        let snatcher = Arc::clone(&site);
        let snatching = spawn(move || {
            if let Some(permit) = snatcher.permits().claim(visitor(2)) {
                snatcher.leave(permit, visitor(2));
            }
        });
        let stands = site.enter(visitor(3));
        leaving.join().expect("no panic");
        snatching.join().expect("no panic");
        assert!(site.runs(stands), "{stands:?}");
    });
}

#[test]
fn a_permit_taken_back_is_given_on_once_whenever_its_owner_leaves() {
    model(|| {
        let site = Arc::new(Site::new(1));
        let permit = site.permits().claim(visitor(1)).expect("free");
        let waiting = [visitor(2), visitor(3)].map(|who| site.enter(who));
        let other = Arc::clone(&site);
        let leaving = spawn(move || other.leave(permit, visitor(1)));
        site.locked(|state| {
            state.at_gate(NOW, |view| view.sweep(visitor(1).life()));
        });
        leaving.join().expect("no panic");
        assert_eq!(waiting.map(|stands| site.runs(stands)), [true, false]);
        assert_eq!(site.permits().running(), 1);
    });
}
