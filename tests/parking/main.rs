//! Waiting without a worker, on event: more accesses wait than there are workers, and nobody notices.

mod answers;
mod configured;
mod endings;

use nap_testkit::{Builder, Httpd, Mpm, for_each_mpm, long, parks, wait_until};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const APP: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe application\\n'\n";
const SUM: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nexec cksum\n";

/// A front controller: requests are not for files, and are redirected within httpd, once or twice.
const FRONT: &str = "RewriteEngine On\n\
     RewriteRule ^(app|sum)$ /cgi-bin/$1 [L]\n\
     RewriteRule ^gone$ /front/nowhere [L]\n\
     RewriteRule ^twice$ /front/app [L]\n";

/// An httpd that is too old to park says so, and every waiting access holds a worker.
fn server() -> Builder {
    let server = Httpd::builder().nap();
    match parks() {
        true => server,
        false => server
            .expect_log("NapPark:", "it is too old")
            .expect_log("lets at most", "few workers are meant"),
    }
}

/// One permit, and a bound that is never reached.
fn site(park: &str) -> Builder {
    server()
        .holding()
        .mpm(Mpm::Event)
        .expect_log("lets at most", "few workers are meant")
        .config(&format!(
            "NapPark {park}\n<NapRoom site>\nNapRunReady 1\nNapWaitMax 10min\nNapWaitLimit 10000\n\
             NapStatic On\n</NapRoom>"
        ))
        .config("<LocationMatch ^/(cgi-bin|file)>\nNapUse site\n</LocationMatch>")
        .config("ScriptAlias /free/ {root}/cgi-bin/")
        .modules(&["rewrite"])
        .config("<Directory {root}/htdocs/front>\nAllowOverride All\nOptions FollowSymLinks\n</Directory>")
        .file("htdocs/front/.htaccess", FRONT)
        .cgi("app", APP)
        .cgi("sum", SUM)
        .file("htdocs/file.txt", "a file\n".repeat(3000))
}

fn ask(httpd: &Httpd, path: &str) -> TcpStream {
    let mut stream = httpd.connect();
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .expect("httpd listens");
    stream
}

fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("a whole answer");
    String::from_utf8_lossy(&answer).into_owned()
}

fn parked(httpd: &Httpd) -> usize {
    httpd.accesses(&["parked"])
}

fn until_parked(httpd: &Httpd, n: usize) {
    wait_until(&format!("{n} are parked"), PATIENCE, || parked(httpd) == n);
}

#[test]
fn many_more_wait_than_there_are_workers_and_all_are_served_in_their_order() {
    let waiters = if long() { 5000 } else { 500 };
    let httpd = site("On").workers(2, 25).start();
    let held = httpd.hold("one", 1);
    let mut all: Vec<TcpStream> = (0..waiters)
        .map(|n| {
            let stream = ask(&httpd, &format!("/cgi-bin/app?{n}"));
            // The next ones come later, whichever child the kernel gives them to.
            if n % 50 == 49 {
                until_parked(&httpd, n + 1);
            }
            stream
        })
        .collect();
    assert_eq!(httpd.accesses(&["waiting"]), 0, "nobody holds a worker");
    assert_eq!(httpd.get("/free/app").status, 200, "there are workers");
    held.release();
    for stream in &mut all {
        let answer = read_all(stream);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("the application\n"), "{answer}");
    }
    httpd.until_idle();
    let log = httpd.access_log();
    let asked = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("/cgi-bin/app?")?;
        rest.split(' ').next()?.parse::<usize>().ok()
    });
    // Those that came within the same fifty did so in any order.
    let groups: Vec<usize> = asked.map(|n| n / 50).collect();
    assert_eq!(groups.len(), waiters);
    let overtaken = groups.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(overtaken * 100 <= waiters, "{overtaken} of {waiters}");
}

#[test]
fn who_goes_while_parked_leaves_his_place_and_is_never_run() {
    let httpd = site("On").workers(2, 25).start();
    let held = httpd.hold("one", 1);
    let gone: Vec<TcpStream> = (0..60).map(|_| ask(&httpd, "/cgi-bin/app")).collect();
    until_parked(&httpd, 60);
    let mut stays = ask(&httpd, "/cgi-bin/app");
    until_parked(&httpd, 61);
    drop(gone);
    until_parked(&httpd, 1);
    held.release();
    assert!(read_all(&mut stays).contains("the application\n"));
    httpd.until_idle();
    assert_eq!(
        httpd.gate()["counts"]["granted"],
        1,
        "{}",
        httpd.gate()["counts"]
    );
}

/// `%D` is the time since the request came.
#[test]
fn the_access_log_counts_the_time_that_was_waited() {
    let httpd = site("On").workers(2, 25).access_log_format("%U %D").start();
    let held = httpd.hold("one", 1);
    let mut waits = ask(&httpd, "/cgi-bin/app");
    until_parked(&httpd, 1);
    let since = Instant::now();
    assert_eq!(httpd.get("/free/app").status, 200);
    let waited = since.elapsed();
    held.release();
    assert!(read_all(&mut waits).contains("the application\n"));
    httpd.until_idle();
    let log = httpd.access_log();
    let took = log
        .lines()
        .find_map(|line| line.strip_prefix("/cgi-bin/app "));
    let took: u64 = took.expect("a line").parse().expect("microseconds");
    assert!(
        Duration::from_micros(took) >= waited,
        "{took} us, {waited:?}"
    );
}

/// The next in line looks when it is time, not at the keeper's next round.
#[test]
fn sessions_start_as_fast_as_where_they_wait_on_workers() {
    if !parks() {
        return;
    }
    let took = |park: &str| {
        let httpd = server()
            .mpm(Mpm::Event)
            .info()
            .workers(2, 50)
            .config(&format!(
                "NapPark {park}\n<NapRoom shop>\nNapStatic On\nNapWaitMax 1min\n\
                 NapSession start=^/file\nNapSessionStart 20ms\n</NapRoom>\n\
                 <Location /file.txt>\nNapUse shop\n</Location>"
            ))
            .expect_log("lets at most", "few workers are meant")
            .file("htdocs/file.txt", "a file\n")
            .start();
        let begin = Instant::now();
        let mut all: Vec<TcpStream> = (0..24).map(|_| ask(&httpd, "/file.txt")).collect();
        for stream in &mut all {
            assert!(read_all(stream).starts_with("HTTP/1.1 200 "), "{park}");
        }
        begin.elapsed()
    };
    let [parked, blocked] = ["On", "Off"].map(took);
    eprintln!("    24 sessions, 20 ms each: {parked:?} parked, {blocked:?} on workers");
    assert!(parked < 3 * blocked, "{parked:?}, on workers {blocked:?}");
}

/// A tunnel that had to wait works like any other.
#[test]
fn a_web_socket_that_was_parked_is_open_both_ways() {
    let backend = nap_testkit::backends::echoing();
    let httpd = site("On")
        .workers(2, 25)
        .modules(&["proxy", "proxy_http"])
        .config(&format!(
            "<Location /ws>\nNapUse site\n</Location>\nProxyPass /ws http://127.0.0.1:{backend}/ws upgrade=websocket"
        ))
        .start();
    let held = httpd.hold("one", 1);
    let mut socket = httpd.connect();
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let upgrade =
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    socket.write_all(upgrade.as_bytes()).expect("httpd reads");
    until_parked(&httpd, 1);
    held.release();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{head:?}");
    let mut told = [0; 5];
    for said in [b"hello", b"again"] {
        socket.write_all(said).expect("it is open");
        socket.read_exact(&mut told).expect("it is echoed");
        assert_eq!(&told, said);
    }
    // An httpd that is stopped before it notices a tunnel's end waits for it, parked or not.
    socket.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(socket.read_to_end(&mut head).expect("its end"), 0);
}

#[test]
fn large_bodies_come_whole_and_under_tls_too() {
    let tls = nap_testkit::free_port();
    let httpd = site("On").workers(2, 25).tls(tls).start();
    for (n, url) in [httpd.url(), format!("https://127.0.0.1:{tls}")]
        .iter()
        .enumerate()
    {
        for (m, length) in [100_000, 5_000_000].into_iter().enumerate() {
            let body: Vec<u8> = (0..length).map(|n: usize| (n * 31 % 251) as u8).collect();
            let sum = httpd.request("POST", "/free/sum", &[], &body).text();
            let held = httpd.hold(Box::leak(format!("held{n}{m}").into_boxed_str()), 1);
            let url = format!("{url}/cgi-bin/sum");
            let path = httpd.root().join("data/body");
            std::fs::write(&path, &body).expect("our own file");
            let curl = std::process::Command::new("curl")
                .args(["-sk", "--http1.1", "-H", "Expect:", "--data-binary"])
                .arg(format!("@{}", path.display()))
                .arg(&url)
                .stdout(std::process::Stdio::piped())
                .spawn()
                .expect("curl runs");
            until_parked(&httpd, 1);
            held.release();
            let output = curl.wait_with_output().expect("curl ends");
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                sum,
                "{url} {length}"
            );
        }
    }
}

#[test]
fn a_graceful_restart_cuts_nobody() {
    let mut httpd = site("On").workers(2, 25).start();
    let mut first = ask(&httpd, "/cgi-bin/hold?one");
    wait_until("it runs", PATIENCE, || httpd.holding("one") == 1);
    let mut before: Vec<TcpStream> = (0..40).map(|_| ask(&httpd, "/cgi-bin/app")).collect();
    until_parked(&httpd, 40);
    httpd.graceful();
    let mut behind: Vec<TcpStream> = (0..40).map(|_| ask(&httpd, "/cgi-bin/app")).collect();
    until_parked(&httpd, 80);
    std::fs::write(httpd.root().join("data/go-one"), "").expect("our own file");
    assert!(read_all(&mut first).contains("held one\n"));
    for stream in before.iter_mut().chain(&mut behind) {
        let answer = read_all(stream);
        assert!(answer.contains("the application\n"), "{answer}");
    }
    httpd.until_idle();
}

#[test]
fn the_places_of_a_child_that_is_killed_are_free_again() {
    let httpd = site("On")
        .workers(2, 25)
        .expect_log("exit signal Killed", "that is what is tried")
        .start();
    let held = httpd.hold("one", 1);
    let waiters: Vec<TcpStream> = (0..40).map(|_| ask(&httpd, "/cgi-bin/app")).collect();
    until_parked(&httpd, 40);
    for child in httpd.children() {
        httpd.kill9(child);
    }
    drop(waiters);
    drop(held);
    wait_until("nobody is left", PATIENCE, || {
        httpd
            .try_room()
            .is_some_and(|room| (room.waiting, room.running) == (0, 0))
    });
    assert_eq!(httpd.get("/cgi-bin/app").status, 200);
}

#[test]
fn who_cannot_be_served_within_the_bound_has_his_ticket_while_parked() {
    let httpd = server()
        .holding()
        .mpm(Mpm::Event)
        .workers(2, 25)
        .config(
            "NapPark On\n<NapRoom site>\nNapRunReady 1\nNapWaitMax 2s\nNapWaitLimit 100\n</NapRoom>\n\
             <Location /cgi-bin>\nNapUse site\n</Location>",
        )
        .start();
    let _held = httpd.hold("one", 1);
    let mut waiters: Vec<TcpStream> = (0..10).map(|_| ask(&httpd, "/cgi-bin/hold?two")).collect();
    for stream in &mut waiters {
        let answer = read_all(stream);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("Nap-Ticket"), "{answer}");
    }
    wait_until("nobody waits", PATIENCE, || httpd.waiting() == 0);
}

/// The poll's fixup runs after the one that parks.
#[test]
fn a_poll_that_has_waited_is_told_when_to_ask_again() {
    let httpd = site("On")
        .workers(2, 25)
        .config("<Location /cgi-bin/app>\nTelePoll score base=10s rate=200\n</Location>")
        .start();
    let held = httpd.hold("one", 1);
    let mut polls = ask(&httpd, "/cgi-bin/app");
    until_parked(&httpd, 1);
    held.release();
    let answer = read_all(&mut polls);
    assert!(answer.contains("\r\nTelePoll-Interval: "), "{answer}");
}

#[test]
fn a_redirect_that_is_parked_leaves_its_place_when_its_client_goes() {
    let httpd = site("On").workers(2, 25).start();
    let held = httpd.hold("one", 1);
    let gone = ["/front/app", "/front/twice"].map(|path| ask(&httpd, path));
    until_parked(&httpd, 2);
    let mut stays = ask(&httpd, "/front/twice");
    until_parked(&httpd, 3);
    drop(gone);
    until_parked(&httpd, 1);
    held.release();
    assert!(read_all(&mut stays).contains("the application\n"));
    httpd.until_idle();
    let log = httpd.access_log();
    let asked = |path: &str| log.lines().filter(|line| line.contains(path)).count();
    assert_eq!(
        (asked("/front/app"), asked("/front/twice")),
        (1, 2),
        "{log}"
    );
}

/// What an error or a program leads to has to return to it: behind its redirects an access waits on a worker.
#[test]
fn behind_an_error_or_a_program_a_redirect_waits_on_a_worker_and_is_answered() {
    let cases = [
        ("/denied.txt", "HTTP/1.1 403 "),
        ("/front/gone", "HTTP/1.1 404 "),
        ("/free/leads", "HTTP/1.1 200 "),
    ];
    let httpd = site("On")
        .workers(2, 25)
        .config(
            "ErrorDocument 403 /front/app\nErrorDocument 404 /front/twice\n\
             <Location /denied.txt>\nRequire all denied\n</Location>",
        )
        .cgi(
            "leads",
            "#!/bin/sh\nprintf 'Location: /front/twice\\r\\n\\r\\n'\n",
        )
        .file("htdocs/denied.txt", "nobody's\n")
        .expect_log("client denied", "that is what is tried")
        .start();
    for (n, (path, status)) in cases.into_iter().enumerate() {
        let held = httpd.hold(Box::leak(format!("held{n}").into_boxed_str()), 1);
        let mut waits = ask(&httpd, path);
        httpd.until_waiting(1);
        assert_eq!(parked(&httpd), 0, "{path}");
        held.release();
        let answer = read_all(&mut waits);
        assert!(answer.starts_with(status), "{path}: {answer}");
        assert!(answer.contains("the application\n"), "{path}: {answer}");
        httpd.until_idle();
    }
}

#[test]
fn where_nobody_can_be_parked_the_log_says_so_and_all_wait_on_workers() {
    for_each_mpm(|mpm| {
        let why = match mpm {
            _ if !parks() => "this httpd is older than 2.4.63",
            Mpm::Event => return,
            _ => "this MPM cannot wait for a connection without a worker; event can",
        };
        let httpd = site("On")
            .mpm(mpm)
            .workers(4, 8)
            .expect_log("NapPark:", "it cannot be")
            .start();
        let log = httpd.error_log();
        let said = format!("mod_nap: NapPark: {why}; waiting accesses hold workers");
        assert_eq!(log.matches(&said).count(), 1, "{log}");
        let held = httpd.hold("one", 1);
        let mut waits = ask(&httpd, "/cgi-bin/app");
        httpd.until_waiting(1);
        assert_eq!(parked(&httpd), 0);
        held.release();
        assert!(read_all(&mut waits).contains("the application\n"));
    });
}

/// A parked access goes on where the last fixup stopped: before its authorization none may be parked.
#[test]
fn who_waits_before_he_has_logged_in_is_asked_to_when_his_turn_comes() {
    // mod_access_compat forbids nothing here, so by any rule the visitor may.
    for (satisfy, told) in [("All", "HTTP/1.1 403 "), ("Any", "HTTP/1.1 200 ")] {
        let httpd = server()
            .holding()
            .mpm(Mpm::Event)
            .workers(2, 25)
            .modules(&["access_compat"])
            .config(&format!(
                "NapPark On\n<NapRoom site>\nNapRunReady 1\nNapWaitMax 1min\n\
                 NapWaitLimit 100\nNapAdmit early\n</NapRoom>\n\
                 <Location /cgi-bin>\nNapUse site\n</Location>\n\
                 <Location /cgi-bin/hold>\nNapUse site\nRequire all granted\n</Location>\n\
                 <Location /cgi-bin/app>\nSatisfy {satisfy}\nRequire all denied\n</Location>"
            ))
            .cgi("app", APP)
            .expect_log("client denied", "that is what is tried")
            .expect_log("wants MaxRequestWorkers", "few workers are meant")
            .start();
        let held = httpd.hold("one", 1);
        let mut waits = ask(&httpd, "/cgi-bin/app");
        httpd.until_waiting(1);
        assert_eq!(parked(&httpd), 0, "{satisfy}");
        held.release();
        let answer = read_all(&mut waits);
        assert!(answer.starts_with(told), "{satisfy}: {answer}");
        httpd.until_idle();
    }
}
