//! A client with its own loopback address that asks for one path by a script, and records the results with
//! their times.

use super::{Httpd, exchange};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Try {
    /// When it was sent, in seconds since the robot began.
    pub sent: f64,
    /// When its answer arrived: the server decided between the two times.
    pub answered: f64,
    /// The status was 200.
    pub passed: bool,
    /// Bytes of the answer, headers included.
    pub bytes: f64,
    /// Retry-After, seconds.
    pub told: Option<f64>,
}

/// The robot, on one connection that is kept alive; on another one once the server has closed that.
pub struct Robot {
    stream: TcpStream,
    port: u16,
    /// It is 127.0.0.`n`.
    n: u8,
    path: String,
    begun: Instant,
    /// What came of each request, in order.
    pub tries: Vec<Try>,
}

impl Robot {
    /// From 127.0.0.`n`.
    pub fn new(httpd: &Httpd, n: u8, path: &str) -> Robot {
        Robot::at(httpd.port(), n, path)
    }

    /// The same, to the server that listens at this port.
    pub fn at(port: u16, n: u8, path: &str) -> Robot {
        Robot {
            stream: connect(port, n),
            port,
            n,
            path: path.to_string(),
            begun: Instant::now(),
            tries: Vec::new(),
        }
    }

    /// Asks this many times, one after the other and as fast as answers come.
    pub fn burst(&mut self, n: usize) {
        for _ in 0..n {
            self.ask();
        }
    }

    /// Asks at most `per_s` times a second, for this many seconds.
    pub fn steadily(&mut self, per_s: f64, seconds: f64) {
        let end = self.now() + seconds;
        while self.now() < end {
            let sent = self.ask();
            self.be_silent_until(sent + 1.0 / per_s);
        }
    }

    /// Does nothing for this many seconds.
    pub fn be_silent(&self, seconds: f64) {
        self.be_silent_until(self.now() + seconds);
    }

    fn be_silent_until(&self, at: f64) {
        let left = at - self.now();
        std::thread::sleep(Duration::from_secs_f64(left.max(0.0)));
    }

    fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn is_closed(&self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket");
        let closed = matches!(self.stream.peek(&mut [0]), Ok(0));
        self.stream.set_nonblocking(false).expect("a socket");
        closed
    }

    fn ask(&mut self) -> f64 {
        if self.is_closed() {
            self.stream = connect(self.port, self.n);
        }
        let sent = self.now();
        let answer = exchange(&mut self.stream, &self.path, "");
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap_or(0);
        assert!(status == 200 || status == 429, "{status}");
        self.tries.push(Try {
            sent,
            answered: self.now(),
            passed: status == 200,
            bytes: answer.len() as f64,
            told: retry_after(&answer),
        });
        sent
    }
}

fn connect(port: u16, n: u8) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket
            .bind(([127, 0, 0, n], 0).into())
            .expect("the loopback has all of 127.0.0.0/8");
        let to = ([127, 0, 0, 1], port).into();
        socket.connect(to).await.expect("somebody listens")
    });
    let stream = stream.into_std().expect("a socket");
    stream.set_nonblocking(false).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("above zero");
    stream
}

fn retry_after(answer: &[u8]) -> Option<f64> {
    let answer = String::from_utf8_lossy(answer);
    let (headers, _) = answer.split_once("\r\n\r\n")?;
    let told = headers
        .lines()
        .find_map(|line| line.strip_prefix("Retry-After: "));
    told.map(|told| told.parse().expect("whole seconds"))
}
