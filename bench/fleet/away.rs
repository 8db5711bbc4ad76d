//! How long visitors wait for the first byte of an answer, whatever the store is like, or where another node dies:
//!
//! - **admitted**: visitors without a ticket who find a free place, and the same where all nodes share the limit;
//! - **refused**: visitors without a ticket who come to a full node, and are sold one;
//! - **first holders**: the first three who come to a full node with another node's ticket, so that the store is asked;
//!   **next holders**: those after them. A node asks a store that does not answer three times, and then no more for a
//!   second.
//!
//! A full node serves a page that ends half a millisecond after the holder has asked. So what the store takes beyond
//! that is seen, and all that a node does besides.
//!
//! Each state of the store is visited in turn, `rounds=` times; with `states=WORD,WORD` those whose names contain one of
//! them, and the store that stays well. Just before, the same is measured with the store well,
//! and what is judged is the difference of the two. The row **well** does so with a store that stays well: that is the
//! noise. If that alone is beyond a bar the bench fails, too: measure on a quieter machine. The end of the admitted is the
//! last hundredth; with `newcomers=4000` or more it is the last thousandth. Only a machine that has
//! nothing else to do can tell a millisecond in the last hundredth.
//!
//! The store's port is another one's, which passes on what is said. It closes each connection while the store is dead. Where
//! Sentinels choose another store the nodes speak with it themselves, and are others each time.

use crate::board::{self, median};
use crate::held_page::HeldPages;
use crate::pairs;
use nap_testkit::cut::Way;
use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::store::{Sentinels, Store};
use nap_testkit::ticket::Ticket;
use nap_testkit::{Httpd, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// One access runs, and only holders may wait.
const ROOMS: &str = "
<NapRoom site>
NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 5000
NapSlotPeriod 1s
NapTicketPrime 30s
NapTicketsPerClient 100000
</NapRoom>
<LocationMatch ^/(sold|held|cgi-bin)>
NapUse site
</LocationMatch>
<NapRoom own>
NapRunReady 10
NapStatic On
</NapRoom>
<Location /own.txt>
NapUse own
</Location>
<NapRoom common>
NapRunReady 6 shared
NapStatic On
</NapRoom>
<Location /common.txt>
NapUse common
</Location>
";

const APP: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nserved\\n'\n";

/// Pages may be open for long, and their beginning is passed on at once.
const PASS: &str = "flushpackets=on timeout=600";

/// It sells the tickets that are presented to the next one. The last one has nothing to do.
const SELLER: usize = 0;
const ASKED: usize = 1;
const IDLE: usize = 2;

/// After a holder has asked: until then it is known that only the ticket lets it in.
const UNTIL_FREE: Duration = Duration::from_micros(500);
/// Holders who wait in vain before a node asks no more.
const FIRST: usize = 3;
const REFUSED: u32 = 60;
const PATIENCE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// Who waits for nothing may have the first byte so much later, in milliseconds, in the median and at the end;
const SAME: f64 = 1.0;
/// ... who waits for the store, by so much more than the median with the store well.
const LATER: f64 = 25.0;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Well,
    Killed,
    Turned(Way),
    /// For the node that is asked alone.
    CutOff,
    /// Each second.
    Emptied,
    /// Its replica takes over.
    Replaced,
    /// It is well, and so is all but the node that has nothing to do.
    NodeKilled,
}

/// A state of the store, and whether requests have their answer in time.
const STATES: [(&str, State, bool); 11] = [
    ("well", State::Well, true),
    ("killed", State::Killed, false),
    (
        "5 ms away",
        State::Turned(Way::Late(Duration::from_millis(5))),
        true,
    ),
    (
        "30 ms away",
        State::Turned(Way::Late(Duration::from_millis(30))),
        false,
    ),
    (
        "500 ms away",
        State::Turned(Way::Late(Duration::from_millis(500))),
        false,
    ),
    (
        "dripping",
        State::Turned(Way::Drip(Duration::from_millis(1))),
        false,
    ),
    ("silent", State::Turned(Way::Silent), false),
    ("cut off from this node", State::CutOff, false),
    ("emptied each second", State::Emptied, true),
    ("replaced by Sentinels", State::Replaced, false),
    ("well, another node killed", State::NodeKilled, true),
];

/// Milliseconds until the first byte, by [`KINDS`].
type Phase = [Vec<f64>; 5];

/// So many of a kind in each visit tell what the last thousandth of them waits.
const MANY: u32 = 2000;

/// Who they are, and the share of them that is judged beside the median; None: they may wait for the store.
const KINDS: [(&str, Option<f64>); 5] = [
    ("admitted", Some(0.99)),
    ("admitted, shared limit", Some(0.99)),
    ("refused", None),
    ("first holders", None),
    ("next holders", Some(0.9)),
];

/// With the store well, and as it is then.
type Visit = [Phase; 2];

pub fn run() -> bool {
    let rounds = board::number_option("rounds=", "4");
    let newcomers = board::number_option("newcomers=", "960");
    let holders = board::number_option("holders=", "24").max(FIRST as u32 + 1);
    let start = |builder| Stage::start(builder, newcomers, holders as usize);
    let words = board::option("states=", "");
    let words: Vec<&str> = words.split(',').collect();
    let names = |word: &str| STATES.iter().any(|(name, ..)| name.contains(word));
    if let Some(word) = words.iter().find(|word| !names(word)) {
        board::stop(&format!("states={word}: no state is called so"));
    }
    let is_wanted = |name: &str, state: State| {
        state == State::Well || words.iter().any(|word| name.contains(word))
    };
    let mut stage = start(Fleet::builder(3).with_cuts());
    let mut visits: [Vec<Visit>; STATES.len()] = Default::default();
    for round in 0..rounds as usize {
        // From another state each time.
        for n in 0..STATES.len() {
            let n = (n + round) % STATES.len();
            let (name, state, _) = STATES[n];
            if !is_wanted(name, state) {
                continue;
            }
            eprintln!("fleet away, round {}: {name}", round + 1);
            visits[n].push(match state {
                State::Replaced => replaced(start),
                _ => stage.visit(state),
            });
        }
    }
    println!(
        "\nFirst byte, ms; {rounds} visits of each state, each with {newcomers} admitted, {REFUSED} refused, {holders} \
         holders:\n\n\
         | the store is | visitors | median: well | then | later by | spread | end: later by | spread | \
         most: well | then | later than {LATER} ms | wanted |\n|---|---|{}---|",
        "---:|".repeat(9)
    );
    let (mut claims, mut noise) = (Vec::new(), Vec::new());
    let visited = STATES.iter().zip(&visits);
    for ((state, _, answers), visits) in visited.filter(|(_, visits)| !visits.is_empty()) {
        for (kind, (who, share)) in KINDS.iter().enumerate() {
            // What the store says in time is waited for.
            let share = share.filter(|_| kind != NEXT || !answers || *state == "well");
            let share = match share {
                Some(_) if kind < ADMITTED && newcomers / 2 >= MANY => Some(0.999),
                share => share,
            };
            let (holds, sentence, spread) = row(state, who, share, &kind_of(visits, kind));
            if *state == "well" {
                noise.push(spread);
            }
            claims.push((
                holds,
                format!(
                    "{sentence}; with the store well both times: {}",
                    noise[kind]
                ),
            ));
        }
    }
    pairs::holds(&claims)
}

/// The first of [`KINDS`] are let in without a ticket.
const ADMITTED: usize = 2;

/// The place of `next holders` in [`KINDS`].
const NEXT: usize = 4;

/// The times of one kind, of each visit: with the store well, and then.
fn kind_of(visits: &[Visit], kind: usize) -> Vec<[Vec<f64>; 2]> {
    let both = |[well, then]: &Visit| [well[kind].clone(), then[kind].clone()];
    visits.iter().map(both).collect()
}

/// Prints a row; returns whether it holds, what to say if not, and how far visits are apart at the end.
fn row(
    state: &str,
    who: &str,
    share: Option<f64>,
    visits: &[[Vec<f64>; 2]],
) -> (bool, String, String) {
    let differences = |of: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        let of_visit = |[well, then]: &[Vec<f64>; 2]| of(then) - of(well);
        visits.iter().map(of_visit).collect()
    };
    let middle = |times: &[f64]| median(times.to_vec()).unwrap_or(f64::NAN);
    let end = |times: &[f64]| pairs::quantile(times, share.unwrap_or(0.99));
    let all = |n: usize| visits.iter().flat_map(move |visit| visit[n].clone());
    let [well, then] = [0, 1].map(|n| all(n).collect::<Vec<f64>>());
    let usual = middle(&well);
    let late = then.iter().filter(|ms| **ms > usual + LATER).count();
    let [middles, ends] = [differences(&middle), differences(&end)];
    let [at_middle, at_end] = [&middles, &ends].map(|all| middle(all));
    let (wanted, holds, sentence) = match share {
        Some(share) => (
            format!("<= {SAME}"),
            at_middle <= SAME && at_end <= SAME,
            format!(
                "the first byte comes {at_middle:.2} ms later in the median, and {at_end:.2} ms at {:.1} %; {SAME} ms \
                 is the most",
                100.0 * share
            ),
        ),
        None => (
            format!("<= {LATER} but for 1 %"),
            !then.is_empty() && late as f64 <= then.len() as f64 / 100.0,
            format!(
                "{late} of {} come more than {LATER} ms later than in the median with the store well",
                then.len()
            ),
        ),
    };
    println!(
        "| {state} | {who} | {usual:.2} | {:.2} | {at_middle:+.2} | {} | {at_end:+.2} | {} | {:.2} | {:.2} | {late} of {} \
         | {wanted} |",
        middle(&then),
        pairs::spread(&middles, 2),
        pairs::spread(&ends, 2),
        pairs::most(&well),
        pairs::most(&then),
        then.len(),
    );
    let apart = format!("{} ms", pairs::spread(&ends, 2));
    (
        holds,
        format!("{who} while the store is {state}: {sentence}"),
        apart,
    )
}

/// The fleet: one node is full and sells, and the one that is asked is full until its page ends.
struct Stage {
    /// Who has the page that is open at the node that is asked,
    running: TcpStream,
    /// ... whose pages end before the nodes do.
    pages: HeldPages,
    /// Who keeps the seller full.
    _sold: (TcpStream, HeldPages),
    fleet: Fleet,
    newcomers: u32,
    holders: usize,
}

impl Stage {
    fn start(builder: FleetBuilder, newcomers: u32, holders: usize) -> Stage {
        let [sold, pages] = [(); 2].map(|()| HeldPages::start());
        let pass = format!(
            "ProxyPass /sold http://127.0.0.1:{}/ {PASS}\nProxyPass /held http://127.0.0.1:{}/ {PASS}",
            sold.port(),
            pages.port()
        );
        let builder = builder.node(|node| {
            let node = node.modules(&["proxy", "proxy_http"]).config(ROOMS);
            let node = node.config(&pass).cgi("app", APP);
            let node = node.file("htdocs/own.txt", "own\n");
            let node = node.file("htdocs/common.txt", "common\n");
            node.expect_log("the store is away (", "it is")
                .expect_log("AH00045:", "a busy machine takes its time to stop")
                .expect_log("the store was emptied", "it is another one")
                .expect_log(" is silent since ", "it cannot say that it is there")
                .expect_log("[nap:warn]", "rooms tell of settings that are too small")
        });
        let fleet = builder.start();
        // What the nodes serve a second becomes known.
        for node in fleet.nodes() {
            for _ in 0..20 {
                assert_eq!(node.get("/cgi-bin/app").status, 200);
            }
        }
        let mut held = fleet.node(SELLER).connect();
        write!(held, "GET /sold/late HTTP/1.0\r\n\r\n").expect("a node reads");
        wait_until("the seller is full", PATIENCE, || sold.are_open());
        let (running, _) = first_byte(fleet.node(ASKED), "/held", "", 200, || {});
        Stage {
            running,
            pages,
            _sold: (held, sold),
            fleet,
            newcomers,
            holders,
        }
    }

    /// Measures with the store well, and then in this state.
    fn visit(&mut self, state: State) -> Visit {
        let [before, after] = self.buy();
        let well = self.phase(&before, State::Well);
        match state {
            State::Killed => self.fleet.store_mut().kill(),
            State::Turned(way) => self.turn(way),
            State::CutOff => self.fleet.cut(ASKED).turn(Way::Cut),
            State::NodeKilled => self.fleet.kill(IDLE),
            State::Well | State::Emptied | State::Replaced => {}
        }
        let then = self.phase(&after, state);
        match state {
            State::Killed => self.fleet.store_mut().start_again(),
            State::Turned(_) | State::CutOff => self.turn(Way::Open),
            State::NodeKilled => self.fleet.start_again(IDLE),
            State::Well | State::Emptied | State::Replaced => {}
        }
        self.fleet.until_store_is("joined");
        self.fleet.until_members(3);
        [well, then]
    }

    /// For both phases; their holders may come.
    fn buy(&self) -> [Vec<Ticket>; 2] {
        let node = self.fleet.node(SELLER);
        let tickets = [(); 2].map(|()| {
            let tickets = (0..self.holders).map(|_| Ticket::of(&node.get("/sold")));
            tickets.collect::<Vec<_>>()
        });
        tickets.iter().flatten().for_each(Ticket::until_prime);
        tickets
    }

    fn turn(&self, way: Way) {
        self.fleet.cuts().iter().for_each(|cut| cut.turn(way));
    }

    /// Newcomers come between the holders; the refused, who may wait for something to sell, come last.
    fn phase(&mut self, tickets: &[Ticket], state: State) -> Phase {
        let (mut times, mut emptied) = (Phase::default(), None);
        let asked = self.asked();
        let each = self.newcomers / 2 / tickets.len() as u32;
        for (n, ticket) in tickets.iter().enumerate() {
            self.empty_in(state, &mut emptied);
            let kind = if n < FIRST { NEXT - 1 } else { NEXT };
            times[kind].push(self.holder(ticket));
            let node = self.fleet.node(ASKED);
            for _ in 0..each.max(1) {
                times[0].push(first_byte(node, "/own.txt", "", 200, || {}).1);
                times[1].push(first_byte(node, "/common.txt", "", 200, || {}).1);
            }
        }
        let asked = self.asked() - asked;
        if asked < 0.8 * tickets.len() as f64 {
            let holders = tickets.len();
            board::stop(&format!(
                "only {asked} of {holders} holders were let in by their tickets, others by a free place: the machine is \
                 too busy"
            ));
        }
        let node = self.fleet.node(ASKED);
        for _ in 0..REFUSED {
            self.empty_in(state, &mut emptied);
            times[2].push(first_byte(node, "/held", "", 503, || {}).1);
        }
        times
    }

    /// In this state alone, if it was not within the last second.
    fn empty_in(&self, state: State, emptied: &mut Option<Instant>) {
        if state == State::Emptied && emptied.is_none_or(|at| at.elapsed() >= SECOND) {
            assert_eq!(self.fleet.store().ask(&["FLUSHALL"]), "OK");
            *emptied = Some(Instant::now());
        }
    }

    /// A holder comes to a node that is full until half a millisecond later.
    fn holder(&mut self, ticket: &Ticket) -> f64 {
        let header = format!("Nap-Ticket: {}\r\n", ticket.token);
        let pages = &self.pages;
        let (stream, ms) = first_byte(self.fleet.node(ASKED), "/held", &header, 200, || {
            sleep(UNTIL_FREE);
            pages.end_one();
        });
        self.running = stream;
        ms
    }

    /// How often the store was to be asked about a ticket, or was not as it is away.
    fn asked(&self) -> f64 {
        let info = self.fleet.info(ASKED);
        let asked = &info["fleet"]["tickets"]["asked"];
        let number = |of: &str| asked[of].as_f64().expect("a number");
        ["mine", "used", "waits", "silent", "away"]
            .map(number)
            .iter()
            .sum()
    }
}

/// Measures with the primary of Sentinels well, and then from when it is killed on.
fn replaced(start: impl Fn(FleetBuilder) -> Stage) -> Visit {
    let mut primary = Store::start();
    let replica = Store::replica_of(&primary);
    let sentinels = Sentinels::of(&primary);
    let mut stage = start(Fleet::builder(3).at_store(&sentinels.url()));
    let [before, after] = stage.buy();
    let well = stage.phase(&before, State::Well);
    primary.kill();
    let then = stage.phase(&after, State::Replaced);
    wait_until("the replica has taken over", PATIENCE, || {
        replica.ask(&["ROLE"]).starts_with("master")
    });
    stage.fleet.until_store_is("joined");
    [well, then]
}

/// The milliseconds from the request, on a connection of its own, until the first byte of an answer of this status;
/// something happens meanwhile.
fn first_byte(
    node: &Httpd,
    path: &str,
    header: &str,
    status: u16,
    meanwhile: impl FnOnce(),
) -> (TcpStream, f64) {
    let begun = Instant::now();
    let mut stream = node.connect();
    write!(stream, "GET {path} HTTP/1.0\r\n{header}\r\n").expect("a node reads");
    meanwhile();
    let mut head = [0; 12];
    stream.read_exact(&mut head[..1]).expect("an answer");
    let ms = 1000.0 * begun.elapsed().as_secs_f64();
    stream.read_exact(&mut head[1..]).expect("an answer");
    let head = String::from_utf8_lossy(&head);
    assert!(
        head.ends_with(&status.to_string()),
        "{head} to {path} {header}"
    );
    (stream, ms)
}
