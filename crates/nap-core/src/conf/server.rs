//! [`ServerConf`]: the server as configured and as its MPM runs it.

use super::directive::Directive::{self, *};
use super::settings::settings;
use super::store::StoreConf;
use super::text::Text;
use super::values::*;

settings! {
/// The server as configured and as its MPM runs it.
ServerConf {
    /// Workers kept free in each child (prefork: in the server); [`UNSET`]: see `reserve_percent`.
    reserve: i64 = UNSET;
    /// The same in per cent of a child's threads (prefork: of all children).
    reserve_percent: i64 = UNSET;
    /// `NapTables waiters=`; [`UNSET`]: from the MPM. The same goes for the next three.
    table_waiters: i64 = UNSET;
    /// Clients remembered.
    table_clients: i64 = UNSET;
    /// Requests remembered.
    table_trace: i64 = UNSET;
    /// Sessions remembered.
    table_sessions: i64 = UNSET;
    /// `NapTables guests=`.
    table_guests: i64 = UNSET;
    /// `NapPark`: 1 On, 0 Off, [`UNSET`]: On where possible.
    park: i64 = UNSET;
    /// The path of the ticket page; empty: [`TICKET_PATH`].
    ticket_path: Text<256> = Text::EMPTY;
    /// `NapStore` and `NapNode`.
    store: StoreConf = StoreConf::NONE;
    /// Most children the MPM may ever run.
    server_limit: u32 = 0;
    /// Most threads a child may ever have.
    thread_limit: u32 = 0;
    /// Threads a child has; 1 on prefork.
    threads_per_child: u32 = 0;
    /// MaxRequestWorkers; 0: not known.
    max_workers: u32 = 0;
    /// 0 on prefork.
    threaded: u32 = 0;
    /// Processors online.
    cores: u32 = 0;
    /// Members of balancers among which OXTHAS chooses.
    members: u32 = 0;
    /// How many accesses may wait without a worker; 0: the server cannot do that, or should not.
    parked: u32 = 0;
    /// 1: some still wait on workers.
    on_workers: u32 = 0;
}
}

/// Default of `NapTicketPath`.
pub const TICKET_PATH: &str = "/nap-ticket";

impl ServerConf {
    /// Reads one directive of the server; the error is the sentence to show.
    pub fn directive(&mut self, which: Directive, args: &[&str]) -> Result<(), String> {
        match which {
            Reserve => self.keep_free(args),
            TicketPath => self.ticket_path(args),
            Tables => self.tables(args),
            Store => self.store.store(args),
            Node => self.store.node(args),
            Park => {
                self.park = one(Park, args, Words::choice(&["Off", "On"]))?;
                Ok(())
            }
            _ => Err(format!("{} belongs inside <NapRoom>", which.name())),
        }
    }

    fn keep_free(&mut self, args: &[&str]) -> Result<(), String> {
        let percent = args.first().is_some_and(|arg| arg.ends_with('%'));
        let most = if percent { 90 } else { 10_000 };
        let value = one(Reserve, args, Words::reserve(0..=most))?;
        (self.reserve, self.reserve_percent) = match percent {
            true => (UNSET, value),
            false => (value, UNSET),
        };
        Ok(())
    }

    /// Can a waiting access hold a worker?
    pub fn hold_who_waits(&self) -> bool {
        self.parked == 0 || self.on_workers != 0
    }

    /// The workers available to a request: those of its child, on prefork those of the server.
    pub fn pool(&self) -> u32 {
        let workers = match self.threaded {
            0 => self.max_workers,
            _ => self.threads_per_child,
        };
        workers.max(1)
    }

    /// How many such pools there are.
    pub fn pools(&self) -> u32 {
        (self.max_workers / self.pool()).max(1)
    }

    /// How many workers of a pool of this size are kept free. Per cent are rounded up, so that none
    /// are kept only if 0 was asked for.
    fn reserve_of(&self, pool: u32) -> u32 {
        let percent = match (self.reserve, self.reserve_percent) {
            (n, _) if n >= 0 => return u32::try_from(n).unwrap_or(u32::MAX),
            (_, percent) if percent >= 0 => percent as u64,
            _ => 10,
        };
        (u64::from(pool) * percent).div_ceil(100) as u32
    }

    /// Workers kept free in each child, on prefork in the server.
    pub fn reserve_of_pool(&self) -> u32 {
        self.reserve_of(self.pool())
    }

    /// Workers kept free over the whole server.
    pub fn reserve(&self) -> i64 {
        i64::from(self.reserve_of_pool()) * i64::from(self.pools())
    }

    /// The same in words.
    pub fn reserve_in_words(&self) -> String {
        let (all, own, pools) = (self.reserve(), self.reserve_of_pool(), self.pools());
        match self.threaded {
            0 => format!("{all} workers in reserve (NapReserve)"),
            _ => {
                format!("{all} workers in reserve (NapReserve: {own} in each of {pools} children)")
            }
        }
    }

    /// The accesses that run, `run_ready` over all children, fall to children by chance: a remark
    /// if they leave too few threads of a child for others to wait on.
    pub fn threads_remark(&self, run_ready: u32) -> Option<String> {
        let mean = f64::from(run_ready) / f64::from(self.pools());
        // Two standard deviations above its share.
        let busy = run_ready.min((mean + 2.0 * mean.sqrt()).ceil() as u32);
        // At least as many as newcomers leave to ticket holders.
        let enough = |threads: &u32| {
            let wanted = self.reserve_of(*threads).saturating_add(busy);
            *threads >= wanted.saturating_add(threads.isqrt())
        };
        let threads = self.threads_per_child;
        if self.threaded == 0 || self.max_workers == 0 || enough(&threads) {
            return None;
        }
        let wanted = (threads..1 << 20).find(enough)?;
        Some(format!(
            "ThreadsPerChild {threads} leaves too few threads to wait on in a child where {busy} run \
             beside {} in reserve; use ThreadsPerChild {wanted} or more",
            self.reserve_of_pool()
        ))
    }

    /// A remark if a graceful restart finds no slots for new children beside the old ones. These
    /// stay until nobody waits or runs in them any more, for the bound and longer.
    pub fn headroom_remark(&self) -> Option<String> {
        let threads = self.threads_per_child.max(1);
        let children = self.max_workers.div_ceil(threads);
        let short = self.threaded != 0 && self.server_limit < 2 * children;
        short.then(|| {
            format!(
                "ServerLimit {} has no slots for a second set of {children} children (MaxRequestWorkers \
                 / ThreadsPerChild): at a graceful restart the old ones stay until their waiters are \
                 served, and new ones start late; use ServerLimit {} or more",
                self.server_limit,
                2 * children
            )
        })
    }

    fn ticket_path(&mut self, args: &[&str]) -> Result<(), String> {
        let [given] = args else {
            return Err(wants_one(TicketPath));
        };
        // What lies under it is separated by a slash of its own.
        let path = given.strip_suffix('/').unwrap_or(given);
        let plain = |b: u8| b.is_ascii_graphic() && !b"?#%\\\"<>".contains(&b);
        let normal =
            !path.contains("//") && !path.split('/').any(|part| part == "." || part == "..");
        let good =
            path.starts_with('/') && !path.ends_with('/') && path.bytes().all(plain) && normal;
        self.ticket_path = Text::new(path).filter(|_| good).ok_or_else(|| {
            let what = format!(
                "is not a path; use e.g. {TICKET_PATH}: a \"/\" in front, something behind it, up to 255 plain \
                 characters, no query"
            );
            wrong("NapTicketPath", given, what)
        })?;
        Ok(())
    }

    fn tables(&mut self, args: &[&str]) -> Result<(), String> {
        const NAMES: &str = "waiters=, clients=, trace=, sessions= and guests=";
        if args.is_empty() {
            return Err(format!("NapTables: wants at least one of {NAMES}"));
        }
        for option in args {
            let (field, range) = match option.split_once('=') {
                Some(("waiters", _)) => (&mut self.table_waiters, 16..=M),
                Some(("clients", _)) => (&mut self.table_clients, K..=16 * M),
                Some(("trace", _)) => (&mut self.table_trace, 0..=16 * M),
                Some(("sessions", _)) => (&mut self.table_sessions, K..=16 * M),
                Some(("guests", _)) => (&mut self.table_guests, K..=M),
                _ => return Err(unknown_option(Tables, option, NAMES)),
            };
            *field = option_value(Tables, option, Words::size(range))?;
        }
        Ok(())
    }
}

/// The HTTP status of a refusal, as `NapTicketStatus` or `BwShareStatus` sets it.
pub fn refusal_status(directive: &str, arg: &str) -> Result<u16, String> {
    const CODES: [u16; 3] = [503, 429, 200];
    let index = Words::choice(&["503", "429", "200"])
        .read(arg)
        .map_err(|what| wrong(directive, arg, what))?;
    Ok(CODES[index.clamp(0, 2) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::samples::server;

    #[test]
    fn the_reserve_is_kept_in_every_child() {
        let reserve = |arg: &str, workers, threads| {
            let mut server = server(workers, threads);
            server.directive(Reserve, &[arg]).map(|()| server.reserve())
        };
        assert_eq!(reserve("5", 150, 25), Ok(30), "5 in each of 6 children");
        assert_eq!(reserve("5", 150, 1), Ok(5));
        assert_eq!(reserve("0", 150, 25), Ok(0));
        assert_eq!(reserve("10%", 150, 25), Ok(18), "3 of 25 in 6 children");
        assert_eq!(reserve("10%", 150, 1), Ok(15));
        assert_eq!(reserve("0%", 150, 25), Ok(0));
        assert_eq!(server(150, 25).reserve(), 18, "10% unless set");
        for bad in ["91%", "-1", "10001", "5%%", "%"] {
            let error = reserve(bad, 150, 25).expect_err(bad);
            assert!(error.contains("from 0 to 10000 or 0% to 90%"), "{error}");
        }
    }

    #[test]
    fn threads_to_wait_on_are_left_beside_those_that_run() {
        let remark =
            |run_ready, workers, threads| server(workers, threads).threads_remark(run_ready);
        assert_eq!(remark(10, 150, 25), None);
        assert_eq!(
            remark(4, 16, 8),
            None,
            "one in reserve, all four here, three left"
        );
        assert_eq!(remark(140, 150, 1), None, "prefork has one pool");
        assert_eq!(
            remark(100, 1600, 25),
            None,
            "of a hundred about six run here"
        );
        let said = remark(22, 50, 25).expect("18 run here and 3 are kept");
        assert_eq!(
            said,
            "ThreadsPerChild 25 leaves too few threads to wait on in a child where 18 run beside 3 \
             in reserve; use ThreadsPerChild 26 or more"
        );
        assert_eq!(remark(22, 52, 26), None);
    }

    #[test]
    fn a_second_generation_needs_slots() {
        let remark = |children: u32, limit: u32, threads: u32| {
            let mut server = server(children * threads, threads);
            server.server_limit = limit;
            server.headroom_remark()
        };
        assert_eq!(remark(6, 12, 25), None);
        assert_eq!(
            remark(150, 150, 1),
            None,
            "prefork: idle children leave at once"
        );
        let said = remark(6, 11, 25).expect("no room for the sixth");
        assert!(said.starts_with("ServerLimit 11 has no slots for a second set of 6 children"));
        assert!(said.ends_with("use ServerLimit 12 or more"), "{said}");
    }

    #[test]
    fn the_last_of_two_reserves_counts() {
        let mut server = server(100, 1);
        server.directive(Reserve, &["20%"]).expect("good");
        server.directive(Reserve, &["3"]).expect("good");
        assert_eq!(server.reserve(), 3);
    }

    #[test]
    fn the_ticket_path_is_a_plain_path() {
        let path = |p: &str| { ServerConf::UNSET }.directive(TicketPath, &[p]);
        for good in ["/nap-ticket", "/.nap/ticket", "/warten", "/a-b_c~d/e.html"] {
            assert_eq!(path(good), Ok(()), "{good}");
        }
        let mut server = ServerConf::UNSET;
        server.directive(TicketPath, &["/nap/"]).expect("a path");
        assert_eq!(server.ticket_path.as_str(), "/nap");
        let long = format!("/{}", "x".repeat(255));
        for bad in [
            "",
            "/",
            "//",
            "/a//",
            "x",
            "http://a/b",
            "/a b",
            "/a?b",
            "/a#b",
            "/a//b",
            "/../a",
            "/a/.",
            "/%2e",
            "/\u{e4}",
            &long,
        ] {
            assert!(
                path(bad).expect_err(bad).starts_with("NapTicketPath: "),
                "{bad}"
            );
        }
    }

    #[test]
    fn tables_have_sizes_by_name() {
        let mut server = ServerConf::UNSET;
        let args = ["clients=1M", "waiters=512", "trace=0", "sessions=64K"];
        assert_eq!(server.directive(Tables, &args), Ok(()));
        let sizes = [
            server.table_clients,
            server.table_waiters,
            server.table_trace,
            server.table_sessions,
        ];
        assert_eq!(sizes, [1 << 20, 512, 0, 65536]);
        for bad in [
            "clients",
            "clients=",
            "clients=-1",
            "clients=1e30",
            "rooms=3",
            "=",
            "waiters=2",
            "clients=17M",
        ] {
            assert!(
                server
                    .directive(Tables, &[bad])
                    .expect_err(bad)
                    .starts_with("NapTables: "),
                "{bad}"
            );
        }
        assert!(server.directive(Tables, &[]).is_err());
    }

    #[test]
    fn a_ticket_status_is_one_of_three() {
        assert_eq!(
            ["503", "429", "200"].map(|arg| refusal_status("NapTicketStatus", arg)),
            [Ok(503), Ok(429), Ok(200)]
        );
        assert_eq!(
            refusal_status("BwShareStatus", "500"),
            Err("BwShareStatus: \"500\" is not known; use 503, 429, or 200".into())
        );
    }

    #[test]
    fn a_directive_in_the_wrong_place_says_where_it_belongs() {
        let error = { ServerConf::UNSET }.directive(WaitMax, &["4s"]);
        assert_eq!(error, Err("NapWaitMax belongs inside <NapRoom>".into()));
    }
}
