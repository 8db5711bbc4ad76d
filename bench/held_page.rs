//! An application behind mod_proxy whose pages end when they are told to: who has one keeps a room of one access full.
//!
//! They begin at once, but those whose path ends with `late` never do: an answer that has begun a minute ago has no
//! permit any more.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\nConnection: close\r\n\r\n";
const BEGIN: &str = "begun\n";
const END: &str = "end\n";

/// A page that has not ended, and what is still to be sent of it.
type Open = (TcpStream, String);

/// Pages that have not ended.
pub struct HeldPages {
    port: u16,
    open: Arc<Mutex<VecDeque<Open>>>,
}

impl HeldPages {
    /// On a free port of loopback, until the bench ends.
    pub fn start() -> HeldPages {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let open = Arc::<Mutex<VecDeque<Open>>>::default();
        let of_thread = open.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let open = of_thread.clone();
                std::thread::spawn(move || begin(stream, &open));
            }
        });
        HeldPages { port, open }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Are there pages that have not ended?
    #[allow(dead_code, reason = "another bench asks")]
    pub fn are_open(&self) -> bool {
        !self.open.lock().expect("nobody panics with it").is_empty()
    }

    /// The page that began first ends.
    pub fn end_one(&self) {
        let first = self.open.lock().expect("nobody panics with it").pop_front();
        end(first.expect("a page has begun"));
    }
}

impl Drop for HeldPages {
    /// A server that is stopped would wait for them.
    fn drop(&mut self) {
        let mut open = self.open.lock().expect("nobody panics with it");
        open.drain(..).for_each(end);
    }
}

fn end((mut stream, rest): Open) {
    // Its visitor may be gone.
    let _ = stream.write_all(rest.as_bytes());
}

fn begin(mut stream: TcpStream, open: &Mutex<VecDeque<Open>>) {
    let (mut asked, mut part) = (Vec::new(), [0; 4096]);
    while !asked.ends_with(b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(length @ 1..) => asked.extend_from_slice(&part[..length]),
            _ => return,
        }
    }
    let _ = stream.set_nodelay(true);
    let never = String::from_utf8_lossy(&asked).contains("late HTTP");
    let whole = format!("{HEAD}{BEGIN}{END}");
    let (first, rest) = whole.split_at(if never { 0 } else { whole.len() - END.len() });
    // Who reads its beginning finds it here.
    let mut open = open.lock().expect("nobody panics with it");
    if stream.write_all(first.as_bytes()).is_ok() {
        open.push_back((stream, rest.to_owned()));
    }
}
