//! The scripts do what the simulator's store does: the same messages, the same answers.

use nap_agent::commands::Commands;
use nap_agent::line::Failure;
use nap_agent::store;
use nap_agent::telling::{Heard, Speaker, Teller, Terms};
use nap_core::fleet::exchange::{Batch, GateBeat, LeaseAsk, Tale};
use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::lease::Lease;
use nap_core::fleet::notes::Event;
use nap_core::micros::Micros;
use nap_rng::Rng;
use nap_sim::fleet::oracle::Life;
use nap_sim::fleet::setup::Flaw;
use nap_sim::fleet::store::Store as Simulated;
use nap_testkit::store::Store;

use crate::node::opened;

/// The fleet's clock is a key: a test moves it on.
const CLOCK: &str =
    "clock = function() return tonumber(redis.call('GET', 'nap:{nap}:clock')) end\n";
const GATE: u32 = 0xbeef;
const KEPT: Micros = Micros::from_secs(100_000);
const FORGET: Micros = Micros::from_secs(30);

/// A real store, and who speaks with it.
pub struct Real {
    /// Its server.
    pub server: Store,
    store: store::Store,
    teller: Teller,
    run: u64,
}

impl Real {
    /// With the clock of a test, or (zero) its own.
    pub fn start(now: Micros) -> Real {
        let server = Store::start();
        let mut real = Real {
            store: opened(&server),
            server,
            teller: match now {
                Micros::ZERO => Teller::new("nap"),
                _ => Teller::after("nap", CLOCK),
            },
            run: 1,
        };
        real.set(now);
        real
    }

    fn set(&mut self, now: Micros) {
        let mut commands = Commands::default();
        commands.add("SET").arg("nap:{nap}:clock").arg(now.0);
        self.store.ask(&commands).expect("it answers");
    }

    fn terms<'a>(&self, run: &'a str, limit: Option<u32>) -> Terms<'a> {
        Terms {
            gate: GATE,
            kept: KEPT,
            limit,
            forget: FORGET,
            run,
        }
    }

    /// A holder comes.
    pub fn redeem(&mut self, who: &Speaker, name: &Name) -> Told {
        let mut commands = Commands::default();
        self.teller.redeem(&mut commands, who, name, KEPT);
        let mut answers = self.store.ask(&commands).expect("it answers");
        self.teller.redeemed(&mut answers).expect("an answer")
    }

    /// A node speaks.
    pub fn carry_out(&mut self, who: &Speaker, limit: Option<u32>, batch: &Batch) -> Heard {
        let heard = self.try_to_carry_out(who, limit, batch);
        heard.expect("an answer")
    }

    /// The same, if it can.
    pub fn try_to_carry_out(
        &mut self,
        who: &Speaker,
        limit: Option<u32>,
        batch: &Batch,
    ) -> Result<Heard, Failure> {
        let run = format!("run {}", self.run);
        let terms = self.terms(&run, limit);
        let mut commands = Commands::default();
        self.teller.tell(&mut commands, who, &terms, batch);
        let mut answers = self.store.ask(&commands).expect("it answers");
        self.teller.told(&mut answers, who, &terms, batch, self.run)
    }
}

/// Node `n` in its first life.
pub fn speaker(node: u8) -> Speaker {
    Speaker {
        node,
        life: 0xabc0 + u64::from(node),
        agent: 0xf000_0000_0000_0000 + u64::from(node),
    }
}

/// Both stores, and a fleet of four that says anything.
struct Both {
    real: Real,
    simulated: Simulated,
    rng: Rng,
    now: Micros,
    last: [Batch; 5],
    held: [Vec<Lease>; 5],
    /// Epochs of the real one, in their order.
    epochs: Vec<u64>,
    twice: u64,
}

impl Both {
    fn any_name(&mut self) -> Name {
        let node = 1 + self.rng.below(4) as u8;
        Name {
            epoch: 0xfeed_0000_0000_0000 + u64::from(node),
            node,
            gate: GATE,
            slot: 1 + self.rng.below(3) as u32,
            index: self.rng.below(6) as u32,
        }
    }

    fn any_tale(&mut self) -> Tale {
        let event = [
            Event::Sold,
            Event::Waits,
            Event::Runs,
            Event::Left,
            Event::Unused,
        ];
        let event = event.get(self.rng.below(6) as usize).copied();
        let from = self.now.0 - 2_000_000 + self.rng.below(70_000_000);
        let window = (Micros(from), Micros(from + self.rng.below(9_000_000)));
        Tale {
            name: self.any_name(),
            event,
            window: (self.rng.below(2) == 0).then_some(window),
            more: self.rng.below(3) != 0,
        }
    }

    fn any_batch(&mut self, node: u8) -> Batch {
        let at = usize::from(node);
        let tales = self.rng.below(9);
        let tales = (0..tales).map(|_| self.any_tale()).collect();
        let held = &self.held[at];
        let forgets = self.rng.below(4) == 0;
        let holds = match forgets {
            true => held.clone(),
            false => held.last().copied().into_iter().collect(),
        };
        let from = Micros(self.now.0 + self.rng.below(40_000_000));
        let ask = LeaseAsk {
            from,
            wanted: 1 + self.rng.below(30) as u32,
            period: Micros::from_millis(9_700),
            capacity: 1 + self.rng.below(50) as u32,
            guessed: self.rng.below(2) == 0,
        };
        let asks = [0, 0, self.rng.below(5) as u32][self.rng.below(3) as usize];
        Batch {
            seq: self.last[at].seq + 1,
            tales,
            beat: GateBeat {
                arrivals: self.rng.below(1 << 40),
                out: self.rng.below(1000) as u32,
                bears: self.rng.below(200) as u32,
                rate: self.rng.unit() * 1000.0,
                claimed_s: self.rng.unit(),
                rights: self.rng.below(5) as u32,
                wants: self.rng.below(9) as u32,
            },
            exchanges: self.rng.below(2) == 0,
            holds,
            lease: (self.rng.below(3) == 0).then_some(ask),
            asks,
            weight: [0, 1, 1_000_000, self.rng.below(1_000_001) as u32][self.rng.below(4) as usize],
        }
    }

    fn passes(&mut self) {
        let span = match self.rng.below(40) {
            0 => 2_999_999 + self.rng.below(3),
            1 => 29_000_000 + self.rng.below(2_000_000),
            2..12 => 0,
            _ => self.rng.below(300_000),
        };
        self.now = self.now + Micros(span);
        self.real.set(self.now);
    }

    fn goes_wrong(&mut self) {
        match self.rng.below(300) {
            0 => {
                // Its epoch is its time: emptied twice in a microsecond it would have the same one.
                self.now = self.now + Micros(1);
                assert_eq!(self.real.server.ask(&["FLUSHALL"]), "OK");
                self.real.set(self.now);
                self.simulated.forgets(self.now);
                self.speaks(1, false);
            }
            1 => {
                self.simulated.loses(self.now);
                self.real.run += 1;
                self.speaks(2, false);
            }
            2 => assert_eq!(self.real.server.ask(&["SCRIPT", "FLUSH"]), "OK"),
            _ => {}
        }
    }

    fn speaks(&mut self, node: u8, again: bool) {
        let at = usize::from(node);
        if !again || self.last[at].seq == 0 {
            self.last[at] = self.any_batch(node);
        }
        let batch = &self.last[at];
        let expected = self
            .simulated
            .carry_out(life(node), batch, self.now, FORGET);
        let limit = Some(LIMIT);
        let Heard { mut answer, twice } = self.real.carry_out(&speaker(node), limit, batch);
        self.twice += twice.len() as u64;
        assert_eq!(self.twice, self.simulated.twice);
        if self.epochs.last() != Some(&answer.epoch) {
            self.epochs.push(answer.epoch);
        }
        // The simulated one begins at 1, and was emptied before anybody spoke.
        answer.epoch = self.epochs.len() as u64 + 1;
        assert_eq!(answer, expected, "to {batch:?}");
        self.held[at].extend(answer.lease);
    }
}

const LIMIT: u32 = 12;

/// Nodes do not die here.
fn life(node: u8) -> Life {
    Life { node, life: 1 }
}

fn the_same_is_answered(seed: u64, steps: usize) {
    let now = Micros(mod_nap::shm::clock::wall());
    // Of a store that has just been emptied no agent asks for a lease.
    let mut simulated = Simulated::new(LIMIT, Some(Flaw::LeasesAtOnce));
    simulated.forgets(now);
    let mut both = Both {
        real: Real::start(now),
        simulated,
        rng: Rng::new(seed, 36),
        now,
        last: Default::default(),
        held: Default::default(),
        epochs: Vec::new(),
        twice: 0,
    };
    let mut told = [0; 3];
    let mut lives = 4;
    for step in 0..steps {
        if step % 60 == 0 {
            lives = 1 + both.rng.below(4);
        }
        both.passes();
        let node = 1 + both.rng.below(lives) as u8;
        match both.rng.below(5) {
            0 | 1 => {
                let name = both.any_name();
                let expected = both.simulated.redeem(&name, life(node), both.now);
                let answer = both.real.redeem(&speaker(node), &name);
                assert_eq!(answer, expected, "{name:?} at {node}");
                told[expected as usize] += 1;
            }
            n => both.speaks(node, n == 2),
        }
        both.goes_wrong();
    }
    assert!(told.iter().all(|n| *n > 0), "{told:?}");
    assert!(both.twice > 0);
}

#[test]
fn a_real_store_answers_as_the_simulated_one() {
    let seed = std::env::var("NAP_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(36);
    println!("NAP_SEED={seed}");
    the_same_is_answered(seed, 3_000);
}
