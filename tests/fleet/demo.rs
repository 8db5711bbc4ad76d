//! `make demo-fleet` as its reader uses it: it says where to look, breaks what it is told to, and leaves nothing behind.

use crate::once::PATIENCE;
use nap_testkit::{ask, comes_true, made, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The demo, ended however the test ends.
struct Demo {
    script: Child,
    /// All that it makes lies there.
    folder: PathBuf,
    /// What it has said before it waits for words.
    said: String,
}

impl Demo {
    fn start() -> Demo {
        let name = format!("nap-demo-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the temp directory takes a directory");
        let agent = made::file("release/nap-agent");
        let target = agent.ancestors().nth(2).expect("it is in target/release");
        for made_file in ["release/mod_nap.so", "cgi/board"] {
            made::file(made_file);
        }
        // Below those that the system gives to connections: one that is free now is not another test's in a moment.
        let port = 10_000 + std::process::id() % 20_000;
        let mut script = Command::new(made::repository().join("demo/fleet.sh"))
            .arg(target)
            .env("TMPDIR", &folder)
            .env("DEMO_PORT", port.to_string())
            .env("BOARD_CPU_MS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash runs");
        let output = script.stdout.take().expect("it was piped");
        let mut said = String::new();
        for line in BufReader::new(output).lines() {
            said += &format!("{}\n", line.expect("a line of text"));
            if said.contains("Ctrl-C ends everything") {
                break;
            }
        }
        let demo = Demo {
            script,
            folder,
            said,
        };
        assert!(demo.said.contains("Ctrl-C"), "it has ended: {}", demo.said);
        demo
    }

    /// The ports of its balancer and of its three nodes, as it tells them.
    fn ports(&self) -> [u16; 4] {
        let after = |words: &str| self.said.split(words).nth(1).unwrap_or_default();
        let balancer = after("http://127.0.0.1:");
        let nodes = after("what each knows of the fleet http://127.0.0.1:");
        let numbers = |text: &str| -> Vec<u16> {
            let line = text.lines().next().unwrap_or_default();
            let words = line.split(|c: char| !c.is_ascii_digit());
            words.filter_map(|word| word.parse().ok()).collect()
        };
        let all = [&numbers(balancer)[..1], &numbers(nodes)].concat();
        all.try_into()
            .unwrap_or_else(|_| panic!("not four ports in {}", self.said))
    }

    fn tell(&mut self, words: &str) {
        let stdin = self.script.stdin.as_mut().expect("it was piped");
        writeln!(stdin, "{words}").expect("it reads");
    }

    /// Processes that it has started, itself among them. Agents may be missing.
    fn processes(&self) -> Vec<i32> {
        let mark = self.folder.display().to_string();
        let of = |pid: &i32, file: &str| fs::read(format!("/proc/{pid}/{file}"));
        let is_ours = |pid: &i32| {
            let texts = ["environ", "cmdline"].map(|file| of(pid, file).unwrap_or_default());
            let texts = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
            texts.iter().any(|text| text.contains(&mark))
        };
        let all = fs::read_dir("/proc").expect("/proc is there").flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.script.id().cast_signed());
        kill(pid, signal).expect("nobody has waited for it");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if matches!(self.script.try_wait(), Ok(None)) {
            self.signal(Signal::SIGTERM);
            let _ = self.script.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn info(port: u16) -> Value {
    ask(
        "GET",
        &format!("http://127.0.0.1:{port}/nap-info?json"),
        &[],
        b"",
    )
    .json()
}

/// Waits until this node sees the state of each.
fn until(port: u16, states: [&str; 3]) {
    wait_until(&format!("they are {states:?}"), PATIENCE, || {
        let nodes = info(port)["fleet"]["nodes"].take();
        let nodes = nodes.as_array().map_or(&[][..], |all| all);
        let state = |name: &str| {
            let node = nodes.iter().find(|node| node["name"] == name)?;
            node["state"].as_str()
        };
        ["web1", "web2", "web3"].map(state) == states.map(Some)
    });
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| entries.count() == 0)
}

#[test]
fn the_demo_breaks_what_it_is_told_to_and_leaves_nothing_behind() {
    let mut demo = Demo::start();
    let [balancer, nodes @ ..] = demo.ports();
    until(nodes[0], ["alive"; 3]);
    let board = format!("http://127.0.0.1:{balancer}/board");
    assert_eq!(ask("GET", &board, &[], b"").status, 200);
    demo.tell("web2 kill");
    until(nodes[0], ["alive", "silent", "alive"]);
    wait_until("another node says so, too", PATIENCE, || {
        let attention = info(nodes[2])["attention"].to_string();
        attention.contains("web2 is silent since ")
    });
    assert_eq!(ask("GET", &board, &[], b"").status, 200);
    demo.tell("web2 ok");
    until(nodes[2], ["alive"; 3]);
    let agents = nodes.map(|port| info(port)["fleet"]["store"]["agent_pid"].as_i64());
    let agents = agents.map(|pid| pid.expect("each has one"));
    assert!(demo.processes().len() >= 8, "{:?}", demo.processes());
    demo.signal(Signal::SIGINT);
    let status = demo.script.wait().expect("it ends");
    assert!(status.success(), "{status}");
    // A process that nobody has waited for has no command line any more.
    let lives =
        |pid: &&i64| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    let left = || demo.processes().len() + agents.iter().filter(lives).count();
    assert!(
        comes_true(PATIENCE, || left() == 0),
        "{:?}",
        demo.processes()
    );
    assert!(is_empty(&demo.folder), "its files are gone");
}
