//! How long a visitor waits for the store of a fleet, whatever the store is like: visitors who are let in at once, and
//! holders who come to a full node with another node's ticket, so that the store must be asked.
//!
//! A holder's time is from the request until the node's page shows that it waits, which is looked at all the time: a
//! millisecond or two are the looking's own. A node asks a store that does not answer three times, and then no more for a
//! while. Prints one Markdown row for each state of the store, in milliseconds. Options, with their defaults first:
//!
//! ```text
//! cargo bench --bench ask -- newcomers=1000 holders=20
//! ```

#[allow(dead_code, reason = "the board is another bench's")]
mod board;

use board::median;
use nap_testkit::cut::Way;
use nap_testkit::fleet::Fleet;
use nap_testkit::made;
use nap_testkit::ticket::Ticket;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const ROOMS: &str = "
<NapRoom site>
NapRunReady 1
NapWaitMax 20s
NapWaitLimit 0
NapReAccess 5000
NapSlotPeriod 1s
NapTicketPrime 30s
NapTicketsPerClient 100000
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>
<NapRoom quick>
NapRunReady 10
NapStatic On
</NapRoom>
<Location /quick.txt>
NapUse quick
</Location>
";

const APP: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nserved\\n'\n";

const WAYS: [(&str, Way); 7] = [
    ("near", Way::Open),
    ("5 ms away", Way::Late(Duration::from_millis(5))),
    ("30 ms away", Way::Late(Duration::from_millis(30))),
    ("500 ms away", Way::Late(Duration::from_millis(500))),
    ("a byte each ms", Way::Drip(Duration::from_millis(1))),
    ("silent", Way::Silent),
    ("cut off", Way::Cut),
];

fn main() {
    board::require_what_make_builds();
    if let Err(missing) = made::look_for("release/nap-agent") {
        board::stop(&missing);
    }
    let newcomers = board::number_option("newcomers=", "1000");
    let holders = board::number_option("holders=", "20");
    println!(
        "{newcomers} newcomers, {holders} holders\n\n\
         | the store is | admitted: median | 99 % | most | holder: median | first three: most | the others: most |\n\
         |---|---:|---:|---:|---:|---:|---:|"
    );
    for (name, way) in WAYS {
        let fleet = start();
        fleet.cuts().iter().for_each(|cut| cut.turn(way));
        let admitted = admitted(&fleet, newcomers);
        let waited = waited(&fleet, way, holders as usize);
        let (first, others) = waited.split_at(3.min(waited.len()));
        let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        let cells = [
            median(admitted.clone()).unwrap_or(0.0),
            admitted[admitted.len() * 99 / 100],
            most(&admitted),
            median(waited.clone()).unwrap_or(0.0),
            most(first),
            most(others),
        ];
        println!(
            "| {name} | {} |",
            cells.map(|ms| format!("{ms:.2}")).join(" | ")
        );
    }
}

fn start() -> Fleet {
    let builder = Fleet::builder(3).with_cuts().node(|node| {
        let node = node.holding().config(ROOMS).cgi("app", APP);
        let node = node.file("htdocs/quick.txt", "quick\n");
        let node = node.expect_log("the store is away (", "it may be");
        node.expect_log("[nap:warn]", "rooms tell of settings that are too small")
    });
    let fleet = builder.start();
    for node in fleet.nodes() {
        for _ in 0..20 {
            assert_eq!(node.get("/cgi-bin/app").status, 200);
        }
    }
    fleet
}

fn ms(since: Instant) -> f64 {
    1000.0 * since.elapsed().as_secs_f64()
}

/// Times of visitors who find room, in order of size.
fn admitted(fleet: &Fleet, newcomers: u32) -> Vec<f64> {
    let mut times: Vec<f64> = (0..newcomers)
        .map(|_| {
            let asked = Instant::now();
            assert_eq!(fleet.node(0).get("/quick.txt").status, 200);
            ms(asked)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Times of holders until they wait, in the order they came. The store is as it should be while tickets are sold.
fn waited(fleet: &Fleet, way: Way, holders: usize) -> Vec<f64> {
    fleet.cuts().iter().for_each(|cut| cut.turn(Way::Open));
    fleet.until_store_is("joined");
    let held: Vec<_> = fleet
        .nodes()
        .iter()
        .map(|node| node.hold("all", 1))
        .collect();
    let bought = |_| Ticket::of(&fleet.node(0).get("/cgi-bin/app"));
    let tickets: Vec<Ticket> = (0..holders).map(bought).collect();
    tickets.iter().for_each(Ticket::until_prime);
    fleet.cuts().iter().for_each(|cut| cut.turn(way));
    let node = fleet.node(1);
    let mut waiting: Vec<TcpStream> = Vec::new();
    let times = tickets.iter().map(|ticket| {
        let mut stream = node.connect();
        let asked = Instant::now();
        write!(
            stream,
            "GET /cgi-bin/app HTTP/1.0\r\nNap-Ticket: {}\r\n\r\n",
            ticket.token
        )
        .expect("a node reads");
        waiting.push(stream);
        while node.waiting() < waiting.len() {
            if asked.elapsed() > Duration::from_secs(10) {
                board::stop("a holder does not wait: the ticket is not honoured");
            }
        }
        ms(asked)
    });
    let times = times.collect();
    drop(held);
    times
}
