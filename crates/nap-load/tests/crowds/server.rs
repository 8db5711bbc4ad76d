//! A server that answers one request after the other from a closure, and exists as long as the test. After a
//! refusal it closes the connection, as httpd does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as the server saw it.
pub struct Ask {
    pub peer: IpAddr,
    /// Method and target.
    pub line: String,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Ask {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn ticket_cookie(&self) -> Option<&str> {
        let cookies = self.header("cookie")?.split("; ");
        cookies
            .filter_map(|cookie| cookie.strip_prefix("nap-board="))
            .next()
    }
}

/// What the server does with a request.
pub enum Say {
    /// 200; the connection stays.
    Page { redeemed: bool },
    /// 200 and close without saying so.
    PageAndLeave,
    /// 503 with reason, token and window.
    Ticket(&'static str, String, [f64; 3]),
    /// The same with an HTML page that asks after, and returns after, this many milliseconds.
    TicketPage(String, [f64; 3], [u64; 2]),
    /// 200 with this JSON.
    Told(&'static str),
    /// 503 with this JSON.
    Json(String),
    /// 503 and nothing else.
    Plain,
    /// An error status.
    Status(u16),
    /// Close without an answer.
    HangUp,
    /// Never answer.
    Silence,
    /// Say it as this node.
    At(&'static str, Box<Say>),
    /// Say it, and the connection stays.
    Kept(Box<Say>),
}

/// Its address.
pub fn serve(script: impl FnMut(&Ask) -> Say + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!(
        "http://{}/board",
        listener.local_addr().expect("an address")
    );
    let script = Arc::new(Mutex::new(script));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = script.clone();
            std::thread::spawn(move || converse(stream, &script));
        }
    });
    url
}

fn converse(stream: TcpStream, script: &Mutex<impl FnMut(&Ask) -> Say>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let ask = read(&mut reader, stream.peer_addr().ok()?.ip())?;
        let (say, node) = match (script.lock().ok()?)(&ask) {
            Say::At(node, say) => (*say, format!("\r\nX-Node: {node}")),
            say => (say, String::new()),
        };
        let (say, kept) = match say {
            Say::Kept(say) => (*say, true),
            say => (say, false),
        };
        let (head, body, stay) = match say {
            Say::Page { redeemed: false } => ("200 OK".to_owned(), "done".to_owned(), true),
            Say::Page { redeemed: true } => {
                let head = "200 OK\r\nSet-Cookie: nap-board=; Max-Age=0; Path=/";
                (head.to_owned(), "done".to_owned(), true)
            }
            Say::PageAndLeave => ("200 OK".to_owned(), "done".to_owned(), false),
            Say::Ticket(reason, token, [from, prime, until]) => {
                let head = format!(
                    "503 Service Unavailable\r\nConnection: close\r\nRetry-After: 60\r\n\
                     Nap-Reason: {reason}\r\nNap-Ticket: {token}\r\n\
                     Nap-Ticket-Window: from={from:.3}, prime={prime:.3}, until={until:.3}\r\n\
                     Set-Cookie: nap-board={token}; Max-Age=360; HttpOnly; SameSite=Lax"
                );
                (head, "<p>busy</p>".to_owned(), false)
            }
            Say::TicketPage(token, [from, prime, until], [ask, back]) => {
                let head = format!(
                    "503 Service Unavailable\r\nConnection: close\r\nRetry-After: 60\r\n\
                     Content-Type: text/html; charset=utf-8\r\n\
                     Nap-Reason: full\r\nNap-Ticket: {token}\r\n\
                     Nap-Ticket-Window: from={from:.3}, prime={prime:.3}, until={until:.3}\r\n\
                     Set-Cookie: nap-board={token}; Max-Age=360; HttpOnly; SameSite=Lax"
                );
                let page = format!(
                    r#"<main id="nap" data-return-ms="{back}" data-ask-ms="{ask}" data-ask="/stands">"#
                );
                (head, page, false)
            }
            Say::Told(json) => {
                let head = "200 OK\r\nContent-Type: application/json";
                (head.to_owned(), json.to_owned(), true)
            }
            Say::Json(json) => {
                let head = "503 Service Unavailable\r\nConnection: close\r\n\
                            Content-Type: application/problem+json";
                (head.to_owned(), json, false)
            }
            Say::Plain => (
                "503 Service Unavailable\r\nConnection: close".to_owned(),
                String::new(),
                false,
            ),
            Say::Status(status) => (format!("{status} Whatever"), String::new(), true),
            Say::HangUp => return None,
            Say::At(..) | Say::Kept(_) => unreachable!("said once, in this order"),
            Say::Silence => {
                // The client closes first.
                let _ = reader.read(&mut [0]);
                return None;
            }
        };
        let head = match kept {
            true => head.replace("\r\nConnection: close", ""),
            false => head,
        };
        let answer = format!(
            "HTTP/1.1 {head}{node}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).ok()?;
        if !stay && !kept {
            return None;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>, peer: IpAddr) -> Option<Ask> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let line = lines.remove(0).strip_suffix(" HTTP/1.1")?.to_owned();
    let headers: Vec<_> = lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut ask = Ask {
        peer,
        line,
        headers,
        body: Vec::new(),
    };
    let length = ask
        .header("content-length")
        .map_or(0, |n| n.parse().expect("a length"));
    ask.body.resize(length, 0);
    reader.read_exact(&mut ask.body).ok()?;
    Some(ask)
}
