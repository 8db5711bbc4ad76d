//! What else may be wrong with a store: each has its number and one sentence.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use crate::node::Node;
use crate::room::Room;
use mod_nap::shm::clock;
use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::link::Standing;
use nap_core::fleet::member::Presence;
use nap_core::fleet::trouble::Trouble;
use nap_testkit::cut::{Cut, Way};
use nap_testkit::made;
use nap_testkit::store::Store;

#[test]
fn a_wrong_password_and_one_that_is_changed_while_it_runs() {
    let mut store = Store::start();
    let node = Node::joined("web1", &store.url());
    store.want_password("secret");
    // A connection that has been let in stays so.
    store.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    node.wait_for_trouble(Standing::Away, Trouble::Password);
    assert_eq!(node.said("the store is away (NOAUTH "), 1, "{}", node.log());
    let mut other = Node::new("web2", &store.url());
    other.brief.auth.password = "wrong".into();
    other.start();
    other.wait_for_trouble(Standing::Away, Trouble::Password);
    assert_eq!(
        other.said("the store is away (WRONGPASS "),
        1,
        "{}",
        other.log()
    );
    assert_eq!(other.said("wrong"), 0, "the password itself is not told");
    let mut right = Node::new("web3", &store.url());
    right.brief.auth.password = "secret".into();
    right.start();
    right.wait_until_joined();
    store.want_password("");
    node.wait_until_joined();
}

/// What the manual gives an account of its own.
fn account() -> Vec<String> {
    let manual = made::repository().join("docs/fleet.md");
    let manual = std::fs::read_to_string(manual).expect("the manual");
    let mut lines = manual.lines();
    let line = lines.find_map(|line| {
        line.strip_prefix("user ")
            .filter(|rest| rest.starts_with("nap on "))
    });
    let line = line.expect("the manual has it");
    let line = line.replace("SECRET", "secret");
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn an_account_of_its_own_needs_what_the_manual_says() {
    let store = Store::start();
    let account = account();
    let words = ["ACL", "SETUSER"].into_iter();
    let words: Vec<&str> = words.chain(account.iter().map(String::as_str)).collect();
    assert_eq!(store.ask(&words), "OK");
    let rooms = ["web1", "web2"].map(|name| {
        let mut room = Room::new(name, &store.url(), Some(3));
        let auth = &mut room.node.brief.auth;
        (auth.user, auth.password) = ("nap".into(), "secret".into());
        room.node.start();
        room
    });
    for room in &rooms {
        room.wait_for("both gates live", |stake| stake.nodes == 2);
        room.node.wait_for("it sees itself", |node| {
            node.sees(&node.brief.node) == Some(Presence::Alive)
        });
    }
    let ticket = rooms[0].sells();
    let name = Name::of(&ticket);
    assert_eq!(rooms[1].asks(&name), Told::Mine);
    rooms[1].comes(&[ticket], Some((name, Told::Mine)));
    assert_eq!(rooms[0].asks(&name), Told::Waits);
    assert_eq!(store.ask(&["ACL", "LOG"]), "");
    assert_eq!(store.ask(&["ACL", "SETUSER", "nap", "-hset"]), "OK");
    let node = &rooms[0].node;
    node.wait_for_trouble(Standing::Away, Trouble::Rights);
    // In its own words, which are others in each version.
    node.wait_for("it is told", |node| node.said("the store is away (") == 1);
}

#[test]
fn an_account_of_its_own_may_do_no_more_than_scripts_do() {
    let mut used = BTreeSet::from(["select", "role", "info", "evalsha", "eval"].map(str::to_owned));
    let scripts = made::repository().join("crates/nap-agent/src/scripts");
    for script in std::fs::read_dir(scripts).expect("they are there") {
        let text = std::fs::read_to_string(script.expect("a file").path()).expect("a text");
        let calls = text.split("redis.call('").skip(1);
        let names = calls.filter_map(|call| call.split('\'').next());
        used.extend(names.map(str::to_lowercase));
    }
    let account = account();
    let may = account.iter().filter_map(|word| word.strip_prefix('+'));
    assert_eq!(may.map(str::to_owned).collect::<BTreeSet<_>>(), used);
}

#[test]
fn a_replica_takes_no_writes() {
    let primary = Store::start();
    let replica = Store::replica_of(&primary);
    let node = Node::started("web1", &replica.url());
    node.wait_for_trouble(Standing::Away, Trouble::ReadOnly);
    assert_eq!(
        node.said("it says that it is a replica"),
        1,
        "{}",
        node.log()
    );
    // A primary that becomes one under a connection.
    let node = Node::joined("web2", &primary.url());
    let other = Store::start();
    let port = other.port().to_string();
    primary.ask(&["REPLICAOF", "127.0.0.1", &port]);
    node.wait_for("it is away", |node| {
        node.stands() == Standing::Away && node.link().trouble() == Some(Trouble::ReadOnly)
    });
    primary.ask(&["REPLICAOF", "NO", "ONE"]);
    node.wait_until_joined();
}

#[test]
fn a_store_that_throws_data_away_is_told_of() {
    let store = Store::with(&["--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru"]);
    let node = Node::joined("web1", &store.url());
    node.wait_for("it says so", |node| {
        node.said("maxmemory-policy is allkeys-lru; use noeviction") == 1
    });
    assert_eq!(node.stands(), Standing::Joined);
}

#[test]
fn a_store_without_memory_is_away_and_comes_back() {
    let store = Store::start();
    let node = Node::joined("web1", &store.url());
    store.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    node.wait_for_trouble(Standing::Away, Trouble::Full);
    assert_eq!(node.said("the store is away (OOM "), 1, "{}", node.log());
    store.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    node.wait_until_joined();
}

#[test]
fn keys_of_something_else_are_left_alone() {
    for key in ["names", "beats", "cards", "epoch"] {
        let store = Store::start();
        let key = format!("nap:{{nap}}:{key}");
        store.ask(&["RPUSH", &key, "x"]);
        let node = Node::started("web1", &store.url());
        node.wait_for_trouble(Standing::Away, Trouble::OtherKeys);
        assert_eq!(node.said("WRONGTYPE"), 1, "{}", node.log());
        assert_eq!(store.ask(&["LRANGE", &key, "0", "-1"]), "x");
    }
}

#[test]
fn nonsense_under_our_keys_disturbs_nobody() {
    let store = Store::start();
    let garbage = "{\"at\":\"\u{1}\n";
    store.ask(&[
        "HSET",
        "nap:{nap}:beats",
        "7",
        garbage,
        "x",
        garbage,
        "0",
        "{}",
        "8",
        "{}",
    ]);
    store.ask(&["HSET", "nap:{nap}:cards", "8", garbage]);
    let nodes = ["web1", "web2"].map(|name| Node::joined(name, &store.url()));
    for node in &nodes {
        for name in ["web1", "web2"] {
            node.wait_for("it sees both", |node| {
                node.sees(name) == Some(Presence::Alive)
            });
        }
    }
    store.ask(&["HSET", "nap:{nap}:names", "web3", "x"]);
    let third = Node::started("web3", &store.url());
    third.wait_for_trouble(Standing::Away, Trouble::OtherKeys);
    // An old beat of its own number that is none.
    store.ask(&["HSET", "nap:{nap}:names", "web4", "7"]);
    let fourth = Node::joined("web4", &store.url());
    assert_eq!(fourth.number(), 7);
}

#[test]
fn a_fleet_that_is_full_takes_nobody_in() {
    let store = Store::start();
    let day = Duration::from_secs(24 * 3600).as_micros() as u64;
    // When it was heard last: all within a day.
    let heard = |node: u64, ago: u64| {
        let at = clock::wall() - ago;
        let beat = format!(r#"{{"at":{at},"instance":"a"}}"#);
        store.ask(&["HSET", "nap:{nap}:beats", &node.to_string(), &beat]);
    };
    for node in 1..=255 {
        store.ask(&[
            "HSET",
            "nap:{nap}:names",
            &format!("old{node}"),
            &node.to_string(),
        ]);
        heard(node, day - 600_000_000 - node);
    }
    let node = Node::started("web1", &store.url());
    node.wait_for_trouble(Standing::Alone, Trouble::FleetFull);
    let words = "the fleet has 255 nodes, and no number is left; this server runs alone";
    node.wait_for("it is told", |node| node.said(words) == 1);
    store.ask(&["HDEL", "nap:{nap}:names", "old77"]);
    node.wait_until_joined();
    assert_eq!(node.number(), 77);
    // Hosts with new names each time do not use all numbers up.
    let second = Node::started("web2", &store.url());
    second.wait_for_trouble(Standing::Alone, Trouble::FleetFull);
    // What is no number is nobody's.
    store.ask(&["HSET", "nap:{nap}:names", "odd", "999"]);
    let gone = |ago: u64| format!(r#"{{"at":{},"instance":"a"}}"#, clock::wall() - ago);
    let (longer, less) = (gone(day + 3_000_000), gone(day + 2_000_000));
    let beats = "nap:{nap}:beats";
    store.ask(&["HSET", beats, "29", &less, "30", &longer, "31", &less]);
    second.wait_until_joined();
    assert_eq!(second.number(), 30);
    assert_eq!(
        store.ask(&["HEXISTS", "nap:{nap}:names", "old30"]).trim(),
        "0"
    );
    node.wait_for("it sees who has the number now", |node| {
        node.sees("web2") == Some(Presence::Alive)
    });
}

#[test]
fn what_answers_there_is_no_store() {
    for words in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$999999999999\r\n",
        "*3\r\n:1\r\n",
        "\0\0\0\0",
    ] {
        let port = scripted(move |_| words.to_owned());
        let node = Node::started("web1", &format!("redis://127.0.0.1:{port}"));
        node.wait_for(words, |node| node.stands() == Standing::Away);
        let trouble = node.link().trouble();
        let expected = [Trouble::Garbage, Trouble::Silent].map(Some);
        assert!(expected.contains(&trouble), "{words}: {trouble:?}");
        node.wait_for("it is told", |node| node.said("the store is away (") == 1);
    }
}

#[test]
fn what_speaks_like_a_store_and_is_none_is_told() {
    let primary = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
    let version = "redis_version:7.0.15\r\n";
    for (role, server, words) in [
        (
            "*1\r\n$8\r\nsentinel\r\n",
            version,
            "it says that it is no store",
        ),
        (":1\r\n", version, "it says that it is no store"),
        (primary, "port:6379\r\n", "it does not tell its version"),
    ] {
        let port = scripted(move |asked| {
            let each = asked.split('*').skip(1).map(|command| match command {
                command if command.contains("ROLE") => role.to_owned(),
                command if command.contains("server") => bulk(server),
                _ => bulk("\r\n"),
            });
            each.collect()
        });
        let node = Node::started("web1", &format!("redis://127.0.0.1:{port}"));
        node.wait_for_trouble(Standing::Away, Trouble::Garbage);
        let words = format!("the store is away ({words}); tickets are kept, limits stay");
        node.wait_for(&words, |node| node.said(&words) == 1);
    }
}

#[test]
fn one_that_never_stops_talking_is_cut_off() {
    let port = scripted(|_| format!("${}\r\n{}", 1 << 30, "x".repeat(32 << 20)));
    let node = Node::started("web1", &format!("redis://127.0.0.1:{port}"));
    node.wait_for("it is away", |node| node.stands() == Standing::Away);
    let trouble = node.link().trouble();
    assert!(
        [Trouble::Garbage, Trouble::Silent]
            .map(Some)
            .contains(&trouble),
        "{trouble:?}"
    );
}

#[test]
fn one_that_is_too_old_is_no_store_for_us() {
    let port = scripted(|asked| {
        let each = asked.split('*').skip(1).map(|command| match command {
            command if command.contains("ROLE") => "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_owned(),
            command if command.contains("server") => bulk("# Server\r\nredis_version:5.0.14\r\n"),
            _ => bulk("\r\n"),
        });
        each.collect()
    });
    let node = Node::started("web1", &format!("redis://127.0.0.1:{port}"));
    node.wait_for_trouble(Standing::Alone, Trouble::TooOld);
    let words = "the store is Redis 5.0.14; Redis 6.2, Valkey 7.2 or newer is wanted; this server runs alone";
    assert_eq!(node.said(words), 1, "{}", node.log());
}

#[test]
fn a_store_that_is_slow_or_says_nothing_is_away_until_it_answers() {
    let store = Store::start();
    let port = Cut::before(store.port());
    let url = format!("redis://127.0.0.1:{}", port.port());
    let node = Node::joined("web1", &url);
    for way in [
        Way::Late(Duration::from_millis(500)),
        Way::Silent,
        Way::Drip(Duration::from_millis(150)),
    ] {
        port.turn(way);
        node.wait_for_trouble(Standing::Away, Trouble::Silent);
        port.turn(Way::Open);
        node.wait_until_joined();
    }
    assert_eq!(
        node.said("the store is away (no answer in time)"),
        1,
        "once a minute: {}",
        node.log()
    );
    port.turn(Way::Late(Duration::from_millis(30)));
    node.wait_for("its round trip is seen", |node| {
        node.link()
            .round_trip
            .load(std::sync::atomic::Ordering::Relaxed)
            >= 30_000
    });
    assert_eq!(node.stands(), Standing::Joined);
}

#[test]
fn a_port_that_closes_each_connection_is_away() {
    let store = Store::start();
    let port = Cut::before(store.port());
    let node = Node::joined("web1", &format!("redis://127.0.0.1:{}", port.port()));
    port.turn(Way::Cut);
    node.wait_for_trouble(Standing::Away, Trouble::Closed);
    let before = port.connections();
    port.turn(Way::Open);
    node.wait_until_joined();
    assert!(port.connections() > before);
}

#[test]
fn a_store_that_stands_still_is_away_and_not_asked_for_ever() {
    let store = Store::start();
    let node = Node::joined("web1", &store.url());
    store.stop();
    node.wait_for_trouble(Standing::Away, Trouble::Silent);
    store.go_on();
    node.wait_until_joined();
}

#[test]
fn under_tls_both_know_who_the_other_is() {
    let (store, tls) = Store::with_tls();
    let certified = |name: &str, ca: &str| {
        let mut node = Node::new(name, &tls.url());
        let auth = &mut node.brief.auth;
        auth.ca = ca.into();
        (auth.certificate, auth.key) = (tls.text("cert.pem"), tls.text("key.pem"));
        node
    };
    let mut node = certified("web1", &tls.text("ca.pem"));
    node.start();
    node.wait_until_joined();
    let mut strange = certified("web2", &Store::with_tls().1.text("ca.pem"));
    strange.start();
    strange.wait_for_trouble(Standing::Away, Trouble::Tls);
    assert_eq!(
        strange.said("invalid peer certificate"),
        1,
        "{}",
        strange.log()
    );
    let mut nobody = certified("web3", &tls.text("ca.pem"));
    nobody.brief.auth.certificate.clear();
    nobody.start();
    nobody.wait_for_trouble(Standing::Away, Trouble::Tls);
    let mut broken = certified("web4", "no certificate");
    broken.start();
    broken.wait_for_trouble(Standing::Away, Trouble::Tls);
    // The same port without TLS, and TLS where there is none.
    let plain = Node::started("web5", &tls.url().replace("rediss", "redis"));
    plain.wait_for("it is away", |node| node.stands() == Standing::Away);
    let mut plain = certified("web6", &tls.text("ca.pem"));
    plain.brief.store = store.url().replace("redis", "rediss");
    plain.start();
    plain.wait_for("it is away", |node| node.stands() == Standing::Away);
    assert_eq!(node.stands(), Standing::Joined);
}

#[test]
fn no_address_is_told() {
    let node = Node::started("web1", "redis://store:70000");
    node.wait_for_trouble(Standing::Away, Trouble::NoRoute);
    let node = Node::started("web1", "redis://no.such.host.invalid");
    node.wait_for_trouble(Standing::Away, Trouble::NoRoute);
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A port that answers whatever it reads so.
fn scripted(answer: impl Fn(&str) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut bytes) {
                let said = answer(&String::from_utf8_lossy(&bytes[..n]));
                if stream.write_all(said.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    port
}
