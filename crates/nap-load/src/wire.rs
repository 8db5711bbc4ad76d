//! [`Wire`]: one visitor's connection. Opened when needed, kept while the server keeps it.
//!
//! hyper drives the protocol in a task of its own. Dropping a [`Link`] ends that task and closes the socket
//! at once, which is how a try is given up. When the server closes a kept connection without any answer, the
//! request is sent again on a new one, once, as browsers do (RFC 9110, 9.2.2). If the close came late, the
//! server may have died handling it: that is counted separately.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::AbortHandle;

use crate::plan::Route;
use crate::ticket::is_refusal;

/// What came back.
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// When the answer's head arrived: the window's times count from its sending.
    pub heard: Instant,
    /// The body, if it is JSON.
    pub json: Option<Vec<u8>>,
    /// The body of a refusal, if it is HTML: the ticket page.
    pub html: Option<Vec<u8>>,
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nobody listens there.
    Refused,
    /// The connection could not be made for another reason.
    Connect,
    /// The server reset the connection.
    Reset,
    /// The server closed the connection before its answer was whole.
    Closed,
    /// No answer in time.
    Timeout,
    /// Not HTTP, or a fault of our own.
    Protocol,
}

impl Fault {
    pub fn name(self) -> &'static str {
        [
            "connection refused",
            "connect",
            "reset",
            "closed",
            "timeout",
            "protocol",
        ][self as usize]
    }
}

/// A visitor's connection and what was seen of it.
pub struct Wire {
    link: Option<Link>,
    source: Option<Ipv4Addr>,
    /// Connections opened.
    pub opened: u64,
    /// Requests sent again because a kept connection turned out to be closed.
    pub resent: u64,
    /// Those of them that had been out for a while.
    pub resent_late: u64,
    /// When the last request was sent again, if it was.
    pub sent_again: Option<Instant>,
}

/// Until this long after sending, a close may simply have crossed the request on its way.
const CROSSED: Duration = Duration::from_millis(50);
/// No more of a refusal than this is read into memory.
const BODY_LIMIT: usize = 64 << 10;

impl Wire {
    /// Not connected yet; connections will come from `source`.
    pub fn new(source: Option<Ipv4Addr>) -> Self {
        Wire {
            link: None,
            source,
            opened: 0,
            resent: 0,
            resent_late: 0,
            sent_again: None,
        }
    }

    /// Send a request, read the whole answer.
    pub async fn exchange(
        &mut self,
        route: &Route,
        request: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Reply, Fault> {
        self.sent_again = None;
        loop {
            // The link is out of `self` while in use: if given up midway, it is gone.
            let kept = match self.link.take() {
                Some(mut link) => link.ready().await.then_some(link),
                None => None,
            };
            let reused = kept.is_some();
            let mut link = match kept {
                Some(link) => link,
                None => self.open(route).await?,
            };
            let sent = Instant::now();
            let failure = match link.send(request()).await {
                Ok(response) => match read(response).await {
                    Ok(reply) => {
                        self.link = route.keepalive.then_some(link);
                        return Ok(reply);
                    }
                    Err(error) => return Err(fault(&error)),
                },
                Err(error) => error,
            };
            let fault = fault(&failure);
            if !(reused && matches!(fault, Fault::Closed | Fault::Reset)) {
                return Err(fault);
            }
            self.resent += 1;
            self.resent_late += u64::from(sent.elapsed() > CROSSED);
            self.sent_again = Some(Instant::now());
        }
    }

    async fn open(&mut self, route: &Route) -> Result<Link, Fault> {
        let stream = connect(route.address, self.source, None)
            .await
            .map_err(|e| connect_fault(&e))?;
        self.opened += 1;
        Link::over(stream, route.h2c).await.map_err(|e| fault(&e))
    }
}

/// A TCP connection to `address` from `source`, its receive buffer limited if asked for.
pub async fn connect(
    address: SocketAddr,
    source: Option<Ipv4Addr>,
    receive_buffer: Option<u32>,
) -> io::Result<TcpStream> {
    let socket = match address.is_ipv4() {
        true => TcpSocket::new_v4()?,
        false => TcpSocket::new_v6()?,
    };
    if let Some(size) = receive_buffer {
        socket.set_recv_buffer_size(size)?;
    }
    if let Some(source) = source {
        socket.bind((source, 0).into())?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

struct Link {
    sender: Sender,
    driver: AbortHandle,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Link {
    async fn over(stream: TcpStream, h2c: bool) -> hyper::Result<Self> {
        let io = TokioIo::new(stream);
        if h2c {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            let driver = tokio::task::spawn_local(connection).abort_handle();
            return Ok(Link {
                sender: Sender::Http2(sender),
                driver,
            });
        }
        let (sender, connection) = http1::handshake(io).await?;
        let driver = tokio::task::spawn_local(connection).abort_handle();
        Ok(Link {
            sender: Sender::Http1(sender),
            driver,
        })
    }

    /// Whether it is still good for a request, as far as can be known here.
    async fn ready(&mut self) -> bool {
        // Let the driver notice a close that has already arrived.
        tokio::task::yield_now().await;
        match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => sender.send_request(request).await,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn read(response: Response<Incoming>) -> hyper::Result<Reply> {
    let heard = Instant::now();
    let (head, mut body) = response.into_parts();
    let status = head.status.as_u16();
    let kind = head
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let is = |what| kind.is_some_and(|kind| kind.contains(what));
    let (is_json, is_page) = (
        is("json"),
        is("text/html") && is_refusal(status, &head.headers),
    );
    let mut text = (is_json || is_page).then(Vec::new);
    while let Some(frame) = body.frame().await {
        if let (Some(text), Ok(data)) = (&mut text, frame?.into_data())
            && text.len() + data.len() <= BODY_LIMIT
        {
            text.extend_from_slice(&data);
        }
    }
    let (json, html) = match is_json {
        true => (text, None),
        false => (None, text),
    };
    Ok(Reply {
        status,
        headers: head.headers,
        heard,
        json,
        html,
    })
}

fn connect_fault(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Fault::Refused,
        io::ErrorKind::ConnectionReset => Fault::Reset,
        _ => Fault::Connect,
    }
}

fn fault(error: &hyper::Error) -> Fault {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            return match io.kind() {
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Fault::Reset,
                _ => Fault::Closed,
            };
        }
        source = cause.source();
    }
    match error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        true => Fault::Closed,
        false => Fault::Protocol,
    }
}
