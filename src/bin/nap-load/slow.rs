//! Slow readers and senders: visitors with a long answer, or a long form, and a thin line, holding a
//! connection each.
//!
//! Raw sockets, a reader's with a small receive buffer, so that the server really feels the slowness. Each
//! begins anew when his answer is through, and after `--retry` when he was refused.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use mod_nap::micros::Micros;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::clock::span;
use crate::plan::Target;
use crate::wire::connect;

/// What the slow readers, or senders, saw, all together.
#[derive(Clone, Default, Serialize)]
pub struct SlowBook {
    pub visitors: u32,
    /// Readers that have had the head of an answer with a status below 400; senders who have sent a head.
    pub began: u32,
    pub bytes: u64,
    /// Answers read to their end.
    pub whole: u64,
    pub refused: u64,
    pub errors: u64,
}

/// Reads ten times a second.
const TICK: Duration = Duration::from_millis(100);
const RECEIVE_BUFFER: u32 = 16 << 10;
/// Bytes of a form that is sent slowly.
const FORM: usize = 1_000_000;

/// What a slow visitor does.
#[derive(Clone, Copy)]
pub enum Manner {
    /// Reads a long answer.
    Reads,
    /// Sends a form.
    Sends,
}

/// One visitor of `target`, at `rate` bytes a second, over and over until the run ends.
pub async fn come_slowly(
    manner: Manner,
    book: Rc<RefCell<SlowBook>>,
    target: Target,
    rate: u32,
    source: Option<Ipv4Addr>,
    retry: Micros,
) {
    let mut began = false;
    loop {
        let whole = match manner {
            Manner::Reads => read_once(&book, &target, source, rate, &mut began).await,
            Manner::Sends => send_once(&book, &target, source, rate, &mut began).await,
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

/// One form; false if it was refused.
async fn send_once(
    book: &RefCell<SlowBook>,
    target: &Target,
    source: Option<Ipv4Addr>,
    rate: u32,
    began: &mut bool,
) -> std::io::Result<bool> {
    let mut stream = connect(target.address, source, None).await?;
    let host = target.whole.authority();
    let host = host.map_or("", |authority| authority.as_str());
    let ask = format!(
        "POST {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: nap-load-slow\r\nConnection: close\r\n\
         Content-Length: {FORM}\r\n\r\n",
        target.uri(false)
    );
    stream.write_all(ask.as_bytes()).await?;
    if !std::mem::replace(began, true) {
        book.borrow_mut().began += 1;
    }
    let (mut answer, mut tick) = ([0; 64], tokio::time::interval(TICK));
    let (start, mut sent) = (tokio::time::Instant::now(), 0);
    loop {
        tokio::select! {
            n = stream.read(&mut answer) => {
                let n = n?;
                let status = answer[..n].get(9..12);
                return Ok(status.is_some_and(|status| status < b"400".as_slice()));
            }
            _ = tick.tick() => {}
        }
        let due = f64::from(rate) * (start.elapsed() + TICK).as_secs_f64();
        let part = (due as usize).min(FORM).saturating_sub(sent);
        stream.write_all(&vec![b'a'; part]).await?;
        sent += part;
        book.borrow_mut().bytes += part as u64;
    }
}

/// Wait until every reader has begun, or `patience` is over.
pub async fn all_begun(book: &RefCell<SlowBook>, patience: Micros) {
    let deadline = tokio::time::Instant::now() + span(patience);
    while tokio::time::Instant::now() < deadline {
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
    let host = target
        .whole
        .authority()
        .map_or("", |authority| authority.as_str());
    let ask = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: nap-load-slow\r\nConnection: close\r\n\r\n",
        target.uri(false)
    );
    stream.write_all(ask.as_bytes()).await?;
    let mut buffer = vec![0; RECEIVE_BUFFER as usize];
    let mut tick = tokio::time::interval(TICK);
    let (start, mut got) = (tokio::time::Instant::now(), 0);
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
        if !std::mem::replace(began, true) {
            book.borrow_mut().began += 1;
        }
        if n == 0 {
            return Ok(true);
        }
    }
}
