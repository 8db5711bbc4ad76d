//! What an administrator orders at one node holds at all: now, when a node is back, and when one begins.

use nap_testkit::cut::Way;
use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::{for_event_or_each_mpm, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

const SITE: &str = "
<NapRoom shop>
NapRunReady 2
</NapRoom>
<Location /work>
NapUse shop
</Location>
NapControl /nap-control
<Location /nap-control>
SetHandler nap-control
NapUse None
</Location>";

fn fleet() -> FleetBuilder {
    Fleet::builder(3).with_cuts().node(|node| {
        node.work()
            .config(SITE)
            .expect_log("nap-control (no user name): ", "what it is for")
            .expect_log("(ordered at web", "what it is for")
            .expect_log("[nap:warn]", "orders that make no sense")
    })
}

fn order(fleet: &Fleet, n: usize, body: &str) -> String {
    let answer = fleet.order(n, n, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

/// Does this node refuse everybody?
fn is_closed(fleet: &Fleet, n: usize) -> bool {
    let answer = fleet.node(n).get("/work?cpu=1");
    match answer.header("nap-reason") {
        Some("closed") => true,
        reason => {
            assert_eq!((answer.status, reason), (200, None));
            false
        }
    }
}

fn until_closed(fleet: &Fleet, nodes: &[usize], closed: bool) {
    wait_until(&format!("{nodes:?}: closed {closed}"), PATIENCE, || {
        nodes.iter().all(|n| is_closed(fleet, *n) == closed)
    });
}

#[test]
fn a_room_that_is_closed_at_one_node_is_closed_at_all() {
    for_event_or_each_mpm(|mpm| {
        let mut fleet = fleet()
            .node(|node| {
                node.mpm(mpm)
                    .expect_log(" is silent since ", "it is killed")
            })
            .start();
        let answer = fleet.order(0, 2, "do=close&room=shop");
        assert_eq!(
            (answer.status, answer.text().trim_end()),
            (200, "room shop is closed; the fleet has been told"),
            "with the nonce of another node"
        );
        assert!(is_closed(&fleet, 0));
        until_closed(&fleet, &[0, 1, 2], true);
        for n in 0..3 {
            let by_hand = &fleet.info(n)["rooms"][0]["gates"][0]["by_hand"];
            assert_eq!(by_hand["admits"], "closed", "{n}: {by_hand}");
            let said = "mod_nap: room shop is closed (ordered at web1)";
            let told = fleet.node(n).error_log().matches(said).count();
            assert_eq!(told, usize::from(n != 0), "{n}");
        }

        // One that begins anew reads what stands, and so does one whose agent is another.
        fleet.kill(1);
        fleet.start_again(1);
        fleet.until_members(3);
        until_closed(&fleet, &[1], true);
        fleet.node_mut(2).graceful();
        until_closed(&fleet, &[0, 1, 2], true);

        // Each of them may take it back.
        order(&fleet, 1, "do=open&room=shop");
        until_closed(&fleet, &[0, 1, 2], false);
    });
}

#[test]
fn a_node_that_was_away_does_as_was_ordered_when_it_is_back() {
    let fleet = fleet()
        .node(|node| {
            node.expect_log("the store is away (", "it is cut off")
                .expect_log(" is silent since ", "it is cut off")
        })
        .start();
    let cut_off = || {
        fleet.cut(2).turn(Way::Cut);
        wait_until("the store is away", PATIENCE, || {
            fleet.info(2)["fleet"]["store"]["state"] == "away"
        });
    };
    cut_off();
    order(&fleet, 0, "do=close&room=shop");
    until_closed(&fleet, &[0, 1], true);
    assert!(!is_closed(&fleet, 2), "nobody has told it");
    fleet.cut(2).turn(Way::Open);
    until_closed(&fleet, &[2], true);

    cut_off();
    let said = order(&fleet, 2, "do=open&room=shop&scope=fleet");
    let here = "room shop is open; the store is away (";
    assert!(said.starts_with(here), "{said}");
    assert!(
        said.contains("); the fleet is told when it is back"),
        "{said}"
    );
    assert!(!is_closed(&fleet, 2), "it is carried out here");
    assert!(is_closed(&fleet, 0) && is_closed(&fleet, 1));
    let info = fleet.info(2);
    assert_eq!(info["fleet"]["store"]["orders_waiting"], 1);
    let untold = "The other servers have not been told of an order given here.";
    assert!(info["attention"].to_string().contains(untold), "{info}");
    fleet.cut(2).turn(Way::Open);
    until_closed(&fleet, &[0, 1, 2], false);
}

#[test]
fn an_order_may_be_for_one_node_and_must_make_sense() {
    let fleet = fleet().start();
    let page = fleet.node(1).get("/nap-info").text();
    assert!(page.contains("<input type=\"checkbox\" name=\"scope\" value=\"node\">"));
    let said = order(&fleet, 1, "do=close&room=shop&scope=node");
    assert_eq!(said.trim_end(), "room shop is closed");
    for (body, status, words) in [
        (
            "do=close&room=shop&scope=all",
            400,
            "scope: \"all\" is neither fleet nor node",
        ),
        ("do=close&room=other", 404, "room: there is no such room"),
        ("do=limit&room=shop&limit=0", 400, "limit: \"0\" is not"),
        ("do=revoke&ticket=bead", 400, "ticket: its id"),
        (
            "do=revoke&room=shop&cookie=a",
            404,
            "room: no room of this name has sessions",
        ),
    ] {
        let answer = fleet.order(0, 0, body);
        assert_eq!(answer.status, status, "{body}");
        assert!(
            answer.text().starts_with(words),
            "{body}: {}",
            answer.text()
        );
    }
    let said = order(&fleet, 0, "do=revoke&session=000000000000bead");
    let nowhere = "session: there is no such session here; the fleet has been told";
    assert_eq!(said.trim_end(), nowhere);

    // All orders come in turn: what was meant for one node has not been heard by the others.
    order(&fleet, 2, "do=notice&room=shop&notice=Back+soon");
    wait_until("the notice is there", PATIENCE, || {
        (0..3).all(|n| fleet.info(n)["rooms"][0]["gates"][0]["by_hand"]["notice"] == "Back soon")
    });
    assert_eq!(
        [0, 1, 2].map(|n| is_closed(&fleet, n)),
        [false, true, false]
    );
}
