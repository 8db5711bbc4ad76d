//! Soak: a fleet whose agents and store have died again and again holds no more than one that has seen each of that
//! once, and has kept its promises.
//!
//! A crowd of the same size is there all the time, at first for as long as everything goes wrong once, then for long. When
//! it has gone, each process is compared with what it held when the first crowd had gone. The first node's agent lives all
//! the time and sees all outages, those of the others are killed. Tickets live for seconds, as an agent remembers those
//! that were used until they end.

use crate::crowd::{assert_all_kept, figure};
use crate::outage::or_long;
use nap_rng::Rng;
use nap_testkit::fleet::{Fleet, name};
use nap_testkit::holdings::Holdings;
use nap_testkit::{comes_true, long, wait_until};
use std::collections::BTreeMap;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(90);

/// Threads of a node's only child: so few that all of them have done everything when the first crowd has gone.
const THREADS: u32 = 16;

/// Memory that a process may have at the end beyond what it had, in KiB. Nothing was seen to be lost; these are the ups
/// and downs of allocators, twice as much as was seen.
///
/// In the long form a node redeems 10,000 tickets and sells more, and the store dies 100 times: a hundred bytes of each
/// ticket show in a child, thirty of them in an agent, and 3 KiB of each outage. Parents were as large to the KiB, but
/// that one that logs empty permits makes a whole page for it, 140 KiB, once. What an agent's death costs its parent shows
/// if it is more than 20 KiB, or a descriptor: agents cannot die more often, as pauses are made.
fn slack(who: &str) -> u64 {
    match who {
        who if who.ends_with("child") => or_long(2048, 1024),
        _ => 256,
    }
}

fn bound() -> &'static str {
    or_long("2s", "3s")
}

fn fleet() -> Fleet {
    let limit = or_long(2, 4);
    let room = format!(
        "<NapRoom shop>\nNapRunReady {limit}\nNapWaitMax {}\nNapTicketLifetime 5s\n</NapRoom>\n\
         <Location /work>\nNapUse shop\n</Location>",
        bound()
    );
    Fleet::builder(3)
        .node(|node| node.work().workers(1, THREADS).config(&room))
        // One arena for all threads: which of many a thread has is chance, and so is how large each becomes.
        .node(|node| node.under(&["env", "MALLOC_ARENA_MAX=1"]))
        .node(|node| node.expect_log("NapWaitMax", "a few workers suffice"))
        .node(|node| node.expect_log("MaxRequestWorkers", "a few workers suffice"))
        .node(|node| node.expect_log("it is started again", "we kill its agent"))
        .node(|node| node.expect_log(" is silent since ", "its agent makes a pause"))
        .node(|node| node.expect_log("the store is away (", "we kill it"))
        .node(|node| node.expect_log("the store was emptied", "it is another one"))
        .start()
}

/// What goes wrong, and when next.
enum Fault {
    /// The store dies; or it is back, empty or with what it had saved, in turn.
    Store,
    /// The agent of this node dies.
    Agent(usize),
}

struct Faults {
    rng: Rng,
    /// The store is dead, and comes back with its data or without.
    down: Option<bool>,
    outages: usize,
    kills: usize,
}

impl Faults {
    fn within(&mut self, from: f64, to: f64) -> Duration {
        Duration::from_secs_f64(from + (to - from) * self.rng.unit())
    }

    /// All that goes wrong in this time, at random moments.
    fn happen(&mut self, fleet: &mut Fleet, span: Duration) {
        let begun = Instant::now();
        let all = [Fault::Store, Fault::Agent(1), Fault::Agent(2)];
        let mut next = all.map(|fault| (begun + self.within(0.5, 1.5), fault));
        loop {
            next.sort_by_key(|(at, _)| *at);
            let (at, fault) = &mut next[0];
            if *at > begun + span {
                break;
            }
            sleep(at.saturating_duration_since(Instant::now()));
            let pause = match fault {
                Fault::Store => self.store(fleet),
                Fault::Agent(n) => self.agent(fleet, *n),
            };
            *at = Instant::now() + pause;
        }
        if self.down.is_some() {
            self.store(fleet);
        }
    }

    /// How long it stays so.
    fn store(&mut self, fleet: &mut Fleet) -> Duration {
        let store = fleet.store_mut();
        match self.down.take() {
            Some(saved) => {
                if !saved {
                    store.lose_saved();
                }
                store.start_again();
            }
            None => {
                let saves = self.outages % 2 == 1;
                if saves {
                    store.save();
                    // What comes now is lost.
                    sleep(self.within(0.0, 0.5));
                }
                store.kill();
                self.outages += 1;
                self.down = Some(saves);
                return self.within(0.1, 1.5);
            }
        }
        self.within(0.5, or_long(1.5, 3.0))
    }

    /// When to try it again. Where agents die young the parent makes longer and longer pauses, 30 s at last: that is what
    /// happens to the third node. The second one's agents live for longer than a minute, in the long form.
    fn agent(&mut self, fleet: &Fleet, n: usize) -> Duration {
        let serving = fleet.info(n)["fleet"]["store"]["agent_pid"].as_i64();
        let agent = fleet.node(n).agent();
        if agent.is_none() || agent.map(i64::from) != serving {
            return self.within(0.1, 1.0);
        }
        fleet.node(n).kill_agent();
        self.kills += 1;
        match long() && n == 1 {
            true => self.within(62.0, 70.0),
            false => self.within(or_long(4.0, 0.0), or_long(8.0, 5.0)),
        }
    }
}

/// A crowd for so many seconds, while all that goes wrong. How many tickets were redeemed.
fn disturbed(fleet: &mut Fleet, faults: &mut Faults, seconds: u64) -> f64 {
    let duration = format!("{seconds}s");
    let options = [
        ["--clients", or_long("160", "600")],
        ["--posts", "1000000"],
        ["--duration", &duration],
        ["--bound", bound()],
        ["--again", "5s"],
        ["--stop", "20min"],
    ];
    let options = [&options.concat()[..], &["--get"]].concat();
    let crowd = fleet.crowd_later("/work?cpu=1&sleep=100", &options);
    faults.happen(fleet, Duration::from_secs(seconds));
    let report = crowd.report();
    assert_all_kept(&report);
    assert!(figure(&report, "/nodes/redeemed_elsewhere") > 0.0);
    figure(&report, "/nodes/redeemed")
}

/// A process, and what it holds.
type Held = (i32, Holdings);

/// Of all processes: the nodes' parents, children and agents.
fn holdings(fleet: &Fleet) -> BTreeMap<String, Held> {
    let mut all = BTreeMap::new();
    for (n, node) in fleet.nodes().iter().enumerate() {
        let mut note = |what: &str, pid| {
            let held = (pid, Holdings::of(pid));
            all.insert(format!("{} {what}", name(n)), held);
        };
        note("parent", node.pid());
        node.children().iter().for_each(|pid| note("child", *pid));
        node.agent().iter().for_each(|pid| note("agent", *pid));
    }
    all
}

fn files(all: &BTreeMap<String, Held>) -> Vec<(&str, usize)> {
    let files = all.iter().map(|(who, (_, held))| (&**who, held.files));
    files.collect()
}

/// When the crowd has gone and everything works again, and no process has more files than it had at `first`.
fn at_rest(fleet: &Fleet, first: &BTreeMap<String, Held>) -> BTreeMap<String, Held> {
    fleet.until_store_is("joined");
    fleet.until_members(3);
    // Each thread has made a large page.
    scope(|scope| {
        for _ in 0..2 * THREADS {
            scope.spawn(|| (0..20).for_each(|n| drop(fleet.info(n % 3))));
        }
    });
    // The agents', and the one that asks.
    wait_until("who has died has no connection", PATIENCE, || {
        fleet.store().figure("clients", "connected_clients") == 4
    });
    let as_before = || files(&holdings(fleet)) == files(first);
    if !comes_true(PATIENCE, as_before) {
        assert_eq!(files(&holdings(fleet)), files(first));
    }
    holdings(fleet)
}

#[test]
fn a_fleet_that_has_long_been_disturbed_is_as_it_was() {
    let seed = std::env::var("NAP_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("NAP_SEED={seed}");
    let mut faults = Faults {
        rng: Rng::new(seed, 0),
        down: None,
        outages: 0,
        kills: 0,
    };
    let mut fleet = fleet();
    let first = holdings(&fleet);
    assert_eq!(first.len(), 9, "{first:?}");
    disturbed(&mut fleet, &mut faults, or_long(5, 45));
    let before = at_rest(&fleet, &first);
    (faults.outages, faults.kills) = (0, 0);
    let redeemed = disturbed(&mut fleet, &mut faults, or_long(9, 300));
    let after = at_rest(&fleet, &first);
    let Faults { outages, kills, .. } = faults;
    eprintln!(
        "    {redeemed} tickets redeemed; the store died {outages} times, agents {kills} times"
    );
    for (who, (_, held)) in &after {
        let was = before[who].1.memory_kib;
        let Holdings { memory_kib, files } = *held;
        eprintln!("    {who}: {was} KiB, {memory_kib} KiB at the end; {files} files");
    }
    assert!(redeemed >= or_long(100.0, 10_000.0), "{redeemed}");
    assert!(outages >= or_long(3, 40), "{outages}");
    assert!(kills >= or_long(2, 8), "{kills}");
    for (who, (pid, held)) in &after {
        let (same, was) = before[who];
        let is_killed = who.ends_with("agent") && *who != format!("{} agent", name(0));
        assert!(is_killed || *pid == same, "{who} has ended");
        let most = was.memory_kib + slack(who);
        assert!(held.memory_kib <= most, "{who}: {held:?}, was {was:?}");
    }
}
