//! [`AnyConf`]: settings of one kind, as the shim hands them around.

use super::bwshare::{BwDirective, BwShareConf};
use super::directive::Directive;
use super::oxthas::{OxthasConf, OxthasDirective};
use super::room::RoomConf;
use super::server::ServerConf;
use super::telepoll::EventConf;

/// Settings of one kind; `nap_conf`. Plain bytes: the shim copies them, and its pools drop them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a pool's memory drops no box")]
pub enum AnyConf {
    /// A room, or a page of it.
    Room(RoomConf),
    /// The server.
    Server(ServerConf),
    /// What a client may owe, on the server or a virtual host.
    Debts(BwShareConf),
    /// What is polled; None: nothing has been read yet.
    Event(Option<EventConf>),
    /// A balancer.
    Balancer(OxthasConf),
}

impl AnyConf {
    /// Reads one directive, named as httpd's own table spells it; the error is the sentence to show.
    pub fn set(&mut self, name: &str, args: &[&str]) -> Result<(), String> {
        let unknown = "unknown directive";
        match self {
            AnyConf::Room(room) => room.directive(Directive::named(name).ok_or(unknown)?, args),
            AnyConf::Server(own) => own.directive(Directive::named(name).ok_or(unknown)?, args),
            AnyConf::Debts(own) => own.directive(BwDirective::named(name).ok_or(unknown)?, args),
            AnyConf::Balancer(own) => {
                own.directive(OxthasDirective::named(name).ok_or(unknown)?, args)
            }
            AnyConf::Event(event) => {
                *event = Some(EventConf::read(args)?);
                Ok(())
            }
        }
    }

    /// Takes over what `below`, of the same kind, has set and these settings have not.
    pub fn over(&mut self, below: &AnyConf) {
        match (self, below) {
            (AnyConf::Room(page), AnyConf::Room(room)) => page.over(room),
            (AnyConf::Debts(own), AnyConf::Debts(below)) => *own = own.or(below),
            (AnyConf::Balancer(own), AnyConf::Balancer(below)) => *own = own.or(below),
            _ => {}
        }
    }

    /// Puts a room's defaults in, and checks what must fit together; the error is the sentence to show. Returns a
    /// remark.
    pub fn finish(&mut self, server: &ServerConf) -> Result<Option<String>, String> {
        match self {
            AnyConf::Room(room) => room.finish(server),
            AnyConf::Debts(own) => own.check().map(|()| None),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_reads_its_own_directives_and_takes_over_only_its_own_kind() {
        let debts = || AnyConf::Debts(BwShareConf::UNSET);
        let (mut files, mut bytes) = (debts(), debts());
        assert_eq!(files.set("BwShareFiles", &["7", "1"]), Ok(()));
        assert_eq!(bytes.set("BwShareBytes", &["2M", "1K"]), Ok(()));
        assert!(files.set("NapHistory", &["50"]).is_err());
        let before = files;
        files.over(&AnyConf::Event(None));
        assert_eq!(files, before);
        files.over(&bytes);
        let AnyConf::Debts(both) = files else {
            panic!("the kind stays")
        };
        assert_eq!(
            [both.files_max, both.bytes_max],
            [7_000_000, 2 * 1_048_576 * 1_000_000]
        );
        let mut event = AnyConf::Event(None);
        assert!(event.set("TelePoll", &["news", "base=0"]).is_err());
        assert_eq!(event, AnyConf::Event(None));
        assert_eq!(event.set("TelePoll", &["news"]), Ok(()));
        assert_ne!(event, AnyConf::Event(None));
    }

    #[test]
    fn a_debt_that_nobody_could_pay_off_is_found_when_all_is_read() {
        let mut conf = AnyConf::Debts(BwShareConf::UNSET);
        conf.set("BwShareFiles", &["1000000", "0.0001"])
            .expect("each is in its range");
        let said = conf.finish(&ServerConf::UNSET).expect_err("10^10 seconds");
        assert!(said.contains("36 years"), "{said}");
    }
}
