//! Who a client is: a trusted proxy's word, a prefix, a network, a virtual host's own.

use crate::{get, passes, retry_after, site, trace};
use nap_testkit::Httpd;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn an_untrusted_peer_cannot_choose_who_it_is() {
    let httpd = Httpd::builder()
        .nap()
        .modules(&["remoteip"])
        .file("htdocs/page.html", "a page")
        .config(
            "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 10.0.0.1\n\
             BwShareFiles 3 0.0001\n<Location /page.html>\nBwShare On\n</Location>\n\
             <Location /bwshare-trace>\nSetHandler bwshare-trace\n</Location>",
        )
        .start();
    let passed =
        (1..=6).filter(|n| get(&httpd, &format!("192.0.2.{n}"), "/page.html").status == 200);
    assert_eq!(passed.count(), 3, "one client, whatever it says");
    let all = httpd.get("/bwshare-trace?json").json();
    let rows = all["rows"].as_array().expect("rows");
    let clients: Vec<&Value> = rows.iter().map(|row| &row["client"]).collect();
    assert_eq!(clients, ["127.0.0.1"]);
    let row = trace(&httpd, "127.0.0.1");
    assert_eq!((&row["files"], &row["refused"]), (&3.into(), &3.into()));
}

#[test]
fn a_client_is_its_prefix_and_rotating_in_a_larger_one_ends_too() {
    let httpd = site("BwShareFiles 2 0.0001")
        .config("<Location /mine>\nSetHandler bwshare-mine\nBwShare Off\n</Location>")
        .start();
    assert_eq!(passes(&httpd, "::ffff:192.0.2.1", "/page.html", 1), 1);
    assert_eq!(
        passes(&httpd, "192.0.2.1", "/page.html", 3),
        1,
        "the same client"
    );
    let rotating = |n: u32| get(&httpd, &format!("2001:db8:7:{n:x}::1"), "/page.html");
    let statuses: Vec<u16> = (0..20).map(|n| rotating(n).status).collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        16,
        "8 x 2"
    );
    let text = rotating(99).text();
    assert!(
        text.contains("network that your address belongs to"),
        "{text}"
    );
    let other = get(&httpd, "2001:db8:8:1::1", "/page.html");
    assert_eq!(other.status, 200, "another /48");
    // All waits include the network's debt: a file takes 1250 s of the network's, 10,000 s of a client's.
    let waits = |n: u32| {
        let client = format!("2001:db8:7:{n:x}::1");
        get(&httpd, &client, "/mine?json").json()["wait_s"].clone()
    };
    let wait = waits(98).as_u64().expect("a number");
    assert!((1_200..=1_250).contains(&wait), "who owes nothing: {wait}");
    let text = get(&httpd, "2001:db8:7:62::1", "/mine").text();
    assert!(!text.contains("need not wait"), "{text}");
    assert!(text.contains("network that your address"), "{text}");
    let row = trace(&httpd, "2001:db8:7:5::/64");
    assert_eq!(
        (&row["over_limit"], &row["reason"]),
        (&true.into(), &"network".into()),
        "{row}"
    );
}

/// The note's words let one file more through than its formula, and may charge a refused request too.
#[test]
fn the_rule_and_who_a_client_is_hold_by_virtual_host() {
    let host = |name: &str, lines: &str| {
        format!(
            "<VirtualHost *>\nServerName {name}\nDocumentRoot {{root}}/htdocs\n{lines}\n</VirtualHost>"
        )
    };
    let hosts = [
        host("localhost", ""),
        host("literal", "BwShareRule literal"),
        host("charging", "BwShareRule exact refused=0.5"),
        host("wide", "BwShareClient 24 56"),
        host(
            "shown",
            "BwShareStatus 200\nErrorDocument 429 \"our own words\"",
        ),
    ];
    let httpd = site("BwShareFiles 3 0.001")
        .config(&hosts.join("\n"))
        .start();
    let ask = |host: &str, client: &str| {
        let head = [("X-Forwarded-For", client), ("Host", host)];
        httpd.request("GET", "/page.html", &head, b"")
    };
    let passed = |host: &str, client: &str| {
        let all = (0..6).filter(|_| ask(host, client).status == 200);
        all.count()
    };
    assert_eq!(passed("localhost", "192.0.2.1"), 3);
    assert_eq!(passed("literal", "192.0.2.1"), 4, "one file more");
    // A refusal is charged up to the maximum: what time has paid off since is owed again.
    assert_eq!(passed("charging", "192.0.2.1"), 3);
    std::thread::sleep(Duration::from_millis(2100));
    assert!(retry_after(&ask("localhost", "192.0.2.1")) <= 998);
    assert_eq!(retry_after(&ask("charging", "192.0.2.1")), 1000);
    assert_eq!(passed("wide", "192.0.2.1"), 3);
    assert_eq!(passed("wide", "192.0.2.200"), 0, "of the same /24");
    assert_eq!(passed("wide", "192.0.3.1"), 3, "of another");
    assert_eq!(passed("wide", "2001:db8:7:ff00::1"), 3);
    assert_eq!(passed("wide", "2001:db8:7:ff99::1"), 0, "of the same /56");
    assert_eq!(trace(&httpd, "192.0.2.0/24")["refused"], 9);
    // A site's own ErrorDocument is shown, with the usual status.
    (0..3).for_each(|_| assert_eq!(ask("shown", "192.0.2.9").status, 200));
    let own = ask("shown", "192.0.2.9");
    assert_eq!((own.status, own.text().as_str()), (429, "our own words"));
    assert!(retry_after(&own) > 900);
}

/// Two hosts may have the same name at different addresses: a debt to one is not a debt to the other.
#[test]
fn hosts_of_one_name_have_debts_of_their_own_which_outlive_a_restart() {
    let host = |address: &str, files: u32| {
        format!(
            "<VirtualHost {address}:{{port}}>\nServerName twin\nDocumentRoot {{root}}/htdocs\n\
             BwShareFiles {files} 0.0001\n</VirtualHost>\n"
        )
    };
    let hosts = host("127.0.0.1", 3) + &host("127.0.0.2", 5);
    let mut httpd = site("NapStateFile {root}/state\nListen 127.0.0.2:{port}")
        .config(&hosts)
        .start();
    let passed = |httpd: &Httpd, address: &str| {
        let status = || {
            let mut stream = TcpStream::connect((address, httpd.port())).expect("httpd listens");
            let request = "GET /page.html HTTP/1.0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
            stream.write_all(request.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer.split(' ').nth(1).expect("a status").to_string()
        };
        (0..4).filter(|_| status() == "200").count()
    };
    assert_eq!(passed(&httpd, "127.0.0.1"), 3);
    assert_eq!(passed(&httpd, "127.0.0.2"), 4);
    httpd.stop();
    httpd.start_again();
    assert_eq!(passed(&httpd, "127.0.0.1"), 0);
    assert_eq!(passed(&httpd, "127.0.0.2"), 1);
}

/// A client over its own limit whose network has to wait longer is told the longer wait.
#[test]
fn a_refusal_tells_the_networks_wait_where_it_is_longer() {
    let httpd = site("BwShareFiles 100 10\nBwShareBytes 25000 10")
        .file("htdocs/huge.bin", vec![b'x'; 1_000_000])
        .start();
    assert_eq!(get(&httpd, "2001:db8:7:1::1", "/large.bin").status, 200);
    let own = get(&httpd, "2001:db8:7:1::1", "/page.html");
    let wait = retry_after(&own);
    assert!((2_500..2_600).contains(&wait), "25,000 at 10: {wait}");
    assert!(own.text().contains("more data"), "{}", own.text());
    assert_eq!(get(&httpd, "2001:db8:7:2::1", "/huge.bin").status, 200);
    // The network may owe 200,000 and pays off 80 a second.
    let network = get(&httpd, "2001:db8:7:1::1", "/page.html");
    let wait = retry_after(&network);
    assert!((10_600..10_700).contains(&wait), "850,000 at 80: {wait}");
    let text = network.text();
    assert!(text.contains("network that your address"), "{text}");
}
