//! How soon a store that has forgotten which tickets are used knows it again, as each node tells it what was used there.

use crate::times::{fleet, until};
use nap_testkit::fleet::Fleet;
use nap_testkit::store::{Sentinels, Store};
use std::time::{Duration, Instant};

/// Half as many again as are served; they sell and use tickets for so long.
const CROWD: &str = "--get --bound 2s --again 2s --stop 1h --open 150 --duration 1h";
const SOLD: Duration = Duration::from_secs(10);
/// Tickets that are used by then, or the store has nothing to forget.
const USED: u64 = 100;

/// The hashes of marks that are there for ten seconds more.
const LASTING: &str = "local found = {} for _, key in ipairs(redis.call('keys', 'nap:{nap}:u:*')) do \
                       if redis.call('pttl', key) > 10000 then found[#found + 1] = key end end return found";
/// How many marks they hold.
const COUNT: &str =
    "local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('hlen', key) end return n";

/// As if they had not come there.
const LOSE: &str =
    "for _, key in ipairs(redis.call('keys', 'nap:{nap}:u:*')) do redis.call('del', key) end";

/// Marks of tickets that were used, in a store.
struct Marks {
    keys: Vec<String>,
    count: u64,
}

impl Marks {
    /// Those of a crowd that comes, buys and comes back.
    fn of_crowd(fleet: &Fleet, store: &Store) -> Marks {
        let crowd = fleet.crowd_later("/counter?ms=50", &CROWD.split(' ').collect::<Vec<_>>());
        crowd.close_after(SOLD);
        let keys = store.ask(&["EVAL", LASTING, "0"]);
        let keys: Vec<String> = keys.lines().map(str::to_owned).collect();
        let mut marks = Marks { keys, count: 0 };
        marks.count = marks.known_to(store);
        assert!(marks.count >= USED, "{} tickets were used", marks.count);
        marks
    }

    /// How many of them it knows.
    fn known_to(&self, store: &Store) -> u64 {
        let number = self.keys.len().to_string();
        let keys = self.keys.iter().map(String::as_str);
        let words: Vec<&str> = ["EVAL", COUNT, &number].into_iter().chain(keys).collect();
        store.ask(&words).parse().unwrap_or(0)
    }

    /// Seconds until it knows all of them.
    fn told_again(&self, store: &Store) -> f64 {
        until("all are told again", Instant::now(), || {
            self.known_to(store) >= self.count
        })
    }
}

/// FLUSHALL.
pub fn emptied() -> f64 {
    let fleet = fleet().start();
    let marks = Marks::of_crowd(&fleet, fleet.store());
    assert_eq!(fleet.store().ask(&["FLUSHALL"]), "OK");
    marks.told_again(fleet.store())
}

/// It is killed, and comes back empty; from when it answers.
pub fn comes_back() -> f64 {
    let mut fleet = fleet().start();
    let marks = Marks::of_crowd(&fleet, fleet.store());
    fleet.store_mut().kill();
    fleet.until_store_is("away");
    fleet.store_mut().start_again();
    marks.told_again(fleet.store())
}

/// The primary of three Sentinels is killed, and its replica has lost all of them; from when all nodes speak with that one.
pub fn taken_over() -> f64 {
    let mut primary = Store::start();
    let replica = Store::replica_of(&primary);
    let sentinels = Sentinels::of(&primary);
    let fleet = fleet().at_store(&sentinels.url()).start();
    let marks = Marks::of_crowd(&fleet, &primary);
    let read_only = ["CONFIG", "SET", "replica-read-only", "no"];
    assert_eq!(replica.ask(&read_only), "OK");
    replica.ask(&["EVAL", LOSE, "0"]);
    assert_eq!(marks.known_to(&replica), 0);
    primary.kill();
    fleet.until_store_is("away");
    fleet.until_store_is("joined");
    assert!(replica.ask(&["ROLE"]).starts_with("master"));
    let took = marks.told_again(&replica);
    drop(fleet);
    took
}
