//! A permit is for making an answer, not for receiving a request: bodies, and clients that send them slowly.

use nap_testkit::exchange::read_answer;
use nap_testkit::fcgi::Responder;
use nap_testkit::http2::Http2;
use nap_testkit::ticket::Ticket;
use nap_testkit::{Builder, Httpd, Mpm, exchange, for_each_mpm, long, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
/// More than `NapBody` here, and a multiple of nothing in particular.
const LARGE: usize = 300_007;

/// Reports what it was sent: a checksum, and the number of bytes.
const SUM: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nexec cksum\n";

fn site(room: &str) -> Builder {
    let room = format!(
        "<NapRoom site>\nNapRunReady 1\nNapWaitMax 10s\nNapWaitLimit 0\nNapReAccess 4\n\
         NapTicketsPerClient 100000\n{room}</NapRoom>"
    );
    Httpd::builder()
        .nap()
        .holding()
        .config(&room)
        .config("<Location /cgi-bin>\nNapUse site\n</Location>")
        .config("ScriptAlias /free/ {root}/cgi-bin/")
        .cgi("sum", SUM)
}

fn body(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251) as u8).collect()
}

fn read_all(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Sends a head with these headers, and this part of the body.
fn begin(httpd: &Httpd, headers: &str, part: &[u8]) -> TcpStream {
    let mut stream = httpd.connect();
    write!(
        stream,
        "POST /cgi-bin/sum HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
    )
    .expect("httpd listens");
    stream.write_all(part).expect("httpd reads");
    stream
}

fn of_length(length: usize) -> String {
    format!("Content-Length: {length}\r\n")
}

/// Workers that read a body, and permits in use.
fn reading(httpd: &Httpd) -> (u64, u64) {
    let info = httpd.get("/nap-info?json").json();
    let children = info["children"].as_array().expect("a list").iter();
    let reading = children.map(|child| child["reading"].as_u64().expect("a number"));
    let running = &info["rooms"][0]["gates"][0]["run_ready"]["running"];
    (reading.sum(), running.as_u64().expect("a number"))
}

fn until(httpd: &Httpd, what: (u64, u64)) {
    wait_until("so many are read and run", PATIENCE, || {
        reading(httpd) == what
    });
}

#[test]
fn whoever_reads_a_body_sees_what_was_sent() {
    let lengths: &[usize] = match long() {
        true => &[1, 65_535, 65_536, 65_537, LARGE, 100_000_000],
        false => &[1, 65_535, 65_536, 65_537, LARGE],
    };
    for_each_mpm(|mpm| {
        for kept in ["", "NapBody 1K\n", "NapBody 1G\n", "NapBody Off\n"] {
            let fcgi = Responder::start(Some("Content-Type: text/plain\r\n\r\nread\n"));
            let mut site = site(kept)
                .mpm(mpm)
                .modules(&["proxy", "proxy_http", "proxy_fcgi"]);
            if mpm != Mpm::Prefork {
                site = site.modules(&["http2"]).config("Protocols h2c http/1.1");
            }
            let httpd = site
                .config(&format!(
                    "<Location /fcgi>\nNapUse site\nProxyPass {}/\n</Location>\n\
                     <Location /proxied>\nNapUse site\nProxyPass http://127.0.0.1:{{port}}/free\n</Location>",
                    fcgi.url()
                ))
                .start();
            for &length in lengths {
                let body = body(length);
                let sum = |path: &str| httpd.request("POST", path, &[], &body).text();
                let expected = sum("/free/sum");
                assert!(expected.ends_with(&format!(" {length}\n")), "{expected}");
                assert_eq!(sum("/cgi-bin/sum"), expected, "{mpm} {kept:?}");
                assert_eq!(sum("/proxied/sum"), expected, "{mpm} {kept:?}, proxied");
                assert_eq!(sum("/fcgi/"), "read\n");
                assert!(
                    fcgi.bodies().pop().as_ref() == Some(&body),
                    "{mpm} {kept:?}, FastCGI"
                );
                if mpm != Mpm::Prefork {
                    let h2 = Http2::open(&httpd).post("/cgi-bin/sum", body.clone());
                    assert_eq!(h2.text(), expected, "{mpm} {kept:?}, HTTP/2");
                }
                let mut chunked = begin(&httpd, "Transfer-Encoding: chunked\r\n", b"");
                for part in body.chunks(70_001) {
                    write!(chunked, "{:x}\r\n", part.len()).expect("httpd reads");
                    chunked.write_all(part).expect("httpd reads");
                    write!(chunked, "\r\n").expect("httpd reads");
                }
                write!(chunked, "0\r\n\r\n").expect("httpd reads");
                let answer = read_all(chunked);
                assert!(
                    answer.contains(&expected),
                    "{mpm} {kept:?}, chunked: {answer}"
                );
            }
        }
    });
}

/// One request after the other on a connection, each with a body that is read or not; and bodies that never
/// arrive complete.
#[test]
fn what_comes_behind_a_body_is_the_next_request() {
    for_each_mpm(|mpm| {
        let httpd = site("")
            .mpm(mpm)
            .config(
                "<Location /cgi-bin/small>\nLimitRequestBody 1000\n</Location>\n\
                 ErrorDocument 400 /cgi-bin/told\nErrorDocument 413 /cgi-bin/told",
            )
            .cgi("told", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\ntold %s\\n' $REDIRECT_STATUS\n")
            .cgi("small", SUM)
            .expect_log("script not found", "nobody reads that body")
            .start();
        let part = |stream: &mut TcpStream, path: &str, head: &str, body: &[u8]| {
            write!(
                stream,
                "POST {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n"
            )
            .expect("httpd reads");
            stream.write_all(body).expect("httpd reads");
        };
        let mut kept = httpd.connect();
        let chunked = "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n";
        let sent = body(70_000);
        let requests: [(&str, String, &[u8], &str); 3] = [
            ("/cgi-bin/sum", of_length(70_000), &sent, " 70000\n"),
            ("/cgi-bin/none", of_length(70_000), &sent, " 404 Not Found"),
            (
                "/cgi-bin/sum",
                chunked.to_owned(),
                b"3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
                " 3\n",
            ),
        ];
        for (path, head, body, expected) in requests.iter().chain(&requests) {
            part(&mut kept, path, head, body);
            let answer = read_answer(&mut kept).expect("an answer");
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.contains(expected), "{mpm}: {answer}");
        }
        let errors: [(&str, &str, &[u8], &str); 3] = [
            (
                "/cgi-bin/small",
                "Content-Length: 1001\r\n",
                &[b'a'; 1001],
                "told 413",
            ),
            ("/cgi-bin/sum", chunked, b"no number\r\n", "told 400"),
            (
                "/cgi-bin/sum",
                "Content-Length: x\r\n",
                b"x",
                "400 Bad Request",
            ),
        ];
        for (path, head, body, expected) in errors {
            let mut stream = httpd.connect();
            part(&mut stream, path, head, body);
            let answer = read_all(stream);
            assert!(answer.contains(expected), "{mpm}: {answer}");
        }
        until(&httpd, (0, 0));
    });
}

/// The holder was there in time, though their form was not.
#[test]
fn a_holder_whose_body_comes_slowly_is_in_time() {
    let httpd = site("NapSlotPeriod 1s\nNapTicketPrime 2s\nNapTicketLifetime 5min\n").start();
    let held = httpd.hold("full", 1);
    let ticket = Ticket::of(&httpd.request("POST", "/cgi-bin/sum", &[], b"x"));
    ticket.until_prime();
    let head = format!("{}Nap-Ticket: {}\r\n", of_length(4), ticket.token);
    let mut slow = begin(&httpd, &head, b"ab");
    until(&httpd, (1, 1));
    ticket.until_tail();
    slow.write_all(b"cd").expect("httpd reads");
    httpd.until_waiting(1);
    held.release();
    assert!(read_all(slow).contains(" 4\n"));
    let promise = &httpd.gate()["promise"];
    assert_eq!(
        (&promise["presented"], &promise["late"]),
        (&1.into(), &0.into())
    );
}

#[test]
fn who_sends_slowly_holds_no_permit() {
    for_each_mpm(|mpm| {
        let httpd = site("").mpm(mpm).workers(4, 16).start();
        let slow = ["Content-Length: 1000\r\n", "Transfer-Encoding: chunked\r\n"]
            .map(|headers| begin(&httpd, headers, b"3e8\r\n"));
        until(&httpd, (2, 0));
        let beside = httpd.request("POST", "/cgi-bin/sum", &[], b"x");
        assert_eq!(beside.status, 200, "{beside:?}");
        let rest = body(995);
        let [mut one, mut other] = slow;
        one.write_all(&rest).expect("httpd reads");
        assert!(read_all(one).contains(" 1000\n"));
        other.write_all(&rest).expect("httpd reads");
        other.write_all(b"12345\r\n0\r\n\r\n").expect("httpd reads");
        assert!(read_all(other).contains(" 1000\n"));
        // A client that leaves in the middle belongs to nothing any more.
        drop(begin(&httpd, &of_length(1000), b"and gone"));
        until(&httpd, (0, 0));
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
    });
}

/// A request may lie in memory where the one before it lay, which had no body.
#[test]
fn behind_requests_without_a_body_a_slow_one_holds_no_permit() {
    for_each_mpm(|mpm| {
        let httpd = site("").mpm(mpm).workers(4, 16).start();
        for before in 1..6 {
            let mut stream = httpd.connect();
            for _ in 0..before {
                let got = exchange(&mut stream, "/none", "");
                assert!(got.starts_with(b"HTTP/1.1 404 "));
            }
            let head = "POST /cgi-bin/sum HTTP/1.1\r\nHost: localhost\r\nConnection: close";
            write!(stream, "{head}\r\n{}\r\nab", of_length(4)).expect("httpd reads");
            until(&httpd, (1, 0));
            stream.write_all(b"cd").expect("httpd reads");
            assert!(read_all(stream).contains(" 4\n"));
        }
    });
}

#[test]
fn who_wants_to_be_told_to_go_on_is_told_when_he_may_run() {
    for_each_mpm(|mpm| {
        let httpd = site("").mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let refused = begin(
            &httpd,
            &format!("{}Expect: 100-continue\r\n", of_length(3)),
            b"",
        );
        let answer = read_all(refused);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        held.release();
        let mut told = begin(
            &httpd,
            &format!("{}Expect: 100-continue\r\n", of_length(3)),
            b"",
        );
        let mut go_on = [0; 25];
        told.read_exact(&mut go_on).expect("the client is told");
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        told.write_all(b"abc").expect("httpd reads");
        assert!(read_all(told).contains(" 3\n"));
    });
}

/// Number of workers that run something in the room, with a permit or without.
fn at_work(httpd: &Httpd) -> u64 {
    let info = httpd.get("/nap-info?json").json();
    let children = info["children"].as_array().expect("a list").iter();
    let busy = |child: &serde_json::Value| {
        ["running", "reading"].map(|what| child[what].as_u64().expect("a number"))
    };
    children.flat_map(busy).sum()
}

/// The visitor's permit went to others while they sent; when all of it is there they wait for another.
#[test]
fn who_has_sent_all_after_a_stall_waits_for_his_turn_again() {
    for_each_mpm(|mpm| {
        let httpd = site("")
            .mpm(mpm)
            .workers(4, 16)
            .expect_log("Error reading request entity data", "one has gone")
            .start();
        let body = body(LARGE);
        let expected = httpd.request("POST", "/free/sum", &[], &body).text();
        let stalled = |told: &str| {
            let headers = of_length(LARGE) + told;
            let slow = begin(&httpd, &headers, &body[..100_000]);
            wait_until("the access runs without a permit", PATIENCE, || {
                (at_work(&httpd), httpd.room().running) == (1, 0)
            });
            slow
        };
        for (name, told) in [("one", ""), ("two", "Expect: 100-continue\r\n")] {
            let mut slow = stalled(told);
            let held = httpd.hold(name, 1);
            slow.write_all(&body[100_000..]).expect("httpd reads");
            wait_until("the access waits", PATIENCE, || {
                let room = httpd.room();
                (room.waiting, room.running) == (1, 1)
            });
            // Nobody overtakes this visitor.
            assert_eq!(httpd.get("/cgi-bin/sum").status, 503);
            held.release();
            assert!(read_all(slow).contains(&expected), "{mpm}");
            until(&httpd, (0, 0));
        }
        // A visitor who leaves while waiting leaves nothing behind.
        let mut gone = stalled("");
        let held = httpd.hold("again", 1);
        gone.write_all(&body[100_000..]).expect("httpd reads");
        wait_until("the access waits", PATIENCE, || httpd.room().waiting == 1);
        drop(gone);
        wait_until("its place is free", PATIENCE, || httpd.room().waiting == 0);
        held.release();
        wait_until("and its worker", PATIENCE, || at_work(&httpd) == 0);
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
    });
}

/// The part beyond `NapBody` is read while the access runs.
#[test]
fn who_stalls_while_he_is_read_gives_his_permit_back() {
    for_each_mpm(|mpm| {
        let httpd = site("").mpm(mpm).workers(4, 16).start();
        let body = body(LARGE);
        let expected = httpd.request("POST", "/free/sum", &[], &body).text();
        let mut slow = begin(&httpd, &of_length(LARGE), &body[..100_000]);
        wait_until(
            "it has entered, and runs without a permit",
            PATIENCE,
            || (at_work(&httpd), reading(&httpd)) == (1, (1, 0)),
        );
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
        slow.write_all(&body[100_000..]).expect("httpd reads");
        let answer = read_all(slow);
        assert!(answer.contains(&expected), "{answer}");
        let _held = httpd.hold("one", 1);
        assert_eq!(httpd.get("/cgi-bin/sum").status, 503, "there is one permit");
    });
}

#[test]
fn of_too_many_who_send_nothing_those_beyond_a_quarter_make_way() {
    for_each_mpm(|mpm| {
        // With one permit, a visitor who is silent for a second is refused while the other one has it.
        let httpd = site("NapRunReady 2\n")
            .mpm(mpm)
            .workers(1, 8)
            .access_log_format("%>s")
            .start();
        // What somebody only claims to be a ticket is none.
        let head = format!("{}Nap-Ticket: mine\r\n", of_length(1000));
        let silent: Vec<TcpStream> = (0..6)
            .map(|_| begin(&httpd, &head, b"nothing much"))
            .collect();
        wait_until("those beyond have made way", PATIENCE, || {
            httpd.access_log().matches("408").count() >= 4
        });
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
        let mut told = 0;
        for mut stream in silent {
            stream.set_nonblocking(true).expect("a socket");
            let mut answer = [0; 32];
            // Those that are being read still have no answer.
            if stream.read(&mut answer).is_ok() {
                assert!(answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}");
                told += 1;
            }
        }
        // Those that look at the same moment may all leave.
        assert!(told >= 4, "{mpm}: {told}");
    });
}

/// Those that have begun count as readers as well.
#[test]
fn of_too_many_who_stall_in_the_middle_those_beyond_a_quarter_make_way() {
    for_each_mpm(|mpm| {
        let httpd = site("NapRunReady 6\n")
            .mpm(mpm)
            .workers(1, 8)
            .access_log_format("%>s")
            .expect_log("Error reading request entity data", "they make way")
            .expect_log(
                "MaxRequestWorkers 8 lets at most 1 wait",
                "few workers are meant",
            )
            .start();
        let stalled: Vec<TcpStream> = (0..6)
            .map(|_| begin(&httpd, &of_length(LARGE), &body(100_000)))
            .collect();
        wait_until("those beyond have made way", PATIENCE, || {
            httpd.access_log().matches("408").count() >= 4
        });
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
        drop(stalled);
        until(&httpd, (0, 0));
        wait_until("their workers are free", PATIENCE, || at_work(&httpd) == 0);
    });
}

/// The access is over, and httpd goes on reading the unsent rest: no worker is counted twice.
#[test]
fn who_is_answered_early_and_stalls_is_counted_once() {
    for_each_mpm(|mpm| {
        let early = "Content-Type: text/plain\r\n\r\nrefused\n";
        let fcgi = Responder::early(early, 100_000);
        let httpd = site("")
            .mpm(mpm)
            .modules(&["proxy", "proxy_fcgi"])
            .config(&format!(
                "<Location /fcgi>\nNapUse site\nProxyPass {}/\n</Location>",
                fcgi.url()
            ))
            .start();
        let mut stream = httpd.connect();
        let head = of_length(LARGE);
        write!(
            stream,
            "POST /fcgi/ HTTP/1.1\r\nHost: localhost\r\n{head}\r\n"
        )
        .expect("httpd listens");
        // All that the responder reads: httpd is at the client again before it gets the answer.
        stream.write_all(&body(100_000)).expect("httpd reads");
        wait_until("it has stalled", PATIENCE, || reading(&httpd) == (1, 0));
        wait_until("it has its answer", PATIENCE, || fcgi.bodies().len() == 1);
        // While httpd reads from the client it gets the answer too; it keeps its own answer until all is
        // sent.
        for _ in 0..20 {
            stream.write_all(b"x").expect("httpd reads");
            wait_until("the rest is waited for", PATIENCE, || {
                reading(&httpd) == (1, 0)
            });
            assert_eq!(at_work(&httpd), 1, "{mpm}");
        }
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
        drop(stream);
        wait_until("nothing is left", PATIENCE, || at_work(&httpd) == 0);
    });
}

/// Reading a body before its access enters checks httpd's limits no earlier than the handler would.
#[test]
fn limits_of_bodies_hold_as_without() {
    for kept in ["", "NapBody Off\n"] {
        let fcgi = Responder::start(Some("Content-Type: text/plain\r\n\r\nread\n"));
        let httpd = site(kept)
            .modules(&["proxy", "proxy_fcgi"])
            .config(&format!(
                "<Location /cgi-bin/by-handler>\nSetHandler proxy:{}\n</Location>\n\
                 <Location /fcgi>\nNapUse site\nProxyPass {}/\n</Location>\n\
                 <Location />\nLimitRequestBody 1000\n</Location>",
                fcgi.url(),
                fcgi.url()
            ))
            .expect_log("Error reading request entity data", "that is a limit")
            .start();
        let told = ["/cgi-bin/sum", "/cgi-bin/by-handler", "/fcgi/"]
            .map(|path| httpd.request("POST", path, &[], &body(2000)).status);
        assert_eq!(told, [413, 200, 200], "{kept:?}");
    }
}

/// A client that sends in chunks and pauses may be waiting for us.
#[test]
fn who_pauses_between_chunks_is_let_in_with_what_is_there() {
    for_each_mpm(|mpm| {
        let httpd = site("").mpm(mpm).start();
        let mut stream = httpd.connect();
        write!(
            stream,
            "POST /cgi-bin/sum HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        )
        .expect("httpd listens");
        wait_until("it has entered", PATIENCE, || {
            httpd.gate()["counts"]["passed"] == 1
        });
        wait_until("it holds no permit", PATIENCE, || reading(&httpd) == (1, 0));
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
        write!(stream, "3\r\ndef\r\n0\r\n\r\n").expect("httpd reads");
        let answer = read_all(stream);
        assert!(answer.contains(" 6\n"), "{mpm}: {answer}");
    });
}

/// Less than `NapDownload`, and more than the kernel takes from a client that does not read.
#[test]
fn who_does_not_read_his_answer_gives_his_permit_back() {
    const LONG: usize = 900_000;
    for_each_mpm(|mpm| {
        let httpd = site("")
            .mpm(mpm)
            .config("<Location /counter>\nNapUse site\n</Location>\nSendBufferSize 16384")
            .start();
        let mut slow = httpd.connect();
        write!(
            slow,
            "GET /counter?bytes={LONG} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .expect("httpd listens");
        wait_until("it has given it back, and is not through", PATIENCE, || {
            httpd.counter().running == 1 && reading(&httpd) == (0, 0)
        });
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
        let mut answer = Vec::new();
        slow.read_to_end(&mut answer).expect("all of it");
        assert!(answer.len() > LONG, "{}", answer.len());
    });
}

/// Output of the program to which curl sends this body, with these options (its rate, for one).
fn sum_by_curl(url: &str, options: &[&str], body: &[u8]) -> String {
    let mut curl = Command::new("curl")
        .args(["-sk", "--data-binary", "@-", "-H", "Expect:"])
        .args(options)
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl runs");
    let mut stdin = curl.stdin.take().expect("it is piped");
    stdin.write_all(body).expect("curl reads");
    drop(stdin);
    let output = curl.wait_with_output().expect("curl ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn under_tls_a_body_arrives_whole_however_slowly_it_comes() {
    for_each_mpm(|mpm| {
        let tls = nap_testkit::free_port();
        let httpd = site("").mpm(mpm).tls(tls).start();
        let body = body(LARGE);
        let expected = httpd.request("POST", "/free/sum", &[], &body).text();
        let url = format!("https://127.0.0.1:{tls}/cgi-bin/sum");
        for version in ["--http1.1", "--http2"] {
            for rate in ["1G", "200K"] {
                let told = sum_by_curl(&url, &[version, "--limit-rate", rate], &body);
                assert_eq!(told, expected, "{mpm} {version} {rate}");
            }
        }
        until(&httpd, (0, 0));
    });
}

#[test]
fn mod_reqtimeouts_limits_hold_before_an_access_enters_and_after_it_stalled() {
    for_each_mpm(|mpm| {
        let httpd = site("NapRunReady 2\n")
            .mpm(mpm)
            .modules(&["reqtimeout"])
            .config("RequestReadTimeout body=1")
            .expect_log("Error reading request entity data", "that is its limit")
            .start();
        for sent in [10, 100_000] {
            let slow = begin(&httpd, &of_length(LARGE), &body(sent));
            let answer = read_all(slow);
            assert!(
                answer.starts_with("HTTP/1.1 408 "),
                "{mpm} {sent}: {answer}"
            );
        }
        until(&httpd, (0, 0));
    });
}

/// What a stream's reader takes cannot be seen: the stream is judged by how long it blocks its writer.
#[test]
fn who_does_not_read_his_stream_gives_his_permit_back() {
    // More than fits the client's window, and less than `NapDownload`.
    const LONG: usize = 10_000_000;
    for mpm in [Mpm::Worker, Mpm::Event] {
        let httpd = site("NapDownload 50M\n")
            .mpm(mpm)
            .modules(&["http2"])
            .config("Protocols h2c http/1.1\n<Location /counter>\nNapUse site\n</Location>")
            .start();
        let connection = Http2::open(&httpd);
        let unread = connection.ask_unread(&format!("/counter?bytes={LONG}"));
        wait_until("it has given it back, and is not through", PATIENCE, || {
            httpd.counter().running == 1 && reading(&httpd) == (0, 0)
        });
        assert_eq!(httpd.get("/cgi-bin/sum").status, 200);
        drop(unread);
        wait_until("nothing is left", PATIENCE, || {
            httpd.counter().running == 0 && at_work(&httpd) == 0
        });
        let read = connection.get(&format!("/counter?bytes={LONG}"));
        assert!(read.body.len() >= LONG, "{mpm}: {}", read.body.len());
    }
}
