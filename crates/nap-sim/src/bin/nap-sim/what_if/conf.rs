//! A room of an httpd configuration file, read by httpd's own code and with its messages, so that the
//! simulated room is the one that will run.
//!
//! Only `<NapRoom>` sections, the server's own `Nap...` lines and the MPM's settings of workers are read.
//! Included files are not looked into. It does not matter here which page a URL belongs to, so regular
//! expressions are not checked.

use std::path::Path;

use nap_core::conf::{Directive, RoomConf, ServerConf};
use nap_core::room::children::Workers;
use nap_core::room::terms::Terms;
use nap_core::sqs::page_scheduler::Pace;
use nap_sim::sessions::SessionTerms;

use super::words;

/// A gate of a room.
#[derive(Debug)]
pub struct GateConf {
    /// The page's name; for the room's own gate the room's.
    pub name: String,
    /// Its settings.
    pub terms: Terms,
    /// How its limit is found.
    pub pace: Pace,
}

/// What a file says of a room.
#[derive(Debug)]
pub struct Configured {
    /// The room's own gate, then those of its pages.
    pub gates: Vec<GateConf>,
    /// The room's sessions.
    pub sessions: Option<SessionTerms>,
    /// The server's workers; None: the file does not say.
    pub workers: Option<Workers>,
    /// Parts of the file that are not simulated.
    pub remarks: Vec<String>,
}

/// Allowed in rooms and servers, but without effect on the gate that is simulated here.
const ELSEWHERE: [&str; 11] = [
    "NapControl",
    "NapEngine",
    "NapUse",
    "NapExempt",
    "NapPriority",
    "NapStateFile",
    "NapStoreAuth",
    "NapTicketPage",
    "NapTicketStatus",
    "NapTicketKey",
    "NapTicketLog",
];

/// Directives about what a page looks like, how it is found and how long its answer is, and about a fleet.
const UNSEEN: [Directive; 8] = [
    Directive::Admit,
    Directive::Download,
    Directive::KeepForm,
    Directive::Node,
    Directive::Static,
    Directive::Store,
    Directive::TicketCookie,
    Directive::TicketPath,
];

/// Room in the sessions' table if `NapTables` does not say.
const SESSIONS: u64 = 16 << 10;

/// Accesses that may wait without a worker if `NapTables` does not say.
const PLACES: u32 = 16384;

fn is_http2(protocol: &&str) -> bool {
    ["h2", "h2c"].contains(&protocol.to_ascii_lowercase().as_str())
}

/// A room while its file is read.
struct Draft {
    conf: RoomConf,
    pages: Vec<RoomConf>,
    /// `NapSession` has said which page starts a session, and which ends it.
    starts: bool,
    ends: bool,
}

/// What is known while a file is being read.
struct Reader {
    rooms: Vec<Draft>,
    server: ServerConf,
    /// Whether the MPM is event; None: it is not loaded here.
    event: Option<bool>,
    /// Inside `<NapRoom>`.
    inside: bool,
    /// Inside `<NapPage>`.
    page: bool,
    remarks: Vec<String>,
}

/// The room with that name, or the only one; an error names file, line and reason.
pub fn read(file: &Path, name: Option<&str>, cores: u32) -> Result<Configured, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut reader = Reader {
        rooms: Vec::new(),
        server: ServerConf {
            threaded: 1,
            cores,
            ..ServerConf::UNSET
        },
        event: None,
        inside: false,
        page: false,
        remarks: Vec::new(),
    };
    let (mut begun, mut line) = (0, String::new());
    for (n, part) in (1..).zip(text.lines()) {
        if line.is_empty() {
            begun = n;
        }
        line.push_str(part);
        if line.ends_with('\\') {
            line.pop();
            continue;
        }
        let line = std::mem::take(&mut line);
        reader
            .line(&line)
            .map_err(|why| format!("{}:{begun}: {why}", file.display()))?;
    }
    if reader.inside {
        return Err(format!("{}: <NapRoom> is not closed", file.display()));
    }
    reader
        .room(name)
        .map_err(|why| format!("{}: {why}", file.display()))
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.starts_with('#') {
            return Ok(());
        }
        let words = words::split(line.trim_end_matches('>'));
        let Some((name, args)) = words.split_first() else {
            return Ok(());
        };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match name.to_ascii_lowercase().as_str() {
            "<naproom" => {
                self.rooms.push(Draft {
                    conf: RoomConf::new(args.first().copied().unwrap_or(""))?,
                    pages: Vec::new(),
                    starts: false,
                    ends: false,
                });
                self.inside = true;
            }
            "</naproom" => self.inside = false,
            "<nappage" => {
                self.begin_page(&args)?;
                self.page = true;
            }
            "</nappage" => self.page = false,
            "nappage" => self.begin_page(&args)?,
            "include" | "includeoptional" => {
                let file = args.first().copied().unwrap_or_default();
                self.remarks
                    .push(format!("{name} {file} is not looked into"));
            }
            "loadmodule" => match args.first() {
                Some(&"mpm_prefork_module") => {
                    (self.server.threaded, self.event) = (0, Some(false));
                }
                Some(&"mpm_worker_module") => self.event = Some(false),
                Some(&"mpm_event_module") => self.event = Some(true),
                _ => {}
            },
            "protocols" if args.iter().any(is_http2) => self.server.on_workers = 1,
            "threadsperchild" => self.server.threads_per_child = words::count(one(name, &args)?)?,
            "maxrequestworkers" | "maxclients" => {
                self.server.max_workers = words::count(one(name, &args)?)?;
            }
            lower if lower.starts_with("nap") => self.directive(name, &args)?,
            _ => {}
        }
        Ok(())
    }

    /// `NapPage name regex`, as a line or as a section.
    fn begin_page(&mut self, args: &[&str]) -> Result<(), String> {
        let Some(room) = self.rooms.last_mut().filter(|_| self.inside) else {
            return Err("NapPage belongs inside <NapRoom>".to_owned());
        };
        let name = match args {
            [name, _] => *name,
            [name, _, _] => {
                let why = "room= is not simulated: give the page a gate of its own";
                return Err(format!("NapPage {name}: {why}"));
            }
            _ => return Err("NapPage: wants a name and a regular expression".to_owned()),
        };
        let page = RoomConf::new_page(&room.conf, name)?;
        if room.pages.iter().any(|known| known.page == page.page) {
            let room = room.conf.name.as_str();
            return Err(format!(
                "NapPage {name}: room {room} has a page of this name already"
            ));
        }
        room.pages.push(page);
        Ok(())
    }

    fn directive(&mut self, name: &str, args: &[&str]) -> Result<(), String> {
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        if let Some(known) = ELSEWHERE.iter().copied().find(|known| is(known)) {
            self.remark(known);
            return Ok(());
        }
        let known = Directive::ALL
            .iter()
            .copied()
            .find(|which| is(&which.name()));
        let in_force = |arg: &&str| arg.to_ascii_lowercase().starts_with("base=");
        if known == Some(Directive::Poll) && !args.iter().all(in_force) {
            self.remark("NapPoll's rate=, mode=, k= or form=");
        }
        if let Some(unseen) = known.filter(|which| UNSEEN.contains(which)) {
            self.remark(unseen.name());
        }
        match (known, self.rooms.last_mut().filter(|_| self.inside)) {
            (Some(which), Some(room)) => match room.pages.last_mut().filter(|_| self.page) {
                Some(page) => page.directive(which, args),
                None if which == Directive::Session => room.session(args),
                None => room.conf.directive(which, args),
            },
            (Some(which), None) => self.server.directive(which, args),
            (None, _) => Err(unknown(name)),
        }
    }

    fn remark(&mut self, name: &str) {
        let remark = format!("{name} plays no part here");
        if name != "NapUse" && !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    fn room(mut self, name: Option<&str>) -> Result<Configured, String> {
        let names: Vec<&str> = self
            .rooms
            .iter()
            .map(|room| room.conf.name.as_str())
            .collect();
        let at = match (name, names.len()) {
            (_, 0) => return Err("it has no <NapRoom>".to_owned()),
            (None, 1) => Some(0),
            (None, _) => {
                return Err(format!(
                    "--room is missing; its rooms: {}",
                    names.join(", ")
                ));
            }
            (Some(name), _) => names.iter().position(|known| *known == name),
        };
        let early = self.rooms.iter().any(|room| room.conf.admit_early == 1);
        self.server.on_workers |= u32::from(early);
        let Some(at) = at else {
            return Err(format!("no such room; its rooms: {}", names.join(", ")));
        };
        let server = &mut self.server;
        if server.max_workers == 0 && server.threads_per_child != 0 {
            // httpd's own default: 16 children.
            server.max_workers = 16 * server.threads_per_child;
        }
        if server.threaded != 0 && server.threads_per_child == 0 {
            server.threads_per_child = 25;
        }
        let parks = self.event.unwrap_or(server.park == 1) && server.park != 0;
        server.parked = match server.table_waiters {
            _ if !parks => 0,
            n if n > 0 => n as u32,
            _ => PLACES,
        };
        let workers = Workers {
            per_pool: server.pool(),
            reserve: server.reserve_of_pool(),
            threaded: server.threaded,
            pools: server.pools(),
            parked: server.parked,
            on_workers: server.on_workers,
        };
        let mut room = self.rooms.swap_remove(at);
        if let Some(remark) = room.finish(server)? {
            self.remarks.push(remark);
        }
        Ok(Configured {
            gates: room.gates(),
            sessions: room.sessions(server),
            workers: (server.max_workers != 0).then_some(workers),
            remarks: self.remarks,
        })
    }
}

impl Draft {
    /// `NapSession`; in httpd too, the shim handles what starts and what ends a session.
    fn session(&mut self, args: &[&str]) -> Result<(), String> {
        let begins = |arg: &&str, with: &str| arg.to_ascii_lowercase().starts_with(with);
        self.starts = args.iter().any(|arg| begins(arg, "start="));
        self.ends = args.iter().any(|arg| begins(arg, "end="));
        let rest: Vec<&str> = args
            .iter()
            .copied()
            .filter(|arg| !begins(arg, "start=") && !begins(arg, "end="))
            .collect();
        self.conf.directive(Directive::Session, &rest)
    }

    /// Applies defaults and checks, in httpd's order: pages inherit from a room that is not finished.
    fn finish(&mut self, server: &ServerConf) -> Result<Option<String>, String> {
        for page in &mut self.pages {
            page.over(&self.conf);
            page.finish(server)?;
        }
        if !self.pages.is_empty() {
            self.conf.beside = self.pages.iter().map(|page| page.run_ready).sum();
        }
        self.conf.finish(server)
    }

    fn gates(&self) -> Vec<GateConf> {
        let gate = |name: &str, conf: &RoomConf| GateConf {
            name: name.to_owned(),
            terms: conf.terms(0),
            pace: conf.pace(),
        };
        let own = gate(self.conf.name.as_str(), &self.conf);
        let pages = self.pages.iter().map(|page| gate(page.page.as_str(), page));
        std::iter::once(own).chain(pages).collect()
    }

    fn sessions(&self, server: &ServerConf) -> Option<SessionTerms> {
        let most = u64::try_from(server.table_sessions).unwrap_or(0);
        (self.conf.session == 1).then(|| SessionTerms {
            lobby: self.conf.lobby_terms(0),
            starts: self.conf.start_terms(server.cores),
            anywhere: !self.starts,
            ends: self.ends,
            most: if most == 0 { SESSIONS } else { most },
        })
    }
}

fn one<'a>(name: &str, args: &[&'a str]) -> Result<&'a str, String> {
    args.first()
        .copied()
        .ok_or_else(|| format!("{name}: its value is missing"))
}

fn unknown(name: &str) -> String {
    let known = Directive::ALL
        .iter()
        .map(|which| which.name())
        .chain(ELSEWHERE)
        .chain(["NapPage"]);
    let near = known.min_by_key(|known| distance(&known.to_lowercase(), &name.to_lowercase()));
    match near.filter(|near| distance(near, name) <= 4) {
        Some(near) => format!("{name} is no directive; did you mean {near}?"),
        None => format!("{name} is no directive"),
    }
}

/// Number of letters to insert, delete or change to make one out of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = change.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::micros::Micros;
    use nap_core::sqs::page_scheduler::law;

    fn room(text: &str, name: Option<&str>) -> Result<Configured, String> {
        let file = std::env::temp_dir().join(format!(
            "nap-conf-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::write(&file, text).expect("a temporary file");
        let read = read(&file, name, 2);
        std::fs::remove_file(&file).expect("it was ours");
        read.map_err(|why| why.replace(&file.display().to_string(), "FILE"))
    }

    #[test]
    fn a_room_is_read_as_httpd_reads_it() {
        let text = "ServerName a\nThreadsPerChild 32\nMaxRequestWorkers 256\nNapReserve 10%\n\
             <NapRoom shop>\n  # a comment\n  naprunready 12\n  NapWaitMax \\\n 3s\n\
             NapExempt \"%{HTTP_HOST} == 'a'\"\n</NapRoom>\n<NapRoom other>\n</NapRoom>\n\
             <Location />\nNapUse shop\n</Location>\n";
        let shop = room(text, Some("shop")).expect("it is good");
        assert_eq!(
            (shop.gates[0].terms.run_ready, shop.gates[0].terms.bound),
            (12, Micros::from_secs(3))
        );
        assert_eq!(shop.gates[0].terms.prime, Micros::ZERO);
        let workers = shop.workers.expect("they are said");
        assert_eq!(
            [workers.per_pool, workers.pools, workers.reserve],
            [32, 8, 4]
        );
        assert!(
            shop.remarks
                .iter()
                .any(|r| r == "NapExempt plays no part here"),
            "{shop:?}"
        );
        assert_eq!(shop.gates[0].pace.law, law::FIXED);
        let other = room(text, Some("other")).expect("it is good");
        let [own] = &other.gates[..] else {
            panic!("{other:?}");
        };
        assert_eq!((own.terms.run_ready, own.pace.law), (2, law::AUTO));
    }

    #[test]
    fn pages_and_sessions_are_read_as_httpd_reads_them() {
        let text = "Include mods-enabled/*.conf\nThreadsPerChild 64\nMaxRequestWorkers 640\n\
             <NapRoom shop>\nNapRunReady 10\nNapWaitMax 3s\nNapPage cart ^/cart\n\
             <NapPage search \"^/search$\">\nNapRunReady 4\n</NapPage>\nNapPoll base=5s rate=9\n\
             NapSession start=^/login$ END=^/logout$ idle=5min\nNapSessionQueue 40\n</NapRoom>\n";
        let shop = room(text, None).expect("it is good");
        let gates = shop.gates.iter().map(|gate| {
            let terms = gate.terms;
            (
                gate.name.as_str(),
                terms.run_ready,
                gate.pace.start,
                terms.bound,
            )
        });
        let bound = Micros::from_secs(3);
        assert_eq!(
            gates.collect::<Vec<_>>(),
            [
                ("shop", 10, 10, bound),
                ("cart", 10, 10, bound),
                ("search", 4, 4, bound)
            ]
        );
        let sessions = shop.sessions.expect("they are said");
        assert_eq!((sessions.anywhere, sessions.ends), (false, true));
        assert_eq!(sessions.starts.idle, Micros::from_secs(300));
        assert_eq!(sessions.lobby.wait_limit.n, 40);
        for remark in [
            "Include mods-enabled/*.conf is not looked into",
            "NapPoll's rate=, mode=, k= or form= plays no part here",
        ] {
            assert!(shop.remarks.iter().any(|said| said == remark), "{shop:?}");
        }
    }

    /// Each directive of docs/directives.md whose name begins with Nap.
    #[test]
    fn every_directive_of_rooms_is_known_here() {
        let docs =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/directives.md");
        let docs = std::fs::read_to_string(docs).expect("the table of directives");
        let names = docs.lines().filter_map(|line| {
            let name = line.strip_prefix("| `")?.split([' ', '`', '\\']).next()?;
            name.starts_with("Nap").then(|| name.to_owned())
        });
        let names: Vec<String> = names.collect();
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            if let Err(why) = room(&format!("<NapRoom a>\n{name}\n</NapRoom>"), None) {
                assert!(!why.contains("is no directive"), "{why}");
            }
        }
    }

    #[test]
    fn the_example_that_comes_with_the_module_can_be_simulated() {
        let file =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("apache-conf/nap.conf");
        let configured = read(&file, None, 2);
        assert!(configured.is_ok_and(|room| room.gates[0].terms.bound > Micros::ZERO));
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_reason() {
        for (text, why) in [
            (
                "<NapRoom a>\nNapWaitMax 4x\n</NapRoom>",
                "FILE:2: NapWaitMax",
            ),
            (
                "<NapRoom a>\n\nNapWaitMux 4s\n</NapRoom>",
                "FILE:3: NapWaitMux is no directive; did you mean NapWaitMax?",
            ),
            (
                "NapWaitMax 4s",
                "FILE:1: NapWaitMax belongs inside <NapRoom>",
            ),
            ("<NapRoom a>", "FILE: <NapRoom> is not closed"),
            ("ServerName a", "FILE: it has no <NapRoom>"),
            (
                "<NapRoom a>\n</NapRoom>\n<NapRoom b>\n</NapRoom>",
                "--room is missing; its rooms: a, b",
            ),
            (
                "<NapRoom a>\nNapTicketPrime 1h\nNapTicketLifetime 10s\n</NapRoom>",
                "FILE: room a: ",
            ),
            ("NapPage a ^/a", "FILE:1: NapPage belongs inside <NapRoom>"),
            (
                "<NapRoom a>\nNapPage b ^/b\nNapPage b ^/c\n</NapRoom>",
                "FILE:3: NapPage b: room a has a page of this name already",
            ),
            (
                "<NapRoom a>\nNapPage b ^/b room=c\n</NapRoom>",
                "FILE:2: NapPage b: room= is not simulated",
            ),
            (
                "<NapRoom a>\n<NapPage b ^/b>\nNapTicketLifetime 1min\n</NapPage>\n</NapRoom>",
                "FILE:3: NapTicketLifetime does not belong inside <NapPage>",
            ),
            (
                "<NapRoom a>\nNapSession start=^/in$ idles=5min\n</NapRoom>",
                "FILE:2: NapSession",
            ),
            (
                "MaxRequestWorkers many",
                "FILE:1: \"many\" is no whole number",
            ),
        ] {
            let told = room(text, None).err().unwrap_or_default();
            assert!(told.contains(why), "{text}: {told}");
        }
        assert!(
            room("<NapRoom a>\n</NapRoom>", Some("b")).is_err_and(|e| e.contains("no such room"))
        );
    }
}
