//! Each script by itself: what the reference does not know of (lives, keys that are others', what is forgotten).

use nap_agent::telling::Speaker;
use nap_core::fleet::exchange::{Batch, LeaseAsk, Tale};
use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::notes::Event;
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;

use crate::reference::{Real, speaker};

fn name(index: u32) -> Name {
    Name {
        epoch: 0xfeed,
        node: 2,
        gate: 0xbeef,
        slot: 9,
        index,
    }
}

fn batch(seq: u64, tales: &[Tale]) -> Batch {
    Batch {
        seq,
        tales: tales.to_vec(),
        ..Batch::default()
    }
}

fn tale(index: u32, event: Event) -> Tale {
    let now = mod_nap::shm::clock::wall();
    Tale {
        name: name(index),
        event: Some(event),
        window: Some((Micros(now + 1_000_000), Micros(now + 6_000_000))),
        more: true,
    }
}

/// Node 1 after a full restart.
fn reborn() -> Speaker {
    Speaker {
        life: 0xdead,
        agent: 0xdead,
        ..speaker(1)
    }
}

#[test]
fn who_waited_in_an_earlier_life_waits_no_more_and_what_was_used_then_is_used() {
    let mut real = Real::start(Micros::ZERO);
    assert_eq!(real.redeem(&speaker(1), &name(1)), Told::Mine);
    let used = batch(1, &[tale(2, Event::Runs)]);
    real.carry_out(&speaker(1), None, &used);
    assert_eq!(real.redeem(&speaker(3), &name(1)), Told::Waits);
    real.carry_out(&reborn(), None, &batch(1, &[]));
    assert_eq!(real.redeem(&reborn(), &name(1)), Told::Mine);
    assert_eq!(real.redeem(&reborn(), &name(2)), Told::Used);
    let again = batch(2, &[tale(2, Event::Runs)]);
    assert_eq!(real.carry_out(&reborn(), None, &again).twice, [name(2)]);
}

#[test]
fn one_who_waits_where_nobody_ever_beat_is_passed_on() {
    let mut real = Real::start(Micros::ZERO);
    assert_eq!(real.redeem(&speaker(1), &name(1)), Told::Mine);
    assert_eq!(real.redeem(&speaker(3), &name(1)), Told::Mine);
    assert_eq!(real.server.ask(&["SCRIPT", "FLUSH"]), "OK");
    let ask = real.redeem(&speaker(3), &name(2));
    assert_eq!(ask, Told::Mine, "by its text");
}

#[test]
fn a_message_that_comes_twice_changes_claims_once_and_an_agent_that_is_new_is_heard() {
    let mut real = Real::start(Micros::ZERO);
    let mut asks = batch(1, &[tale(1, Event::Sold)]);
    asks.exchanges = true;
    for _ in 0..3 {
        let heard = real.carry_out(&speaker(2), None, &asks);
        let (_, cells) = heard.answer.members.expect("it has asked");
        assert_eq!(cells.open.iter().max(), Some(&1));
        assert_eq!(cells.begins.iter().sum::<u32>(), 1);
    }
    let other = Speaker {
        agent: 7,
        ..speaker(2)
    };
    let heard = real.carry_out(&other, None, &asks);
    let (_, cells) = heard.answer.members.expect("it has asked");
    assert_eq!(cells.open.iter().max(), Some(&2), "its number is its own");
}

#[test]
fn a_store_that_was_emptied_has_another_epoch() {
    let mut real = Real::start(Micros::ZERO);
    let first = real.carry_out(&speaker(1), None, &batch(1, &[]));
    let second = real.carry_out(&speaker(1), None, &batch(2, &[]));
    assert_eq!(first.answer.epoch, second.answer.epoch);
    assert_eq!(real.server.ask(&["FLUSHALL"]), "OK");
    let third = real.carry_out(&speaker(1), None, &batch(3, &[]));
    assert_ne!(third.answer.epoch, first.answer.epoch);
    assert_eq!(third.answer.epoch, third.answer.at.0);
}

#[test]
fn marks_claims_and_notices_are_forgotten_in_time() {
    let mut real = Real::start(Micros::ZERO);
    real.redeem(&speaker(1), &name(1));
    real.carry_out(&speaker(1), None, &batch(1, &[tale(3, Event::Sold)]));
    let ttl = |key: &str| -> i64 {
        let left = real.server.ask(&["PTTL", key]);
        left.parse().expect("a number")
    };
    let marks = ttl("nap:{nap}:u:0000beef:2:feed:9");
    assert!((1..=100_000_000).contains(&marks), "{marks}");
    let notices = ttl("nap:{nap}:in:0000beef:2");
    assert!((1..=600_000).contains(&notices), "{notices}");
    let part = mod_nap::shm::clock::wall() / 600_000_000;
    let claims = ttl(&format!("nap:{{nap}}:o:0000beef:{part}"));
    assert!((1..=660_000).contains(&claims), "{claims}");
}

#[test]
fn a_seller_that_is_never_heard_is_told_no_more_than_so_much() {
    let mut real = Real::start(Micros::ZERO);
    for seq in 0..11 {
        let tales = (0..1000).map(|n| tale(seq * 1000 + n, Event::Runs));
        let tales: Vec<Tale> = tales.collect();
        real.carry_out(&speaker(1), None, &batch(u64::from(seq) + 1, &tales));
    }
    assert_eq!(
        real.server.ask(&["LLEN", "nap:{nap}:in:0000beef:2"]),
        "10000"
    );
    let heard = real.carry_out(&speaker(2), None, &batch(1, &[]));
    assert_eq!(heard.answer.notices.len(), 1000);
    assert_eq!(heard.answer.notices[999].name, name(999));
    let heard = real.carry_out(&speaker(2), None, &batch(2, &[]));
    assert_eq!(heard.answer.notices[0].name, name(1000));
}

#[test]
fn slots_are_kept_for_an_hour_after_their_end() {
    let mut real = Real::start(Micros::ZERO);
    let period = Micros::from_secs(10);
    let now = mod_nap::shm::clock::wall();
    let ask = |seq, from| Batch {
        lease: Some(LeaseAsk {
            from: Micros(from),
            wanted: 5,
            period,
            capacity: 5,
            guessed: false,
        }),
        ..batch(seq, &[])
    };
    for (seq, hours_ago) in [(1, 2), (2, 0)] {
        let from = now - hours_ago * 3_600_000_000;
        let heard = real.carry_out(&speaker(1), None, &ask(seq, from));
        assert_eq!(heard.answer.lease.map(|lease| lease.slot.next), Some(5));
    }
    let key = format!("nap:{{nap}}:s:0000beef:{}", period.0);
    assert!(
        real.server
            .ask(&["HLEN", &key])
            .parse::<u32>()
            .expect("a number")
            <= 2
    );
    let first = (now - 7_200_000_000) / period.0;
    let old = [first, first + 1].map(|k| real.server.ask(&["HGET", &key, &k.to_string()]));
    assert_eq!(old, ["", ""]);
}

#[test]
fn a_message_that_fails_half_way_is_not_carried_out_again() {
    let mut real = Real::start(Micros::ZERO);
    let others = "nap:{nap}:in:0000beef:2";
    assert_eq!(real.server.ask(&["SET", others, "a"]), "OK");
    let message = batch(1, &[tale(1, Event::Runs), tale(2, Event::Runs)]);
    let failed = real.try_to_carry_out(&speaker(1), None, &message);
    assert!(failed.is_err());
    let mut again = message.clone();
    again.exchanges = true;
    let heard = real.carry_out(&speaker(1), None, &again);
    let (_, cells) = heard.answer.members.expect("it has asked");
    assert_eq!(cells.open.iter().sum::<u32>(), 0);
    let next = real.carry_out(&speaker(1), None, &batch(2, &[]));
    assert_eq!(next.answer.seq, 2);
}

#[test]
fn what_is_something_else_under_our_names_is_left_alone() {
    for key in [
        "nap:{nap}:u:0000beef:2:feed:9",
        "nap:{nap}:g:0000beef",
        "nap:{nap}:t:0000beef",
        "nap:{nap}:in:0000beef:1",
        "nap:{nap}:in:0000beef:2",
        "nap:{nap}:r:0000beef",
    ] {
        let mut real = Real::start(Micros::ZERO);
        let set = match key.contains(":in:") {
            true => real.server.ask(&["HSET", key, "a", "b"]),
            false => real.server.ask(&["RPUSH", key, "a"]),
        };
        assert_eq!(set, "1");
        let message = batch(1, &[tale(1, Event::Runs)]);
        let failed = real.try_to_carry_out(&speaker(1), Some(3), &message);
        let failure = failed.expect_err("it is no key of ours");
        assert_eq!(failure.trouble, Trouble::OtherKeys, "{key}: {failure:?}");
    }
}
