//! loom's models of Run Ready's lock-free way in and out (`room::permits`): every interleaving of a few
//! accesses at one gate, and every value the memory model lets a thread read.
//!
//! The threads run what httpd's do ([`nap_core::room::access`]): in and out without the lock, and the gate's own
//! operations under it. `make test-models` runs them; anywhere else the permits'
//! atomics are not loom's.

use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use super::house::arrival;
use super::state::State;
use nap_core::micros::Micros;
use nap_core::room::Tables;
use nap_core::room::access::{self, Access, House, Waiting};
use nap_core::room::atomic::{FENCE, Fence};
use nap_core::room::children::{Child, Parking};
use nap_core::room::owner::{Life, Owner};
use nap_core::room::permits::Permits;
use nap_core::room::places::wake;
use nap_core::room::stay::Asks;
use nap_core::room::terms::{Choice, Terms, how};

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
            ..Terms::default()
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

    /// An access comes.
    fn enter(&self, owner: Owner) -> Access {
        let (mut access, mut house) = (Access::new(owner), self.house(owner));
        if access.try_enter(&house) {
            return access;
        }
        let mut arrival = arrival(owner, &[]);
        let asks = Asks {
            keys: &[],
            starts: false,
        };
        access.enter(&mut house, asks, &mut arrival);
        access
    }

    /// It is over, as httpd ends it.
    fn leave(&self, mut access: Access) {
        let mut house = self.house(access.owner);
        if access.leave_at_once(&mut house).is_none() {
            access.leave(&mut house);
        }
    }

    fn house(&self, owner: Owner) -> Modelled<'_> {
        Modelled {
            site: self,
            owner,
            child: Child::default(),
        }
    }

    /// Runs by now, whichever way it came in.
    fn runs(&self, access: &Access) -> bool {
        match access.state {
            access::AccessState::Running => true,
            access::AccessState::Waiting => {
                self.locked(|state| state.wake_word(access.place)) == wake::GRANTED
            }
            _ => false,
        }
    }
}

/// What an access finds around it: [`House`]. The clock stands still.
struct Modelled<'s> {
    site: &'s Site,
    owner: Owner,
    child: Child,
}

impl House for Modelled<'_> {
    fn now(&self) -> Micros {
        NOW
    }

    fn next_owner(&self) -> Owner {
        self.owner
    }

    fn page(&self) -> u32 {
        0
    }

    fn permits(&self) -> &Permits {
        self.site.permits()
    }

    fn child(&self) -> &Child {
        &self.child
    }

    fn waiting(&self) -> Waiting {
        Waiting::Told(Parking::Anybody)
    }

    fn outside(&self, _: Micros) -> Option<u32> {
        None
    }

    fn absent(&self) -> u32 {
        0
    }

    fn locked<R>(&mut self, act: impl FnOnce(&mut Tables<'_>) -> R) -> Option<R> {
        let locked = |state: &mut State| state.locked(NOW, act).0;
        Some(self.site.locked(locked))
    }
}

/// Permits alone: only one thread does here what the lock is for.
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
        let first = site.enter(visitor(1));
        let other = Arc::clone(&site);
        let thread = spawn(move || other.leave(first));
        let second = site.enter(visitor(2));
        thread.join().expect("no panic");
        assert!(site.runs(&second), "{second:?}");
        assert_eq!(site.permits().running(), 1);
    });
}

#[test]
fn a_permit_snatched_on_its_way_to_a_waiter_comes_to_him_afterwards() {
    model(|| {
        let site = Arc::new(Site::new(1));
        let first = site.enter(visitor(1));
        let leaver = Arc::clone(&site);
        let leaving = spawn(move || leaver.leave(first));
        let snatcher = Arc::clone(&site);
        let snatching = spawn(move || {
            let mut second = Access::new(visitor(2));
            if second.try_enter(&snatcher.house(visitor(2))) {
                snatcher.leave(second);
            }
        });
        let third = site.enter(visitor(3));
        leaving.join().expect("no panic");
        snatching.join().expect("no panic");
        assert!(site.runs(&third), "{third:?}");
    });
}

#[test]
fn a_permit_taken_back_is_given_on_once_whenever_its_owner_leaves() {
    model(|| {
        let site = Arc::new(Site::new(1));
        let first = site.enter(visitor(1));
        let waiting = [visitor(2), visitor(3)].map(|who| site.enter(who));
        let other = Arc::clone(&site);
        let leaving = spawn(move || other.leave(first));
        site.locked(|state| {
            state.at_gate(NOW, |view| view.sweep(visitor(1).life()));
        });
        leaving.join().expect("no panic");
        assert_eq!(waiting.map(|access| site.runs(&access)), [true, false]);
        assert_eq!(site.permits().running(), 1);
    });
}
