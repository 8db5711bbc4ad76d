//! A private redis-server: on loopback, without persistence, gone with its guard. Replicas and Sentinels, too.

use super::{free_port, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a server may take to begin, or to do what it is told.
const PATIENCE: Duration = Duration::from_secs(20);

/// One of them.
pub struct Store {
    port: u16,
    folder: PathBuf,
    /// A program with arguments that runs it.
    under: Vec<String>,
    /// Each with its values, as on the command line.
    options: Vec<String>,
    password: String,
    process: Option<Child>,
}

impl Store {
    /// With nothing set that it does not set itself.
    pub fn start() -> Store {
        Store::with(&[])
    }

    /// With these options, as on its command line: `&["--maxmemory", "2mb"]`.
    pub fn with(options: &[&str]) -> Store {
        Store::under(&[], options)
    }

    /// The same, run by another program.
    pub fn under(program: &[String], options: &[&str]) -> Store {
        for _ in 0..10 {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            let mut store = Store {
                port: free_port(),
                folder: folder(),
                under: program.to_vec(),
                options,
                password: String::new(),
                process: None,
            };
            if store.launch() {
                return store;
            }
        }
        panic!("each port that was free was another's when redis-server came to it")
    }

    /// That speaks TLS at another port, too, and wants certificates of the same authority from its clients.
    pub fn with_tls() -> (Store, Tls) {
        let mut tls = Tls::make();
        tls.port = free_port();
        let store = Store::with(&[
            "--tls-port",
            &tls.port.to_string(),
            "--tls-cert-file",
            &tls.path("cert.pem"),
            "--tls-key-file",
            &tls.path("key.pem"),
            "--tls-ca-cert-file",
            &tls.path("ca.pem"),
        ]);
        (store, tls)
    }

    /// That copies another one.
    pub fn replica_of(primary: &Store) -> Store {
        let port = primary.port.to_string();
        let replica = Store::with(&["--replicaof", "127.0.0.1", &port]);
        wait_until("the replica has copied", PATIENCE, || {
            replica
                .ask(&["INFO", "replication"])
                .contains("master_link_status:up")
        });
        replica
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The socket it listens on, too.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// From now on it asks for this password; empty: for none.
    pub fn want_password(&mut self, password: &str) {
        assert_eq!(self.ask(&["CONFIG", "SET", "requirepass", password]), "OK");
        self.password = password.into();
    }

    /// What redis-cli prints for a command.
    pub fn ask(&self, command: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &self.port.to_string()]).env_clear();
        cli.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        if !self.password.is_empty() {
            cli.env("REDISCLI_AUTH", &self.password);
        }
        let output = cli
            .args(command)
            .output()
            .expect("redis-cli runs (tests/setup.sh)");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    /// A number out of `INFO section`.
    pub fn figure(&self, section: &str, name: &str) -> u64 {
        let info = self.ask(&["INFO", section]);
        let mut lines = info.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let text = found.unwrap_or_else(|| panic!("no {name} in {info}"));
        text.trim()
            .parse()
            .unwrap_or_else(|e| panic!("{name} {text}: {e}"))
    }

    /// It stands still, with its port open, until [`Store::go_on`].
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// It goes on after [`Store::stop`].
    pub fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// It writes down what it knows.
    pub fn save(&self) {
        assert_eq!(self.ask(&["SAVE"]), "OK");
    }

    /// It dies, and with it all that it has not [saved](Store::save).
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("a process of ours");
            process.wait().expect("a process of ours");
        }
    }

    /// What it has saved is lost, too.
    pub fn lose_saved(&mut self) {
        let _ = fs::remove_file(self.folder.join("dump.rdb"));
    }

    /// A new one at the same port, with what the last one has saved.
    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "it still runs");
        self.password.clear();
        assert!(self.launch(), "its port is another's now");
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        let pid = Pid::from_raw(process.id().cast_signed());
        kill(pid, signal).expect("a process of ours");
    }

    /// False: the port is another's.
    fn launch(&mut self) -> bool {
        let log = self.folder.join("log");
        let words = self.under.iter().map(String::as_str);
        let mut words = words.chain(["redis-server"]);
        let mut command = Command::new(words.next().expect("a program"));
        command
            .args(words)
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--repl-diskless-sync-delay", "0"])
            .arg("--unixsocket")
            .arg(self.socket())
            .arg("--dir")
            .arg(&self.folder)
            .arg("--logfile")
            .arg(&log)
            .args(&self.options);
        self.process = Some(spawn(command));
        self.answers()
    }

    /// It, and no other server that was quicker to take the port.
    fn answers(&mut self) -> bool {
        let mut ended = false;
        wait_until("redis-server answers", PATIENCE, || {
            let process = self.process.as_mut().expect("it was started");
            ended = !matches!(process.try_wait(), Ok(None));
            let own = format!("process_id:{}\r", process.id());
            ended || self.ask(&["INFO", "server"]).contains(&own)
        });
        !ended
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The TLS side of a store: an authority, and a certificate of it for localhost.
pub struct Tls {
    port: u16,
    folder: PathBuf,
}

impl Tls {
    /// `rediss://localhost:PORT`.
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}", self.port)
    }

    /// `ca.pem`, `cert.pem` or `key.pem`.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("openssl wrote it")
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn make() -> Tls {
        let tls = Tls {
            port: 0,
            folder: folder(),
        };
        let names = "subjectAltName=DNS:localhost";
        fs::write(tls.path("names"), names).expect("the temp directory takes a file");
        let new = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch";
        tls.openssl(&format!(
            "req -x509 {new} -days 2 -subj /CN=authority -keyout ca.key -out ca.pem"
        ));
        tls.openssl(&format!(
            "req {new} -subj /CN=localhost -keyout key.pem -out request"
        ));
        let sign = "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2";
        tls.openssl(&format!("{sign} -extfile names -out cert.pem"));
        tls
    }

    fn openssl(&self, words: &str) {
        let mut command = Command::new("openssl");
        command.args(words.split(' ')).current_dir(&self.folder);
        let output = command.output().expect("openssl runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {words}: {said}");
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Three Sentinels that watch a primary and replace it after a second.
pub struct Sentinels(Vec<Store>);

impl Sentinels {
    /// They call it `shop`.
    pub fn of(primary: &Store) -> Sentinels {
        let watch = format!(
            "sentinel monitor shop 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds shop 1000\n\
             sentinel failover-timeout shop 3000\n",
            primary.port
        );
        let all = Sentinels((0..3).map(|_| sentinel(&watch)).collect());
        wait_until(
            "the Sentinels know each other and the replica",
            PATIENCE,
            || {
                all.0.iter().all(|one| {
                    let known = one.ask(&["SENTINEL", "MASTER", "shop"]);
                    let lines: Vec<&str> = known.lines().collect();
                    let says = |name: &str, n: &str| lines.windows(2).any(|pair| pair == [name, n]);
                    says("num-other-sentinels", "2") && says("num-slaves", "1")
                })
            },
        );
        all
    }

    /// `redis+sentinel://...`
    pub fn url(&self) -> String {
        let each: Vec<String> = self
            .0
            .iter()
            .map(|one| format!("127.0.0.1:{}", one.port))
            .collect();
        format!("redis+sentinel://{}/shop", each.join(","))
    }
}

fn sentinel(watch: &str) -> Store {
    for _ in 0..10 {
        let mut store = Store {
            port: free_port(),
            folder: folder(),
            under: Vec::new(),
            options: Vec::new(),
            password: String::new(),
            process: None,
        };
        // It writes into its own configuration.
        let config = store.folder.join("sentinel.conf");
        let text = format!(
            "bind 127.0.0.1\nport {}\ndir {}\nlogfile {}\n{watch}",
            store.port,
            store.folder.display(),
            store.folder.join("log").display(),
        );
        fs::write(&config, text).expect("the temp directory takes a file");
        let mut command = Command::new("redis-server");
        command.arg(&config).arg("--sentinel");
        store.process = Some(spawn(command));
        if store.answers() {
            return store;
        }
    }
    panic!("each port that was free was another's when a Sentinel came to it")
}

fn spawn(mut command: Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
        .spawn()
        .expect("redis-server is installed (tests/setup.sh)")
}

fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("nap-store-{}-{n}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("the temp directory takes a directory");
    folder
}
