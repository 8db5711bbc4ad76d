//! [`Address`]: where the store is (`NapStore`).
//!
//! ```text
//!   redis://host[:port][/db]           rediss://host[:port][/db]      TLS
//!   redis+unix:///path/of/the/socket   redis+sentinel://a[:port],b,c/name[/db]
//! ```
//! An IPv6 address is in brackets. Secrets are in no address: the configuration is read by more people than the
//! file of `NapStoreAuth`.

/// Where Valkey and Redis listen.
pub const PORT: u16 = 6379;
/// Where their Sentinels do.
pub const SENTINEL_PORT: u16 = 26379;

/// A host and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// A name or an address, without brackets.
    pub name: String,
    /// Its TCP port.
    pub port: u16,
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Host { name, port } = self;
        match name.contains(':') {
            true => write!(f, "[{name}]:{port}"),
            false => write!(f, "{name}:{port}"),
        }
    }
}

/// How the store is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// At one host.
    Tcp {
        /// Which.
        host: Host,
        /// `rediss://`.
        tls: bool,
    },
    /// By a socket of this machine.
    Unix {
        /// Its path.
        path: String,
    },
    /// At the host that Sentinels name.
    Sentinel {
        /// Where they are.
        sentinels: Vec<Host>,
        /// What they call the primary.
        name: String,
    },
}

/// Where the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// How it is reached.
    pub way: Way,
    /// Number of the database there.
    pub db: u32,
}

/// Why a text is no [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It has none of the forms.
    Form,
    /// It has a user or a password in it.
    Secret,
}

impl Address {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Address, Wrong> {
        if text.contains('@') {
            return Err(Wrong::Secret);
        }
        let (scheme, rest) = text.split_once("://").ok_or(Wrong::Form)?;
        let sound = |c: char| !c.is_whitespace() && !c.is_control();
        if !rest.chars().all(sound) {
            return Err(Wrong::Form);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        match scheme {
            "redis" | "rediss" => Ok(Address {
                way: Way::Tcp {
                    host: host(authority, PORT)?,
                    tls: scheme == "rediss",
                },
                db: database(path)?,
            }),
            "redis+unix" if authority.is_empty() && !path.is_empty() => Ok(Address {
                way: Way::Unix {
                    path: format!("/{path}"),
                },
                db: 0,
            }),
            "redis+sentinel" => {
                let (name, db) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err(Wrong::Form);
                }
                let each = authority.split(',').map(|one| host(one, SENTINEL_PORT));
                Ok(Address {
                    way: Way::Sentinel {
                        sentinels: each.collect::<Result<_, _>>()?,
                        name: name.into(),
                    },
                    db: database(db)?,
                })
            }
            _ => Err(Wrong::Form),
        }
    }
}

fn host(text: &str, usual: u16) -> Result<Host, Wrong> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, behind) = rest.split_once(']').ok_or(Wrong::Form)?;
            let port = behind.strip_prefix(':');
            if !(behind.is_empty() || port.is_some()) || !name.contains(':') {
                return Err(Wrong::Form);
            }
            (name, port)
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if name.is_empty() || name.contains(['?', '#', ',']) {
        return Err(Wrong::Form);
    }
    let port = match port {
        Some(port) => number(port)?,
        None => usual,
    };
    match port {
        0 => Err(Wrong::Form),
        port => Ok(Host {
            name: name.into(),
            port,
        }),
    }
}

fn database(text: &str) -> Result<u32, Wrong> {
    match text {
        "" => Ok(0),
        text => number(text),
    }
}

/// Digits alone: the library would take a sign, too.
fn number<N: std::str::FromStr>(text: &str) -> Result<N, Wrong> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let read = text.parse().ok().filter(|_| digits);
    read.ok_or(Wrong::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, port: u16) -> Host {
        Host {
            name: name.into(),
            port,
        }
    }

    #[test]
    fn each_form_is_read() {
        let tcp = |host, tls, db| Address {
            way: Way::Tcp { host, tls },
            db,
        };
        let cases = [
            ("redis://10.0.0.5", tcp(at("10.0.0.5", 6379), false, 0)),
            ("redis://store:7000/", tcp(at("store", 7000), false, 0)),
            ("rediss://store/3", tcp(at("store", 6379), true, 3)),
            ("redis://[::1]:7000/2", tcp(at("::1", 7000), false, 2)),
            ("redis://[fe80::1]", tcp(at("fe80::1", 6379), false, 0)),
        ];
        for (text, expected) in cases {
            assert_eq!(Address::parse(text), Ok(expected), "{text}");
        }
        let unix = Address::parse("redis+unix:///run/valkey/valkey.sock");
        let path = "/run/valkey/valkey.sock".to_string();
        let way = Way::Unix { path };
        assert_eq!(unix, Ok(Address { way, db: 0 }));
        let sentinel = Address::parse("redis+sentinel://a,b:7000,[::1]/shop/1");
        let way = Way::Sentinel {
            sentinels: vec![at("a", 26379), at("b", 7000), at("::1", 26379)],
            name: "shop".into(),
        };
        assert_eq!(sentinel, Ok(Address { way, db: 1 }));
    }

    #[test]
    fn anything_else_is_none_and_a_secret_is_told_apart() {
        for text in [
            "",
            "localhost",
            "localhost:6379",
            "http://store",
            "redis://",
            "redis://:6379",
            "redis://store:",
            "redis://store:+1",
            "redis://store:0",
            "redis://store:70000",
            "redis://store/x",
            "redis://store/-1",
            "redis://store/1/2",
            "redis://a b",
            "redis://a,b",
            "redis://store?db=1",
            "redis://[::1",
            "redis://[::1]x",
            "redis://::1",
            "redis+unix://run/store",
            "redis+unix:///",
            "redis+sentinel://a,b",
            "redis+sentinel://a,,b/shop",
            "redis+sentinel:///shop",
        ] {
            assert_eq!(Address::parse(text), Err(Wrong::Form), "{text}");
        }
        for text in ["redis://:secret@store", "rediss://nap:secret@store/1"] {
            assert_eq!(Address::parse(text), Err(Wrong::Secret), "{text}");
        }
    }

    #[test]
    fn a_host_is_written_as_it_may_be_read() {
        for text in ["store:6379", "[::1]:7000"] {
            let host = host(text, 1).expect("well-formed");
            assert_eq!(host.to_string(), text);
        }
    }
}
