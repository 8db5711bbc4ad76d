//! Everything that may go wrong, one after the other at random: in the end all are as they were.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::node::Node;
use nap_core::fleet::link::Standing;
use nap_core::fleet::member::Presence;
use nap_rng::Rng;
use nap_testkit::cut::{Cut, Way};
use nap_testkit::long;
use nap_testkit::store::Store;

#[test]
fn whatever_happened_all_are_members_again_and_see_each_other() {
    let random = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    let seed = std::env::var("NAP_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(random.as_nanos() as u64);
    eprintln!("NAP_SEED={seed}");
    let mut rng = Rng::new(seed, 0);
    let mut store = Store::start();
    let ports = [(); 3].map(|()| Cut::before(store.port()));
    let mut nodes: Vec<Node> = (ports.iter().zip(["web1", "web2", "web3"]))
        .map(|(port, name)| Node::joined(name, &format!("redis://127.0.0.1:{}", port.port())))
        .collect();
    for _ in 0..if long() { 200 } else { 30 } {
        let one = rng.below(3) as usize;
        match rng.below(12) {
            0 => drop(store.ask(&["FLUSHALL"])),
            1 => drop(store.ask(&["CLIENT", "KILL", "TYPE", "normal"])),
            2 => {
                store.kill();
                store.start_again();
            }
            3 => {
                nodes[one].kill();
                nodes[one].start();
            }
            4 => {
                let successor = nodes[one].another();
                let (mut before, pipe) = nodes[one].hand_over(successor);
                drop(pipe);
                before.wait().expect("a process of ours");
            }
            5 => nodes[one].step(rng.below(20_000_000).cast_signed() - 10_000_000),
            6 => ports[one].turn(Way::Silent),
            7 => ports[one].turn(Way::Cut),
            8 => ports[one].turn(Way::Late(Duration::from_millis(rng.below(300)))),
            9 => ports[one].turn(Way::Drip(Duration::from_millis(1))),
            _ => ports[one].turn(Way::Open),
        }
        // That the next comes at any moment of a beat.
        std::thread::sleep(Duration::from_millis(rng.below(300)));
    }
    for port in &ports {
        port.turn(Way::Open);
    }
    for node in &nodes {
        for other in ["web1", "web2", "web3"] {
            node.wait_for("it is a member and sees all", |node| {
                node.stands() == Standing::Joined && node.sees(other) == Some(Presence::Alive)
            });
        }
    }
    let mut numbers: Vec<usize> = nodes.iter().map(Node::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 3, "each has its own");
    let epochs = nodes.iter().map(|node| node.link().epoch.load(Relaxed));
    let epochs: Vec<u64> = epochs.collect();
    assert_eq!(epochs, [epochs[0]; 3]);
}
