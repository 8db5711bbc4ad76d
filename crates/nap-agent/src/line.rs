//! [`Line`]: the connection to a server that speaks the Redis protocol.
//!
//! `redis` writes commands and reads answers; the socket is ours. So a whole exchange has one time limit: the
//! crate's own connection limits each read, and a server that sends a byte now and then would hold it for ever. And
//! each error keeps the server's own words.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nap_core::fleet::address::Host;
use nap_core::fleet::trouble::Trouble;
use redis::{FromRedisValue, Parser, Pipeline, Value};
use rustls::ClientConnection;

/// For a connection, and for an exchange on it.
pub const PATIENCE: Duration = Duration::from_millis(200);
/// For the first exchange under TLS: it begins with two round trips and some arithmetic.
const HANDSHAKE: Duration = Duration::from_millis(600);
/// Bytes of one exchange's answers: 255 nodes need a tenth of it.
const MOST: usize = 4 << 20;
/// Bytes of somebody else's words in our log.
const WORDS: usize = 200;

/// Why the store could not be used, with the system's or its own words for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it is for us.
    pub trouble: Trouble,
    /// What was said.
    pub words: String,
}

impl Failure {
    /// With words of ours or others'; what could disturb a log is taken out.
    pub fn new(trouble: Trouble, words: impl std::fmt::Display) -> Failure {
        Failure {
            trouble,
            words: shown(&words.to_string(), WORDS),
        }
    }

    fn of_io(error: &io::Error) -> Failure {
        use io::ErrorKind as Kind;
        let source = error.get_ref();
        if let Some(error) = source.and_then(|error| error.downcast_ref::<rustls::Error>()) {
            return Failure::new(Trouble::Tls, error);
        }
        let trouble = match error.kind() {
            // A socket's file that is not there.
            Kind::ConnectionRefused | Kind::NotFound => Trouble::Refused,
            Kind::TimedOut | Kind::WouldBlock => {
                return Failure::new(Trouble::Silent, "no answer in time");
            }
            Kind::UnexpectedEof | Kind::BrokenPipe => {
                return Failure::new(Trouble::Closed, "it closed the connection");
            }
            Kind::ConnectionReset | Kind::ConnectionAborted | Kind::NotConnected => Trouble::Closed,
            Kind::InvalidData => Trouble::Garbage,
            _ => Trouble::NoRoute,
        };
        // Without "(os error 111)".
        let text = error.to_string();
        let words = text.split(" (os error").next().unwrap_or_default();
        Failure::new(trouble, words)
    }

    /// What the store said, from the error's first word on. Older ones put a script's error behind words of their
    /// own.
    pub fn said(words: &str) -> Failure {
        const KNOWN: [(&str, Trouble); 20] = [
            ("NOAUTH", Trouble::Password),
            ("WRONGPASS", Trouble::Password),
            ("without any password", Trouble::Password),
            ("NOPERM", Trouble::Rights),
            ("ACL failure", Trouble::Rights),
            ("can't run this command", Trouble::Rights),
            ("DENIED", Trouble::Rights),
            ("unknown command", Trouble::Rights),
            ("READONLY", Trouble::ReadOnly),
            ("NOREPLICAS", Trouble::ReadOnly),
            ("LOADING", Trouble::Loading),
            ("MASTERDOWN", Trouble::Loading),
            ("BUSY", Trouble::Loading),
            ("CLUSTERDOWN", Trouble::Loading),
            ("OOM", Trouble::Full),
            ("MISCONF", Trouble::Full),
            ("WRONGTYPE", Trouble::OtherKeys),
            ("max number of clients", Trouble::Closed),
            ("DB index", Trouble::NoRoute),
            ("MOVED", Trouble::NoRoute),
        ];
        let found = KNOWN.iter().find(|(part, _)| words.contains(part));
        let trouble = found.map_or(Trouble::Garbage, |(_, trouble)| *trouble);
        Failure::new(trouble, words)
    }
}

/// The front of somebody else's text, without what could disturb a log.
pub fn shown(text: &str, most: usize) -> String {
    let plain = text.chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(most).collect()
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection on which one exchange is under way at a time. After a failure it is of no use any more.
pub struct Line {
    socket: Limited,
    /// Under TLS.
    session: Option<Box<ClientConnection>>,
    parser: Parser,
}

/// Reads and writes until a moment, and so many bytes.
struct Limited {
    socket: Socket,
    until: Instant,
    left: usize,
}

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

/// Keeps why a read came to nothing: the parser has only words for it.
struct Noted<'a> {
    from: &'a mut dyn Both,
    failed: Option<Failure>,
}

impl Line {
    /// To a host, all of its addresses one after the other.
    pub fn tcp(host: &Host) -> Result<Line, Failure> {
        let addresses = (host.name.as_str(), host.port).to_socket_addrs();
        let addresses = addresses.map_err(|error| Failure::new(Trouble::NoRoute, error))?;
        let mut failed = Failure::new(Trouble::NoRoute, "it has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(socket) => {
                    // Else a beat would wait for the acknowledgement of what went before.
                    let set = socket.set_nodelay(true);
                    set.map_err(|error| Failure::of_io(&error))?;
                    return Ok(Line::over(Socket::Tcp(socket)));
                }
                Err(error) => failed = Failure::of_io(&error),
            }
        }
        Err(failed)
    }

    /// To a socket of this machine.
    pub fn unix(path: &str) -> Result<Line, Failure> {
        match UnixStream::connect(path) {
            Ok(socket) => Ok(Line::over(Socket::Unix(socket))),
            Err(error) => Err(Failure::of_io(&error)),
        }
    }

    fn over(socket: Socket) -> Line {
        Line {
            socket: Limited {
                socket,
                until: Instant::now(),
                left: 0,
            },
            session: None,
            parser: Parser::new(),
        }
    }

    /// The same under TLS; it begins with the first exchange.
    pub fn under(self, session: ClientConnection) -> Line {
        Line {
            session: Some(Box::new(session)),
            ..self
        }
    }

    /// Says all of it, and hears an answer to each command: what it failed in is among the answers.
    pub fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let begins = |session: &ClientConnection| session.is_handshaking();
        let patience = match self.session.as_deref().is_some_and(begins) {
            true => HANDSHAKE,
            false => PATIENCE,
        };
        self.socket.until = Instant::now() + patience;
        self.socket.left = MOST;
        let mut sealed;
        let stream: &mut dyn Both = match &mut self.session {
            Some(session) => {
                sealed = rustls::Stream::new(&mut **session, &mut self.socket);
                &mut sealed
            }
            None => &mut self.socket,
        };
        let said = stream.write_all(&commands.get_packed_pipeline());
        let said = said.and_then(|()| stream.flush());
        said.map_err(|error| Failure::of_io(&error))?;
        let mut from = Noted {
            from: stream,
            failed: None,
        };
        let answers = (0..commands.len()).map(|_| self.parser.parse_value(&mut from));
        let answers: Result<_, _> = answers.collect();
        answers.map_err(|_| {
            let words = "its answer is not in the Redis protocol";
            let strange = || Failure::new(Trouble::Garbage, words);
            from.failed.unwrap_or_else(strange)
        })
    }
}

impl Read for Noted<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to);
        match &read {
            Ok(0) => self.failed = Some(Failure::of_io(&io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) => self.failed = Some(Failure::of_io(error)),
        }
        read
    }
}

impl Limited {
    fn remaining(&self) -> io::Result<Duration> {
        let remaining = self.until.saturating_duration_since(Instant::now());
        match remaining.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(remaining),
        }
    }
}

impl Read for Limited {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let remaining = Some(self.remaining()?);
        let read = match &mut self.socket {
            Socket::Tcp(socket) => {
                socket.set_read_timeout(remaining)?;
                socket.read(to)?
            }
            Socket::Unix(socket) => {
                socket.set_read_timeout(remaining)?;
                socket.read(to)?
            }
        };
        let endless = || io::Error::new(io::ErrorKind::InvalidData, "its answer has no end");
        self.left = self.left.checked_sub(read).ok_or_else(endless)?;
        Ok(read)
    }
}

impl Write for Limited {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let remaining = Some(self.remaining()?);
        match &mut self.socket {
            Socket::Tcp(socket) => {
                socket.set_write_timeout(remaining)?;
                socket.write(from)
            }
            Socket::Unix(socket) => {
                socket.set_write_timeout(remaining)?;
                socket.write(from)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer of this form.
pub fn read<T: FromRedisValue>(value: Value) -> Result<T, Failure> {
    let strange = |_| Failure::new(Trouble::Garbage, "its answer is of another kind");
    T::from_redis_value(value).map_err(strange)
}

/// An answer as it was meant, or why the server gave none.
pub fn good(answer: Value) -> Result<Value, Failure> {
    match answer {
        Value::ServerError(error) => {
            let code = error.code();
            let words = match error.details() {
                Some(details) => format!("{code} {details}"),
                None => code.to_string(),
            };
            Err(Failure::said(&words))
        }
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_store_is_known_by_its_words() {
        let cases = [
            ("NOAUTH Authentication required.", Trouble::Password),
            (
                "WRONGPASS invalid username-password pair",
                Trouble::Password,
            ),
            (
                "ERR AUTH <password> called without any password configured for the default user.",
                Trouble::Password,
            ),
            (
                "NOPERM this user has no permissions to run the 'evalsha' command",
                Trouble::Rights,
            ),
            (
                "READONLY You can't write against a read only replica.",
                Trouble::ReadOnly,
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                Trouble::Loading,
            ),
            ("MASTERDOWN Link with MASTER is down", Trouble::Loading),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Trouble::Full,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:9: WRONGTYPE Operation \
                 against a key holding the wrong kind of value",
                Trouble::OtherKeys,
            ),
            ("ERR DB index is out of range", Trouble::NoRoute),
            ("ERR something new", Trouble::Garbage),
        ];
        for (words, trouble) in cases {
            assert_eq!(Failure::said(words), Failure::new(trouble, words));
        }
    }

    #[test]
    fn words_of_others_do_not_break_a_line_of_the_log() {
        assert_eq!(shown("a\nb\u{1b}[0m", 9), "a?b?[0m");
        assert_eq!(shown("abcdef", 3), "abc");
    }
}
