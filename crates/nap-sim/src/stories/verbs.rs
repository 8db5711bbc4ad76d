//! Stories of faults that strike when a script says so, and of visitors who lose patience.

use crate::setup::{Arrivals, Setup, Verb, Visit};
use crate::world::World;
use nap_core::micros::Micros;

fn run(setup: Setup) -> World {
    let watched = setup.clients < 200;
    let mut world = World::new(setup, watched);
    while world.step() {}
    assert_eq!(world.failure(), None);
    world
}

fn crowd() -> Setup {
    Setup {
        clients: 120,
        posts: 5,
        ..Setup::default()
    }
}

#[test]
fn whatever_strikes_everybody_gets_what_he_wants_and_no_promise_is_broken() {
    let second = Micros::from_secs;
    let calm = run(crowd());
    let verbs = [
        (1, Verb::Kill),
        (2, Verb::Restart),
        (3, Verb::Speed(0.5)),
        (4, Verb::Speed(0.0)),
        (14, Verb::Speed(1.0)),
        (15, Verb::Sleep(second(20))),
    ];
    let world = run(Setup {
        verbs: verbs.map(|(at, verb)| (second(at), verb)).to_vec(),
        ..crowd()
    });
    let [calm, struck] = [&calm, &world].map(|world| &world.figures);
    assert_eq!([calm.total.n(), struck.total.n()], [600, 600]);
    // Dead for 10 s, asleep for 20 s.
    let lost = struck.span - calm.span;
    assert!(lost >= second(30), "{lost:?}");
    assert!(struck.served.max() >= 9.9, "{struck:?}");
    assert!(calm.served.max() < 4.0 + calm.residence.max(), "{calm:?}");
}

#[test]
fn who_comes_before_the_figures_begin_is_in_none_of_them() {
    let visit = |at: u64, posts| Visit {
        at: Micros::from_secs(at),
        posts,
        work_s: Some(0.01),
    };
    let world = run(Setup {
        arrivals: Arrivals::Script([visit(0, 5), visit(60, 3)].into()),
        counted_from: Micros::from_secs(60),
        ..Setup::default()
    });
    let f = &world.figures;
    assert_eq!(
        (f.total.n(), f.served.n(), f.finished.n(), f.tries),
        (3, 3, 1, 3)
    );
    assert!((f.span.as_secs_f64() - 0.03).abs() < 1e-3, "{f:?}");
}

#[test]
fn the_impatient_give_up_what_they_would_have_to_wait_for_too_long() {
    let mut setup = crowd();
    (setup.clients, setup.posts) = (600, 3);
    let patient = run(setup.clone());
    setup.manners.patience = Micros::from_secs(5);
    let world = run(setup);
    assert_eq!(patient.figures.abandoned, 0);
    let f = &world.figures;
    assert!(f.abandoned > 100, "{f:?}");
    assert_eq!(f.total.n() as u64 + f.abandoned, 1800);
}
