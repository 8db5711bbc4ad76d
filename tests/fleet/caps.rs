//! As many tickets as a client may hold (`NapTicketsPerClient n`) it may hold of all nodes together.

use nap_testkit::fleet::Fleet;
use nap_testkit::ticket::Ticket;
use nap_testkit::{Answer, Httpd, wait_until};

use crate::once::{APP, PATIENCE, fill};

const MOST: u32 = 8;

const ROOM: &str = "
<NapRoom site>
NapRunReady 1
NapWaitLimit 0
NapReAccess 5000
NapWaitMax 4s
NapTicketPrime 60s
NapSlotPeriod 1s
NapTicketsPerClient 8
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>
";

/// Of the client's tickets, as many as the store knows.
fn known(fleet: &Fleet) -> u32 {
    let store = fleet.store();
    let keys = store.ask(&["KEYS", "nap:{*}:c:*"]);
    // Of the client, and of its net, of which less is told.
    let held = |key: &str| -> u32 {
        let counts = store.ask(&["HVALS", key]);
        let counts = counts.split_whitespace();
        let many = counts.filter_map(|one| one.split_once(':')?.1.parse::<u32>().ok());
        many.sum()
    };
    keys.split_whitespace().map(held).max().unwrap_or(0)
}

/// A visitor without a ticket comes to a full node. None: it is sold none.
fn buys(node: &Httpd) -> Option<Ticket> {
    let refusal: Answer = node.get("/cgi-bin/app");
    match refusal.header("nap-ticket") {
        Some(_) => Some(Ticket::of(&refusal)),
        None => {
            assert_eq!(refusal.header("nap-reason"), Some("cap"));
            None
        }
    }
}

#[test]
fn a_client_that_is_sent_from_node_to_node_holds_little_more_than_it_may_at_one() {
    let fleet = Fleet::builder(3)
        .node(|node| node.holding().config(ROOM).cgi("app", APP))
        .options("timeout=250ms")
        .start();
    for node in fleet.nodes() {
        assert_eq!(node.get("/cgi-bin/app").status, 200);
    }
    let mut held = fill(&fleet, "first");
    let mut tickets = Vec::new();
    for node in (0..fleet.size()).cycle().take(30) {
        let Some(ticket) = buys(fleet.node(node)) else {
            continue;
        };
        tickets.push((node, ticket));
        wait_until("the store knows of it", PATIENCE, || {
            known(&fleet) == tickets.len() as u32
        });
    }
    eprintln!("{} tickets of {MOST}", tickets.len());
    // The first at each node is sold before that has heard of the client.
    let most = MOST + fleet.size() as u32 - 1;
    assert!((MOST..=most).contains(&(tickets.len() as u32)));
    assert!(
        tickets.iter().map(|(seller, _)| *seller).max() == Some(2),
        "all nodes sell"
    );
    // Some are used at a node that did not sell them, and the client may have as many more, wherever it comes.
    let others = tickets.iter().filter(|(seller, _)| *seller != 2);
    let used: Vec<&Ticket> = others.map(|(_, ticket)| ticket).take(4).collect();
    drop(held.pop().expect("three").release());
    for ticket in &used {
        ticket.until_prime();
        let headers = [("Nap-Ticket", ticket.token.as_str())];
        assert_eq!(
            fleet
                .node(2)
                .request("GET", "/cgi-bin/app", &headers, b"")
                .status,
            200
        );
    }
    let left = tickets.len() - used.len();
    wait_until("the store knows that they are used", PATIENCE, || {
        known(&fleet) == left as u32
    });
    let mut more = 0;
    wait_until("as many are sold again", PATIENCE, || {
        if buys(fleet.node(0)).is_some() {
            more += 1;
        }
        left + more >= MOST as usize
    });
}
