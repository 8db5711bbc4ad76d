//! A port in front of another one, by which the network between the two goes wrong as a test wants it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// How often a connection looks whether something has changed.
const LOOK: Duration = Duration::from_millis(10);

/// What becomes of what is sent through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It comes through.
    Open,
    /// Answers come so much later.
    Late(Duration),
    /// Answers come byte by byte, with so much time between two.
    Drip(Duration),
    /// Answers are something else.
    Garbage,
    /// Connections are taken, and nothing is ever said.
    Silent,
    /// Each connection is closed as soon as it is there.
    Cut,
}

/// The port, until it is dropped.
pub struct Cut {
    port: u16,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    target: u16,
    way: Mutex<Way>,
    over: AtomicBool,
    connections: AtomicUsize,
}

impl Shared {
    fn way(&self) -> Way {
        *self.way.lock().expect("nobody panics with it")
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl Cut {
    /// In front of this port on loopback; everything comes through.
    pub fn before(target: u16) -> Cut {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            target,
            way: Mutex::new(Way::Open),
            over: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        let of_thread = shared.clone();
        Cut {
            port,
            shared,
            listener: Some(spawn(move || listen(&listener, &of_thread))),
        }
    }

    /// The port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on so; connections that are there already, too.
    pub fn turn(&self, way: Way) {
        *self.shared.way.lock().expect("nobody panics with it") = way;
    }

    /// Connections there have been.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().map_while(Result::ok) {
        if shared.is_over() {
            return;
        }
        shared.connections.fetch_add(1, Ordering::Relaxed);
        if shared.way() == Way::Cut {
            continue;
        }
        // Who finds nobody behind it is cut off.
        if let Ok(server) = TcpStream::connect(("127.0.0.1", shared.target)) {
            for (from, to, is_answer) in [(&client, &server, false), (&server, &client, true)] {
                let clones = from
                    .try_clone()
                    .and_then(|from| Ok((from, to.try_clone()?)));
                let (from, to) = clones.expect("a descriptor is free");
                let shared = shared.clone();
                spawn(move || pass(from, to, is_answer, &shared));
            }
        }
    }
}

/// Until one of the two ends, or it is cut.
fn pass(mut from: TcpStream, mut to: TcpStream, is_answer: bool, shared: &Shared) {
    let _ = from.set_read_timeout(Some(LOOK));
    let _ = to.set_nodelay(true);
    let mut bytes = [0; 4096];
    while !shared.is_over() && shared.way() != Way::Cut {
        let n = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        let written = match shared.way() {
            Way::Silent => continue,
            Way::Garbage if is_answer => to.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            Way::Late(span) if is_answer => {
                sleep(span);
                to.write_all(&bytes[..n])
            }
            Way::Drip(span) if is_answer => bytes[..n].iter().try_for_each(|byte| {
                sleep(span);
                to.write_all(&[*byte])
            }),
            _ => to.write_all(&bytes[..n]),
        };
        if written.is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
