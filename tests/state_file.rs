//! `NapStateFile`: tickets outlive a full restart. Whatever is wrong with the file, the site serves and the
//! log says so in one line.

use nap_testkit::held::admitted;
use nap_testkit::ticket::Ticket;
use nap_testkit::{Builder, Httpd, Mpm, for_each_mpm, wait_until};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A room over the counter; only root may write to `{root}`.
fn server(state_file: &str) -> Builder {
    Httpd::builder()
        .nap()
        .info()
        .workers(2, 16)
        .config(&format!(
            "<NapRoom site>\nNapRunReady 1\nNapWaitMax 1s\nNapSlotPeriod 1s\nNapTicketPrime 30s\n\
         NapWaitLimit 2\nNapTicketsPerClient 10000\n\
         </NapRoom>\n<Location /counter>\nNapUse site\n</Location>\nNapStateFile {state_file}"
        ))
        .expect_log(
            "NapTicketPrime 30s with NapWaitMax 1s",
            "a ticket outlives a restart",
        )
}

/// The module's log lines about its state file.
fn remarks(log: &str) -> Vec<&str> {
    log.lines().filter(|l| l.contains("NapStateFile")).collect()
}

/// The site serves, is protected, and the log has one line that contains `why`.
fn serves_and_says(httpd: &Httpd, why: &str) {
    assert_eq!(httpd.get("/counter").text(), "counted\n");
    assert_eq!(httpd.room().running, 0, "the room is there");
    let log = httpd.error_log();
    let remarks = remarks(&log);
    assert_eq!(remarks.len(), 1, "one line: {remarks:?}");
    assert!(remarks[0].contains(why), "{why}: {}", remarks[0]);
}

/// A ticket from a full room: the first that is sold. Two of these windows may be open at a time, so the next
/// starts a quarter of a minute later.
fn refused(httpd: &Httpd) -> (String, Instant) {
    let ask = |_: u32| {
        let crowd = [(); 3].map(|()| httpd.get_later("/counter?ms=500"));
        wait_until("the room is full", PATIENCE, || {
            let room = httpd.room();
            (room.running, room.waiting) == (1, 2) || crowd.iter().all(|one| one.is_finished())
        });
        let answer = httpd.get("/counter");
        for one in crowd {
            one.join().expect("an answer");
        }
        Some(answer).filter(|answer| answer.header("nap-ticket").is_some())
    };
    let refusal = (0..10).find_map(ask).expect("a ticket is sold");
    let window = refusal.header("nap-ticket-window").expect("a window");
    let from = window
        .strip_prefix("from=")
        .and_then(|w| w.split(',').next());
    let from = from.and_then(|from| from.parse().ok()).expect("a time");
    let token = refusal.header("nap-ticket").expect("a ticket").to_string();
    (token, Instant::now() + Duration::from_secs_f64(from))
}

#[test]
fn a_ticket_outlives_a_full_restart() {
    a_ticket_outlives(|httpd| {
        httpd.stop();
        httpd.start_again();
    });
}

#[test]
fn a_ticket_outlives_a_hard_restart() {
    a_ticket_outlives(Httpd::restart);
}

#[test]
fn a_ticket_outlives_the_child_that_sold_it() {
    a_ticket_outlives(|httpd| {
        let dead = httpd.children();
        dead.iter().for_each(|pid| httpd.kill9(*pid));
        wait_until("nothing is the dead's", PATIENCE, || {
            httpd.try_room().is_some_and(|room| {
                let is_known = room.children.iter().any(|child| dead.contains(child));
                !is_known && (room.running, room.waiting, room.accesses) == (0, 0, 0)
            })
        });
    });
}

/// The ticket is good at its time although a crowd is there again.
fn a_ticket_outlives(restart: impl Fn(&mut Httpd)) {
    for_each_mpm(|mpm| {
        let mut httpd = server("{root}/state")
            .mpm(mpm)
            .expect_log("cgi daemon", "a hard restart ends mod_cgid's")
            .expect_log("AH01257:", "and another is not there at once")
            .expect_log("exit signal Killed", "a test kills children")
            .expect_log("AH10393:", "one after the other, as httpd remarks")
            .start();
        let (token, from) = refused(&httpd);
        restart(&mut httpd);
        let before = httpd.room();
        assert!(before.sold > 0, "statistics live on");
        assert_eq!((before.running, before.waiting, before.accesses), (0, 0, 0));
        let crowd = nap_testkit::Visitors::come(&httpd, 14, "/counter?ms=100");
        std::thread::sleep(from.saturating_duration_since(Instant::now()));
        let ended = httpd.counter().ended;
        wait_until("it knows how fast it is", PATIENCE, || {
            httpd.counter().ended >= ended + 24
        });
        let answer = httpd.request("GET", "/counter", &[("Nap-Ticket", &token)], b"");
        assert_eq!(answer.status, 200, "{:?}", answer.headers);
        crowd.leave();
        assert_eq!(httpd.room().broken, 0);
        assert_eq!(remarks(&httpd.error_log()), [""; 0], "all was ordinary");
    });
}

/// A kind of restart, and its name.
type Renewal = (&'static str, fn(&mut Httpd));

#[test]
fn a_spent_ticket_stays_spent() {
    for_each_mpm(|mpm| {
        // Only holders may wait.
        let mut httpd = Httpd::builder()
            .nap()
            .holding()
            .mpm(mpm)
            .config(
                "<NapRoom site>\nNapRunReady 1\nNapWaitMax 2s\nNapWaitLimit 0\nNapReAccess 4\n\
                 NapSlotPeriod 1s\nNapTicketPrime 1min\nNapTicketsPerClient 10000\n</NapRoom>\n\
                 <Location /cgi-bin>\nNapUse site\n</Location>\nNapStateFile {root}/state",
            )
            .expect_log("cgi daemon", "a hard restart ends mod_cgid's")
            .expect_log("AH01257:", "and another is not there at once")
            .expect_log("exit signal Killed", "the test kills children")
            .expect_log("AH10393:", "one after the other, as httpd remarks")
            .start();
        let held = httpd.hold("sold", 1);
        let ticket = Ticket::of(&httpd.get("/cgi-bin/hold?sold"));
        let (token, other) = (
            ticket.token.clone(),
            Ticket::of(&httpd.get("/cgi-bin/hold?sold")),
        );
        let shown = [("Nap-Ticket", token.as_str())];
        ticket.until_prime();
        let answer = admitted(&httpd, held, "/cgi-bin/hold?sold", &shown);
        assert_eq!(answer.status, 200, "{answer:?}");
        let renewals: [Renewal; 4] = [
            ("graceful", Httpd::graceful),
            ("kills", |httpd| {
                httpd.children().iter().for_each(|pid| httpd.kill9(*pid));
                wait_until("others serve", PATIENCE, || httpd.try_room().is_some());
            }),
            ("hard", Httpd::restart),
            ("full", |httpd| {
                httpd.stop();
                httpd.start_again();
            }),
        ];
        for (name, renew) in renewals {
            renew(&mut httpd);
            let held = httpd.hold(name, 1);
            let again = httpd.request("GET", "/cgi-bin/hold?late", &shown, b"");
            assert_eq!(again.status, 503, "{name}: {again:?}");
            assert_eq!(again.header("nap-reason"), Some("used"), "{name}");
            assert_ne!(again.header("nap-ticket"), Some(token.as_str()));
            held.release();
            httpd.until_idle();
        }
        // The ticket that was not spent is worth as much as before.
        let held = httpd.hold("last", 1);
        other.until_prime();
        let shown = [("Nap-Ticket", other.token.as_str())];
        let answer = admitted(&httpd, held, "/cgi-bin/hold?sold", &shown);
        assert_eq!(answer.status, 200, "{answer:?}");
    });
}

#[test]
fn a_bad_state_file_is_set_aside_or_left_alone() {
    let good = {
        let mut httpd = server("{root}/state").start();
        httpd.stop();
        std::fs::read(httpd.root().join("state")).expect("the state file")
    };
    let half = good.len() / 2;
    let mut other = good.clone();
    other[8] ^= 0x55;
    let cases: [(&str, &[u8]); 4] = [
        ("torn", &good[..half]),
        ("foreign", b"#!/bin/sh\necho not a state file\n"),
        ("all ones", &[0xff; 100_000]),
        ("of another layout", &other),
    ];
    for (name, content) in cases {
        eprintln!("--- {name}");
        let httpd = server("{root}/state").file("state", content).start();
        serves_and_says(&httpd, "set aside");
        let aside = std::fs::read(httpd.root().join("state.aside"));
        assert_eq!(aside.expect("it is kept"), content, "{name}");
    }
    // An empty file counts as a new file.
    let httpd = server("{root}/state").file("state", "").start();
    assert_eq!(httpd.get("/counter").text(), "counted\n");
    assert!(remarks(&httpd.error_log()).is_empty());
}

#[test]
fn a_whole_head_over_ruined_tables_does_not_stop_the_site() {
    let mut bytes = {
        let mut httpd = server("{root}/state").start();
        assert_eq!(httpd.get("/counter").status, 200);
        httpd.stop();
        std::fs::read(httpd.root().join("state")).expect("the state file")
    };
    // Whatever a disk may have made of the pages after the first.
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    for byte in &mut bytes[4096..] {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        *byte = word as u8;
    }
    for_each_mpm(|mpm| {
        let httpd = server("{root}/state")
            .mpm(mpm)
            .file("state", &bytes)
            .expect_log("nap", "the state is ruined")
            .start();
        for _ in 0..10 {
            assert_eq!(httpd.get("/counter").text(), "counted\n");
        }
    });
}

#[test]
fn a_state_file_that_cannot_be_used_costs_its_use_only() {
    let cases = [("{root}/htdocs", "Is a directory")];
    for (path, why) in cases {
        eprintln!("--- {path}");
        let httpd = server(path)
            .expect_log("NapStateFile", "it is wrong")
            .start();
        serves_and_says(&httpd, why);
    }
}

#[test]
fn a_directory_the_children_can_write_is_told_at_configtest() {
    // Children have another user only if root starts the server.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let said = server("{root}/data/state").configtest();
    let said = said.expect_err("a visitor's program could put another file there");
    assert!(
        said.contains("NapStateFile") && said.contains("can write the directory"),
        "{said}"
    );
}

#[test]
fn two_servers_do_not_share_a_state_file() {
    let mut first = server("{root}/state").start();
    // Once more over an existing file.
    first.stop();
    first.start_again();
    first.graceful();
    let path = first.root().join("state");
    let second = server(&path.display().to_string())
        .expect_log("NapStateFile", "the other server has it")
        .start();
    serves_and_says(&second, "another server is using it");
    drop(second);
    assert_eq!(first.get("/counter").status, 200);
}

#[test]
fn a_full_disk_costs_the_state_file_only() {
    a_disk_costs_the_state_file_only("size=64k", "No space left on device");
}

#[test]
fn a_disk_that_cannot_be_written_costs_the_state_file_only() {
    a_disk_costs_the_state_file_only("ro", "Read-only file system");
}

fn a_disk_costs_the_state_file_only(option: &str, why: &str) {
    let Some(disk) = Disk::mounted(option) else {
        eprintln!("skipped: a file system of our own cannot be mounted here");
        return;
    };
    for mpm in Mpm::ALL {
        let httpd = server(&format!("{}/state", disk.path().display()))
            .mpm(mpm)
            .expect_log("NapStateFile", "the disk cannot take it")
            .start();
        serves_and_says(&httpd, why);
    }
}

/// A private file system that has no room for a state file; removed with this value.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mounted(option: &str) -> Option<Disk> {
        let at = std::env::temp_dir().join(format!("nap-disk-{option}-{}", std::process::id()));
        std::fs::create_dir_all(&at).ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("{option},mode=755"), "none"]);
        let mounted = mount.arg(&at).output().is_ok_and(|o| o.status.success());
        if !mounted {
            std::fs::remove_dir(&at).ok();
        }
        mounted.then_some(Disk(at))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
        std::fs::remove_dir(&self.0).ok();
    }
}
