//! A ticket whose answer was lost is presented again, at whichever node of a fleet.

use crate::server::{Say, serve};
use crate::{SOON, check, report};
use std::time::{Duration, Instant};

#[test]
fn a_fleet_is_judged_by_who_sold_a_ticket_and_who_redeemed_it() {
    let at = |node, say| Say::At(node, Box::new(say));
    let ticket = |reason, token: &str| Say::Ticket(reason, token.to_owned(), SOON);
    let page = || Say::Page { redeemed: true };
    // What must be presented, and the answer to it.
    let mut script = vec![
        (None, at("web1", ticket("full", "A"))),
        (Some("A"), at("web2", page())),
        (None, at("web1", ticket("full", "B"))),
        // A node dies over it, and the balancer has no other one yet.
        (Some("B"), Say::HangUp),
        (Some("B"), Say::Status(502)),
        (Some("B"), Say::Plain),
        // The others believe for a while that it waits there.
        (Some("B"), at("web2", ticket("full", "B"))),
        (Some("B"), at("web1", page())),
        (None, at("web2", ticket("full", "C"))),
        (Some("C"), at("web1", ticket("unknown", "D"))),
        (Some("D"), at("web1", page())),
        (None, at("web2", ticket("full", "E"))),
        // A node dies that had let it in.
        (Some("E"), Say::HangUp),
        (Some("E"), at("web1", ticket("used", "F"))),
        (Some("F"), at("web1", page())),
    ]
    .into_iter();
    let url = serve(move |ask| {
        let (want, say) = script.next().expect("no more requests than the script has");
        assert_eq!(ask.ticket_cookie(), want);
        say
    });
    let options = [
        "--node-header",
        "X-Node",
        "--again",
        "20s",
        "--retry",
        "50ms",
    ];
    let report = report(&[&[url.as_str(), "-c", "1", "-n", "4"], &options[..]].concat());
    check(
        &report,
        &[
            ("posts.served", 4),
            ("promises.presented", 6),
            ("promises.kept", 4),
            ("promises.broken", 1),
            ("promises.booked_again", 1),
            ("promises.used_and_lost", 1),
            ("promises.served_again", 0),
            ("errors.lost", 5),
            ("nodes.redeemed", 4),
            ("nodes.redeemed_elsewhere", 1),
            ("nodes.by_name.web1.sold", 4),
            ("nodes.by_name.web1.redeemed_own", 3),
            ("nodes.by_name.web1.broken", 1),
            ("nodes.by_name.web2.sold", 2),
            ("nodes.by_name.web2.redeemed_of_others", 1),
        ],
    );
}

#[test]
fn a_ticket_whose_answer_was_lost_is_in_time_or_late_as_it_is_sent_again() {
    let window = Duration::from_millis(300);
    let mut issued: Option<Instant> = None;
    let mut hangs_up = true;
    let url = serve(move |ask| match (ask.ticket_cookie(), issued) {
        (Some("A"), Some(at)) if hangs_up => {
            hangs_up = false;
            // Its prime window ends before the connection does.
            std::thread::sleep((at + window * 2).saturating_duration_since(Instant::now()));
            Say::HangUp
        }
        (Some("A"), _) => Say::Ticket("late", "B".to_owned(), SOON),
        (Some(_), _) => Say::Page { redeemed: true },
        (None, _) => {
            issued = Some(Instant::now());
            let window = [0.0, window.as_secs_f64(), 60.0];
            Say::Kept(Box::new(Say::Ticket("full", "A".to_owned(), window)))
        }
    });
    let report = report(&[&url, "-c", "1", "-n", "1", "--again", "20s"]);
    check(
        &report,
        &[
            ("posts.served", 1),
            ("promises.presented", 1),
            ("promises.kept", 1),
            ("promises.broken", 0),
            ("late.presented", 1),
            ("late.rebooked", 1),
            ("connections.resent", 1),
            ("connections.resent_late", 1),
        ],
    );
}
