//! Slow readers and senders: visitors with a long answer or form and a narrow link, who hold a connection
//! each.
//!
//! Raw sockets, a reader's with a small receive buffer, so that the server really feels the slowness. Each
//! visitor starts again when the answer is complete, and after `--retry` when refused.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future as _;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use clap::ValueEnum;
use hyper::body::{Body, Bytes, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nap_core::micros::Micros;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, Sleep};

use crate::clock::span;
use crate::plan::Target;
use crate::wire::connect;

/// What all slow readers, or senders, saw together.
#[derive(Clone, Default, Serialize)]
pub struct SlowBook {
    pub visitors: u32,
    /// Readers that received an answer's head with a status below 400; senders that sent a head.
    pub began: u32,
    pub bytes: u64,
    /// Answers read to their end.
    pub whole: u64,
    pub refused: u64,
    pub errors: u64,
}

/// Time between two reads.
const TICK: Duration = Duration::from_millis(100);
const RECEIVE_BUFFER: u32 = 16 << 10;
/// Bytes sent at once, before the silence.
const BURST: usize = 10_000;

/// What a slow visitor does.
#[derive(Clone, Copy)]
pub enum SlowManner {
    /// Reads a long answer.
    Reads,
    /// Sends a form.
    Sends(Form),
}

/// A form that is sent slowly.
#[derive(Clone, Copy)]
pub struct Form {
    pub way: Way,
    /// Its length in bytes.
    pub bytes: usize,
}

/// How a form is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// At the rate.
    Steady,
    /// A byte a second.
    Trickle,
    /// 10,000 bytes at once, and then no more.
    Burst,
    /// At the rate, in chunks, without a length.
    Chunked,
    /// At the rate, over HTTP/2 with prior knowledge.
    H2,
}

impl Form {
    /// Bytes that should have been sent by now, at `rate` a second.
    fn due(self, rate: u32, since: Duration) -> usize {
        let due = match self.way {
            Way::Burst => BURST,
            Way::Trickle => 1 + since.as_secs() as usize,
            Way::Steady | Way::Chunked | Way::H2 => {
                (f64::from(rate) * (since + TICK).as_secs_f64()) as usize
            }
        };
        due.min(self.bytes)
    }
}

/// One visitor of `target`, at `rate` bytes a second, again and again until the run ends.
pub async fn come_slowly(
    manner: SlowManner,
    book: Rc<RefCell<SlowBook>>,
    target: Target,
    rate: u32,
    source: Option<Ipv4Addr>,
    retry: Micros,
) {
    let mut began = false;
    loop {
        let whole = match manner {
            SlowManner::Reads => read_once(&book, &target, source, rate, &mut began).await,
            SlowManner::Sends(form) if form.way == Way::H2 => {
                send_stream(&book, &target, source, rate, form, &mut began).await
            }
            SlowManner::Sends(form) => {
                send_once(&book, &target, source, rate, form, &mut began).await
            }
        };
        match whole {
            Ok(true) => {
                book.borrow_mut().whole += 1;
                continue;
            }
            Ok(false) => book.borrow_mut().refused += 1,
            Err(_) => book.borrow_mut().errors += 1,
        }
        tokio::time::sleep(span(retry)).await;
    }
}

/// One form over HTTP/1; false if it was refused.
async fn send_once(
    book: &RefCell<SlowBook>,
    target: &Target,
    source: Option<Ipv4Addr>,
    rate: u32,
    form: Form,
    began: &mut bool,
) -> std::io::Result<bool> {
    let mut stream = connect(target.address, source, None).await?;
    let is_chunked = form.way == Way::Chunked;
    let length = match is_chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {}", form.bytes),
    };
    let ask = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: nap-load-slow\r\nConnection: close\r\n{length}\r\n\r\n",
        target.uri(false),
        authority(target)
    );
    stream.write_all(ask.as_bytes()).await?;
    note_begin(book, began);
    let (mut answer, mut tick) = ([0; 64], tokio::time::interval(TICK));
    let (start, mut sent) = (Instant::now(), 0);
    loop {
        tokio::select! {
            n = stream.read(&mut answer) => {
                let n = n?;
                let status = answer[..n].get(9..12);
                return Ok(status.is_some_and(|status| status < b"400".as_slice()));
            }
            _ = tick.tick() => {}
        }
        let part = form.due(rate, start.elapsed()) - sent;
        if part == 0 {
            continue;
        }
        sent += part;
        let mut piece = vec![b'a'; part];
        if is_chunked {
            let end = if sent == form.bytes { "0\r\n\r\n" } else { "" };
            piece = [
                format!("{part:x}\r\n").as_bytes(),
                &piece,
                b"\r\n",
                end.as_bytes(),
            ]
            .concat();
        }
        stream.write_all(&piece).await?;
        book.borrow_mut().bytes += part as u64;
    }
}

fn authority(target: &Target) -> &str {
    let authority = target.whole.authority();
    authority.map_or("", |authority| authority.as_str())
}

fn note_begin(book: &RefCell<SlowBook>, began: &mut bool) {
    if !std::mem::replace(began, true) {
        book.borrow_mut().began += 1;
    }
}

/// One form on a stream of HTTP/2; false if it was refused.
async fn send_stream(
    book: &Rc<RefCell<SlowBook>>,
    target: &Target,
    source: Option<Ipv4Addr>,
    rate: u32,
    form: Form,
    began: &mut bool,
) -> std::io::Result<bool> {
    let stream = connect(target.address, source, None).await?;
    let opened = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = opened.await.map_err(std::io::Error::other)?;
    let driver = tokio::spawn(connection);
    let url = format!("http://{}{}", authority(target), target.uri(false));
    let body = SlowBody {
        form,
        rate,
        start: Instant::now(),
        sent: 0,
        tick: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    let ask = hyper::Request::post(url)
        .header("content-length", form.bytes)
        .body(body);
    note_begin(book, began);
    let answer = sender
        .send_request(ask.map_err(std::io::Error::other)?)
        .await;
    driver.abort();
    Ok(answer.map_err(std::io::Error::other)?.status().as_u16() < 400)
}

/// A form whose bytes become due gradually.
struct SlowBody {
    form: Form,
    rate: u32,
    start: Instant,
    sent: usize,
    tick: Pin<Box<Sleep>>,
}

impl Body for SlowBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.sent == self.form.bytes {
            return Poll::Ready(None);
        }
        while self.tick.as_mut().poll(cx).is_ready() {
            let part = self.form.due(self.rate, self.start.elapsed()) - self.sent;
            self.tick = Box::pin(tokio::time::sleep(TICK));
            if part > 0 {
                self.sent += part;
                return Poll::Ready(Some(Ok(Frame::data(vec![b'a'; part].into()))));
            }
        }
        Poll::Pending
    }
}

/// Wait until every reader has begun, or `patience` is over.
pub async fn all_begun(book: &RefCell<SlowBook>, patience: Micros) {
    let deadline = Instant::now() + span(patience);
    while Instant::now() < deadline {
        if book.borrow().began == book.borrow().visitors {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One answer; false if it was a refusal.
async fn read_once(
    book: &RefCell<SlowBook>,
    target: &Target,
    source: Option<Ipv4Addr>,
    rate: u32,
    began: &mut bool,
) -> std::io::Result<bool> {
    let mut stream = connect(target.address, source, Some(RECEIVE_BUFFER)).await?;
    let ask = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: nap-load-slow\r\nConnection: close\r\n\r\n",
        target.uri(false),
        authority(target)
    );
    stream.write_all(ask.as_bytes()).await?;
    let mut buffer = vec![0; RECEIVE_BUFFER as usize];
    let mut tick = tokio::time::interval(TICK);
    let (start, mut got) = (Instant::now(), 0);
    let mut is_head = true;
    loop {
        // What is due by now; a tenth of a second's share at first, so that the head fits.
        let due = f64::from(rate) * (start.elapsed() + TICK).as_secs_f64();
        let room = (due as usize).saturating_sub(got).min(buffer.len());
        if room == 0 {
            tick.tick().await;
            continue;
        }
        let n = stream.read(&mut buffer[..room]).await?;
        got += n;
        book.borrow_mut().bytes += n as u64;
        // The status line comes in one piece: it is the first thing the server sends.
        let status = buffer[..n].get(9..12);
        if is_head && status.is_none_or(|status| status >= b"400".as_slice()) {
            return Ok(false);
        }
        is_head = false;
        note_begin(book, began);
        if n == 0 {
            return Ok(true);
        }
    }
}
