//! A real httpd for a test, private to it and gone with it.
//!
//! [`Httpd::builder`] writes a ServerRoot of its own under the temp directory, with only the
//! modules named, starts the distribution's binary on a free loopback port and waits until it
//! answers. The guard stops what it started and, unless the test is failing already, fails it when
//! the error log holds a line nobody expected. The server starts as root where we are root; its
//! children then run as www-data, so everything they need is copied under that root.

mod answer;
pub mod app;
pub mod backends;
pub mod browser;
mod builder;
mod config;
mod counter;
mod crash;
mod crowd;
pub mod cut;
mod everything;
pub mod exchange;
pub mod fcgi;
pub mod fleet;
pub mod haproxy;
pub mod held;
pub mod holdings;
pub mod http2;
mod log;
mod long;
pub mod made;
mod process;
pub mod robot;
mod room;
mod sanitizer;
pub mod shop;
pub mod store;
pub mod ticket;
mod tls;
mod visitors;
pub mod wall_clock;
mod work;

pub use answer::{Answer, ask};
pub use builder::Builder;
pub use config::{Mpm, has_module, parks, version};
pub use counter::Counter;
pub use crowd::Crowd;
pub use exchange::{exchange, read_answer};
pub use long::long;
pub use room::Room;
pub use visitors::{NOT_OURS, Tries, Visitors};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long the server may take for anything it is asked to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test under prefork, worker and event, one after the other.
pub fn for_each_mpm(test: impl Fn(Mpm)) {
    for mpm in Mpm::ALL {
        eprintln!("--- under {mpm}");
        test(mpm);
    }
}

/// Under event; in the long form under each MPM. For tests that wait a lot and do not depend on the MPM.
pub fn for_event_or_each_mpm(test: impl Fn(Mpm)) {
    match long() {
        true => for_each_mpm(test),
        false => test(Mpm::Event),
    }
}

/// Waits for a condition, looking every few milliseconds; panics after `deadline`.
pub fn wait_until(what: &str, deadline: Duration, holds: impl FnMut() -> bool) {
    assert!(
        comes_true(deadline, holds),
        "waited {deadline:?} in vain until {what}"
    );
}

/// The same; false after `deadline`.
pub fn comes_true(deadline: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Sends a crowd of visitors with tickets to a URL, with these options of `nap-load`; returns its report.
pub fn crowd(url: &str, options: &[&str]) -> serde_json::Value {
    Crowd::send(url, options).report()
}

/// Tells other threads that it is over, however it ended.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A running httpd with its ServerRoot.
pub struct Httpd {
    builder: Builder,
    root: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Httpd {
    /// A server of two children with eight threads each, under event, without mod_nap.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// `apachectl configtest` on this configuration, with mod_nap loaded.
    pub fn configtest(config: &str) -> Result<(), String> {
        Httpd::builder().nap().config(config).configtest()
    }

    /// The MPM it runs with.
    pub fn mpm(&self) -> Mpm {
        self.builder.mpm
    }

    /// Its ServerRoot.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `http://127.0.0.1:PORT`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// GET, on a connection of its own.
    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    /// One request on a connection of its own; redirects and cookies are left to the caller.
    pub fn request(&self, method: &str, path: &str, head: &[(&str, &str)], body: &[u8]) -> Answer {
        answer::ask(method, &format!("{}{path}", self.url()), head, body)
    }

    /// A visitor in the background, who may be cut off.
    pub fn get_later(&self, path: &str) -> std::thread::JoinHandle<Answer> {
        let url = format!("{}{path}", self.url());
        std::thread::spawn(move || answer::ask("GET", &url, &[], b""))
    }

    /// A raw connection; reads give up after [`PATIENCE`].
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("httpd listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time-out above zero");
        stream
    }

    /// The server's first process: root where the test is root.
    pub fn pid(&self) -> i32 {
        self.process
            .as_ref()
            .expect("the server is running")
            .id()
            .cast_signed()
    }

    /// Whether its first process lives.
    pub fn is_running(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|p| matches!(p.try_wait(), Ok(None)))
    }

    /// The processes that serve requests, of any generation; not mod_cgid's daemon.
    pub fn children(&self) -> Vec<i32> {
        let threaded = self.builder.mpm != Mpm::Prefork;
        let ours = self.own_processes();
        let mut pids: Vec<i32> = ours
            .filter(|p| (p.threads > 1) == threaded)
            .map(|p| p.pid)
            .collect();
        pids.sort_unstable();
        pids
    }

    /// The process that starts CGI programs where children have threads.
    pub fn cgi_daemon(&self) -> i32 {
        let found = self.own_processes().find(|p| p.threads == 1);
        found.expect("mod_cgid's daemon").pid
    }

    /// The program that speaks with a fleet's store, from its start on; None: it has ended, and no other has begun.
    pub fn agent(&self) -> Option<i32> {
        let parent = self.pid();
        let speaks =
            |p: &process::Process| p.parent == parent && p.state != 'Z' && p.name == "nap-agent";
        process::processes().find(speaks).map(|p| p.pid)
    }

    /// Kills it as a crash would.
    pub fn kill_agent(&self) {
        let agent = self.agent().expect("it runs");
        kill(Pid::from_raw(agent), Signal::SIGKILL).expect("an agent of ours may be killed");
    }

    /// Other programs, such as an agent, are not among them.
    fn own_processes(&self) -> impl Iterator<Item = process::Process> {
        let (all, parent): (Vec<_>, i32) = (process::processes().collect(), self.pid());
        let own = all.iter().find(|p| p.pid == parent);
        let name = own.map_or_else(String::new, |p| p.name.clone());
        all.into_iter()
            .filter(move |p| p.parent == parent && p.state != 'Z' && p.name == name)
    }

    /// Kills one of our own children as a crash would.
    pub fn kill9(&self, pid: i32) {
        assert!(
            self.children().contains(&pid),
            "{pid} is no child of this server"
        );
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a child of ours may be killed");
    }

    /// Stops one of our own children until the guard is dropped: the others have all the work.
    pub fn pause(&self, pid: i32) -> Paused {
        assert!(
            self.children().contains(&pid),
            "{pid} is no child of this server"
        );
        kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("a child of ours may be stopped");
        let paused = Paused(pid);
        // Its threads stop one by one, and one of them may be taking a connection just then.
        wait_until("it stands still", PATIENCE, || process::stands_still(pid));
        paused
    }

    /// Replaces the configuration text given by [`Builder::config`]; the next restart reads it.
    pub fn reconfigure(&mut self, config: &str) {
        self.builder.config = format!("{config}\n");
        self.write_config();
    }

    /// Replaces a part of the configuration; the next restart reads it.
    pub fn alter(&mut self, part: &str, by: &str) {
        let text = self.builder.config.replace(part, by);
        assert_ne!(text, self.builder.config, "{part} is not there");
        self.builder.config = text;
        self.write_config();
    }

    /// Allows additional error-log lines, for a test that causes them on the way.
    pub fn expect_log(&mut self, part: &str, reason: &'static str) {
        self.builder.expected.push((part.to_string(), reason));
    }

    /// `apachectl graceful`: returns when the new generation serves.
    pub fn graceful(&mut self) {
        self.renew(Signal::SIGUSR1);
    }

    /// `apachectl restart`: children end at once, the parent stays. Returns when it serves again.
    pub fn restart(&mut self) {
        let before = self.error_log().len();
        self.renew(Signal::SIGHUP);
        // It ends the children as a stop does.
        self.forgive_crashes_since(before);
    }

    /// `apachectl stop`: returns when the server is gone. [`Httpd::start_again`] brings it back.
    pub fn stop(&mut self) {
        self.end(Signal::SIGTERM);
    }

    /// `apachectl graceful-stop`: what is being served finishes first.
    pub fn graceful_stop(&mut self) {
        self.end(Signal::SIGWINCH);
    }

    /// Kills all its processes at once, as a power failure would: children, programs and an agent, too.
    pub fn kill_whole(&mut self) {
        let mut parent = self.process.take().expect("the server is running");
        let group = parent.id().cast_signed();
        killpg(Pid::from_raw(group), Signal::SIGKILL).expect("a group of ours");
        parent.wait().expect("a process of ours");
        wait_until("all of it has gone", PATIENCE, || {
            !process::processes().any(|p| p.group == group && p.state != 'Z')
        });
        self.expect_log("AH00098:", "its pid file outlives it");
    }

    /// A full restart's second half: a new server on the same root and port.
    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "the server still runs");
        self.launch()
            .unwrap_or_else(|log| panic!("httpd did not start again:\n{log}"));
    }

    /// The whole error log.
    pub fn error_log(&self) -> String {
        self.read("error_log")
    }

    /// The whole access log.
    pub fn access_log(&self) -> String {
        self.read("access_log")
    }

    /// The counts of the counting CGI program `/counter`, read from its file and not from the server.
    pub fn counter(&self) -> Counter {
        Counter::ask(&self.root, &self.root.join("data/counter"), "report")
    }

    /// Resets the counter's maximum to the number of present runs.
    pub fn forget_counter_max(&self) {
        Counter::ask(&self.root, &self.root.join("data/counter"), "forget");
    }

    /// What `/nap-info` says of the module's first room ([`Builder::info`]).
    pub fn room(&self) -> Room {
        self.try_room().expect("an answer")
    }

    /// The same, or None if the child that was asked died meanwhile.
    pub fn try_room(&self) -> Option<Room> {
        use std::io::{Read as _, Write as _};
        let mut stream = self.connect();
        let mut answer = String::new();
        stream
            .write_all(b"GET /nap-info?json HTTP/1.0\r\n\r\n")
            .ok()?;
        stream.read_to_string(&mut answer).ok()?;
        Some(Room::of(
            &serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?,
        ))
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.root.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Writes the ServerRoot: everything but the process.
    fn lay_out(builder: Builder) -> Httpd {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("nap-httpd-{}-{n}", std::process::id()));
        for dir in ["", "htdocs", "cgi-bin", "run", "data", "cores"] {
            make_dir(&root.join(dir));
        }
        open_to_children(&root.join("cores"), 0o777);
        // CGI programs share this: the test, as another user, may be the first to make a file.
        fs::write(root.join("data/counter"), "").expect("the temp directory takes a file");
        open_to_children(&root.join("data"), 0o777);
        open_to_children(&root.join("data/counter"), 0o666);
        for program in ["board", "counter"] {
            let copy = root.join("cgi-bin").join(program);
            fs::copy(made::file(&format!("cgi/{program}")), &copy)
                .expect("a CGI program is copied");
        }
        for (path, content, mode) in &builder.files {
            let path = root.join(path);
            make_dir(path.parent().expect("a file has a directory"));
            fs::write(&path, content).expect("the temp directory takes a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("our own file");
        }
        let httpd = Httpd {
            builder,
            root,
            port: free_port(),
            process: None,
        };
        httpd.write_config();
        httpd
    }

    fn write_config(&self) {
        let text = config::text(&self.builder, &self.root, self.port);
        fs::write(self.root.join("httpd.conf"), text).expect("the temp directory takes a file");
    }

    fn command(&self) -> Command {
        let root = self.root.display().to_string();
        let under = self.builder.under.iter().map(String::as_str);
        let [program, words @ ..] = crash::WITH_CORES;
        let words = words.into_iter().chain(under);
        let mut command = Command::new(program);
        command
            .args(words.map(|word| word.replace("{root}", &root)))
            .arg(config::binary())
            .arg("-d")
            .arg(&self.root)
            .arg("-f")
            .arg(self.root.join("httpd.conf"));
        // The machine's own settings must not affect it, nor a backtrace fill the error log.
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null());
        sanitizer::preload(&mut command, &self.root);
        command
    }

    fn launch(&mut self) -> Result<(), String> {
        let before = log::generations(&self.error_log());
        let said = fs::File::create(self.root.join("stderr")).expect("the root takes a file");
        let child = self
            .command()
            .args(["-D", "FOREGROUND"])
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("httpd runs");
        self.process = Some(child);
        let start = Instant::now();
        while !(log::generations(&self.error_log()) > before && self.answers()) {
            if !self.is_running() || start.elapsed() > PATIENCE {
                self.destroy();
                let said = format!("{}{}", self.read("stderr"), self.error_log());
                // The caller has the log now and decides what to make of it.
                let _ = fs::remove_file(self.root.join("error_log"));
                return Err(said);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Asks only for a sign of life; a room never sees OPTIONS.
    fn answers(&self) -> bool {
        use std::io::{Read as _, Write as _};
        let knock = || -> std::io::Result<usize> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"OPTIONS * HTTP/1.0\r\nUser-Agent: knock\r\n\r\n")?;
            stream.read(&mut [0; 16])
        };
        knock().is_ok_and(|bytes| bytes > 0)
    }

    fn renew(&mut self, signal: Signal) {
        let before = log::generations(&self.error_log());
        let old = self.children();
        kill(Pid::from_raw(self.pid()), signal).expect("our own server may be signalled");
        let start = Instant::now();
        loop {
            let renewed = log::generations(&self.error_log()) > before;
            if renewed && self.children().iter().any(|c| !old.contains(c)) && self.answers() {
                return;
            }
            let waits = self.is_running() && start.elapsed() < PATIENCE;
            assert!(
                waits,
                "httpd did not come back after {signal}:\n{}",
                self.error_log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self, signal: Signal) {
        let before = self.error_log().len();
        let children = self.children();
        kill(Pid::from_raw(self.pid()), signal).expect("our own server may be signalled");
        let start = Instant::now();
        while self.is_running() {
            assert!(
                start.elapsed() < 3 * PATIENCE,
                "httpd did not end on {signal}:\n{}",
                self.error_log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        wait_until("its children have gone with it", PATIENCE, || {
            let lives = |p: &process::Process| p.state != 'Z' && children.contains(&p.pid);
            !process::processes().any(|p| lives(&p))
        });
        // An agent has been told to end and says goodbye to its store.
        let group = self.pid();
        wait_until("its agent has gone", PATIENCE, || {
            let speaks = |p: &process::Process| p.group == group && p.name == "nap-agent";
            !process::processes().any(|p| p.state != 'Z' && speaks(&p))
        });
        // CGI programs that outlived their server.
        let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
        self.process = None;
        if signal == Signal::SIGTERM {
            self.forgive_stop_since(before);
        }
    }

    /// Allows exactly the lines that report a child of event or prefork that died of SIGTERM's own race
    /// ([`crash`]). Nothing is allowed after a graceful stop or under worker.
    fn forgive_crashes_since(&mut self, before: usize) {
        if self.mpm() == Mpm::Worker {
            return;
        }
        let log = self.error_log();
        let since = log.get(before..).unwrap_or_default();
        let crashes = since
            .lines()
            .filter(|l| l.contains("exit signal Segmentation fault"));
        let crashes: Vec<&str> = crashes.collect();
        if !crashes.is_empty() && crash::is_httpds_race(&self.root.join("cores")) {
            for line in crashes {
                self.expect_log(line, "httpd's race at SIGTERM");
            }
        }
    }

    /// Allows what httpd logs about itself while SIGTERM ends it, whatever modules it has.
    fn forgive_stop_since(&mut self, before: usize) {
        self.forgive_crashes_since(before);
        const OF_A_STOP: [(&str, &str); 2] = [
            (
                "AH10246:",
                "mod_cgid's daemon was ended before the child that asks it",
            ),
            // Event's child closes its workers' connections, and so does a worker that has one in hand.
            (
                "AH00468:",
                "a connection was closed by two threads of event",
            ),
        ];
        let log = self.error_log();
        for line in log.get(before..).unwrap_or_default().lines() {
            for (code, why) in OF_A_STOP {
                if line.contains(code) {
                    self.expect_log(line, why);
                }
            }
        }
    }

    /// Ends the server by any means, and nothing but the server.
    fn destroy(&mut self) {
        let Some(mut child) = self.process.take() else {
            return;
        };
        let pid = Pid::from_raw(child.id().cast_signed());
        let stopping = matches!(child.try_wait(), Ok(None));
        let before = self.error_log().len();
        if stopping {
            let _ = kill(pid, Signal::SIGTERM);
            let start = Instant::now();
            while matches!(child.try_wait(), Ok(None)) && start.elapsed() < PATIENCE / 2 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Only its own offspring is in the server's process group.
        let _ = killpg(pid, Signal::SIGKILL);
        let _ = child.wait();
        if stopping {
            self.forgive_stop_since(before);
        }
    }
}

impl Drop for Httpd {
    fn drop(&mut self) {
        self.destroy();
        let log = self.error_log();
        if std::thread::panicking() {
            let reports = sanitizer::reports(&self.root);
            eprintln!("error log of {}:\n{log}{reports}", self.root.display());
            return;
        }
        let unexpected =
            log::unexpected(&log, &self.builder.expected) + &sanitizer::reports(&self.root);
        if unexpected.is_empty() {
            let _ = fs::remove_dir_all(&self.root);
        } else {
            panic!(
                "unexpected lines in {}/error_log or of a sanitizer:\n{unexpected}",
                self.root.display()
            );
        }
    }
}

/// A stopped child.
pub struct Paused(i32);

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0), Signal::SIGCONT);
    }
}

/// A port that nobody uses now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}

fn make_dir(path: &Path) {
    fs::create_dir_all(path).expect("the temp directory takes a directory");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own directory");
}

fn open_to_children(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
}

/// The code block of a document that contains `part`.
pub fn example_of(document: &str, part: &str) -> String {
    let path = made::repository().join(document);
    let text = fs::read_to_string(path).expect("the document");
    let blocks = text.split("\n```").skip(1).step_by(2);
    let bodies = blocks
        .filter_map(|block| block.split_once('\n'))
        .map(|(_, body)| body);
    let found = bodies.into_iter().find(|body| body.contains(part));
    let found = found.unwrap_or_else(|| panic!("no example with {part} in {document}"));
    format!("{found}\n")
}
