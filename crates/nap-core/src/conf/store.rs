//! `NapStore` and `NapNode`: where a fleet's nodes meet, and what this one is called there; and what the file of
//! `NapStoreAuth` says.

use super::directive::Directive::{self, *};
use super::text::Text;
use super::values::*;
use crate::fleet::address::{Address, Wrong};

/// The store of a fleet, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConf {
    /// Its address; empty: there is none, and this server is no node of a fleet.
    pub url: Text<256>,
    /// The fleet's name: several fleets may share a store.
    pub fleet: Text<33>,
    /// The program that speaks with the store; set where `url` is.
    pub agent: Text<256>,
    /// How long a request may wait for the store, microseconds.
    pub timeout_us: i64,
    /// 1: the balancer keeps each visitor on one node.
    pub sticky: i64,
    /// 0: the loss of a node may break promises.
    pub spare: i64,
    /// A node that was silent for so long has no part in a shared limit, microseconds.
    pub forget_us: i64,
    /// This server's name in the fleet; empty: the host's.
    pub node: Text<64>,
}

impl Default for StoreConf {
    fn default() -> StoreConf {
        StoreConf::NONE
    }
}

/// Default of `agent=`.
pub const AGENT: &str = "/usr/lib/mod_nap/nap-agent";
const OPTIONS: &str = "sticky, spare=, fleet=, timeout=, forget= and agent=";

impl StoreConf {
    /// No store.
    pub const NONE: StoreConf = StoreConf {
        url: Text::EMPTY,
        fleet: Text::EMPTY,
        agent: Text::EMPTY,
        timeout_us: UNSET,
        sticky: 0,
        spare: 1,
        forget_us: 30 * SECOND,
        node: Text::EMPTY,
    };

    /// Is this server a node of a fleet?
    pub fn is_used(&self) -> bool {
        !self.url.is_empty()
    }

    /// The fleet's name.
    pub fn fleet(&self) -> &str {
        or(self.fleet.as_str(), "nap")
    }

    /// The program that speaks with the store.
    pub fn agent(&self) -> &str {
        self.agent.as_str()
    }

    /// Does the balancer keep each visitor on one node?
    pub fn is_sticky(&self) -> bool {
        self.sticky != 0
    }

    /// How long a request may wait for the store, milliseconds.
    pub fn timeout_ms(&self) -> u32 {
        match self.timeout_us {
            UNSET => 20,
            timeout => (timeout / MILLISECOND) as u32,
        }
    }

    /// Reads `NapStore`; the error is the sentence to show.
    pub(super) fn store(&mut self, args: &[&str]) -> Result<(), String> {
        let [url, options @ ..] = args else {
            return Err("NapStore: wants an address, e.g. redis://localhost:6379, or Off".into());
        };
        let mut read = StoreConf {
            node: self.node,
            ..StoreConf::NONE
        };
        if url.eq_ignore_ascii_case("off") {
            return match options.first() {
                Some(_) => Err("NapStore: options go with an address only".into()),
                None => {
                    *self = read;
                    Ok(())
                }
            };
        }
        read.url = address(url)?;
        read.agent = Text::new(AGENT).unwrap_or(Text::EMPTY);
        for option in options {
            match option.split_once('=') {
                Some(("fleet", name)) => read.fleet = name_of(Store, "fleet's", name)?,
                Some(("timeout", _)) => {
                    let words = Words::time(MILLISECOND..=250 * MILLISECOND);
                    read.timeout_us = option_value(Store, option, words)?;
                }
                Some(("spare", _)) => {
                    read.spare = option_value(Store, option, Words::count(0..=1))?;
                }
                Some(("forget", _)) => {
                    let words = Words::time(5 * SECOND..=10 * MINUTE);
                    read.forget_us = option_value(Store, option, words)?;
                }
                None if option.eq_ignore_ascii_case("sticky") => read.sticky = 1,
                Some(("agent", path)) => {
                    let good = Text::new(path).filter(|_| path.starts_with('/'));
                    read.agent = good.ok_or_else(|| {
                        let given = shown(path);
                        format!(
                            "NapStore: agent={given} is not the path of a program; use e.g. {AGENT}"
                        )
                    })?;
                }
                _ => return Err(unknown_option(Store, option, OPTIONS)),
            }
        }
        *self = read;
        Ok(())
    }

    /// Reads `NapNode`.
    pub(super) fn node(&mut self, args: &[&str]) -> Result<(), String> {
        let [name] = args else {
            return Err(wants_one(Node));
        };
        self.node = name_of(Node, "node's", name)?;
        Ok(())
    }
}

fn or<'a>(set: &'a str, default: &'a str) -> &'a str {
    match set {
        "" => default,
        set => set,
    }
}

/// A name that stands in the store's keys, in logs and in metrics.
fn name_of<const N: usize>(which: Directive, whose: &str, name: &str) -> Result<Text<N>, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let good = !name.is_empty() && name.bytes().all(plain);
    Text::new(name).filter(|_| good).ok_or_else(|| {
        format!(
            "{}: {} is not a {whose} name; use up to {} letters, digits, \"-\", \"_\" and \".\"",
            which.name(),
            shown(name),
            N - 1
        )
    })
}

/// The address of a store, if it is one.
fn address(url: &str) -> Result<Text<256>, String> {
    let known = Address::parse(url).and_then(|_| Text::new(url).ok_or(Wrong::Form));
    known.map_err(|wrong| match wrong {
        Wrong::Form => {
            let given = shown(url);
            format!("NapStore: {given} is no address of a store; use e.g. redis://localhost:6379")
        }
        Wrong::Secret => {
            let why = "the configuration is read by more people";
            format!("NapStore: put the password into NapStoreAuth: {why}")
        }
    })
}

/// What a file of `NapStoreAuth` says. Paths are of PEM files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreAuth<'a> {
    /// The account; empty: the store's default one.
    pub user: &'a str,
    /// Its password; empty: none.
    pub password: &'a str,
    /// Certificates of authorities; empty: those of the system.
    pub ca: &'a str,
    /// Our own certificate, and its key; empty: none.
    pub pair: [&'a str; 2],
}

impl StoreAuth<'_> {
    /// Reads the text of such a file: a line `password` or `user password`, and for TLS `ca file` and
    /// `cert file key file`. The error says which line is wrong, and never what it says.
    pub fn read(text: &str) -> Result<StoreAuth<'_>, String> {
        let wrong = |at: usize| {
            format!(
                "line {} is none of: a password, \"user password\", \"ca file\", \"cert file key file\"; \
                 each at most once",
                at + 1
            )
        };
        let mut auth = StoreAuth::default();
        for (at, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["ca", file] if auth.ca.is_empty() => auth.ca = file,
                ["cert", cert, "key", key] if auth.pair[0].is_empty() => auth.pair = [cert, key],
                ["ca" | "cert", ..] => return Err(wrong(at)),
                [user, password] if auth.password.is_empty() => {
                    (auth.user, auth.password) = (user, password);
                }
                [password] if auth.password.is_empty() => auth.password = password,
                _ => return Err(wrong(at)),
            }
        }
        Ok(auth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(words: &str) -> Result<StoreConf, String> {
        let mut conf = StoreConf::NONE;
        let args: Vec<&str> = words.split_whitespace().collect();
        conf.store(&args).map(|()| conf)
    }

    #[test]
    fn an_address_is_all_that_a_store_needs() {
        for good in [
            "redis://localhost",
            "redis://10.0.0.5:6379",
            "redis://[::1]:6379/3",
            "rediss://store.example:6380",
            "redis+unix:///run/redis/redis.sock",
            "redis+sentinel://10.0.0.1,10.0.0.2:26379,[::1]/nap",
        ] {
            let conf = store(good).expect(good);
            assert_eq!(conf.url.as_str(), good);
            assert_eq!((conf.fleet(), conf.timeout_ms()), ("nap", 20));
            assert_eq!(conf.agent(), AGENT);
        }
        let all = store("redis://a fleet=shop-2 timeout=5ms agent=/opt/nap-agent").expect("good");
        assert_eq!((all.fleet(), all.timeout_ms()), ("shop-2", 5));
        assert_eq!(all.agent(), "/opt/nap-agent");
    }

    #[test]
    fn what_is_no_address_is_told_in_one_sentence() {
        let no_address = |given: &str| {
            format!(
                "NapStore: \"{given}\" is no address of a store; use e.g. redis://localhost:6379"
            )
        };
        for bad in [
            "localhost",
            "http://localhost",
            "redis://",
            "redis://:6379",
            "redis://a:0",
            "redis://a:65536",
            "redis://a:x",
            "redis://a/x",
            "redis://[::1",
            "redis://[::1]6379",
            "redis+unix://run/redis.sock",
            "redis+sentinel://a,b",
            "redis+sentinel://a,,b/nap",
            "redis://a?db=1",
        ] {
            assert_eq!(store(bad), Err(no_address(bad)));
        }
        let long = format!("redis://{}", "x".repeat(300));
        assert!(
            store(&long)
                .expect_err("too long")
                .contains("is no address")
        );
        assert_eq!(
            store("redis://:secret@localhost"),
            Err("NapStore: put the password into NapStoreAuth: the configuration is read by more people".into())
        );
    }

    #[test]
    fn options_have_their_ranges() {
        for (words, said) in [
            (
                "redis://a timeout=0ms",
                "NapStore: \"timeout=0ms\" is out of range; use e.g. 500ms, 4s or 5min, from 1ms to 250ms",
            ),
            (
                "redis://a size=1",
                "NapStore: \"size=1\" is not an option; there are sticky, spare=, fleet=, timeout=, forget= and agent=",
            ),
            (
                "redis://a fleet=a{b}",
                "NapStore: \"a{b}\" is not a fleet's name; use up to 32 letters, digits, \"-\", \"_\" and \".\"",
            ),
            (
                "redis://a agent=nap-agent",
                "NapStore: agent=\"nap-agent\" is not the path of a program; use e.g. /usr/lib/mod_nap/nap-agent",
            ),
            ("Off fleet=a", "NapStore: options go with an address only"),
            (
                "",
                "NapStore: wants an address, e.g. redis://localhost:6379, or Off",
            ),
        ] {
            assert_eq!(store(words), Err(said.to_string()), "{words}");
        }
    }

    #[test]
    fn the_last_store_counts_and_a_node_keeps_its_name() {
        let mut conf = StoreConf::NONE;
        conf.node(&["web2"]).expect("good");
        conf.store(&["redis://a", "fleet=x"]).expect("good");
        conf.store(&["redis://b"]).expect("good");
        assert_eq!((conf.url.as_str(), conf.fleet()), ("redis://b", "nap"));
        conf.store(&["Off"]).expect("good");
        assert!(!conf.is_used());
        assert_eq!(conf.node.as_str(), "web2");
        let said = conf.node(&["web 2"]).expect_err("a blank");
        assert!(
            said.starts_with("NapNode: \"web 2\" is not a node's name; use up to 63"),
            "{said}"
        );
    }

    #[test]
    fn a_file_of_secrets_is_read_line_by_line_and_never_shown() {
        let read = StoreAuth::read(
            "# of the store\nnap s3cret\n\nca /etc/ca.pem\ncert /etc/c.pem key /etc/k.pem\n",
        );
        let auth = read.expect("good");
        assert_eq!(
            (auth.user, auth.password, auth.ca),
            ("nap", "s3cret", "/etc/ca.pem")
        );
        assert_eq!(auth.pair, ["/etc/c.pem", "/etc/k.pem"]);
        let auth = StoreAuth::read("s3cret").expect("good");
        assert_eq!((auth.user, auth.password), ("", "s3cret"));
        for bad in [
            "a b c",
            "s3cret\nsecond",
            "s3cret\ncert a",
            "ca /a\nca /b",
            "nap s3cret\nca /a\nca s3cret",
        ] {
            let said = StoreAuth::read(bad).err().expect(bad);
            assert!(
                said.starts_with("line ") && !said.contains("s3cret"),
                "{said}"
            );
        }
    }
}
