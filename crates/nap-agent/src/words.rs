//! Sentences of the log.

use nap_core::fleet::member::{Differs, Setting, shared_limit, span};

use crate::card::version_of;
use crate::store::Server;

/// The fleet's epoch is another one.
pub const EMPTIED: &str = "the store was emptied, or is another one; it is told everything again";

/// It cannot be used.
pub fn away(why: &str) -> String {
    format!("the store is away ({why}); tickets are kept, limits stay")
}

/// It can be used again, and may have been emptied; marks were told anew, and of some another node had made one meanwhile.
pub fn back(seconds: u64, emptied: bool, [told, twice]: [u64; 2]) -> String {
    let emptied = match emptied {
        true => "; it was emptied, or is another one, and is told everything again",
        false => "",
    };
    let told = match told {
        0 => String::new(),
        told => format!("; {told} redemptions told, {twice} of them twice"),
    };
    format!("the store is back after {seconds} s{emptied}{told}")
}

/// It cannot be used before somebody has done something about it.
pub fn too_old(what: &str) -> String {
    let what = what.strip_prefix("it is ").unwrap_or(what);
    format!("the store is {what}; Redis 6.2, Valkey 7.2 or newer is wanted; this server runs alone")
}

/// `NapNode` is not unique.
pub fn taken(name: &str, host: &str) -> String {
    let host = if host.is_empty() {
        String::new()
    } else {
        format!(" ({host})")
    };
    format!("NapNode {name} is the name of another server that is alive{host}; this one runs alone")
}

/// It is a member.
pub fn joined(fleet: &str, at: &str, name: &str, node: u8, nodes: usize) -> String {
    let s = if nodes == 1 { "" } else { "s" };
    format!("fleet \"{fleet}\" at {at} as {name} (number {node}), {nodes} node{s}")
}

/// By so many microseconds.
pub fn jump(by: i64) -> String {
    let seconds = by as f64 / 1e6;
    format!(
        "the store's clock and this server's have moved apart by {seconds:+.1} s at once; fleet time follows slowly"
    )
}

/// It does not keep what it is told.
pub fn evicts(server: &Server) -> String {
    let (policy, gone) = (&server.policy, server.evicted);
    let gone = match gone {
        0 => String::new(),
        n => format!(" ({n} keys so far)"),
    };
    format!(
        "the store throws data away when it is full{gone}: maxmemory-policy is {policy}; use noeviction"
    )
}

/// It is a member from now on.
pub fn alive(name: &str) -> String {
    format!("{name} is there")
}

/// It was stopped.
pub fn left(name: &str) -> String {
    format!("{name} has left")
}

/// The store has heard nothing of it since this time of day.
pub fn silent(name: &str, since: &str) -> String {
    format!("{name} is silent since {since}; its tickets are good at the other servers")
}

/// What is not at a node as it is here.
pub fn differs(name: &str, differs: &Differs) -> String {
    let (theirs, ours) = (differs.theirs, differs.ours);
    let room = differs.room();
    let setting = |what: &str| {
        let [theirs, ours] = [theirs, ours].map(span);
        format!("room {room}: {what} is {theirs} at {name} and {ours} here")
    };
    match differs.setting() {
        Some(Setting::WaitMax) => setting("NapWaitMax"),
        Some(Setting::Prime) => setting("NapTicketPrime"),
        Some(Setting::Horizon) => setting("NapTicketHorizon"),
        Some(Setting::Limit) => {
            let [theirs, ours] = [theirs, ours].map(shared_limit);
            format!(
                "room {room}: NapRunReady is {theirs} at {name} and {ours} here; the smallest counts"
            )
        }
        Some(Setting::Room) => format!("room {room} is not at {name}"),
        Some(Setting::Key) => {
            format!("{name} signs with key {theirs}, which this server does not have")
        }
        Some(Setting::OtherKey) => {
            format!("key {theirs} of {name} is another one than here (NapTicketKey)")
        }
        Some(Setting::Version) => {
            let [theirs, ours] = [theirs, ours].map(version_of);
            format!("{name} has mod_nap {theirs}, this server {ours}")
        }
        None => format!("{name} is as this server"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_a_sentence() {
        let cases = [
            (
                Differs::new(Setting::WaitMax, "shop", 5_000, 4_000),
                "room shop: NapWaitMax is 5s at web3 and 4s here",
            ),
            (
                Differs::new(Setting::Prime, "shop", 1_500, 2_000),
                "room shop: NapTicketPrime is 1500ms at web3 and 2s here",
            ),
            (
                Differs::new(Setting::Prime, "shop", 0, 90_000),
                "room shop: NapTicketPrime is auto at web3 and 90s here",
            ),
            (
                Differs::new(Setting::Horizon, "shop", 3_600_000, 1_800_000),
                "room shop: NapTicketHorizon is 1h at web3 and 30min here",
            ),
            (
                Differs::new(Setting::Limit, "shop", 6, 8),
                "room shop: NapRunReady is 6 shared at web3 and 8 shared here; the smallest counts",
            ),
            (
                Differs::new(Setting::Room, "shop", 0, 1),
                "room shop is not at web3",
            ),
            (
                Differs::new(Setting::Key, "", 7, 3),
                "web3 signs with key 7, which this server does not have",
            ),
            (
                Differs::new(Setting::OtherKey, "", 3, 3),
                "key 3 of web3 is another one than here (NapTicketKey)",
            ),
            (
                Differs::new(Setting::Version, "", 1_002, 1_000),
                "web3 has mod_nap 0.1.2, this server 0.1.0",
            ),
        ];
        for (case, expected) in cases {
            assert_eq!(differs("web3", &case), expected);
        }
    }

    #[test]
    fn a_store_that_throws_data_away_is_told_what_to_use() {
        let server = Server {
            policy: "allkeys-lru".into(),
            memory: 1,
            ..Server::default()
        };
        let said = evicts(&server);
        assert!(
            said.ends_with("maxmemory-policy is allkeys-lru; use noeviction"),
            "{said}"
        );
    }
}
