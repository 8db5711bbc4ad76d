//! Several httpds that share one crowd: nodes with one key file, a redis of their own, and HAProxy in front, which sends
//! one request after the other to the next node.
//!
//! Each node can be killed as a whole and started again under its name, and so can the store. The answer that a visitor
//! gets through HAProxy names its node in [`NODE`].

use super::cut::Cut;
use super::haproxy::HaProxy;
use super::store::Store;
use super::{Answer, Builder, Counter, Crowd, Httpd, made, open_to_children, wait_until};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a fleet may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// The header in which HAProxy names the node that answers.
pub const NODE: &str = "X-Served-By";

const KEYS: &str = "7 00112233445566778899aabbccddeeff\n";

type Change = Box<dyn Fn(Builder) -> Builder>;

/// The specification of a fleet; made by [`Fleet::builder`], ended by [`FleetBuilder::start`].
pub struct FleetBuilder {
    size: usize,
    node: Builder,
    /// What single nodes are besides.
    own: Vec<(usize, Change)>,
    store: Option<String>,
    /// A program with arguments that runs the store.
    store_under: Vec<String>,
    apart: bool,
    options: String,
    cuts: bool,
    balance: &'static str,
    weights: Vec<u32>,
    /// Seconds before an agent begins.
    late: f64,
}

impl FleetBuilder {
    /// What each node is, but for its name, key and store: [`Httpd::builder`] with the module, its modules and rooms.
    pub fn node(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.node = change(self.node);
        self
    }

    /// What one of the nodes is besides.
    pub fn node_at(mut self, n: usize, change: impl Fn(Builder) -> Builder + 'static) -> Self {
        self.own.push((n, Box::new(change)));
        self
    }

    /// Runs its store under another program.
    pub fn store_under(mut self, program: &[String]) -> Self {
        self.store_under = program.to_vec();
        self
    }

    /// Options of `NapStore`, `timeout=5ms` and the like.
    pub fn options(mut self, options: &str) -> Self {
        self.options = options.into();
        self
    }

    /// At this store, as a URL, instead of one of its own.
    pub fn at_store(mut self, url: &str) -> Self {
        self.store = Some(url.into());
        self
    }

    /// Agents begin so many seconds late, as on a machine that is very busy when httpd starts.
    pub fn late_agents(mut self, seconds: f64) -> Self {
        self.late = seconds;
        self
    }

    /// Without a store: the nodes know nothing of each other.
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// HAProxy's way to choose a node, by default `roundrobin`; `source` keeps a visitor's address on one.
    pub fn balance(mut self, way: &'static str) -> Self {
        self.balance = way;
        self
    }

    /// HAProxy keeps each visitor's address on the node that it has chosen first, in round robin.
    pub fn sticking(self) -> Self {
        self.balance("roundrobin\n  stick-table type ip size 100k expire 10m\n  stick on src")
    }

    /// Each node's way to the store leads through a [`Cut`].
    pub fn with_cuts(mut self) -> Self {
        self.cuts = true;
        self
    }

    /// HAProxy sends this much to each: 256 at most.
    pub fn weights(mut self, weights: &[u32]) -> Self {
        self.weights = weights.to_vec();
        self
    }

    /// Starts all of it, and returns when each node knows all the others.
    pub fn start(self) -> Fleet {
        let folder = folder();
        let agent = folder.join("nap-agent");
        // The children's user may not see our own folder.
        fs::copy(made::file("release/nap-agent"), &agent).expect("the temp directory takes a file");
        let agent = match self.late {
            0.0 => agent,
            seconds => late(&agent, seconds),
        };
        let counter = folder.join("counter");
        fs::write(&counter, "").expect("the temp directory takes a file");
        open_to_children(&counter, 0o666);
        let needs_one = self.store.is_none() && !self.apart;
        let store = needs_one
            .then(|| Store::under(&self.store_under, &["--maxmemory-policy", "noeviction"]));
        let mut cuts = Vec::new();
        let nodes = (0..self.size).map(|n| {
            let url = match &store {
                Some(store) if self.cuts => {
                    cuts.push(Cut::before(store.port()));
                    Some(format!("redis://127.0.0.1:{}", cuts[n].port()))
                }
                Some(store) => Some(store.url()),
                None => self.store.clone(),
            };
            let (agent, options) = (agent.display(), &self.options);
            let store = url.map_or_else(String::new, |url| {
                format!(
                    "NapStore {url} agent={agent} {options}\nNapNode {}\n",
                    name(n)
                )
            });
            let counter = counter.display();
            let own = format!("NapTicketKey {{root}}/keys\n{store}SetEnv COUNTER_FILE {counter}");
            let node = self.node.clone().secret("keys", KEYS).config(&own);
            let changes = self.own.iter().filter(|(of, _)| *of == n);
            changes.fold(node, |node, (_, change)| change(node)).start()
        });
        let nodes: Vec<Httpd> = nodes.collect();
        let ports = nodes.iter().map(Httpd::port);
        let text = balancing(self.balance, ports, &self.weights, &folder);
        let fleet = Fleet {
            balancer: HaProxy::start(&folder.join("haproxy.cfg"), &text),
            nodes,
            cuts,
            store,
            folder,
        };
        if !self.apart {
            fleet.until_members(self.size);
        }
        fleet
    }
}

/// A running fleet. Nodes are numbered from 0.
pub struct Fleet {
    balancer: HaProxy,
    nodes: Vec<Httpd>,
    cuts: Vec<Cut>,
    store: Option<Store>,
    folder: PathBuf,
}

/// What a node is called.
pub fn name(n: usize) -> String {
    format!("web{}", n + 1)
}

impl Fleet {
    /// Of this many nodes, each of two children with sixty threads, under event, with `/nap-info`.
    pub fn builder(size: usize) -> FleetBuilder {
        let node = Httpd::builder()
            .nap()
            .workers(2, 60)
            // All visitors come from HAProxy.
            .modules(&["remoteip"])
            .config("RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1")
            .config("<Location /nap-info>\nSetHandler nap-info\nNapUse None\n</Location>")
            .expect_log(
                "the store is away (no answer in time)",
                "the machine is busy",
            );
        FleetBuilder {
            size,
            node,
            own: Vec::new(),
            store: None,
            store_under: Vec::new(),
            apart: false,
            options: String::new(),
            cuts: false,
            late: 0.0,
            balance: "roundrobin",
            weights: Vec::new(),
        }
    }

    /// The crowd's address: HAProxy's, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.balancer.port())
    }

    /// HAProxy's port.
    pub fn port(&self) -> u16 {
        self.balancer.port()
    }

    /// How many nodes it has, dead ones too.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// One of its nodes.
    pub fn node(&self, n: usize) -> &Httpd {
        &self.nodes[n]
    }

    /// The same, to be stopped or restarted.
    pub fn node_mut(&mut self, n: usize) -> &mut Httpd {
        &mut self.nodes[n]
    }

    /// The nodes, dead ones too.
    pub fn nodes(&self) -> &[Httpd] {
        &self.nodes
    }

    /// What a node's `/nap-info?json` says.
    pub fn info(&self, n: usize) -> Value {
        self.node(n).get("/nap-info?json").json()
    }

    /// A figure of each node's first gate, by its JSON pointer, over these nodes.
    pub fn figures(&self, nodes: &[usize], pointer: &str) -> Vec<u64> {
        let figure = |n: &usize| {
            let info = self.info(*n);
            let gate = &info["rooms"][0]["gates"][0];
            let found = gate.pointer(pointer).and_then(Value::as_u64);
            found.unwrap_or_else(|| panic!("no {pointer} in {gate}"))
        };
        nodes.iter().map(figure).collect()
    }

    /// Kills a node as a power failure would.
    pub fn kill(&mut self, n: usize) {
        self.nodes[n].kill_whole();
    }

    /// Starts a node again that was killed, under its name.
    pub fn start_again(&mut self, n: usize) {
        self.nodes[n].start_again();
    }

    /// HAProxy sends this much to each from now on.
    pub fn weigh(&self, weights: &[u32]) {
        for (n, weight) in weights.iter().enumerate() {
            let command = format!("set weight nodes/{} {weight}", name(n));
            assert_eq!(self.tell_balancer(&command).trim(), "", "{command}");
        }
    }

    /// Waits until no request that HAProxy has sent to this node, or is sending, is without an answer. The node itself knows
    /// nothing of those that are on the way.
    pub fn until_unused(&self, n: usize) {
        wait_until("HAProxy has nobody at the node", PATIENCE, || {
            let stat = self.tell_balancer("show stat nodes 4 -1");
            let mut rows = stat.lines().map(|row| row.split(',').collect::<Vec<_>>());
            let head = rows.next().expect("a head");
            let at = |name| head.iter().position(|&column| column == name);
            let (server, current) = (at("svname").expect("names"), at("scur").expect("sessions"));
            let row = rows.find(|row| row.get(server) == Some(&name(n).as_str()));
            row.expect("the node")[current] == "0"
        });
    }

    /// What HAProxy answers on its admin socket.
    fn tell_balancer(&self, command: &str) -> String {
        let mut admin = UnixStream::connect(self.folder.join("admin")).expect("HAProxy listens");
        let mut said = String::new();
        writeln!(admin, "{command}").expect("HAProxy reads");
        admin.read_to_string(&mut said).expect("HAProxy answers");
        said
    }

    /// The counts of the counting CGI program `/counter`, over all nodes.
    pub fn counter(&self) -> Counter {
        Counter::ask(&self.node(0).root, &self.folder.join("counter"), "report")
    }

    /// Allows error-log lines that contain `part` at each node, for a test that causes them on the way.
    pub fn expect_log(&mut self, part: &str, reason: &'static str) {
        for node in &mut self.nodes {
            node.expect_log(part, reason);
        }
    }

    /// Its store, if it has one of its own.
    pub fn store(&self) -> &Store {
        self.store.as_ref().expect("it has one of its own")
    }

    /// The same, to be killed and started again.
    pub fn store_mut(&mut self) -> &mut Store {
        self.store.as_mut().expect("it has one of its own")
    }

    /// A node's way to the store ([`FleetBuilder::with_cuts`]).
    pub fn cut(&self, n: usize) -> &Cut {
        &self.cuts[n]
    }

    /// All nodes' ways to the store.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// Waits until each node that lives knows this many that live, and none else.
    pub fn until_members(&self, size: usize) {
        let lives = |n: &usize| self.node(*n).answers();
        let living: Vec<usize> = (0..self.size()).filter(lives).collect();
        wait_until("the nodes know each other", PATIENCE, || {
            living.iter().all(|n| self.sees(*n, "alive") == size)
        });
    }

    /// How many nodes this one knows in a state: `alive`, `silent`, `left`.
    pub fn sees(&self, n: usize, state: &str) -> usize {
        let info = self.info(n);
        let nodes = info["fleet"]["nodes"].as_array().map_or(&[][..], |all| all);
        nodes.iter().filter(|node| node["state"] == state).count()
    }

    /// Waits until the store is in this state for each node: `joined`, `away`.
    pub fn until_store_is(&self, state: &str) {
        wait_until(&format!("the store is {state}"), PATIENCE, || {
            (0..self.size()).all(|n| self.info(n)["fleet"]["store"]["state"] == state)
        });
    }

    /// Sends an order to a node's nap-control, with the nonce that the page of another one, or its own, shows.
    pub fn order(&self, n: usize, shown_at: usize, body: &str) -> Answer {
        let info = self.info(shown_at);
        let nonce = info["control"]["nonce"].as_str().expect("it is on");
        let head = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Sec-Fetch-Site", "same-origin"),
            ("X-Nap-Control", nonce),
        ];
        self.node(n)
            .request("POST", "/nap-control", &head, body.as_bytes())
    }

    /// Sends a crowd through HAProxy, with these options of `nap-load`; returns its report, which tells by node.
    pub fn crowd(&self, path: &str, options: &[&str]) -> Value {
        self.crowd_later(path, options).report()
    }

    /// The same, while the test goes on.
    pub fn crowd_later(&self, path: &str, options: &[&str]) -> Crowd {
        let url = format!("{}{path}", self.url());
        Crowd::send(&url, &[&["--node-header", NODE], options].concat())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Nodes end while their store is there.
        self.nodes.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// HAProxy's configuration: that of docker/haproxy.cfg, and visitors' addresses.
fn balancing(
    way: &str,
    ports: impl Iterator<Item = u16>,
    weights: &[u32],
    folder: &Path,
) -> String {
    let admin = folder.join("admin");
    let mut text = format!(
        "global\n  maxconn 8192\n  stats socket {} level admin\n\
         defaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  timeout server 60s\n  \
         timeout http-keep-alive 5s\n  option http-server-close\n  option redispatch 1\n  retry-on conn-failure\n  \
         option forwardfor\n\
         frontend crowd\n  bind 127.0.0.1:{{port}} backlog 4096\n  default_backend nodes\n\
         backend nodes\n  balance {way}\n  http-response set-header {NODE} %s\n",
        admin.display()
    );
    for (n, port) in ports.enumerate() {
        let weight = weights.get(n).copied().unwrap_or(1);
        let _ = writeln!(
            text,
            "  server {} 127.0.0.1:{port} weight {weight} check inter 500ms fall 2",
            name(n)
        );
    }
    text
}

/// A program that begins this agent so many seconds later.
fn late(agent: &Path, seconds: f64) -> PathBuf {
    let program = agent.with_file_name("begins");
    let script = format!("#!/bin/sh\nsleep {seconds}\nexec {}\n", agent.display());
    fs::write(&program, script).expect("the temp directory takes a file");
    open_to_children(&program, 0o755);
    program
}

fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("nap-fleet-{}-{n}", std::process::id()));
    fs::create_dir_all(&folder).expect("the temp directory takes a directory");
    open_to_children(&folder, 0o755);
    folder
}
