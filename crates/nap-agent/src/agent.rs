//! [`Agent`]: the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use mod_nap::agent::Brief;
use mod_nap::shm::segment::Segment;
use nap_core::fleet::NODES;
use nap_core::fleet::address::Address;
use nap_core::fleet::link::{Link, Standing};
use nap_core::fleet::member::Member;
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;

use crate::breaker::Breaker;
use crate::caps::Caps;
use crate::card::{Beat, Card};
use crate::clock::Clock;
use crate::commands::Commands;
use crate::debts::Debts;
use crate::figures;
use crate::fleet::{Fleet, News};
use crate::gates::{self, Gates};
use crate::life::{Came, Life};
use crate::line::{Failure, shown};
use crate::log::{Level, Log, say, wall};
use crate::orders::Orders;
use crate::polls::share_out;
use crate::store::{Heard, Saying, Seat, Server, Store, heard};
use crate::words;

/// Between two beats.
const BEAT: Micros = Micros::from_millis(250);
/// Between two looks at the others.
const EXCHANGE: Micros = Micros::from_secs(1);
/// Between two looks at how the store is set up.
const LOOK: Micros = Micros::from_secs(60);
/// A second reason why the store is away is said if the store has been away for so long since the first was said.
const LASTS: Micros = Micros::from_secs(60);
/// Between two lines about a store that throws data away.
const EVICTS: Micros = Micros::from_secs(600);
/// For so long an agent without a parent waits for its successor.
const SUCCESSOR: Duration = Duration::from_secs(3);
/// A name may be taken for so long before it is told: a node that was killed has it for three seconds.
const TAKEN: Micros = Micros::from_secs(4);

/// One node's.
pub struct Agent {
    segment: Segment,
    link: &'static Link,
    name: String,
    fleet_name: String,
    pause: Micros,
    /// None: its address is none, and why has been said.
    store: Option<Store>,
    breaker: Breaker,
    clock: Clock,
    fleet: Fleet,
    gates: Gates,
    debts: Debts,
    caps: Caps,
    orders: Orders,
    log: Log,
    card: Card,
    /// As it lies in the store.
    written: String,
    /// The last one.
    beat: Beat,
    /// The store has to be told the card.
    tell_card: bool,
    /// It is a member of the fleet, as far as it has heard.
    member: bool,
    /// Inside times; zero: never.
    times: Times,
    /// Where the store was last,
    at: String,
    /// which server it is,
    run: String,
    /// which writes it has,
    history: String,
    /// and how many such there were.
    servers: u64,
    /// Of the outage that lasts: what has been said of it.
    said: BTreeSet<u32>,
    /// The store was found empty when it ended.
    emptied: bool,
    /// Of one that is over: how many seconds it has lasted, until that is said.
    back: Option<u64>,
}

#[derive(Default)]
struct Times {
    /// When it was said last why the store is away.
    told_away: Micros,
    /// The next beat.
    beat: Micros,
    exchanged: Micros,
    looked: Micros,
    told_evicts: Micros,
    /// Since when the store has failed.
    failing: Micros,
    /// Since when the name has been another's.
    taken: Micros,
    /// Not before.
    again: Micros,
}

impl Agent {
    /// None: the segment has no place for a fleet.
    pub fn new(segment: Segment, brief: Brief) -> Option<Agent> {
        let link = segment.link()?;
        let card = Card::of(&brief);
        let (written, mark) = card.written();
        let beat = Beat {
            instance: format!("{:016x}", segment.head().epoch),
            card: mark,
            ..Beat::default()
        };
        let orders = Orders::new(&brief.fleet, &brief.node);
        let address = Address::parse(&brief.store);
        let heard_before = link.store_heard.load(Relaxed) != 0;
        let offset = heard_before.then(|| link.offset.load(Relaxed));
        Some(Agent {
            gates: Gates::new(&brief),
            debts: Debts::new(&segment, &brief.fleet),
            caps: Caps::new(&brief.fleet),
            segment,
            link,
            pause: Micros::from_millis(brief.pause.into()),
            store: address
                .ok()
                .map(|address| Store::new(address, brief.auth, &brief.fleet)),
            name: brief.node,
            fleet_name: brief.fleet,
            breaker: Breaker::default(),
            clock: Clock::from(offset),
            fleet: Fleet::default(),
            orders,
            log: Log::default(),
            written,
            beat,
            card,
            tell_card: true,
            member: false,
            times: Times::default(),
            at: String::new(),
            run: String::new(),
            history: String::new(),
            servers: 0,
            said: BTreeSet::new(),
            emptied: false,
            back: None,
        })
    }

    /// Until another agent has taken over, the parent is gone, or it is told to end.
    pub fn run(&mut self, life: &mut Life) {
        if self.pause != Micros::ZERO
            && life.wait(Duration::from_micros(self.pause.0)) != Came::Nothing
        {
            return;
        }
        let own = std::process::id();
        self.link.agent.store(own, SeqCst);
        let mut orphaned = None;
        loop {
            if self.link.agent.load(SeqCst) != own {
                self.tells_the_rest();
                return;
            }
            // Before it looks at what there is to do: what is rung for then is not missed.
            let rung = self.link.bell.load(SeqCst);
            let next = self.tick();
            if orphaned.is_some_and(|since: Instant| since.elapsed() >= SUCCESSOR) {
                break;
            }
            match life.wait(Duration::ZERO) {
                Came::Nothing => {}
                Came::Orphaned => orphaned = Some(Instant::now()),
                Came::Stop => break,
            }
            let left = (next - self.segment.now()).min(BEAT);
            if left != Micros::ZERO {
                let left = Duration::from_micros(left.0);
                self.segment.wait_for_bell(rung, left);
            }
        }
        self.leave(own);
    }

    /// Another agent has taken over. It has not heard of what this one has not told yet.
    fn tells_the_rest(&mut self) {
        let there = gates::Store {
            node: self.link.node.load(Relaxed) as u8,
            run: &self.run,
            servers: self.servers,
        };
        if let Some(store) = self.store.as_mut().filter(|store| store.is_open())
            && self.member
        {
            let mut commands = Commands::default();
            self.gates
                .gates_say(&self.segment, &there, true, &mut commands);
            let _ = store.ask(&commands);
        }
    }

    fn leave(&mut self, own: u32) {
        if self.link.agent.load(SeqCst) != own {
            return;
        }
        let joined = self.link.standing(self.segment.now()) == Standing::Joined;
        if let Some(store) = self.store.as_mut().filter(|_| joined) {
            let beat = Beat {
                left: true,
                ..self.beat.clone()
            };
            let saying = Saying {
                name: &self.name,
                node: self.link.node.load(Relaxed) as u8,
                beat: &beat,
                card: None,
                others: false,
            };
            // A node that did not say goodbye is silent after three seconds.
            let mut commands = Commands::default();
            store.beat(&saying, &mut commands);
            let there = gates::Store {
                node: saying.node,
                run: &self.run,
                servers: self.servers,
            };
            self.gates
                .says_goodbye(&self.segment, &there, &mut commands);
            let _ = store.ask(&commands);
        }
        if self
            .link
            .agent
            .compare_exchange(own, 0, SeqCst, SeqCst)
            .is_ok()
        {
            self.link
                .stand(self.segment.now(), Standing::Starting, None);
        }
    }

    /// All that there is to do now. When it has to be called again, if nobody rings before.
    fn tick(&mut self) -> Micros {
        let now = self.segment.now();
        self.link.agent_seen.store(now.0, Relaxed);
        let due = now >= self.times.beat || self.times.beat - now > BEAT;
        if due {
            // A beat that took longer is not made up for.
            self.times.beat = (self.times.beat + BEAT).clamp(now, now + BEAT);
        }
        if !self.breaker.lets(now) || now < self.times.again {
            if self.member {
                self.gates.is_away(&self.segment);
            }
            return self.times.beat;
        }
        let open = self.store.as_ref().is_some_and(Store::is_open);
        let mut done = self.exchange(now, due);
        // A connection may end at any time, as where a store ends those that are idle: that is no failure yet.
        if open && matches!(&done, Err(failure) if failure.trouble == Trouble::Closed) {
            done = self.exchange(now, due);
        }
        let now = self.segment.now();
        self.link.agent_seen.store(now.0, Relaxed);
        let dues = self.gates.due().into_iter().chain(self.caps.due());
        let due = dues.fold(self.times.beat, Micros::min);
        match done {
            Ok(true) => now,
            Ok(false) => due,
            Err(failure) => {
                self.failed(&failure);
                self.times.beat
            }
        }
    }

    /// Says what there is to say, with a beat if one is `due`. True: there is more at once.
    fn exchange(&mut self, now: Micros, due: bool) -> Result<bool, Failure> {
        let Some(store) = &mut self.store else {
            return Err(Failure::new(
                Trouble::NoRoute,
                "NapStore is no address of a store",
            ));
        };
        let found = store.open()?;
        if let Some(server) = &found {
            let known = [&self.run, &self.history] == [&server.run, &server.history];
            if !known || server.run.is_empty() {
                self.run.clone_from(&server.run);
                self.history.clone_from(&server.history);
                self.servers += 1;
            }
        }
        if found.is_some() {
            self.caps.begins_anew();
        }
        // Without a seat, or on a new connection, nothing is said before a beat.
        let joins = !self.member || found.is_some();
        let beats = due || joins;
        let others = beats && now - self.times.exchanged >= EXCHANGE;
        let mut commands = Commands::default();
        if beats {
            if let Some(figures) = figures::of(&self.segment) {
                self.beat.figures = figures;
            }
            self.beat.time = match self.link.store_heard.load(Relaxed) {
                0 => 0,
                _ => (self.segment.now().0).saturating_add_signed(self.link.offset.load(Relaxed)),
            };
            let saying = Saying {
                name: &self.name,
                node: self.link.node.load(Relaxed) as u8,
                beat: &self.beat,
                card: (self.tell_card || found.is_some()).then_some(&*self.written),
                others,
            };
            store.beat(&saying, &mut commands);
        }
        let there = gates::Store {
            node: self.link.node.load(Relaxed) as u8,
            run: &self.run,
            servers: self.servers,
        };
        if !joins {
            self.gates.says(&self.segment, &there, beats, &mut commands);
            self.debts.says(now, there.node, &mut commands);
            let offset = self.link.offset.load(Relaxed);
            (self.caps).says(&self.segment, there.node, offset, &mut commands);
            self.orders.says(self.link, beats, &mut commands);
        }
        if commands.is_empty() {
            return Ok(false);
        }
        let sent = self.segment.now();
        let mut answers = store.ask(&commands)?;
        let got = self.segment.now();
        let heard = match beats {
            true => Some(heard(&mut answers, others)?),
            false => None,
        };
        if !joins {
            self.gates.hears(&self.segment, &there, &mut answers)?;
            self.debts.hears(got, &mut answers)?;
            self.caps.hears(&self.segment, &mut answers)?;
            self.orders.hears(&self.segment, &mut answers)?;
        }
        self.link.answered(got, got - sent);
        self.breaker.answered();
        if let Some(heard) = heard {
            self.has_beaten(heard, sent, got, found)?;
        }
        self.is_back(got);
        Ok(joins && self.member)
    }

    /// The store has answered a beat.
    fn has_beaten(
        &mut self,
        heard: Heard,
        sent: Micros,
        got: Micros,
        found: Option<Server>,
    ) -> Result<(), Failure> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let mut cards = BTreeMap::new();
        let wanted = heard.beats.as_ref().map(|beats| self.fleet.wanted(beats));
        if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
            let read = store.cards(&wanted)?;
            let read = wanted.into_iter().zip(read);
            cards.extend(read.filter_map(|(node, card)| Some((node, card?))));
        }
        let server = match found {
            Some(server) => Some(server),
            None if got - self.times.looked >= LOOK => Some(store.server()?),
            None => None,
        };
        if let Some(beats) = &heard.beats {
            let others = beats.iter().map(|(_, beat)| beat);
            let others = others.filter(|beat| beat.instance != self.beat.instance);
            let ahead = others.filter_map(|beat| beat.ahead_at(heard.time));
            self.clock.others_are_ahead(ahead.collect());
        }
        self.read_clock(sent, got, heard.time);
        self.heard(heard, got, cards);
        if let Some(server) = server {
            self.times.looked = got;
            self.look_at(&server);
        }
        Ok(())
    }

    fn read_clock(&mut self, sent: Micros, got: Micros, told: Micros) {
        let reading = self.clock.answered(sent, got, told);
        self.link.offset.store(reading.offset, Relaxed);
        self.link.offset_left.store(reading.left, Relaxed);
        if let Some(jump) = reading.jump {
            self.log.say(got, "jump", Level::Error, &words::jump(jump));
        }
    }

    fn heard(&mut self, heard: Heard, now: Micros, cards: BTreeMap<u8, Card>) {
        self.breaker.answered();
        let (node, epoch, card) = match heard.seat {
            Seat::Member { node, epoch, card } => (node, epoch, card),
            Seat::Taken { host } => return self.alone(now, Trouble::NameTaken, &host),
            Seat::Full => return self.alone(now, Trouble::FleetFull, ""),
        };
        self.tell_card = !card;
        self.times.taken = Micros::ZERO;
        for word in [&self.link.node, &self.segment.head().node] {
            word.store(node.into(), Relaxed);
        }
        if !std::mem::replace(&mut self.member, true) {
            // What happened while it was alone was not told.
            self.caps.begins_anew();
        }
        let known = self.link.epoch.swap(epoch, Relaxed);
        if known != 0 && known != epoch {
            self.caps.begins_anew();
            // After an outage that was told it is told with its end.
            self.emptied = !self.said.is_empty();
            if !self.emptied {
                self.log.say(now, "epoch", Level::Error, words::EMPTIED);
            }
        }
        let first = self.times.exchanged == Micros::ZERO;
        if let Some(beats) = heard.beats {
            self.times.exchanged = now;
            let news = self
                .fleet
                .heard((heard.time, now), beats, cards, &self.card);
            for (name, one) in news.into_iter().filter(|(name, _)| *name != self.name) {
                say_news(&mut self.log, &name, one, now);
            }
            self.debts.set_nodes(self.fleet.alive());
            let mut members = vec![Member::default(); NODES + 1];
            self.fleet.show(&mut members);
            share_out(&self.segment, &members, node);
            self.segment.locked_fleet(|table| {
                for (to, from) in table.iter_mut().zip(&members) {
                    *to = *from;
                }
            });
        }
        self.is_joined(now);
        let at = self.store.as_ref().map_or("", Store::at);
        if first {
            let nodes = self.fleet.alive();
            let words = words::joined(&self.fleet_name, at, &self.name, node, nodes);
            self.log.say(now, "joined", Level::Notice, &words);
        } else if self.at != at {
            let words = format!("the store is at {at} now; it was at {}", self.at);
            self.log.say(now, "moved", Level::Notice, &words);
        }
        self.at = at.to_owned();
    }

    fn is_joined(&mut self, now: Micros) {
        let failing = std::mem::take(&mut self.times.failing);
        if !std::mem::take(&mut self.said).is_empty() {
            self.back = Some((now - failing).secs_floor());
        }
        // Meanwhile another may have taken over, or the parent may have none.
        if self.link.agent.load(SeqCst) == std::process::id() {
            self.link.stand(now, Standing::Joined, None);
        }
    }

    /// It is said that the store is back once that has been told which it may have forgotten.
    fn is_back(&mut self, now: Micros) {
        if let Some(told) = self.gates.is_back()
            && let Some(seconds) = self.back.take()
        {
            let emptied = std::mem::take(&mut self.emptied);
            let words = words::back(seconds, emptied, told);
            let said = self.log.say(now, "back", Level::Notice, &words);
            if emptied && !said {
                self.log.say(now, "epoch", Level::Error, words::EMPTIED);
            }
        }
    }

    /// It is no member, though the store answers.
    fn alone(&mut self, now: Micros, trouble: Trouble, host: &str) {
        self.leaves();
        self.link.stand(now, Standing::Alone, Some(trouble));
        if self.times.taken == Micros::ZERO {
            self.times.taken = now;
        }
        let soon = trouble == Trouble::NameTaken && now - self.times.taken < TAKEN;
        self.times.again = match soon {
            true => self.times.beat,
            false => now + EXCHANGE,
        };
        let words = match trouble {
            Trouble::NameTaken if soon => return,
            Trouble::NameTaken => words::taken(&self.name, host),
            trouble => format!("{}; this server runs alone", trouble.words()),
        };
        // It is said once a minute as long as it lasts: somebody has to do something.
        self.log.say(now, "alone", Level::Error, &words);
    }

    fn leaves(&mut self) {
        if std::mem::take(&mut self.member) {
            self.gates.leave(&self.segment);
        }
    }

    fn failed(&mut self, failure: &Failure) {
        let now = self.segment.now();
        self.store.iter_mut().for_each(Store::close);
        self.gates.failed(&self.segment);
        self.breaker.failed(now, failure.trouble);
        if self.times.failing == Micros::ZERO {
            self.times.failing = now;
        }
        if !self.breaker.is_away() {
            return;
        }
        let too_old = failure.trouble == Trouble::TooOld;
        let standing = match too_old {
            true => Standing::Alone,
            false => Standing::Away,
        };
        match (too_old, self.member) {
            (true, _) => self.leaves(),
            (false, true) => self.gates.is_away(&self.segment),
            (false, false) => {}
        }
        self.link.stand(now, standing, Some(failure.trouble));
        let number = failure.trouble as u32;
        // A store that goes down is silent, refuses, has no name, is loading: one line, unless another reason lasts.
        let same = failure.trouble.is_absence() && now - self.times.told_away < LASTS;
        let same = same && !self.said.is_empty();
        if !same && !self.said.contains(&number) {
            let words = match too_old {
                true => words::too_old(&failure.words),
                false => words::away(&failure.words),
            };
            if self
                .log
                .say(now, &format!("away {number}"), Level::Error, &words)
            {
                self.said.insert(number);
                self.times.told_away = now;
            }
        }
    }

    fn look_at(&mut self, server: &Server) {
        let now = self.times.looked;
        let told = self.times.told_evicts;
        if server.evicts() && (told == Micros::ZERO || now - told >= EVICTS) {
            self.times.told_evicts = now;
            say(Level::Error, &words::evicts(server));
        }
    }
}

fn say_news(log: &mut Log, name: &str, news: News, now: Micros) {
    let (level, kind, words) = match news {
        News::Alive => (Level::Notice, "alive".into(), words::alive(name)),
        News::Left => (Level::Notice, "left".into(), words::left(name)),
        News::Silent { since } => {
            let wall = wall();
            let since = wall.at(since, now).time_seen_from(wall);
            let words = words::silent(name, &since.to_string());
            (Level::Error, "silent".into(), words)
        }
        News::Differs(differs) => {
            let kind = format!("differs {}", differs.setting);
            (Level::Error, kind, words::differs(name, &differs))
        }
    };
    log.say(now, &format!("{kind} {name}"), level, &shown(&words, 300));
}
