//! Graceful restarts and stops with a room full of visitors: nobody is dropped, the order of arrival holds
//! over generations of children, limits change in place, and tickets stay good.

use nap_testkit::held::waits_in;
use nap_testkit::{
    Answer, Builder, Httpd, Mpm, NOT_OURS, Tries, Visitors, for_each_mpm, long, wait_until,
};
use std::io::{Read as _, Write as _};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// How often mod_cgid has reported a request that it cut off with its own 503. At a restart its daemon ends,
/// and the new one is not there at once or has not yet given its socket to the children's user.
fn cut_by_cgid(httpd: &Httpd) -> usize {
    let log = httpd.error_log();
    let its = log.lines().filter(|line| line.contains("[cgid:error]"));
    // The message about a new daemon does not mean that anybody was cut off.
    its.filter(|line| !line.contains("AH01239:")).count()
}

/// No visitor failed except through those 503s.
fn assert_none_failed(httpd: &Httpd, tries: &Tries) {
    let failed = &tries.failed;
    assert!(failed.iter().all(|why| why == NOT_OURS), "{failed:?}");
    assert!(failed.len() <= cut_by_cgid(httpd), "{failed:?}");
}

/// A program that reports its start, runs until `data/go` exists, or for a moment more once `data/ends` does,
/// and is in no hurry to die.
const HOLDER: &str = r#"#!/bin/sh
cd "$BOARD_DIR"
echo "$QUERY_STRING" >>came
while [ ! -e go ] && [ ! -e ends ]; do sleep 0.02; done
[ -e go ] || sleep 1.5
printf 'Content-Type: text/plain\r\n\r\ncounted\n'
"#;

fn room(limit: u64, more: &str) -> String {
    format!(
        "<NapRoom site>\nNapRunReady {limit}\nNapWaitMax 1min\nNapSlotPeriod 1s\n{more}\n\
         </NapRoom>\n<Location /counter>\nNapUse site\n</Location>\n\
         <Location /cgi-bin/hold>\nNapUse site\n</Location>\n\
         <Location /nap-info>\nSetHandler nap-info\n</Location>\nGracefulShutdownTimeout 20"
    )
}

fn server(config: &str) -> Builder {
    Httpd::builder()
        .nap()
        .workers(3, 24)
        .config(config)
        .cgi("hold", HOLDER)
        .expect_log(
            "failed reading PID from cgi daemon",
            "httpd ends mod_cgid's daemon at a restart",
        )
        .expect_log(
            "could not send request to cgi daemon",
            "the same, a moment earlier",
        )
        .expect_log("AH01258:", "the same, a moment later")
        .expect_log("AH01257:", "and another is not there at once")
        .expect_log("AH01261:", "the next one knows no program of the last")
        .expect_log(
            "AH00045:",
            "the program that runs outlives httpd's patience",
        )
}

/// `n` visitors to the holder, numbered from `first`, one after the other in the queue.
fn queue_up(httpd: &Httpd, first: u64, n: u64) -> Vec<JoinHandle<Answer>> {
    let waiting = httpd.room().waiting;
    (0..n)
        .map(|i| {
            let visitor = httpd.get_later(&format!("/cgi-bin/hold?{}", first + i));
            wait_until("the visitor waits", PATIENCE, || {
                httpd.room().waiting == waiting + i + 1
            });
            visitor
        })
        .collect()
}

fn let_go(httpd: &Httpd) {
    std::fs::write(httpd.root().join("data/go"), "").expect("the data directory takes a file");
}

/// Running programs end by themselves, but not before the server is told to end.
fn let_end(httpd: &Httpd) {
    std::fs::write(httpd.root().join("data/ends"), "").expect("the data directory takes a file");
}

/// The numbers of the visitors who came to the holder, in order.
fn came(httpd: &Httpd) -> Vec<u64> {
    let said = std::fs::read_to_string(httpd.root().join("data/came")).unwrap_or_default();
    said.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn graceful_restarts_under_load_fail_no_request() {
    const LIMIT: u64 = 4;
    let restarts = if long() { 12 } else { 3 };
    for_each_mpm(|mpm| {
        let mut httpd = server(&room(LIMIT, "NapWaitLimit 20\nNapReAccess 1"))
            .mpm(mpm)
            .start();
        let visitors = Visitors::come(&httpd, 12, "/counter?ms=40");
        let mut served = 0;
        for _ in 0..restarts {
            wait_until("each has been served twice", PATIENCE, || {
                visitors.tries().served >= served + 24
            });
            httpd.graceful();
            served = visitors.tries().served;
        }
        wait_until("each has been served twice more", PATIENCE, || {
            visitors.tries().served >= served + 24
        });
        let tries = visitors.leave();
        eprintln!("    {tries:?}");
        assert_none_failed(&httpd, &tries);
        assert_eq!(tries.refused, 0, "all had a place");
        assert_eq!(
            httpd.counter().max,
            LIMIT,
            "two generations share one limit"
        );
        wait_until("nothing is held any more", PATIENCE, || {
            let room = httpd.room();
            (room.running, room.waiting, room.accesses) == (0, 0, 0)
        });
    });
}

#[test]
fn those_who_came_before_a_graceful_restart_go_first() {
    for_each_mpm(|mpm| {
        let mut httpd = server(&room(1, "NapWaitLimit 20\nNapReAccess 1"))
            .mpm(mpm)
            .start();
        let mut all = vec![httpd.get_later("/cgi-bin/hold?0")];
        wait_until("the visitor runs", PATIENCE, || came(&httpd) == [0]);
        all.extend(queue_up(&httpd, 1, 3));
        httpd.graceful();
        all.extend(queue_up(&httpd, 4, 3));
        assert_eq!(came(&httpd), [0], "the new children add no permit");
        let_go(&httpd);
        for visitor in all {
            assert_eq!(visitor.join().expect("an answer").status, 200);
        }
        assert_eq!(came(&httpd), [0, 1, 2, 3, 4, 5, 6]);
    });
}

#[test]
fn those_whose_child_lives_are_served_in_the_order_of_their_arrival() {
    for_each_mpm(|mpm| {
        let httpd = server(&room(1, "NapWaitLimit 20\nNapReAccess 1"))
            .mpm(mpm)
            .expect_log("exit signal Killed", "the test kills a child")
            .expect_log("AH10393:", "as httpd remarks")
            .start();
        let first = httpd.get_later("/cgi-bin/hold?0");
        wait_until("the visitor runs", PATIENCE, || came(&httpd) == [0]);
        let mut queue = Vec::new();
        // Until some wait in a child that runs nothing.
        let victim = loop {
            queue.extend(queue_up(&httpd, 1 + queue.len() as u64, 2));
            let victim = child_of_waiters(&httpd).filter(|_| queue.len() >= 6);
            if let Some(victim) = victim {
                break victim;
            }
            assert!(queue.len() < 20, "all wait in the child that runs");
        };
        let (pid, lost) = victim;
        httpd.kill9(pid);
        let left = queue.len() as u64 - lost;
        wait_until("their places are free", PATIENCE, || {
            httpd.try_room().is_some_and(|room| room.waiting == left)
        });
        let_go(&httpd);
        assert_eq!(first.join().expect("an answer").status, 200);
        let served: Vec<u64> = (1..)
            .zip(queue)
            .filter_map(|(n, visitor)| visitor.join().ok().map(|answer| (n, answer)))
            .filter(|(_, answer)| answer.status == 200)
            .map(|(n, _)| n)
            .collect();
        assert_eq!(served.len() as u64, left, "all whose child lives");
        assert_eq!(came(&httpd)[1..], served, "in their order");
    });
}

/// A child where somebody waits and nothing runs, and how many wait there.
fn child_of_waiters(httpd: &Httpd) -> Option<(i32, u64)> {
    let info = httpd.get("/nap-info?json").json();
    let children = info["children"].as_array().expect("a list");
    let number = |child: &serde_json::Value, of: &str| child[of].as_u64().expect("a number");
    let idle = children
        .iter()
        .filter(|child| number(child, "running") == 0);
    let child = idle.max_by_key(|child| waits_in(child))?;
    let waiting = waits_in(child);
    (waiting > 0).then(|| (number(child, "pid") as i32, waiting))
}

#[test]
fn a_graceful_restart_changes_the_limit_in_place() {
    for_each_mpm(|mpm| {
        let more = "NapWaitLimit 50\nNapReAccess 1";
        let mut httpd = server(&room(10, more)).mpm(mpm).workers(3, 40).start();
        let visitors = Visitors::come(&httpd, 24, "/counter?ms=100");
        wait_until("ten run", PATIENCE, || httpd.counter().running == 10);
        httpd.reconfigure(&room(5, more));
        httpd.graceful();
        assert_eq!(
            httpd.counter().max,
            10,
            "no more while both generations run"
        );
        // Counted by permits: programs of the old holders may start late if mod_cgid's daemon is new.
        wait_until("five are left", PATIENCE, || {
            httpd.room().running <= 5 && httpd.counter().running <= 5
        });
        httpd.forget_counter_max();
        let before = httpd.counter().ended;
        // On a busy machine a program may begin long after its access has got its permit.
        wait_until("forty have run, and five at once", PATIENCE, || {
            let counter = httpd.counter();
            counter.ended >= before + 40 && counter.max >= 5
        });
        assert_eq!(httpd.counter().max, 5, "the old limit is over");
        httpd.reconfigure(&room(12, more));
        httpd.graceful();
        wait_until("twelve run", PATIENCE, || httpd.counter().running == 12);
        let before = httpd.counter().ended;
        wait_until("forty have run", PATIENCE, || {
            httpd.counter().ended >= before + 40
        });
        assert_eq!(httpd.counter().max, 12);
        let tries = visitors.leave();
        assert_none_failed(&httpd, &tries);
        assert_eq!(tries.refused, 0, "all had a place");
    });
}

#[test]
fn tickets_from_before_a_graceful_restart_are_honoured() {
    for_each_mpm(|mpm| {
        let config = room(4, "NapTicketLifetime 1min").replace("NapWaitMax 1min", "NapWaitMax 1s");
        // A restart leaves one child for a while, with fewer workers than the ledger lets wait.
        let server = server(&config).expect_log(
            "NapWaitMax 1s: tickets are sold for at most",
            "the bound is short",
        );
        let mut httpd = server.mpm(mpm).start();
        let url = httpd.url() + "/counter?ms=60";
        let options = ["-c", "80", "-n", "6", "--bound", "1s", "--get"];
        let crowd = std::thread::spawn(move || nap_testkit::crowd(&url, &options));
        for again in [false, true] {
            let (sold, ended) = (httpd.room().sold, httpd.counter().ended);
            // The crowd may fill prefork until it has ended: then nobody answers us before the second time.
            wait_until("tickets are in hand", PATIENCE, || {
                (again && crowd.is_finished())
                    || httpd.room().sold > 0 && httpd.counter().ended >= ended + 60
            });
            httpd.graceful();
            assert!(httpd.room().sold >= sold, "statistics live on");
        }
        let report = crowd.join().expect("a report");
        let promises = &report["promises"];
        eprintln!("    {promises}");
        assert!(promises["presented"].as_u64() > Some(0), "{report}");
        assert_eq!(httpd.room().broken, 0, "{report}");
        // For a visitor whom mod_cgid's own 503 cuts off, the promise is broken, and once more when they come
        // again with a ticket that has been redeemed.
        let cut = 2 * cut_by_cgid(&httpd) as u64;
        assert!(promises["broken"].as_u64() <= Some(cut), "{report}");
        assert_eq!(httpd.counter().max, 4);
    });
}

#[test]
fn what_is_too_small_is_said_at_start_and_sizes_change_at_a_full_restart() {
    let settings = |waiters| {
        format!(
            "NapPark Off\nServerLimit 2\nNapTables waiters={waiters}\n<NapRoom site>\nNapRunReady 10\n\
             NapWaitMax 1min\n</NapRoom>\n<Location /counter>\nNapUse site\n</Location>\n\
             <Location /nap-info>\nSetHandler nap-info\n</Location>"
        )
    };
    let said = [
        "ServerLimit 2 has no slots for a second set of 2 children",
        "room site: MaxRequestWorkers 16 lets at most ",
        "ThreadsPerChild 8 leaves too few threads to wait on",
    ];
    let sizes = "table sizes change at a full restart only";
    let mut httpd = Httpd::builder().nap().workers(2, 8);
    for part in said.into_iter().chain([sizes, "AH00484:"]) {
        httpd = httpd.expect_log(part, "the room is too large for its server");
    }
    // The first of them predicts this: event says it while the old children are still there.
    httpd = httpd.expect_log("AH03490:", "no slots for a second set of children");
    let mut httpd = httpd.config(&settings(16)).start();
    let lines = |httpd: &Httpd, part| httpd.error_log().matches(part).count();
    assert_eq!(said.map(|part| lines(&httpd, part)), [1; 3]);
    assert_eq!(lines(&httpd, sizes), 0, "{}", httpd.error_log());
    httpd.reconfigure(&settings(64));
    httpd.graceful();
    assert_eq!(lines(&httpd, sizes), 1, "{}", httpd.error_log());
    assert_eq!(httpd.get("/counter").status, 200);
    assert_eq!(httpd.room().running, 0);
    httpd.stop();
    httpd.start_again();
    assert_eq!(lines(&httpd, sizes), 1, "{}", httpd.error_log());
}

#[test]
fn a_room_with_a_new_name_at_each_restart_is_protected_after_the_twelfth() {
    // A segment made for one room has entries for nine.
    let named = |n: u32| {
        let room = room(1, "NapWaitLimit 0\nNapReAccess 1");
        room.replace("site", &format!("site{n}"))
    };
    let mut httpd = server(&named(0))
        .mpm(nap_testkit::Mpm::Prefork)
        .workers(1, 8)
        .start();
    for n in 1..=12 {
        httpd.reconfigure(&named(n));
        httpd.graceful();
    }
    let log = httpd.error_log();
    let gone: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("entry of room ")?.1.split(',').next())
        .collect();
    assert_eq!(gone, ["site0", "site1", "site2", "site3"], "{log}");
    let running = httpd.get_later("/cgi-bin/hold?0");
    wait_until("the visitor runs", PATIENCE, || came(&httpd) == [0]);
    let refused = httpd.get("/cgi-bin/hold?1");
    assert_eq!(refused.status, 503);
    let cookie = refused.header("set-cookie").expect("a ticket");
    assert!(cookie.starts_with("nap-site12="), "{cookie}");
    let_go(&httpd);
    assert_eq!(running.join().expect("an answer").status, 200);
}

#[test]
fn deaths_while_no_room_is_configured_take_nothing_with_them() {
    let named = room(2, "NapWaitLimit 4\nNapReAccess 1");
    let none = "<Location /nap-info>\nSetHandler nap-info\n</Location>\nGracefulShutdownTimeout 20";
    for_each_mpm(|mpm| {
        let mut httpd = server(&named)
            .mpm(mpm)
            .expect_log("AH00046:", "event's own, see below")
            .start();
        let toggle = |httpd: &mut Httpd, during: &dyn Fn(&Httpd)| {
            httpd.reconfigure(none);
            httpd.graceful();
            during(httpd);
            httpd.reconfigure(&named);
            httpd.graceful();
        };
        let cut = httpd.get_later("/cgi-bin/hold?0");
        // Its program too: a restart may end mod_cgid's daemon before the program has started.
        wait_until("it runs", PATIENCE, || {
            came(&httpd) == [0] && httpd.room().running == 1
        });
        let info = httpd.get("/nap-info?json").json();
        let children = info["children"].as_array().expect("a list").iter();
        let runs = |child: &&serde_json::Value| child["running"].as_u64() == Some(1);
        let holder = children.clone().find(runs).expect("its child")["pid"].as_i64();
        let holder = holder.expect("a number") as i32;
        toggle(&mut httpd, &|httpd| {
            httpd.kill9(holder);
            let known = format!("/proc/{holder}");
            wait_until("its parent knows", PATIENCE, || {
                !std::path::Path::new(&known).exists()
            });
        });
        cut.join().ok();
        let room = |httpd: &Httpd, is: &dyn Fn(nap_testkit::Room) -> bool| {
            httpd.try_room().is_some_and(is)
        };
        wait_until("nothing is held", PATIENCE, || {
            room(&httpd, &|room| room.running == 0)
        });
        let known = |httpd: &Httpd| {
            let alive = httpd.children();
            room(httpd, &|room| {
                room.children.iter().all(|pid| alive.contains(pid))
            })
        };
        wait_until("the dead are forgotten", PATIENCE, || known(&httpd));
        if mpm != Mpm::Prefork {
            // If restarts follow each other so fast, a child of event may never be told to leave: its
            // listener sleeps, and nothing of ours is on any of its stacks.
            return let_go(&httpd);
        }
        // More children than the table has entries.
        for _ in 0..5 {
            toggle(&mut httpd, &|_| ());
        }
        wait_until("the dead are forgotten", PATIENCE, || known(&httpd));
        let came_before = came(&httpd).len();
        let all = [1, 2, 3].map(|n| httpd.get_later(&format!("/cgi-bin/hold?{n}")));
        wait_until("two run, and one waits", PATIENCE, || {
            room(&httpd, &|room| (room.running, room.waiting) == (2, 1))
        });
        wait_until("both have begun", PATIENCE, || {
            came(&httpd).len() == came_before + 2
        });
        let_go(&httpd);
        for visitor in all {
            assert_eq!(visitor.join().expect("an answer").status, 200);
        }
    });
}

/// A second and a half for the running program, and two for the rest.
const STOPPED: Duration = Duration::from_millis(3500);

#[test]
fn a_graceful_stop_sends_waiters_home_with_a_ticket_and_finishes_what_runs() {
    for_each_mpm(|mpm| {
        let mut httpd = server(&room(1, "NapWaitLimit 10")).mpm(mpm).start();
        let running = httpd.get_later("/cgi-bin/hold?0");
        wait_until("it runs", PATIENCE, || came(&httpd) == [0]);
        let waiters = queue_up(&httpd, 1, 4);
        let go = httpd.root().join("data/go");
        // The running program goes on until all waiters have been sent home.
        let sent_home = std::thread::spawn(move || {
            let answers = waiters.into_iter().map(|w| w.join().expect("an answer"));
            let answers: Vec<Answer> = answers.collect();
            std::fs::write(go, "").expect("the data directory takes a file");
            answers
        });
        let start = Instant::now();
        httpd.graceful_stop();
        let took = start.elapsed();
        for answer in sent_home.join().expect("their answers") {
            assert_eq!(answer.status, 503);
            assert!(
                answer.header("nap-ticket").is_some(),
                "{:?}",
                answer.headers
            );
        }
        assert_eq!(running.join().expect("an answer").text(), "counted\n");
        eprintln!("    stopped in {took:?}");
        assert!(took < STOPPED, "{took:?}");
        assert_eq!(came(&httpd), [0], "no waiter was let in on the way");
    });
}

/// Whether a child takes a connection up: most do at once.
fn is_heard(httpd: &Httpd) -> bool {
    let mut stream = httpd.connect();
    stream
        .set_read_timeout(Some(PATIENCE / 10))
        .expect("a socket takes a timeout");
    stream
        .write_all(b"GET /nap-ticket HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .expect("the kernel takes it");
    matches!(stream.read(&mut [0]), Ok(1))
}

/// The file's absence distinguishes a stop from a child that retires, unless somebody else has removed it.
#[test]
fn a_pid_file_that_somebody_removes_sends_no_waiter_home() {
    for mpm in [Mpm::Event, Mpm::Worker] {
        let retiring = format!("{}\nMaxConnectionsPerChild 200", room(1, "NapWaitLimit 10"));
        let httpd = server(&retiring)
            .mpm(mpm)
            .workers(1, 16)
            .expect_log("[nap:warn]", "the parent tells of it")
            .expect_log("AH00095:", "httpd misses it at its end")
            .start();
        let file = httpd.root().join("run/pid");
        std::fs::remove_file(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        wait_until("the parent has seen it", PATIENCE, || {
            httpd.error_log().contains("PidFile")
        });
        let running = httpd.get_later("/cgi-bin/hold?0");
        wait_until("it runs", PATIENCE, || came(&httpd) == [0]);
        let waiters = queue_up(&httpd, 1, 2);
        // Checking whether they wait takes a connection each time, but not two hundred.
        let before = httpd.children();
        // The worker MPM may start no other while this one's threads hold slots of the scoreboard.
        wait_until("their child retires", PATIENCE, || {
            !is_heard(&httpd) || httpd.children().iter().any(|pid| !before.contains(pid))
        });
        // A second and a half each: they look up four times a second.
        let_end(&httpd);
        for visitor in std::iter::once(running).chain(waiters) {
            let answer = visitor.join().expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        assert_eq!(came(&httpd), [0, 1, 2]);
    }
}

/// `apachectl restart`: running and waiting accesses are cut off, and nothing of them is held afterwards.
#[test]
fn a_hard_restart_leaks_nothing_and_forgets_no_ticket() {
    for_each_mpm(|mpm| {
        let mut httpd = server(&room(1, "NapWaitLimit 4")).mpm(mpm).start();
        let mut cut = vec![httpd.get_later("/cgi-bin/hold?0")];
        wait_until("it runs", PATIENCE, || came(&httpd) == [0]);
        cut.extend(queue_up(&httpd, 1, 4));
        let refused = httpd.get("/cgi-bin/hold?5");
        let ticket = refused.header("nap-ticket").expect("a ticket");
        let_end(&httpd);
        httpd.restart();
        for visitor in cut {
            wait_until("nobody hangs", PATIENCE, || visitor.is_finished());
        }
        wait_until("nothing is held any more", PATIENCE, || {
            let room = httpd.room();
            (room.running, room.waiting, room.accesses) == (0, 0, 0)
        });
        assert_eq!(came(&httpd), [0], "no waiter was let in on the way");
        std::fs::remove_file(httpd.root().join("data/ends")).expect("it was there");
        let page = httpd.request("GET", "/nap-ticket", &[("Nap-Ticket", ticket)], b"");
        assert_eq!(page.status, 200, "{page:?}");
        let mut all = vec![httpd.get_later("/cgi-bin/hold?6")];
        wait_until("the visitor runs", PATIENCE, || came(&httpd) == [0, 6]);
        all.extend(queue_up(&httpd, 7, 2));
        assert_eq!(came(&httpd), [0, 6], "there is one permit");
        let_go(&httpd);
        for visitor in all {
            assert_eq!(visitor.join().expect("an answer").status, 200);
        }
        assert_eq!(came(&httpd), [0, 6, 7, 8]);
    });
}

/// httpd checks its children less and less often, so the time of a stop depends on when the last of them
/// ends. It is at most the issue's two seconds longer than a stop without waiters.
#[test]
fn a_stop_does_not_wait_for_waiters() {
    for_each_mpm(|mpm| {
        let [alone, with_waiters] = [0, 4].map(|waiters| {
            let mut httpd = server(&room(1, "NapWaitLimit 10")).mpm(mpm).start();
            let mut all = vec![httpd.get_later("/cgi-bin/hold?0")];
            wait_until("it runs", PATIENCE, || came(&httpd) == [0]);
            all.extend(queue_up(&httpd, 1, waiters));
            let_end(&httpd);
            let start = Instant::now();
            httpd.stop();
            let took = start.elapsed();
            // Most of them are cut off without an answer, as in any hard stop.
            for visitor in all {
                wait_until("nobody hangs", PATIENCE, || visitor.is_finished());
            }
            assert_eq!(came(&httpd), [0], "nobody was let in on the way");
            took
        });
        eprintln!("    stopped in {with_waiters:?}, without waiters in {alone:?}");
        assert!(with_waiters < alone + Duration::from_secs(2));
    });
}
