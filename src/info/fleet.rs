//! The fleet as this node knows it: its store, and the nodes that meet there.

use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;

use super::line::line;
use super::report::{Clock, Report, rounded};
use super::time_of_day;
use crate::wall::Wall;
use nap_core::fleet::NODES;
use nap_core::fleet::link::{Heard, Link, Standing, TRIPS_UP_TO};
use nap_core::fleet::member::{Differs, Member, Presence, Setting, shared_limit, span};
use nap_core::fleet::stake::Stake;
use nap_core::micros::Micros;

/// Plain copies of what is shown.
#[derive(Clone, Debug)]
pub struct Fleet {
    address: String,
    name: String,
    node: String,
    now: Micros,
    link: LinkShot,
    trade: Trade,
    /// With their numbers.
    members: Vec<(usize, Member)>,
}

#[derive(Clone, Default, Debug)]
pub(super) struct LinkShot {
    standing: Standing,
    /// The agent is silent, whatever it said last.
    silent: bool,
    why: Option<&'static str>,
    number: u32,
    agent: u32,
    since: Micros,
    heard: Micros,
    offset: i64,
    round_trip: Micros,
    trips: [u64; TRIPS_UP_TO.len() + 1],
    trips_sum: Micros,
    away: Micros,
    outages: u64,
    starts: u64,
    /// Orders that the store has not been told.
    orders: usize,
    /// Letters by what was heard.
    heard_of: [u64; Heard::ALL.len()],
    /// Tickets redeemed here, and at another node, too.
    twice: u64,
}

/// The fleet; of each time of day that is not known yet: None.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FleetLine {
    pub name: String,
    pub node: String,
    pub number: Option<u32>,
    pub store: StoreLine,
    pub tickets: TicketsLine,
    pub nodes: Vec<NodeLine>,
}

/// Sums over this node's gates.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Trade {
    guests: u64,
    gave_way: u64,
    elsewhere: u64,
    leased: u64,
    /// Of own tickets the part that came back here, the lowest of all gates; none: it is not known.
    home: Option<f64>,
}

impl Trade {
    fn of(stakes: &[Stake]) -> Trade {
        let in_fleet = stakes.iter().filter(|stake| stake.nodes != 0);
        in_fleet.fold(Trade::default(), |all, stake| Trade {
            guests: all.guests.saturating_add(stake.guests),
            gave_way: all.gave_way.saturating_add(stake.gave_way),
            elsewhere: all.elsewhere.saturating_add(stake.elsewhere),
            leased: all.leased.saturating_add(stake.leased_places),
            home: Some(all.home.unwrap_or(1.0).min(stake.homing.part_here())),
        })
    }
}

line! {
    /// Tickets between this node and the others.
    pub(super) struct TicketsLine of(trade: &Trade, link: &LinkShot) {
        guests: u64 = trade.guests,
        elsewhere: u64 = trade.elsewhere,
        twice: u64 = link.twice,
        home: Option<f64> = trade.home.map(rounded),
        gave_way: u64 = trade.gave_way,
        leased: u64 = trade.leased,
        asked: LettersLine = LettersLine::of(&link.heard_of),
    }
}

line! {
    /// What the store said of tickets that requests asked about.
    pub(super) struct LettersLine of(heard: &[u64; Heard::ALL.len()]) {
        mine: u64 = heard[Heard::Mine as usize],
        used: u64 = heard[Heard::Used as usize],
        waits: u64 = heard[Heard::Waits as usize],
        silent: u64 = heard[Heard::Silent as usize],
        away: u64 = heard[Heard::Away as usize],
    }
}

impl FleetLine {
    /// The part of all arrivals that comes to this node, from 0 to 1; None: it has not joined yet.
    pub fn weight(&self) -> Option<f64> {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.here).map(|node| node.share)
    }
}

impl TicketsLine {
    /// Tickets that the store was asked about.
    pub fn asked_about(&self) -> u64 {
        let asked = &self.asked;
        asked
            .all()
            .iter()
            .take(4)
            .fold(0, |all, (_, n)| all.saturating_add(*n))
    }
}

impl LettersLine {
    /// With what each is called in metrics.
    pub fn all(&self) -> [(&'static str, u64); 5] {
        [
            ("mine", self.mine),
            ("used", self.used),
            ("waits", self.waits),
            ("silent", self.silent),
            ("away", self.away),
        ]
    }
}

line! {
    /// The store, as the agent sees it.
    pub(super) struct StoreLine of(at: &str, link: &LinkShot, clock: Clock) {
        address: String = at.to_owned(),
        state: &'static str = link.state(),
        summary: String = link.summary(),
        since: Option<String> = known(clock, link.since),
        heard: Option<String> = known(clock, link.heard),
        round_trip_s: Option<f64> = heard.as_ref().map(|_| rounded(link.round_trip.as_secs_f64())),
        clock_offset_s: Option<f64> = heard.as_ref().map(|_| rounded(link.offset as f64 / 1e6)),
        outages: u64 = link.outages,
        away_s: f64 = rounded(link.away.as_secs_f64()),
        agent_pid: Option<u32> = (link.agent != 0).then_some(link.agent),
        agent_starts: u64 = link.starts,
        orders_waiting: usize = link.orders,
        /// Beats by their round trip: see [`TRIPS_UP_TO`].
        #[serde(skip)]
        trips: [u64; TRIPS_UP_TO.len() + 1] = link.trips,
        #[serde(skip)]
        trips_sum_s: f64 = rounded(link.trips_sum.as_secs_f64()),
    }
}

line! {
    /// A node; `own`: this one's number.
    pub(super) struct NodeLine of(at: usize, member: &Member, presence: Presence, own: u32, clock: Clock) {
        number: usize = at,
        name: String = member.name(),
        host: String = member.host(),
        /// It is this one.
        here: bool = number as u32 == own,
        state: &'static str = state(presence),
        running: u32 = member.figures.running,
        limit: u32 = member.figures.limit,
        waiting: u32 = member.figures.waiting,
        places: u32 = member.figures.places,
        arrivals: u64 = member.figures.arrivals,
        served: u64 = member.figures.served,
        sold: u64 = member.figures.sold,
        redeemed: u64 = member.figures.redeemed,
        broken: u64 = member.figures.broken,
        share: f64 = f64::from(member.share) / 1e6,
        heard: Option<String> = known(clock, Micros(member.heard)),
        differs: Option<String> = differs(&member.differs, &name),
    }
}

impl Fleet {
    /// With memory for every node there can be. `address`: of the store, `node`: what this one is called.
    pub fn new(address: &str, name: &str, node: &str) -> Fleet {
        Fleet {
            address: address.to_owned(),
            name: name.to_owned(),
            node: node.to_owned(),
            now: Micros::ZERO,
            link: LinkShot::default(),
            trade: Trade::default(),
            members: Vec::with_capacity(NODES),
        }
    }

    /// What the agent says of the store.
    pub fn take_link(&mut self, link: &Link, now: Micros) {
        let micros = |figure: &std::sync::atomic::AtomicU64| Micros(figure.load(Relaxed));
        let (standing, trouble) = (link.standing(now), link.trouble());
        let silent = standing == Standing::Away && trouble.is_none();
        let since = match silent {
            true => &link.agent_seen,
            false => &link.since,
        };
        let mut away = micros(&link.away);
        if standing == Standing::Away && !silent {
            away = away + (now - micros(&link.since));
        }
        self.now = now;
        self.link = LinkShot {
            standing,
            silent,
            why: trouble.map(|trouble| trouble.words()),
            number: link.node.load(Relaxed),
            agent: link.agent.load(Relaxed),
            since: micros(since),
            heard: micros(&link.store_heard),
            offset: link.offset.load(Relaxed),
            round_trip: micros(&link.round_trip),
            trips: link.trips.each_ref().map(|cell| cell.load(Relaxed)),
            trips_sum: micros(&link.trips_sum),
            away,
            outages: link.outages.load(Relaxed),
            starts: link.starts.load(Relaxed),
            orders: link.orders.waiting(),
            heard_of: Heard::ALL.map(|heard| link.heard(heard)),
            twice: link.redeemed_twice.load(Relaxed),
        };
    }

    /// Under the lock: what became of tickets, by gate.
    pub fn take_stakes(&mut self, stakes: &[Stake]) {
        self.trade = Trade::of(stakes);
    }

    /// Under the lock: the nodes, each at its number.
    pub fn take(&mut self, members: &[Member]) {
        let known = members.iter().enumerate().skip(1);
        let known = known.filter(|(_, member)| member.presence != 0);
        self.members
            .extend(known.take(NODES).map(|(at, one)| (at, *one)));
    }

    fn line(&self, clock: Clock) -> FleetLine {
        let nodes = self.members.iter();
        FleetLine {
            name: self.name.clone(),
            node: self.node.clone(),
            number: (self.link.number != 0).then_some(self.link.number),
            store: StoreLine::of(&self.address, &self.link, clock),
            tickets: TicketsLine::of(&self.trade, &self.link),
            nodes: nodes
                .filter_map(|(at, member)| {
                    let presence = member.presence()?;
                    Some(NodeLine::of(*at, member, presence, self.link.number, clock))
                })
                .collect(),
        }
    }
}

impl LinkShot {
    fn state(&self) -> &'static str {
        match self.standing {
            Standing::Starting => "starting",
            Standing::Joined => "joined",
            Standing::Away => "away",
            Standing::Alone => "alone",
        }
    }

    fn summary(&self) -> String {
        let why = self.why.map_or(String::new(), |why| format!(": {why}"));
        match self.standing {
            Standing::Starting => "nap-agent has not joined yet".into(),
            Standing::Joined => "the store answers".into(),
            Standing::Away if self.silent => {
                "nap-agent, which speaks with the store, does not move".into()
            }
            Standing::Away => format!("the store is away{why}"),
            Standing::Alone => format!("this server runs alone{why}"),
        }
    }
}

/// A time of day; None where it is zero: it has not come yet.
fn known(clock: Clock, time: Micros) -> Option<String> {
    (time != Micros::ZERO).then(|| clock.wall_at(time).stamp().to_string())
}

impl StoreLine {
    /// The store does what it should, as far as is known.
    pub fn is_up(&self) -> bool {
        self.state == "joined"
    }
}

/// The states of a node, in words.
pub(super) const STATES: [Presence; 3] = [Presence::Alive, Presence::Silent, Presence::Left];

pub(super) fn state(presence: Presence) -> &'static str {
    match presence {
        Presence::Alive => "alive",
        Presence::Silent => "silent",
        Presence::Left => "left",
    }
}

/// What differs between the node of this name and this one, in a sentence without its end.
fn differs(differs: &Differs, node: &str) -> Option<String> {
    let (room, theirs, ours) = (differs.room(), differs.theirs, differs.ours);
    let of_room = |directive: &str| {
        let [theirs, ours] = [theirs, ours].map(span);
        format!("room {room}: {directive} is {theirs} at {node} and {ours} here")
    };
    Some(match differs.setting()? {
        Setting::WaitMax => of_room("NapWaitMax"),
        Setting::Prime => of_room("NapTicketPrime"),
        Setting::Horizon => of_room("NapTicketHorizon"),
        Setting::Limit => {
            let [theirs, ours] = [theirs, ours].map(shared_limit);
            format!("room {room}: NapRunReady is {theirs} at {node} and {ours} here")
        }
        Setting::Room => {
            format!("room {room} is not configured at {node}")
        }
        Setting::Key => format!("{node} signs with key {theirs}, which this server does not have"),
        Setting::OtherKey => {
            format!("key {theirs} of {node} is another one than key {theirs} here")
        }
        Setting::Version => {
            let [theirs, ours] = [theirs, ours].map(version);
            format!("{node} runs mod_nap {theirs}, and this server {ours}")
        }
    })
}

fn version(number: u64) -> String {
    let [major, minor, patch] = [1_000_000, 1_000, 1].map(|unit| number / unit);
    format!("{major}.{}.{}", minor % 1_000, patch % 1_000)
}

impl Report {
    /// The same with what is known of the fleet; `wall` is the clock when that was copied.
    pub fn with_fleet(mut self, fleet: &Fleet, wall: Wall) -> Report {
        let now = fleet.now;
        let line = fleet.line(Clock { now, wall });
        self.attention.extend(line.attention());
        self.fleet = Some(line);
        self
    }
}

impl FleetLine {
    /// What an administrator should look at, a sentence each.
    fn attention(&self) -> Vec<String> {
        let at = |stamp: &Option<String>| {
            let stamp = stamp.as_ref();
            stamp.map_or(String::new(), |stamp| {
                format!(" since {}", time_of_day(stamp))
            })
        };
        let store = match self.store.state {
            "away" | "alone" => {
                let (said, since) = (&self.store.summary, at(&self.store.since));
                let (said, why) = said.split_once(": ").unwrap_or((said, ""));
                let why = if why.is_empty() {
                    String::new()
                } else {
                    format!(": {why}")
                };
                Some(format!("{said}{since}{why}"))
            }
            _ => None,
        };
        let orders = match (&store, self.store.orders_waiting) {
            (None, _) | (_, 0) => None,
            (_, 1) => Some("the other servers have not been told of an order given here".into()),
            (_, n) => Some(format!(
                "the other servers have not been told of {n} orders given here"
            )),
        };
        let others = self.nodes.iter().filter(|node| !node.here);
        let nodes = others.flat_map(|node| {
            let silent = node.state == "silent";
            let silent = silent.then(|| format!("{} is silent{}", node.name, at(&node.heard)));
            silent.into_iter().chain(node.differs.clone())
        });
        let told = store.into_iter().chain(orders).chain(nodes);
        told.map(|said| sentence(&said)).collect()
    }
}

/// With its end, and a capital unless it begins with a node's name.
fn sentence(said: &str) -> String {
    let ours = ["room ", "key ", "the ", "this "];
    match said.split_at_checked(1) {
        Some((first, rest)) if ours.iter().any(|word| said.starts_with(word)) => {
            format!("{}{rest}.", first.to_uppercase())
        }
        _ => format!("{said}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_with_both_values() {
        let said = |setting, theirs, ours| {
            differs(&Differs::new(setting, "shop", theirs, ours), "web3").expect("it differs")
        };
        assert_eq!(
            said(Setting::WaitMax, 5_000, 4_000),
            "room shop: NapWaitMax is 5s at web3 and 4s here"
        );
        assert_eq!(
            said(Setting::Prime, 0, 90_000),
            "room shop: NapTicketPrime is auto at web3 and 90s here"
        );
        assert_eq!(
            said(Setting::Horizon, 86_400_000, 1_500),
            "room shop: NapTicketHorizon is 24h at web3 and 1500ms here"
        );
        assert_eq!(
            said(Setting::Limit, 0, 60),
            "room shop: NapRunReady is not shared at web3 and 60 shared here"
        );
        assert_eq!(
            said(Setting::Key, 7, 0),
            "web3 signs with key 7, which this server does not have"
        );
        assert_eq!(
            said(Setting::Version, 1_002_003, 1_000),
            "web3 runs mod_nap 1.2.3, and this server 0.1.0"
        );
        assert_eq!(differs(&Differs::default(), "web3"), None);
    }

    #[test]
    fn a_sentence_keeps_the_name_of_a_node_as_it_is() {
        assert_eq!(sentence("web3 is silent"), "web3 is silent.");
        assert_eq!(sentence("room shop: a"), "Room shop: a.");
        assert_eq!(sentence("the store is away"), "The store is away.");
    }
}
