//! lbmethod oxthas and nap on a real mod_proxy_balancer: which members get the work, and what happens when a
//! member is killed, stopped, slow, or quick to fail.

use nap_testkit::backends::{Backend, MODULES, balancer};
use nap_testkit::{Answer, Builder, Httpd, Mpm, long, wait_until};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// mod_proxy reports a failing member in these lines.
const OF_FAILURES: [&str; 6] = [
    "AH00957:", "AH00959:", "AH01114:", "AH01102:", "AH00898:", "AH01097:",
];
/// A member that refuses connections is out until its retry, or, where it has peers, until the request for which
/// mod_proxy took it out puts it back.
const OF_ONE_OUT: &str = "AH00940:";

fn server(backends: &[Backend], lines: &str) -> Builder {
    let builder = Httpd::builder()
        .nap()
        .modules(&MODULES)
        .info()
        .config(&balancer(backends, lines));
    failures_are_told(builder)
}

fn failures_are_told(builder: Builder) -> Builder {
    OF_FAILURES.iter().fold(builder, |builder, line| {
        builder.expect_log(line, "mod_proxy tells of a member's failure")
    })
}

/// Sends this many requests, eight at a time; how many each member answered, by name.
fn crowd(httpd: &Httpd, n: usize, path: &str) -> BTreeMap<String, usize> {
    let (left, went) = (Mutex::new(n), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    {
                        let mut left = left.lock().expect("no panic");
                        if *left == 0 {
                            return;
                        }
                        *left -= 1;
                    }
                    let answer = httpd.get(path);
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    *went
                        .lock()
                        .expect("no panic")
                        .entry(who(&answer))
                        .or_insert(0) += 1;
                }
            });
        }
    });
    went.into_inner().expect("no panic")
}

fn who(answer: &Answer) -> String {
    answer.header("x-backend").unwrap_or("nobody").to_owned()
}

fn of(went: &BTreeMap<String, usize>, name: &str) -> usize {
    went.get(name).copied().unwrap_or(0)
}

#[test]
fn the_faster_member_gets_more() {
    for method in ["nap", "oxthas"] {
        let backends = Backend::all(&[50_000, 50_000, 100_000, 400_000]);
        let httpd = server(&backends, &format!("ProxySet lbmethod={method}")).start();
        let went = crowd(&httpd, 240, "/work?size=1000");
        assert!(of(&went, "d") > 2 * of(&went, "a"), "{method}: {went:?}");
        assert!(of(&went, "d") > 2 * of(&went, "b"), "{method}: {went:?}");
    }
}

/// No client sees what `fault` does to the best member. The member gets hardly any work meanwhile, and after
/// `cure` it soon has its share again.
fn a_fault_is_seen_by_nobody(method: &str, fault: fn(&mut Backend), cure: fn(&mut Backend)) {
    a_fault_is_told_to_the_log_alone(method, &[], fault, cure);
}

/// The same with a fault of which these lines tell, too.
fn a_fault_is_told_to_the_log_alone(
    method: &str,
    told: &[&str],
    fault: fn(&mut Backend),
    cure: fn(&mut Backend),
) {
    let others = Mpm::ALL.into_iter().filter(|mpm| *mpm != Mpm::Event);
    for mpm in others.filter(|_| long()).chain([Mpm::Event]) {
        eprintln!("--- {method} under {mpm}");
        a_fault_is_seen_by_nobody_under(mpm, method, told, fault, cure);
    }
}

fn a_fault_is_seen_by_nobody_under(
    mpm: Mpm,
    method: &str,
    told: &[&str],
    fault: fn(&mut Backend),
    cure: fn(&mut Backend),
) {
    let mut backends = Backend::all(&[100_000, 100_000, 200_000, 400_000]);
    let lines = format!("ProxySet lbmethod={method}\nOxthasTimeout 1s\nOxthasBands 4");
    let allowed = |builder: Builder, line: &&str| builder.expect_log(line, "of this fault");
    let builder = told.iter().fold(server(&backends, &lines), allowed);
    let httpd = builder.mpm(mpm).start();
    crowd(&httpd, 100, "/work?size=1000");
    fault(&mut backends[3]);
    // Requests that find the fault, and those that were under way with it.
    crowd(&httpd, 60, "/work?size=1000");
    let went = crowd(&httpd, 300, "/work?size=1000");
    assert!(
        of(&went, "d") < 6,
        "{method}: less than 2 per cent: {went:?}"
    );
    cure(&mut backends[3]);
    let share = || of(&crowd(&httpd, 50, "/work?size=1000"), "d");
    wait_until("it has its share again", PATIENCE, || share() > 8);
}

#[test]
fn a_member_that_fails_at_once_attracts_nobody() {
    for method in ["nap", "oxthas"] {
        a_fault_is_seen_by_nobody(method, |b| b.mode("500"), |b| b.mode("ok"));
    }
}

#[test]
fn a_stopped_member_is_found_out_and_comes_back() {
    for method in ["nap", "oxthas"] {
        a_fault_is_seen_by_nobody(method, |b| b.stop(), |b| b.go_on());
    }
}

#[test]
fn a_killed_member_is_found_out_and_comes_back() {
    for method in ["nap", "oxthas"] {
        // Others are on the way to it when it is taken out.
        a_fault_is_told_to_the_log_alone(method, &[OF_ONE_OUT], |b| b.kill(), |b| b.start_again());
    }
}

#[test]
fn a_member_gone_slow_gets_little_and_comes_back() {
    a_fault_is_seen_by_nobody("nap", |b| b.mode("slow=600"), |b| b.mode("ok"));
}

#[test]
fn one_activity_may_fail_where_others_are_well() {
    let backends = Backend::all(&[100_000, 400_000]);
    let httpd = server(&backends, "ProxySet lbmethod=nap").start();
    crowd(&httpd, 20, "/good?size=1000");
    crowd(&httpd, 20, "/bad?size=1000");
    backends[1].mode("500&only=/bad");
    crowd(&httpd, 20, "/bad?size=1000");
    let bad = crowd(&httpd, 100, "/bad?size=1000");
    assert_eq!(of(&bad, "b"), 0, "{bad:?}");
    let good = crowd(&httpd, 100, "/good?size=1000");
    assert!(of(&good, "b") > of(&good, "a"), "{good:?}");
}

#[test]
fn attempts_are_numbered_and_of_one_key_and_what_changes_something_is_not_repeated() {
    let backends = Backend::all(&[400_000, 400_000, 400_000]);
    let httpd = server(&backends, "ProxySet lbmethod=nap").start();
    let counts = || backends.iter().map(|b| b.count()).collect::<Vec<_>>();
    backends.iter().for_each(|b| b.mode("500"));
    counts();
    let posted = httpd.request("POST", "/work", &[], b"body");
    assert_eq!((posted.status, posted.text().as_str()), (500, "broken\n"));
    let sums = |counts: Vec<(u32, u32)>| {
        let all: u32 = counts.iter().map(|c| c.0).sum();
        (all, counts.iter().map(|c| c.1).sum::<u32>())
    };
    assert_eq!(sums(counts()), (1, 0));
    let got = httpd.get("/work");
    assert_eq!(
        (got.status, got.text().as_str()),
        (500, "broken\n"),
        "the last one's answer"
    );
    let seen = counts();
    assert!(seen.iter().all(|c| c.0 == 1), "each of them once: {seen:?}");
    assert_eq!(sums(seen), (3, 2));
}

#[test]
fn what_was_never_sent_goes_elsewhere_whatever_it_is() {
    let mut backends = Backend::all(&[400_000, 400_000]);
    let httpd = server(&backends, "ProxySet lbmethod=nap").start();
    backends[0].kill();
    for _ in 0..20 {
        let answer = httpd.request("POST", "/work", &[], b"a body that must arrive");
        assert_eq!((answer.status, who(&answer).as_str()), (200, "b"));
    }
}

#[test]
fn work_that_is_never_repeated_finds_out_too_that_a_member_is_well_again() {
    let backends = Backend::all(&[100_000, 400_000]);
    let httpd = server(
        &backends,
        "ProxySet lbmethod=nap\nOxthasRetry 2 backoff=100ms",
    )
    .start();
    let posted = || httpd.request("POST", "/work", &[], &[b'x'; 4000]);
    (0..10).for_each(|_| assert_eq!(posted().status, 200));
    backends[1].mode("500");
    let statuses: Vec<u16> = (0..40).map(|_| posted().status).collect();
    let failed = statuses.iter().filter(|status| **status == 500).count();
    // Three, and one more for each three seconds that this takes.
    assert!((1..=12).contains(&failed), "{statuses:?}");
    backends[1].mode("ok");
    wait_until("it has work again", PATIENCE, || who(&posted()) == "b");
    let went = (0..20).filter(|_| who(&posted()) == "b").count();
    assert!(went > 10, "{went} of 20");
}

#[test]
fn answers_that_break_off_are_no_speed() {
    let backends = Backend::all(&[100_000, 400_000]);
    let httpd = server(&backends, "ProxySet lbmethod=nap")
        .expect_log("[proxy", "mod_proxy tells of answers that break off")
        .start();
    crowd(&httpd, 40, "/work?size=1000");
    backends[1].mode("cut");
    // Whatever the client makes of the answers.
    let whole = || {
        let mut answer = Vec::new();
        let mut stream = httpd.connect();
        let ask = b"GET /work?size=1000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(ask).expect("httpd reads");
        stream.read_to_end(&mut answer).ok();
        String::from_utf8_lossy(&answer).ends_with("a\n")
    };
    let cut = (0..60).filter(|_| !whole()).count();
    assert!((1..=6).contains(&cut), "{cut} of 60");
    backends[1].mode("ok");
    let share = || of(&crowd(&httpd, 20, "/work?size=1000"), "b");
    wait_until("it has its share again", PATIENCE, || share() > 8);
}

/// Standby members and another lbset take over with the very first request that finds no member.
#[test]
fn others_stand_in_for_the_first_set() {
    for second in ["status=+H", "lbset=1", "status=+R"] {
        let mut backends = Backend::all(&[400_000, 400_000]);
        let [a, b] = [0, 1].map(|at| backends[at].url());
        let config = format!(
            "<Proxy balancer://work>\nBalancerMember {a}\nBalancerMember {b} {second}\n\
             ProxySet lbmethod=nap\n</Proxy>\nProxyPass / balancer://work/"
        );
        let builder = Httpd::builder().nap().modules(&MODULES).config(&config);
        let httpd = failures_are_told(builder)
            .expect_log(OF_ONE_OUT, "the first set's only member is gone")
            .start();
        assert_eq!(of(&crowd(&httpd, 20, "/work?size=100"), "a"), 20);
        backends[0].kill();
        let went = crowd(&httpd, 40, "/work?size=100");
        assert_eq!(of(&went, "b"), 40, "{second}: {went:?}");
    }
}

/// A member that keeps its connections, answers a GET at once and a POST after three seconds; and the number
/// of connections it was asked on.
fn keeper() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || keep(stream));
        }
    });
    (port, connections)
}

fn keep(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        if head.contains("expect: 100-continue") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let length = (head.lines()).find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        stream.read_exact(&mut vec![0; length])?;
        if head.starts_with("post") {
            std::thread::sleep(Duration::from_secs(3));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")?;
    }
}

/// With ping=, mod_proxy_http restores the time-out that it found on the connection.
#[test]
fn a_kept_connection_is_as_patient_as_before_with_whoever_comes_next() {
    let members = [keeper(), keeper()];
    let lines: String = (members.iter())
        .map(|(port, _)| format!("BalancerMember http://127.0.0.1:{port} ping=1\n"))
        .collect();
    let config = format!(
        "<Proxy balancer://work>\n{lines}ProxySet lbmethod=nap\nOxthasTimeout 1s\n</Proxy>\n\
         ProxyPass / balancer://work/"
    );
    let httpd = Httpd::builder()
        .nap()
        .modules(&MODULES)
        .workers(1, 8)
        .config(&config)
        .start();
    let connections = || (members.each_ref()).map(|(_, count)| count.load(Ordering::Relaxed));
    wait_until("both have a connection", PATIENCE, || {
        assert_eq!(httpd.get("/").status, 200);
        connections() == [1, 1]
    });
    assert_eq!(httpd.request("POST", "/", &[], b"an order").status, 200);
    assert_eq!(connections(), [1, 1], "it was a kept one");
}

#[test]
fn the_only_member_s_errors_are_passed_on() {
    let mut backends = Backend::all(&[400_000]);
    let httpd = server(&backends, "ProxySet lbmethod=nap").start();
    assert_eq!(httpd.get("/work").status, 200);
    backends[0].mode("500");
    let answer = httpd.get("/work");
    assert_eq!((answer.status, answer.text().as_str()), (500, "broken\n"));
    backends[0].kill();
    assert_eq!(httpd.get("/work").status, 503);
    backends[0].start_again();
    assert_eq!(httpd.get("/work").status, 200, "it was not taken out");
}

#[test]
fn an_activity_stays_with_the_members_that_can_do_it() {
    let backends = Backend::all(&[100_000, 400_000, 100_000]);
    let port = backends[2].url().replace("http://", "");
    let lines = format!(
        "ProxySet lbmethod=nap\nOxthasActivity reports ^/reports members=a,{port}\n\
         OxthasActivity none ^/none members=nobody"
    );
    let httpd = server(&backends, &lines)
        .expect_log("AH01170:", "nobody can do one of the activities")
        .start();
    let went = crowd(&httpd, 60, "/reports/1?size=500");
    assert_eq!(of(&went, "b"), 0, "{went:?}");
    assert_eq!(of(&went, "a") + of(&went, "c"), 60);
    assert_eq!(httpd.get("/none").status, 503);
}

#[test]
fn mod_proxy_s_own_rules_hold() {
    let backends = Backend::all(&[50_000, 400_000, 400_000, 400_000]);
    let urls: Vec<String> = backends.iter().map(Backend::url).collect();
    let config = format!(
        "<Proxy balancer://work>\nBalancerMember {} route=a\nBalancerMember {} route=b status=+H\n\
         BalancerMember {} route=c lbset=1\nBalancerMember {} route=d status=+D\n\
         ProxySet lbmethod=nap stickysession=ROUTE\n</Proxy>\nProxyPass / balancer://work/",
        urls[0], urls[1], urls[2], urls[3]
    );
    let httpd = Httpd::builder()
        .nap()
        .modules(&MODULES)
        .config(&config)
        .start();
    let went = crowd(&httpd, 40, "/work?size=100");
    assert_eq!(
        of(&went, "a"),
        40,
        "the others are standby, another set, off: {went:?}"
    );
    let cookie = [("Cookie", "ROUTE=x.c")];
    let answer = httpd.request("GET", "/work?size=100", &cookie, b"");
    assert_eq!(who(&answer), "c", "a session goes to its member");
}

#[test]
fn what_was_learnt_is_kept_over_a_graceful_restart() {
    // Two seconds an answer: even if the machine stalls for a quarter of one, none of them becomes the best.
    let backends = Backend::all(&[500, 400_000, 500, 500]);
    let mut httpd = server(&backends, "ProxySet lbmethod=nap").start();
    crowd(&httpd, 40, "/work?size=1000");
    httpd.graceful();
    let first: Vec<String> = (0..4).map(|_| who(&httpd.get("/work?size=1000"))).collect();
    let elsewhere = first.iter().filter(|name| *name != "b").count();
    assert!(elsewhere <= 1, "nobody is tried anew: {first:?}");
}

#[test]
fn without_mod_proxy_balancer_the_methods_are_off_and_the_module_works() {
    const OFF: &str = "lbmethod oxthas and nap are off: mod_proxy_balancer is not loaded";
    let room = "LogLevel nap:notice\n<NapRoom site>\nNapRunReady 2\nNapWaitLimit 4\n</NapRoom>";
    let httpd = Httpd::builder().nap().config(room).start();
    let log = httpd.error_log();
    assert!(!log.contains(OFF), "nobody has asked for a balancer: {log}");
    let asked = Httpd::builder().nap().config(room);
    let asked = asked
        .config("OxthasRetry 2")
        .expect_log(OFF, "that is what is tested");
    let log = asked.start().error_log();
    assert!(log.contains(OFF), "{log}");
}

#[test]
fn the_stock_methods_are_left_alone() {
    let backends = Backend::all(&[400_000, 400_000]);
    let httpd = server(&backends, "ProxySet lbmethod=byrequests").start();
    let went = crowd(&httpd, 40, "/work?size=100");
    assert_eq!((of(&went, "a"), of(&went, "b")), (20, 20));
    backends[0].mode("500");
    let statuses: Vec<u16> = (0..4).map(|_| httpd.get("/work").status).collect();
    assert!(statuses.contains(&500), "nothing is repeated: {statuses:?}");
}

#[test]
fn wrong_settings_stop_configtest() {
    let complaint = |lines: &str| {
        let config = format!("<Proxy balancer://work>\n{lines}\n</Proxy>");
        let builder = Httpd::builder().nap().modules(&MODULES).config(&config);
        builder.configtest().expect_err(lines)
    };
    for (lines, said) in [
        (
            "OxthasBands 0",
            "OxthasBands: \"0\" is out of range; use a number from 1 to 64",
        ),
        ("OxthasTimeout 0", "OxthasTimeout: \"0\" is out of range"),
        (
            "OxthasRetry 1 pause=2",
            "backoff= with a time, not \"pause=2\"",
        ),
        (
            "OxthasPenalty much",
            "OxthasPenalty: \"much\" is not a number",
        ),
        (
            "OxthasHistory 0",
            "OxthasHistory: \"0\" is out of range; use a number from 1 to 100",
        ),
        (
            "OxthasActivity a",
            "OxthasActivity: wants a name and a regular expression",
        ),
        (
            "OxthasActivity a (",
            "OxthasActivity: \"(\" is not a regular expression",
        ),
        (
            "OxthasActivity a . who=b",
            "OxthasActivity: \"who=b\" is not members= with names",
        ),
        ("ProxySet lbmethod=oxthass", "unknown lbmethod"),
    ] {
        let words = complaint(lines);
        assert!(words.contains(said), "{lines}: {words}");
    }
}
