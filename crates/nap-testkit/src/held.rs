//! A room made full for as long as a test wants: a CGI program that answers when it is told to.
//!
//! `/cgi-bin/hold?NAME` creates a file to say that it runs, and waits for another.

use super::{Answer, Builder, Httpd, wait_until};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const PROGRAM: &str = "#!/bin/sh
in=\"$BOARD_DIR/in-$QUERY_STRING.$$\"
: > \"$in\"
while [ ! -e \"$BOARD_DIR/go-$QUERY_STRING\" ]; do sleep 0.05; done
rm -f \"$in\"
printf 'Content-Type: text/plain\\r\\n\\r\\nheld %s\\n' \"$QUERY_STRING\"
";

const PATIENCE: Duration = Duration::from_secs(20);

impl Builder {
    /// With `/cgi-bin/hold?NAME`, and `/nap-info` to see who waits.
    pub fn holding(self) -> Self {
        self.cgi("hold", PROGRAM)
            .config("<Location /nap-info>\nSetHandler nap-info\n</Location>")
    }
}

/// Accesses that run until they are released, at the latest when this is dropped.
pub struct Held<'a> {
    httpd: &'a Httpd,
    name: &'static str,
    streams: Vec<TcpStream>,
}

/// Accesses that run in a child, from `/nap-info`.
pub fn runs_in(child: &serde_json::Value) -> u64 {
    sum(child, &["running"])
}

/// Accesses that wait in a child, with a worker or without.
pub fn waits_in(child: &serde_json::Value) -> u64 {
    sum(child, &WAITING)
}

const WAITING: [&str; 3] = ["waiting", "waiting_h2", "parked"];

fn sum(child: &serde_json::Value, states: &[&str]) -> u64 {
    let number = |state: &&str| child[*state].as_u64().expect("a number");
    states.iter().map(number).sum()
}

impl Httpd {
    /// Sends this many accesses of this name, which are held, and returns when all of them run.
    pub fn hold(&self, name: &'static str, accesses: usize) -> Held<'_> {
        let held = self.ask_to_hold(name, accesses);
        wait_until("the room is held", PATIENCE, || {
            self.holding(name) == accesses
        });
        held
    }

    /// The same, without waiting until they run.
    pub fn ask_to_hold(&self, name: &'static str, accesses: usize) -> Held<'_> {
        let ask = |_| {
            let mut stream = self.connect();
            write!(stream, "GET /cgi-bin/hold?{name} HTTP/1.0\r\n\r\n").expect("httpd listens");
            stream
        };
        Held {
            httpd: self,
            name,
            streams: (0..accesses).map(ask).collect(),
        }
    }

    /// How many of this name run at present.
    pub fn holding(&self, name: &str) -> usize {
        let files = fs::read_dir(self.root.join("data")).expect("the root is there");
        files
            .flatten()
            .filter(|file| {
                let file = file.file_name();
                file.to_string_lossy().starts_with(&format!("in-{name}."))
            })
            .count()
    }

    /// Requests that wait in a room, those of HTTP/2 and those without a worker too.
    pub fn waiting(&self) -> usize {
        self.accesses(&WAITING)
    }

    /// Waits until nobody waits or runs. mod_cgid's daemon ends first when the server stops; a program that
    /// was to start just then keeps its child for ten seconds.
    pub fn until_idle(&self) {
        wait_until("the room is empty", PATIENCE, || {
            self.accesses(&["running", "waiting", "waiting_h2", "parked"]) == 0
        });
    }

    /// The sum of these counts over all children.
    pub fn accesses(&self, states: &[&str]) -> usize {
        let info = self.get("/nap-info?json").json();
        let children = info["children"].as_array().expect("the children");
        let count = |child| sum(child, states);
        children.iter().map(count).sum::<u64>() as usize
    }

    /// Waits until this many requests wait.
    pub fn until_waiting(&self, requests: usize) {
        wait_until(
            &format!("{requests} requests wait in the room"),
            PATIENCE,
            || self.waiting() == requests,
        );
    }
}

impl Held<'_> {
    /// Releases all of this name for good, and returns their answers.
    pub fn release(mut self) -> Vec<String> {
        self.let_go();
        let read = |stream: &mut TcpStream| {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("a whole answer");
            answer
        };
        self.streams.iter_mut().map(read).collect()
    }

    fn let_go(&self) {
        let go = self.httpd.root.join(format!("data/go-{}", self.name));
        fs::write(go, "").expect("the root takes a file");
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Sends an access that has to wait for the held permit, releases the holder when it waits, and returns its
/// answer.
pub fn admitted(httpd: &Httpd, held: Held<'_>, path: &str, head: &[(&str, &str)]) -> Answer {
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| httpd.request("GET", path, head, b""));
        wait_until("it waits", PATIENCE, || {
            assert!(!waits.is_finished(), "it was turned away");
            httpd.waiting() == 1
        });
        held.release();
        waits.join().expect("an answer")
    })
}
