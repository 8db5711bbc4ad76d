//! HTTP/2 without TLS and without a first request of HTTP/1: one connection, many streams.

use super::{Answer, Httpd};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::TcpStream;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

const PATIENCE: Duration = Duration::from_secs(60);

/// A connection on a thread of its own; closed when this is dropped.
pub struct Http2 {
    requests: mpsc::UnboundedSender<Asked>,
}

struct Asked {
    path: String,
    cookie: String,
    /// Empty: a GET, otherwise a POST of these bytes.
    sent: Vec<u8>,
    /// The body is left unread.
    unread: bool,
    reply: oneshot::Sender<Answer>,
}

/// A request under way; if dropped, its stream is reset and the connection stays open.
pub struct Stream(oneshot::Receiver<Answer>);

impl Http2 {
    /// One connection to this server.
    pub fn open(httpd: &Httpd) -> Http2 {
        let (requests, mut asked) = mpsc::unbounded_channel::<Asked>();
        let port = httpd.port();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let sender = connect(port).await;
                while let Some(asked) = asked.recv().await {
                    tokio::spawn(run(sender.clone(), port, asked));
                }
            });
        });
        Http2 { requests }
    }

    /// Sends a request on a stream of its own.
    pub fn ask(&self, path: &str) -> Stream {
        self.ask_with(path, "")
    }

    /// The same with this cookie.
    pub fn ask_with(&self, path: &str, cookie: &str) -> Stream {
        self.send(path, cookie, Vec::new(), false)
    }

    /// The same, but the answer's body is not read: no more comes than fits the stream's window.
    pub fn ask_unread(&self, path: &str) -> Stream {
        self.send(path, "", Vec::new(), true)
    }

    /// Sends this body.
    pub fn post(&self, path: &str, sent: Vec<u8>) -> Answer {
        self.send(path, "", sent, false).answer()
    }

    fn send(&self, path: &str, cookie: &str, sent: Vec<u8>, unread: bool) -> Stream {
        let (reply, answer) = oneshot::channel();
        let asked = self.requests.send(Asked {
            path: path.to_string(),
            cookie: cookie.to_string(),
            sent,
            unread,
            reply,
        });
        asked.expect("the connection is open");
        Stream(answer)
    }

    /// GET, answered completely.
    pub fn get(&self, path: &str) -> Answer {
        self.ask(path).answer()
    }
}

impl Stream {
    /// Waits for the whole answer.
    pub fn answer(self) -> Answer {
        self.0.blocking_recv().expect("an answer, in time")
    }
}

async fn connect(port: u16) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("httpd listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_nonblocking(true).expect("a socket");
    let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
    let opened = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = opened.expect("httpd speaks HTTP/2");
    tokio::spawn(connection);
    sender
}

async fn run(mut sender: SendRequest<Full<Bytes>>, port: u16, asked: Asked) {
    let Asked {
        path,
        cookie,
        sent,
        unread,
        mut reply,
    } = asked;
    let answer = async {
        let url = format!("http://127.0.0.1:{port}{path}");
        let mut request = match sent.is_empty() {
            true => hyper::Request::get(url),
            false => hyper::Request::post(url),
        };
        if !cookie.is_empty() {
            request = request.header("cookie", cookie);
        }
        let request = request
            .body(Full::new(sent.into()))
            .expect("a well-formed request");
        let (head, body) = sender.send_request(request).await.ok()?.into_parts();
        if unread {
            std::future::pending::<()>().await;
        }
        let headers = head.headers.iter();
        Some(Answer {
            status: head.status.as_u16(),
            headers: headers
                .map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into()))
                .collect(),
            body: body.collect().await.ok()?.to_bytes().to_vec(),
        })
    };
    let answer = tokio::select! {
        answer = tokio::time::timeout(PATIENCE, answer) => answer.ok().flatten(),
        () = reply.closed() => None,
    };
    if let Some(answer) = answer {
        // Nobody may be waiting for it any more.
        let _ = reply.send(answer);
    }
}
