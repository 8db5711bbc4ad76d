//! A FastCGI responder in threads of the test: reads a request, or its beginning, then answers or hangs up.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// A responder on a port of its own.
pub struct Responder {
    port: u16,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Responder {
    /// Answers this to every request, head and body as of a CGI program; None: it hangs up.
    pub fn start(answer: Option<&'static str>) -> Responder {
        Responder::answering(answer, usize::MAX)
    }

    /// The same as soon as it has read this many bytes of a body.
    pub fn early(answer: &'static str, read: usize) -> Responder {
        Responder::answering(Some(answer), read)
    }

    fn answering(answer: Option<&'static str>, enough: usize) -> Responder {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let responder = Responder {
            port: listener.local_addr().expect("bound").port(),
            bodies: Arc::default(),
        };
        let bodies = Arc::clone(&responder.bodies);
        std::thread::spawn(move || {
            // Unread bytes must not reset the connection before the answer has been read.
            let mut unread = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let Ok(body) = read_request(&mut stream, enough) else {
                    continue;
                };
                bodies.lock().expect("no panic").push(body);
                if let Some(answer) = answer {
                    let _ = say(&mut stream, answer);
                }
                if enough < usize::MAX {
                    unread.push(stream);
                }
            }
        });
        responder
    }

    /// `fcgi://127.0.0.1:PORT`, for ProxyPass.
    pub fn url(&self) -> String {
        format!("fcgi://127.0.0.1:{}", self.port)
    }

    /// The bodies of all requests that arrived complete, in their order.
    pub fn bodies(&self) -> Vec<Vec<u8>> {
        self.bodies.lock().expect("no panic").clone()
    }
}

fn read_request(stream: &mut TcpStream, enough: usize) -> io::Result<Vec<u8>> {
    let (mut body, mut head) = (Vec::new(), [0; 8]);
    while body.len() < enough {
        stream.read_exact(&mut head)?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        stream.read_exact(&mut content)?;
        match (head[1], length) {
            (STDIN, 0) => return Ok(body),
            (STDIN, _) => body.extend_from_slice(&content[..length]),
            _ => {}
        }
    }
    Ok(body)
}

fn say(stream: &mut TcpStream, answer: &str) -> io::Result<()> {
    for (kind, content) in [
        (STDOUT, answer.as_bytes()),
        (STDOUT, &[]),
        (END_REQUEST, &[0; 8]),
    ] {
        let [high, low] = (content.len() as u16).to_be_bytes();
        stream.write_all(&[1, kind, 0, 1, high, low, 0, 0])?;
        stream.write_all(content)?;
    }
    Ok(())
}
