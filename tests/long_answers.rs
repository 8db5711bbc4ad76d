//! A permit is for making an answer, not for sending it: long answers give their permit back.
//!
//! The room has one permit and nobody may wait, so another access is served exactly while the permit is free.

use nap_testkit::{Builder, Httpd, Mpm, for_each_mpm, long, wait_until};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const LONG: usize = 30_000_000;

fn site(download: &str) -> Builder {
    let room = format!(
        "<NapRoom site>\nNapRunReady 1\nNapWaitMax 2s\nNapWaitLimit 0\nNapReAccess 4
         NapDownload {download}\nNapTicketsPerClient 100000\n</NapRoom>"
    );
    Httpd::builder()
        .nap()
        .holding()
        .config(&room)
        .config("<LocationMatch ^/(cgi-bin|counter|ws)>\nNapUse site\n</LocationMatch>")
        .cgi(
            "app",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe application\\n'\n",
        )
}

fn permit_is_free(httpd: &Httpd) -> bool {
    let answer = httpd.get("/cgi-bin/app");
    assert!(matches!(answer.status, 200 | 503), "{answer:?}");
    answer.status == 200
}

fn until_free(httpd: &Httpd) {
    wait_until("the permit is free", PATIENCE, || permit_is_free(httpd));
}

/// Sends a request, and reads no more than the answer's head and what comes with it.
fn begin(httpd: &Httpd, path: &str, head: &str) -> (TcpStream, String) {
    let mut stream = httpd.connect();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n"
    )
    .expect("httpd listens");
    let mut block = [0; 2048];
    let length = stream.read(&mut block).expect("an answer begins");
    (
        stream,
        String::from_utf8_lossy(&block[..length]).into_owned(),
    )
}

#[test]
fn a_slow_reader_of_a_long_answer_gives_its_permit_back() {
    for_each_mpm(|mpm| {
        let httpd = site("1M").mpm(mpm).start();
        let (mut slow, head) = begin(
            &httpd,
            &format!("/counter?bytes={LONG}"),
            "Connection: close\r\n",
        );
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        until_free(&httpd);
        assert_eq!(httpd.counter().running, 1, "it is still being sent");
        // Its end gives nothing back a second time.
        let mut rest = Vec::new();
        slow.read_to_end(&mut rest).expect("all of it");
        assert!(head.len() + rest.len() > LONG);
        until_free(&httpd);
        let _held = httpd.hold("one", 1);
        assert!(!permit_is_free(&httpd), "there is one permit");
    });
}

#[test]
fn without_napdownload_it_keeps_its_permit_until_it_is_read_or_gone() {
    let httpd = site("Off").start();
    for reads in [true, false] {
        until_free(&httpd);
        let path = format!("/counter?bytes={LONG}");
        let (mut slow, _) = begin(&httpd, &path, "Connection: close\r\n");
        for _ in 0..20 {
            assert!(!permit_is_free(&httpd));
        }
        if reads {
            let mut rest = Vec::new();
            slow.read_to_end(&mut rest).expect("all of it");
        }
        drop(slow);
        until_free(&httpd);
    }
}

#[test]
fn an_event_stream_is_detached_and_another_unfinished_answer_is_not() {
    let program = "#!/bin/sh
printf 'Content-Type: %s\\r\\n\\r\\ndata: one\\n\\n' \"$QUERY_STRING\"
while [ ! -e \"$BOARD_DIR/go-stream\" ]; do sleep 0.05; done
echo 'data: two'
";
    for_each_mpm(|mpm| {
        let httpd = site("1M").mpm(mpm).cgi("stream", program).start();
        let ask = |kind: &str| {
            let path = format!("/cgi-bin/stream?{kind}");
            let (stream, head) = begin(&httpd, &path, "Connection: close\r\n");
            assert!(
                head.starts_with("HTTP/1.1 200") && head.contains(kind),
                "{head}"
            );
            stream
        };
        let stream = ask("text/event-stream");
        until_free(&httpd);
        let mut plain = ask("text/plain");
        for _ in 0..20 {
            assert!(!permit_is_free(&httpd));
        }
        std::fs::write(httpd.root().join("data/go-stream"), "").expect("our own file");
        for mut stream in [stream, plain.try_clone().expect("a socket")] {
            let mut rest = String::new();
            stream.read_to_string(&mut rest).expect("its end");
            assert!(rest.contains("data: two"), "{rest}");
        }
        assert_eq!(plain.read(&mut [0; 1]).expect("closed"), 0);
        until_free(&httpd);
        let _held = httpd.hold("one", 1);
        assert!(!permit_is_free(&httpd), "there is one permit");
    });
}

/// Seconds that an answer goes on: in the long form a minute.
fn goes_on() -> usize {
    if long() { 60 } else { 3 }
}

#[test]
fn an_answer_that_goes_on_past_its_first_byte_leaves_the_permit_to_others() {
    let program = "#!/bin/sh
printf 'Content-Type: text/event-stream\\r\\n\\r\\n'
for n in $(seq \"$QUERY_STRING\"); do echo \"data: $n\"; sleep 1; done
";
    for_each_mpm(|mpm| {
        let httpd = site("1M").mpm(mpm).cgi("stream", program).start();
        let path = format!("/cgi-bin/stream?{}", goes_on());
        let (stream, head) = begin(&httpd, &path, "Connection: close\r\n");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        until_free(&httpd);
        let mut said = head;
        let mut lines = BufReader::new(stream);
        while lines.read_line(&mut said).expect("it goes on") > 0 {
            // The previous request may still be ending.
            until_free(&httpd);
            assert_eq!(httpd.room().running, 0, "it holds none itself");
        }
        assert!(said.contains(&format!("data: {}\n", goes_on())), "{said}");
        let _held = httpd.hold("one", 1);
        assert!(!permit_is_free(&httpd), "there is one permit");
    });
}

/// Incompressible bytes.
fn noise(length: usize) -> Vec<u8> {
    let mut state: u64 = 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Event's threads are free while the rest of an answer waits for its reader, whether its end came with its
/// beginning or long after it was detached.
#[test]
fn on_event_slow_readers_take_no_worker_from_those_who_wait() {
    const THREADS: usize = 25;
    for filter in ["", "<Files page>\nSetOutputFilter DEFLATE\n</Files>"] {
        let room = "<NapRoom site>\nNapRunReady 1\nNapWaitMax 10min\nNapWaitLimit 10
             NapStatic On\nNapDownload 100K\n</NapRoom>
             <LocationMatch ^/(cgi-bin|page)>\nNapUse site\n</LocationMatch>";
        let httpd = Httpd::builder()
            .nap()
            .holding()
            .mpm(Mpm::Event)
            .workers(1, THREADS as u32)
            .modules(&["filter", "deflate"])
            .config(room)
            // More than the sockets take, and the core need not wait for them.
            .config("SendBufferSize 16384\nFlushMaxThreshold 10000000")
            .config(filter)
            .file("htdocs/page", noise(500_000))
            .start();
        let head = "Accept-Encoding: gzip\r\n";
        let slow: Vec<(TcpStream, String)> =
            (0..THREADS).map(|_| begin(&httpd, "/page", head)).collect();
        assert!(
            slow.iter()
                .all(|(_, head)| head.starts_with("HTTP/1.1 200"))
        );
        assert!(!httpd.access_log().contains("/page"), "none is sent");
        let held = httpd.hold("one", 1);
        let next = httpd.ask_to_hold("two", 1);
        httpd.until_waiting(1);
        held.release();
        let answers = next.release();
        assert!(answers[0].starts_with("HTTP/1.1 200"), "{answers:?}");
        drop(slow);
        httpd.until_idle();
    }
}

#[test]
fn an_upgraded_connection_is_detached() {
    let backend = nap_testkit::backends::echoing();
    // mod_proxy_wstunnel passes on the backend's bytes, 101 included, as those of a tunnel.
    let ways = [
        (
            &["proxy", "proxy_http"] as &[&str],
            "ProxyPass /ws http://BACKEND/ws upgrade=websocket",
        ),
        (
            &["proxy", "proxy_http", "proxy_wstunnel"],
            "ProxyPass /ws ws://BACKEND/ws",
        ),
        (
            &["proxy", "proxy_wstunnel"],
            "ProxyWebsocketFallbackToProxyHttp Off\nProxyPass /ws ws://BACKEND/ws",
        ),
        (
            &["proxy", "proxy_http", "proxy_wstunnel", "rewrite"],
            "ProxyWebsocketFallbackToProxyHttp Off\nRewriteEngine On\n\
             RewriteRule ^/ws$ ws://BACKEND/ws [P]",
        ),
    ];
    for_each_mpm(|mpm| {
        for (modules, config) in ways {
            let httpd = site("1M")
                .mpm(mpm)
                .modules(modules)
                .config(&config.replace("BACKEND", &format!("127.0.0.1:{backend}")))
                .start();
            let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
            let (mut socket, head) = begin(&httpd, "/ws", upgrade);
            assert!(head.starts_with("HTTP/1.1 101"), "{head}");
            let mut told = [0; 5];
            socket.write_all(b"hello").expect("it is open");
            socket.read_exact(&mut told).expect("it is echoed");
            assert_eq!(&told, b"hello");
            until_free(&httpd);
            socket.write_all(b"still").expect("it is open");
            socket.read_exact(&mut told).expect("it is echoed");
            drop(socket);
            let _held = httpd.hold("one", 1);
            // A full room refuses the next one before the backend is asked.
            let (_refused, head) = begin(&httpd, "/ws", upgrade);
            assert!(head.starts_with("HTTP/1.1 503"), "{head}");
        }
    });
}
