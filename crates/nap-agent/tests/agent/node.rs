//! A node for a test: a segment without an httpd, and the agent as httpd's parent would start it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mod_nap::agent::{Auth, Brief, KeyMark, RoomMark};
use mod_nap::layout::Dims;
use mod_nap::shm::segment::Segment;
use nap_agent::store;
use nap_core::fleet::address::Address;
use nap_core::fleet::link::{Link, Standing};
use nap_core::fleet::member::{Member, Presence};
use nap_core::fleet::trouble::Trouble;
use nap_testkit::store::Store;
use nap_testkit::{made, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to it, as an agent's.
pub fn opened(server: &Store) -> store::Store {
    let address = Address::parse(&server.url()).expect("an address");
    let mut store = store::Store::new(address, Auth::default(), "nap");
    store.open().expect("it listens");
    store
}

/// Where the head of a segment has its clock's offset (src/shm/segment.rs).
const OFFSET: u64 = 32;

pub struct Node {
    pub segment: Segment,
    file: OwnedFd,
    pub brief: Brief,
    agent: Option<(Child, Option<ChildStdin>)>,
    log: std::path::PathBuf,
}

impl Node {
    /// With an empty segment, and no agent.
    pub fn new(name: &str, store: &str) -> Node {
        let dims = Dims {
            children: 1,
            rooms: 1,
            gates: 2,
            places: 8,
            stripes: 2,
            trace_sets: 1,
            untold: 2,
            executors: 0,
            flights: 0,
            session_sets: 0,
            guest_sets: 64,
        };
        let (segment, file) = Segment::made(dims).expect("shared memory");
        let brief = Brief {
            segment: dims.bytes() as u64,
            store: store.into(),
            fleet: "nap".into(),
            timeout: 20,
            forget: 30_000,
            node: name.into(),
            host: format!("host-of-{name}"),
            keys: vec![KeyMark { id: 3, mark: 33 }],
            rooms: vec![RoomMark {
                name: "shop".into(),
                wait_max: 4_000,
                prime: 60_000,
                horizon: 3_600_000,
                limit: 6,
            }],
            ..Brief::default()
        };
        let folder = made::directory("agents");
        let log = format!("{name}-{}-{}", std::process::id(), file.as_raw_fd());
        Node {
            segment,
            file,
            brief,
            agent: None,
            log: folder.join(log),
        }
    }

    /// With an agent.
    pub fn started(name: &str, store: &str) -> Node {
        let mut node = Node::new(name, store);
        node.start();
        node
    }

    /// With an agent that has joined.
    pub fn joined(name: &str, store: &str) -> Node {
        let node = Node::started(name, store);
        node.wait_for("it is a member", |node| node.stands() == Standing::Joined);
        node
    }

    /// Starts an agent; the one before it has ended, or is of no concern to this node any more.
    pub fn start(&mut self) {
        self.agent = Some(self.another());
    }

    /// One more, as a graceful restart starts one.
    pub fn another(&self) -> (Child, Option<ChildStdin>) {
        let file = File::options().create(true).append(true).open(&self.log);
        // A shell opens the segment by its way in /proc: to hand a descriptor on is unsafe in Rust.
        let segment = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec \"$0\" 3<>\"$1\"",
                env!("CARGO_BIN_EXE_nap-agent"),
                &segment,
            ])
            .stdin(Stdio::piped())
            .stderr(file.expect("target takes a file"))
            .spawn()
            .expect("sh runs");
        let mut pipe = child.stdin.take().expect("it is piped");
        let mut brief = serde_json::to_string(&self.brief).expect("texts and numbers");
        brief.push('\n');
        pipe.write_all(brief.as_bytes()).expect("it reads");
        (child, Some(pipe))
    }

    pub fn link(&self) -> &'static Link {
        self.segment.link().expect("it is of this version")
    }

    pub fn stands(&self) -> Standing {
        self.link().standing(self.segment.now())
    }

    /// This number in the fleet.
    pub fn number(&self) -> usize {
        self.link().node.load(Relaxed) as usize
    }

    pub fn members(&self) -> Vec<Member> {
        let copied = self.segment.locked_fleet(|members| members.to_vec());
        copied.expect("the lock is free")
    }

    /// How it sees the node of this name.
    pub fn sees(&self, name: &str) -> Option<Presence> {
        let members = self.members();
        let found = members.iter().find(|member| member.name() == name);
        found.and_then(Member::presence)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Lines of the log in which this stands.
    pub fn said(&self, words: &str) -> usize {
        self.log()
            .lines()
            .filter(|line| line.contains(words))
            .count()
    }

    pub fn wait_for(&self, what: &str, holds: impl Fn(&Node) -> bool) {
        let mut met = false;
        let started = std::time::Instant::now();
        while !met && started.elapsed() < PATIENCE {
            met = holds(self);
            std::thread::sleep(Duration::from_millis(5));
        }
        let (stands, trouble) = (self.stands(), self.link().trouble());
        assert!(
            met,
            "{}: in vain until {what}: {stands:?} {trouble:?}\n{}",
            self.brief.node,
            self.log()
        );
    }

    pub fn wait_for_trouble(&self, standing: Standing, trouble: Trouble) {
        let what = format!("{standing:?} {trouble:?}");
        self.wait_for(&what, |node| {
            node.stands() == standing && node.link().trouble() == Some(trouble)
        });
    }

    pub fn wait_until_joined(&self) {
        self.wait_for("it is a member", |node| {
            node.stands() == Standing::Joined && node.link().trouble().is_none()
        });
    }

    pub fn pid(&self) -> i32 {
        let (child, _) = self.agent.as_ref().expect("it was started");
        child.id().cast_signed()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("a process of ours");
    }

    /// As a crash would.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.agent.take() {
            child.kill().expect("a process of ours");
            child.wait().expect("a process of ours");
        }
    }

    /// Its parent is gone.
    pub fn orphan(&mut self) {
        let (_, pipe) = self.agent.as_mut().expect("it was started");
        *pipe = None;
    }

    /// With which code it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        let (child, _) = self.agent.as_mut().expect("it was started");
        let mut ended = None;
        wait_until("the agent has ended", PATIENCE, || {
            ended = child.try_wait().expect("a process of ours");
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }

    /// Takes another agent in the place of the one before, which is returned.
    pub fn hand_over(&mut self, to: (Child, Option<ChildStdin>)) -> (Child, Option<ChildStdin>) {
        self.agent.replace(to).expect("it was started")
    }

    /// Steps its clock.
    pub fn step(&self, microseconds: i64) {
        let file = File::from(self.file.try_clone().expect("a descriptor is free"));
        let mut word = [0; 8];
        file.read_exact_at(&mut word, OFFSET).expect("a head");
        let offset = u64::from_ne_bytes(word).wrapping_add_signed(microseconds);
        let before = self.segment.now();
        file.write_all_at(&offset.to_ne_bytes(), OFFSET)
            .expect("a head");
        let moved = self.segment.now().0.wrapping_sub(before.0).cast_signed();
        assert!(
            moved.abs_diff(microseconds) < 10_000_000,
            "{moved}: the head is laid out anew"
        );
    }

    /// Writes into the segment as another version of the module would.
    pub fn scribble(&self, at: u64, bytes: &[u8]) {
        let file = File::from(self.file.try_clone().expect("a descriptor is free"));
        file.write_all_at(bytes, at).expect("it is that long");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(&self.log);
    }
}
