//! The keys of the JSON are those of docs/nap-info.md; of balancers, those of docs/oxthas.md.

use crate::crowd::Crowd;
use crate::{PREFORK, TERMS, json, report, wall, with_room};
use mod_nap::info::{Balancers, Busiest, Door};
use nap_core::micros::Micros;
use nap_core::oxthas::engine::{Engine, Head};
use nap_core::oxthas::executor::Executor;
use nap_core::oxthas::flight::Flight;
use nap_core::room::starts::StartTerms;
use nap_core::room::verdict::Reason;
use nap_core::sqs::page_scheduler::{Pace, law};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn every_key_is_documented_and_no_other() {
    let mut told = with_room("board", |tables, now| {
        tables.pacing[0].configure(
            Pace {
                law: law::AUTO,
                start: 2,
                lo: 1,
                hi: 64,
                ..Pace::default()
            },
            now,
        );
        let mut crowd = Crowd::new(now, "/");
        crowd.run(tables, Micros::from_secs(20));
        let mut report = report(tables, crowd.now, PREFORK);
        report.open(Door::default());
        json(&report.with_fleet(&crate::fleet::fleet(), wall()))
    });
    let with_sessions = with_room("board", |tables, now| {
        let starts = StartTerms {
            on: 1,
            ..StartTerms::default()
        };
        let entered = tables.enter_lobby("board", 0, *TERMS, starts);
        entered.expect("there is room");
        let begun = tables
            .sessions
            .start(1 << 40, (0, Micros::from_secs(60)), 1, now, |_| ());
        tables
            .sessions
            .bind(begun.expect("there is room"), 1, 77, now, |_| ());
        let busiest = Busiest::gather(|part, busiest| busiest.take(part, &tables.sessions, now));
        let name = |_| Some("board".to_owned());
        json(&report(tables, now, PREFORK).with_sessions(busiest, wall(), name))
    });
    assert_eq!(told["sessions"], serde_json::json!([]));
    told["sessions"] = with_sessions["sessions"].clone();
    let mut keys = BTreeSet::new();
    collect(&told, String::new(), &mut keys);
    let of_room = &with_sessions["rooms"][0]["sessions"];
    collect(of_room, "rooms[].sessions".into(), &mut keys);
    let reasons: BTreeSet<_> = (0..Reason::COUNT as u32)
        .map(|raw| Reason::of(raw).name())
        .collect();
    let keys: BTreeSet<String> = keys
        .into_iter()
        .map(|key| match key.split_once(".refused.") {
            Some((before, reason)) if reasons.contains(reason) => {
                format!("{before}.refused.<reason>")
            }
            _ => key,
        })
        .collect();
    let documented: BTreeSet<String> = rows(include_str!("../../docs/nap-info.md")).collect();
    assert_eq!(keys, documented);
}

#[test]
fn every_key_of_a_balancer_is_documented_and_no_other() {
    let mut engine = Engine {
        head: &mut Box::new(Head::default()),
        executors: &mut [Executor::default()],
        flights: &mut [Flight::default()],
    };
    let member = engine.executor(1, ["balancer://app", "http://a"], Micros(1));
    let member = member.expect("there is room") as usize;
    engine.executors[member].cell_mut(0).answers = 1;
    let mut balancers = Balancers::new(1);
    balancers.take(&engine, Micros(2));
    let told = with_room("board", |tables, now| {
        json(&report(tables, now, PREFORK).with_balancers(&balancers))
    });
    let mut keys = BTreeSet::new();
    collect(&told["balancers"], "balancers".into(), &mut keys);
    let documented = rows(include_str!("../../docs/oxthas.md"));
    let of_balancers = documented.filter(|key| key.starts_with("balancers[]"));
    assert_eq!(keys, of_balancers.collect());
}

/// The first cells of a page's tables.
fn rows(page: &str) -> impl Iterator<Item = String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(key, _)| key.to_owned())
}

/// The dotted paths of all values that are neither lists nor objects.
fn collect(value: &Value, path: String, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let dot = if path.is_empty() { "" } else { "." };
                collect(member, format!("{path}{dot}{name}"), keys);
            }
        }
        Value::Array(elements) => {
            assert!(!elements.is_empty(), "{path} is empty: nothing to compare");
            elements
                .iter()
                .for_each(|element| collect(element, format!("{path}[]"), keys));
        }
        _ => {
            keys.insert(path);
        }
    }
}
