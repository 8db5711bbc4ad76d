//! The agent of a fleet's store as httpd starts it, without a store: what it is told, what it inherits, and when it
//! is started again. A small program stands in for nap-agent.

mod caps;
mod changes;
mod clocks;
mod crowd;
mod debts;
mod demo;
mod forgotten;
mod killed;
mod limit;
mod once;
mod order;
mod orders;
mod outage;
mod polls;
mod quiet;
mod soak;
mod starts;
mod sticky;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use mod_nap::agent::Brief;
use nap_testkit::{Builder, Httpd, Mpm, comes_true, for_each_mpm, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

const PATIENCE: Duration = Duration::from_secs(30);

const KEYS: &str = "7 00112233445566778899aabbccddeeff\n1 ffeeddccbbaa99887766554433221100\n";

/// Notes its brief and its user, and that it has started; then its pipe's end, or SIGTERM. It is deaf to what httpd
/// sends to all, as nap-agent is.
const AGENT: &str = r#"#!/bin/sh
trap '' HUP USR1 INT WINCH
cd "${0%/*}/data"
trap 'echo $$ >>told; exit' TERM
IFS= read -r brief
printf '%s\n' "$brief" >"brief-$$"
id -u >"user-$$"
echo $$ >>began
while IFS= read -r more; do :; done
echo $$ >>ended
"#;

/// Lists what a CGI program inherits.
const LISTS: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nls -l /proc/$$/fd\n";

const ROOMS: &str = "
<NapRoom shop>
NapRunReady 1
NapWaitLimit 2
NapWaitMax 5s
NapTicketHorizon 1h
NapPage search ^/search
</NapRoom>
<Location />
NapUse shop
</Location>
<Location /nap-info>
SetHandler nap-info
NapUse None
</Location>
<Location /nap-metrics>
SetHandler nap-metrics
NapUse None
</Location>
NapTicketKey {root}/keys
";

fn node(store: &str) -> Builder {
    Httpd::builder()
        .nap()
        .secret("keys", KEYS)
        .secret("auth", "nap s3cret\n")
        .file("htdocs/a.txt", "a text\n")
        .program("agent", AGENT)
        .cgi("lists", LISTS)
        .config(&format!("{ROOMS}{store}"))
}

const STORE: &str = "NapStore redis://127.0.0.1:1 agent={root}/agent timeout=5ms\nNapStoreAuth {root}/auth\nNapNode web2";

/// The processes that have said so, in order.
fn noted(httpd: &Httpd, file: &str) -> Vec<i32> {
    let text = fs::read_to_string(httpd.root().join("data").join(file)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn read(httpd: &Httpd, file: &str) -> String {
    fs::read_to_string(httpd.root().join("data").join(file)).expect("the agent wrote it")
}

/// The agent that is the `n`th to begin.
fn agent(httpd: &Httpd, n: usize) -> i32 {
    wait_until("an agent begins", PATIENCE, || {
        noted(httpd, "began").len() >= n
    });
    noted(httpd, "began")[n - 1]
}

fn brief(httpd: &Httpd, pid: i32) -> Brief {
    serde_json::from_str(&read(httpd, &format!("brief-{pid}"))).expect("a brief")
}

/// The descriptors of a process, and what they lead to.
fn descriptors(pid: i32) -> Vec<(i32, String)> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    let read = |link: fs::DirEntry| {
        let number = link.file_name().to_str()?.parse().ok()?;
        let to = fs::read_link(link.path()).ok()?;
        Some((number, to.display().to_string()))
    };
    let mut all: Vec<(i32, String)> = links.flatten().filter_map(read).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_server_whose_agent_is_missing_says_so_and_serves() {
    let httpd = node("NapStore redis://127.0.0.1:1 agent={root}/nowhere\nNapNode web2")
        .expect_log(
            "/nowhere: No such file or directory; this server runs alone",
            "there is none",
        )
        .start();
    assert_eq!(httpd.get("/a.txt").text(), "a text\n");
    let said = format!(
        "mod_nap: cannot start {}/nowhere: No such file or directory; this server runs alone",
        httpd.root().display()
    );
    assert_eq!(httpd.error_log().matches(&said).count(), 1);
    let told = httpd.get("/nap-info?json").json();
    assert_eq!(told["fleet"]["node"], "web2");
    assert_eq!(told["fleet"]["store"]["state"], "alone");
    let attention = told["attention"].to_string();
    assert!(
        attention.contains("This server runs alone since "),
        "{attention}"
    );
    assert!(
        attention.contains(": nap-agent cannot be started."),
        "{attention}"
    );
    let metrics = httpd.get("/nap-metrics").text();
    assert!(metrics.contains("nap_store_up 0\n"), "{metrics}");
}

#[test]
fn a_program_that_cannot_be_run_is_not_tried_again() {
    let httpd = node("NapStore redis://127.0.0.1:1 agent={root}/keys")
        .expect_log(
            "/keys: Permission denied; this server runs alone",
            "it is no program",
        )
        .start();
    wait_until("it is told", PATIENCE, || {
        httpd.error_log().contains("this server runs alone")
    });
    assert_eq!(httpd.get("/a.txt").text(), "a text\n");
    let store = &httpd.get("/nap-info?json").json()["fleet"]["store"];
    assert_eq!(
        (&store["state"], &store["agent_starts"]),
        (&"alone".into(), &1.into())
    );
}

#[test]
fn an_agent_is_told_all_it_must_know_and_inherits_nothing_else() {
    for_each_mpm(|mpm| {
        let httpd = node(STORE).mpm(mpm).start();
        let pid = agent(&httpd, 1);
        let told = brief(&httpd, pid);
        let size = fs::metadata(format!("/proc/{pid}/fd/3"))
            .expect("the segment")
            .size();
        assert_eq!(told.segment, size);
        assert_eq!(told.store, "redis://127.0.0.1:1");
        assert_eq!(
            (told.fleet.as_str(), told.timeout, told.pause),
            ("nap", 5, 0)
        );
        assert_eq!(
            (told.auth.user.as_str(), told.auth.password.as_str()),
            ("nap", "s3cret")
        );
        assert_eq!(told.node, "web2");
        assert!(!told.host.is_empty());
        let ids: Vec<u8> = told.keys.iter().map(|key| key.id).collect();
        assert_eq!(ids, [7, 1]);
        assert_ne!(told.keys[0].mark, told.keys[1].mark);
        let [room] = &told.rooms[..] else {
            panic!("one room, without its page: {:?}", told.rooms)
        };
        assert_eq!(room.name, "shop");
        assert_eq!((room.wait_max, room.horizon), (5_000, 3_600_000));
        let mut open = descriptors(pid);
        // The shell has opened its script.
        open.retain(|(n, to)| *n < 4 || !to.ends_with("/agent"));
        let numbers: Vec<i32> = open.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, [0, 1, 2, 3], "{open:?}");
        assert!(open[3].1.starts_with("/memfd:mod_nap"), "{open:?}");
        if geteuid().is_root() {
            assert_ne!(read(&httpd, &format!("user-{pid}")), "0\n");
        }
        assert_only_the_parent_holds_the_pipe(&httpd, pid);
        assert_eq!(httpd.get("/a.txt").text(), "a text\n");
    });
}

fn assert_only_the_parent_holds_the_pipe(httpd: &Httpd, agent: i32) {
    let pipe = fs::read_link(format!("/proc/{agent}/fd/0")).expect("its pipe");
    let pipe = pipe.display().to_string();
    assert!(pipe.starts_with("pipe:"), "{pipe}");
    let holds = |pid: i32| {
        let open = descriptors(pid).into_iter();
        open.filter(|(_, to)| *to == pipe).count()
    };
    assert_eq!(holds(httpd.pid()), 1);
    wait_until("children have closed it", PATIENCE, || {
        httpd.children().into_iter().all(|child| holds(child) == 0)
    });
    let cgi = httpd.get("/cgi-bin/lists").text();
    assert!(
        !cgi.contains("memfd:mod_nap") && !cgi.contains(&pipe),
        "{cgi}"
    );
}

#[test]
fn an_agent_that_is_killed_is_started_again_after_a_pause() {
    let httpd = node(STORE)
        .expect_log(
            "/agent has ended (status or signal 9); it is started again",
            "we kill it",
        )
        .start();
    let first = agent(&httpd, 1);
    kill(Pid::from_raw(first), Signal::SIGKILL).expect("our server's agent");
    let second = agent(&httpd, 2);
    assert_eq!(brief(&httpd, second).pause, 1_000);
    assert_only_the_parent_holds_the_pipe(&httpd, second);
    assert_eq!(httpd.get("/a.txt").text(), "a text\n");
    let store = &httpd.get("/nap-info?json").json()["fleet"]["store"];
    assert_eq!(store["agent_starts"], 2);
    // The one that died young makes the next wait longer, whenever that is.
    kill(Pid::from_raw(second), Signal::SIGKILL).expect("our server's agent");
    let third = agent(&httpd, 3);
    assert_eq!(brief(&httpd, third).pause, 2_000);
}

#[test]
fn at_a_restart_another_begins_and_the_first_sees_its_pipe_end() {
    for_each_mpm(|mpm| {
        let mut httpd = node(STORE).mpm(mpm).start();
        let first = agent(&httpd, 1);
        httpd.graceful();
        let second = agent(&httpd, 2);
        wait_until("the first sees the end", PATIENCE, || {
            noted(&httpd, "ended") == [first]
        });
        assert_eq!(brief(&httpd, second).pause, 0);
        httpd.restart();
        let third = agent(&httpd, 3);
        wait_until("the second sees the end", PATIENCE, || {
            noted(&httpd, "ended") == [first, second]
        });
        // httpd waits for them, and takes none for a child that it has lost: that would be a warning.
        for pid in [first, second] {
            wait_until("it is waited for", PATIENCE, || {
                !fs::exists(format!("/proc/{pid}")).unwrap_or(true)
            });
        }
        // A node that is none any more has no agent.
        httpd.reconfigure(ROOMS);
        httpd.graceful();
        wait_until("the third sees the end", PATIENCE, || {
            noted(&httpd, "ended") == [first, second, third]
        });
        assert_eq!(noted(&httpd, "began").len(), 3);
        assert!(httpd.get("/nap-info?json").json().get("fleet").is_none());
        assert_eq!(httpd.get("/a.txt").text(), "a text\n");
    });
}

#[test]
fn the_end_of_the_server_is_the_end_of_its_agent() {
    let ends: [fn(&mut Httpd); 2] = [Httpd::stop, Httpd::graceful_stop];
    for_each_mpm(|mpm| {
        for end in ends {
            let mut httpd = node(STORE).mpm(mpm).start();
            let pid = agent(&httpd, 1);
            end(&mut httpd);
            let gone = || !fs::exists(format!("/proc/{pid}")).unwrap_or(true);
            assert!(comes_true(PATIENCE, gone), "{pid} lives");
            assert_eq!(noted(&httpd, "began"), [pid]);
            assert_eq!(noted(&httpd, "told"), [pid], "by SIGTERM");
        }
    });
}

#[test]
fn a_parent_that_is_killed_ends_the_pipe_while_its_children_live() {
    let httpd = node(STORE).start();
    let pid = agent(&httpd, 1);
    assert_only_the_parent_holds_the_pipe(&httpd, pid);
    kill(Pid::from_raw(httpd.pid()), Signal::SIGKILL).expect("our own server");
    wait_until("the agent sees the end", PATIENCE, || {
        noted(&httpd, "ended") == [pid]
    });
}

#[test]
fn the_segment_of_an_agent_may_be_a_state_file() {
    let httpd = node(&format!("{STORE}\nNapStateFile {{root}}/run/state")).start();
    let open = descriptors(agent(&httpd, 1));
    let segment = open.iter().find(|(n, _)| *n == 3);
    assert!(
        segment.is_some_and(|(_, to)| to.ends_with("/run/state")),
        "{open:?}"
    );
}

#[test]
fn neither_configtest_nor_a_rehearsal_starts_an_agent() {
    let config = format!("{ROOMS}{}", STORE.replace("{root}/agent", "/bin/false"));
    let checked = Httpd::builder()
        .nap()
        .secret("keys", KEYS)
        .secret("auth", "s3cret")
        .config(&config)
        .configtest();
    assert_eq!(checked, Ok(()));
    let httpd = node(STORE).mpm(Mpm::Event).start();
    let pid = agent(&httpd, 1);
    assert_eq!(httpd.get("/a.txt").text(), "a text\n");
    assert_eq!(noted(&httpd, "began"), [pid]);
    let link = httpd.get("/nap-info?json").json()["fleet"]["store"]["agent_starts"].clone();
    assert_eq!(link, 1);
}
