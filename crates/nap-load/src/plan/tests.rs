use super::*;
use crate::ticket::{Offer, Window};
use clap::Parser;

fn plan(line: &str) -> Result<Plan, String> {
    let words = format!("nap-load http://127.0.0.1:8080/board {line}");
    let args = Args::try_parse_from(words.split_whitespace()).map_err(|e| e.to_string())?;
    Plan::check(args, 7)
}

fn manners(line: &str) -> Manners {
    plan(line).expect(line).manners
}

fn ticket() -> Ticket {
    let secs = Micros::from_secs;
    let window = Window {
        from: secs(3),
        prime: secs(8),
        until: secs(303),
    };
    let offer = Offer {
        token: "t".into(),
        id: None,
        cookie: None,
        window,
    };
    Ticket::new(offer, secs(100))
}

#[test]
fn shares_are_exact_and_the_seeds_own() {
    let manners = manners("--hammer 0.3@10 --no-show 0.25 --late 1%");
    let dealt = manners.deal(200, 7);
    let count = |behaviour| dealt.iter().filter(|b| **b == behaviour).count();
    assert_eq!(count(Behaviour::Hammer), 60);
    assert_eq!(count(Behaviour::NoShow), 50);
    assert_eq!(count(Behaviour::Late), 2);
    assert_eq!(count(Behaviour::Obedient), 88);
    assert_eq!(dealt, manners.deal(200, 7));
    assert_ne!(dealt, manners.deal(200, 8));
}

#[test]
fn shares_that_fill_the_crowd_leave_nobody_out() {
    let dealt = manners("--hammer 0.333@10 --no-show 0.333 --late 0.334").deal(7, 1);
    assert!(!dealt.contains(&Behaviour::Obedient), "{dealt:?}");
}

#[test]
fn open_draws_come_near_the_shares() {
    let manners = manners("--hammer 0.3@10 --no-show 0.2");
    let mut rng = Rng::new(7, 0);
    let drawn: Vec<_> = (0..10_000).map(|_| manners.draw(&mut rng)).collect();
    let count = |behaviour| drawn.iter().filter(|b| **b == behaviour).count();
    assert!(count(Behaviour::Hammer).abs_diff(3000) < 200);
    assert!(count(Behaviour::NoShow).abs_diff(2000) < 200);
}

#[test]
fn each_behaviour_does_what_its_name_says() {
    let ms = Micros::from_millis;
    let (ticket, times) = (ticket(), (ms(99_980), ms(100_000)));
    let cases = [
        ("", Behaviour::Obedient, Move::Retry(ms(103_000))),
        (
            "--retry-after",
            Behaviour::Obedient,
            Move::Retry(ms(104_000)),
        ),
        (
            "--impatient 500ms",
            Behaviour::Impatient,
            Move::Retry(ms(100_500)),
        ),
        ("--hammer 1@10", Behaviour::Hammer, Move::Retry(ms(100_080))),
        ("--no-show 1", Behaviour::NoShow, Move::GiveUp(ms(103_000))),
        (
            "--no-show 1@1s",
            Behaviour::NoShow,
            Move::GiveUp(ms(101_000)),
        ),
        ("--late 1@2s", Behaviour::Late, Move::Retry(ms(110_000))),
        ("--abort 1@2s", Behaviour::Abort, Move::Retry(ms(103_000))),
        // A client whose page does not ask.
        ("--asks 1", Behaviour::Asks, Move::Retry(ms(103_000))),
    ];
    for (line, behaviour, want) in cases {
        let told = Some(Micros::from_secs(4));
        let mut rng = Rng::new(1, 1);
        let got = manners(line).after_refusal(behaviour, Some(&ticket), told, times, &mut rng);
        assert_eq!(got, want, "{line}");
    }
}

#[test]
fn the_late_come_in_the_tail() {
    let manners = manners("--late 1");
    let ticket = ticket();
    for stream in 0..100 {
        let mut rng = Rng::new(1, stream);
        let times = (Micros::from_secs(100), Micros::from_secs(100));
        match manners.after_refusal(Behaviour::Late, Some(&ticket), None, times, &mut rng) {
            Move::Retry(at) => assert_eq!(ticket.group(at), Group::Late),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_refusal_without_a_ticket_is_obeyed_as_told_or_after_retry() {
    let manners = manners("--retry 2s --no-show 1");
    let now = Micros::from_secs(50);
    let mut rng = Rng::new(1, 1);
    let mut after =
        |told| manners.after_refusal(Behaviour::NoShow, None, told, (now, now), &mut rng);
    assert_eq!(
        after(Some(Micros::from_secs(7))),
        Move::Retry(Micros::from_secs(57))
    );
    assert_eq!(after(None), Move::Retry(Micros::from_secs(52)));
    assert_eq!(after(Some(Micros::ZERO)), Move::Retry(now + SHORTEST_PAUSE));
}

#[test]
fn visitors_live_in_networks_of_their_own() {
    let distinct = plan("").expect("plan");
    let nets: std::collections::HashSet<_> = (0..65_024)
        .map(|i| distinct.address(i).expect("an address").octets())
        .inspect(|octets| assert!(octets[1] >= 1 && octets[3] == 1))
        .map(|octets| [octets[0], octets[1], octets[2]])
        .collect();
    assert_eq!(nets.len(), 65_024);
    assert_eq!(distinct.address(65_024), Some(Ipv4Addr::new(127, 1, 0, 2)));
    assert_eq!(plan("--source one").expect("plan").address(3), None);
    let behind = plan("--source 20").expect("plan");
    assert_eq!(behind.address(19), behind.address(0));
    assert_ne!(behind.address(20), behind.address(0));
}

#[test]
fn bad_plans_are_refused_with_a_reason() {
    for (line, want) in [
        ("--hammer 0.7@10 --no-show 0.4", "add up"),
        ("--post-bytes 3", "--form"),
        ("--header nonsense", "--header"),
        ("--slow-read 2@1000:http://192.0.2.1/", "--allow-remote"),
        ("--slow-send 2@1:http://192.0.2.1/", "--allow-remote"),
        ("--clients 0", "--clients"),
        ("--get --post-bytes 9", "--get"),
        ("--hamster 0.3@10", "--hammer"),
        ("--arrivals even", "--open"),
    ] {
        let error = plan(line).err().expect(line);
        assert!(error.contains(want), "{line}: {error}");
    }
    for (url, want) in [
        ("http://192.0.2.1/", "--allow-remote"),
        ("https://127.0.0.1/", "only http"),
        ("127.0.0.1:80", "http://"),
    ] {
        let args = Args::try_parse_from(["nap-load", url]).expect(url);
        let error = Plan::check(args, 1).err().expect(url);
        assert!(error.contains(want), "{url}: {error}");
    }
}

#[test]
fn another_path_is_on_the_same_site() {
    let target = plan("").expect("plan").target;
    let beside = |path, h2c| target.beside(path, h2c).map(|uri| uri.to_string());
    assert_eq!(beside("/a?b", false).as_deref(), Some("/a?b"));
    assert_eq!(
        beside("/a", true).as_deref(),
        Some("http://127.0.0.1:8080/a")
    );
    assert_eq!(beside("a b", false), None);
}

#[test]
fn a_form_has_its_size() {
    assert_eq!(plan("").expect("plan").body.len(), 1024);
    assert_eq!(plan("--get").expect("plan").body.len(), 0);
}
