//! Visitors who ask for one URL again and again, each time on a new connection.
//!
//! They keep no ticket: a refused visitor asks again a moment later, so a queue behind a limit stays full.
//! The result of every try is kept and can be read while they go on.

use super::Httpd;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The results of all visitors' tries.
#[derive(Clone, Debug, Default)]
pub struct Tries {
    /// 200, with a whole answer.
    pub served: usize,
    /// 503, with the ticket page.
    pub refused: usize,
    /// Anything else: another status, a cut connection, no answer at all.
    pub failed: Vec<String>,
}

/// A crowd in the background; it leaves when dropped.
pub struct Visitors {
    leave: Arc<AtomicBool>,
    tries: Arc<Mutex<Tries>>,
    threads: Vec<JoinHandle<()>>,
}

impl Visitors {
    /// `n` visitors who read what they are sent.
    pub fn come(httpd: &Httpd, n: u32, path: &str) -> Visitors {
        Visitors::each(httpd, n, path, |stream, _| judge(stream))
    }

    /// `n` visitors who hang up after up to `patience`, in the queue or while they are served: what they have
    /// not read by then comes back to the server as a reset. None of their tries counts as failed.
    pub fn come_and_hang_up(httpd: &Httpd, n: u32, path: &str, patience: Duration) -> Visitors {
        Visitors::each(httpd, n, path, move |stream, nth| {
            // Golden-ratio steps spread the tries over the whole span, in the same way in every run.
            let part = (u64::from(nth) * 618_034 % 1_000_000) as f64 / 1e6;
            let wait = patience.mul_f64(part).max(Duration::from_millis(1));
            stream.set_read_timeout(Some(wait)).ok();
            let read = stream.read(&mut [0; 1000]);
            // Time is up, or the rest is not wanted.
            read.map_or(Ok(200), |_| Ok(200))
        })
    }

    fn each(
        httpd: &Httpd,
        n: u32,
        path: &str,
        ask: impl Fn(&mut TcpStream, u32) -> Result<u16, String> + Send + Clone + 'static,
    ) -> Visitors {
        let leave = Arc::new(AtomicBool::new(false));
        let tries = Arc::new(Mutex::new(Tries::default()));
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        let port = httpd.port();
        let visit = |nth: u32| {
            let (leave, tries) = (Arc::clone(&leave), Arc::clone(&tries));
            let (request, ask) = (request.clone(), ask.clone());
            std::thread::spawn(move || {
                for round in 0.. {
                    if leave.load(Ordering::Relaxed) {
                        break;
                    }
                    let answered = TcpStream::connect(("127.0.0.1", port))
                        .and_then(|mut stream| {
                            stream.write_all(request.as_bytes())?;
                            Ok(stream)
                        })
                        .map_err(|e| e.to_string())
                        .and_then(|mut stream| ask(&mut stream, nth + n * round));
                    let again = answered != Ok(200);
                    let mut tries = tries.lock().expect("no visitor panics");
                    match answered {
                        Ok(200) => tries.served += 1,
                        Ok(503) => tries.refused += 1,
                        Ok(status) => tries.failed.push(format!("status {status}")),
                        Err(why) => tries.failed.push(why),
                    }
                    drop(tries);
                    if again {
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
            })
        };
        let threads = (0..n).map(visit).collect();
        Visitors {
            leave,
            tries,
            threads,
        }
    }

    /// The results so far.
    pub fn tries(&self) -> Tries {
        self.tries.lock().expect("no visitor panics").clone()
    }

    /// Each visitor finishes their present try; then the results of all.
    pub fn leave(mut self) -> Tries {
        self.end();
        self.tries()
    }

    fn end(&mut self) {
        self.leave.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("no visitor panics");
        }
    }
}

impl Drop for Visitors {
    fn drop(&mut self) {
        self.leave.store(true, Ordering::Relaxed);
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// A refusal that does not come from mod_nap.
pub const NOT_OURS: &str = "a 503 that is not ours";

/// The status of a whole answer, or what was wrong with it.
fn judge(stream: &mut TcpStream) -> Result<u16, String> {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time-out above zero");
    let mut answer = Vec::new();
    if let Err(why) = stream.read_to_end(&mut answer) {
        return Err(format!("{why} after {} bytes", answer.len()));
    }
    let text = String::from_utf8_lossy(&answer);
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    match status {
        None => Err(format!("no answer: {:?}", text.lines().next())),
        Some(200) if !text.ends_with("counted\n") => Err("half an answer".into()),
        Some(503) if !head.contains("\r\nNap-Reason: ") => Err(NOT_OURS.into()),
        Some(status) => Ok(status),
    }
}
