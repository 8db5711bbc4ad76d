//! Executors behind a balancer: separate processes (`demo/backend.c`), which can be stopped and killed,
//! slowed down and broken.

use super::{free_port, made, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::Duration;

/// One of them.
pub struct Backend {
    name: String,
    port: u16,
    /// Bytes a second.
    rate: u32,
    process: Child,
}

impl Backend {
    /// On a free port; if another process takes it first, on another port.
    pub fn start(name: &str, rate: u32) -> Backend {
        for _ in 0..10 {
            let port = free_port();
            let mut backend = Backend {
                name: name.into(),
                port,
                rate,
                process: launch(name, port, rate),
            };
            if backend.listens() {
                return backend;
            }
        }
        panic!("each port that was free was another's when the backend came to it")
    }

    /// This many bytes a second each; they are named a, b, c ...
    pub fn all(rates: &[u32]) -> Vec<Backend> {
        let names = ["a", "b", "c", "d", "e", "f"];
        let pairs = names.iter().zip(rates);
        pairs
            .map(|(name, rate)| Backend::start(name, *rate))
            .collect()
    }

    /// `http://127.0.0.1:PORT`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How it behaves from now on: `ok`, `500`, `cut`, `slow=20`, each optionally with `&only=/path`.
    pub fn mode(&self, mode: &str) {
        self.ask(&format!("/_mode?{mode}")).expect("it answers");
    }

    /// Requests received since the last call, and how many of them were not a first attempt.
    pub fn count(&self) -> (u32, u32) {
        let text = self.ask("/_count").expect("it answers");
        let mut numbers = text.split_whitespace().filter_map(|n| n.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// It stands still, with its port open, until [`Backend::go_on`].
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// It goes on after [`Backend::stop`].
    pub fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// It dies, and its port refuses connections.
    pub fn kill(&mut self) {
        self.process.kill().expect("a process of ours");
        self.process.wait().expect("a process of ours");
    }

    /// Starts it on the same port, after [`Backend::kill`].
    pub fn start_again(&mut self) {
        self.process = launch(&self.name, self.port, self.rate);
        assert!(self.listens(), "its port is another's now");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed());
        kill(pid, signal).expect("a process of ours");
    }

    /// Waits until it listens; false: it has ended, as its port was not free.
    fn listens(&mut self) -> bool {
        let mut ended = false;
        wait_until("the backend listens", Duration::from_secs(20), || {
            ended = self
                .process
                .try_wait()
                .expect("a process of ours")
                .is_some();
            ended || self.ask("/_count").is_some()
        });
        !ended
    }

    fn ask(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: b\r\n\r\n").ok()?;
        stream.shutdown(std::net::Shutdown::Write).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text.split_once("\r\n\r\n")?.1.to_owned())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn launch(name: &str, port: u16, rate: u32) -> Child {
    Command::new(made::file("cgi/backend"))
        .args([name, &port.to_string(), &rate.to_string()])
        .spawn()
        .expect("the backend starts")
}

/// A backend that speaks another protocol after 101: it echoes what it receives.
pub fn echoing() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || echo(stream));
        }
    });
    port
}

fn echo(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                      Connection: Upgrade\r\n\r\n";
    if stream.write_all(switching).is_err() {
        return;
    }
    let mut block = [0; 64];
    while let Ok(length @ 1..) = stream.read(&mut block) {
        if stream.write_all(&block[..length]).is_err() {
            return;
        }
    }
}

/// A balancer of these members, each with its name as its route, and with additional lines.
pub fn balancer(backends: &[Backend], lines: &str) -> String {
    let members: String = (backends.iter())
        .map(|b| format!("BalancerMember {} route={}\n", b.url(), b.name))
        .collect();
    format!(
        "<Proxy balancer://work>\n{members}{lines}\n</Proxy>\nProxyPass /nap-info !\n\
         ProxyPass /local !\nProxyPass / balancer://work/"
    )
}

/// The modules of httpd that a balancer needs.
pub const MODULES: [&str; 7] = [
    "proxy",
    "proxy_http",
    "proxy_balancer",
    "slotmem_shm",
    "lbmethod_byrequests",
    "lbmethod_bytraffic",
    "lbmethod_bybusyness",
];
