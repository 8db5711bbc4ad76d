//! A room of an httpd configuration file, read by the code that reads it in httpd and with its
//! messages, so that what is simulated is what will run.
//!
//! Only `<NapRoom>` sections are read, the server's own `Nap...` lines and what the MPM is told of
//! workers. Files that are included are not looked into.

use std::path::Path;

use mod_nap::conf::{Directive, RoomConf, ServerConf};
use mod_nap::ffi;
use mod_nap::room::children::Workers;
use mod_nap::room::terms::Terms;
use mod_nap::sqs::page_scheduler::Pace;

use super::words;

/// What a file says of a room.
#[derive(Debug)]
pub struct Configured {
    /// Its gate's settings.
    pub terms: Terms,
    /// How its limit is found.
    pub pace: Pace,
    /// The server's workers; none: the file does not say.
    pub workers: Option<Workers>,
    /// What of it is not simulated.
    pub remarks: Vec<String>,
}

/// In rooms and servers, but not for the gate that is simulated here.
const ELSEWHERE: [&str; 10] = [
    "NapEngine",
    "NapUse",
    "NapPage",
    "NapExempt",
    "NapPriority",
    "NapStatic",
    "NapStateFile",
    "NapTicketPage",
    "NapTicketKey",
    "NapTicketLog",
];

/// What is known while a file is read.
struct Reader {
    rooms: Vec<RoomConf>,
    server: ServerConf,
    /// Inside `<NapRoom>`.
    inside: bool,
    /// Inside `<NapPage>`.
    page: bool,
    remarks: Vec<String>,
}

/// The room of that name, or the only one; the error names file, line and reason.
pub fn read(file: &Path, name: Option<&str>, cores: u32) -> Result<Configured, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut reader = Reader {
        rooms: Vec::new(),
        server: ServerConf {
            threaded: 1,
            cores,
            ..ServerConf::new()
        },
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
                self.rooms
                    .push(RoomConf::new(args.first().copied().unwrap_or(""))?);
                self.inside = true;
            }
            "</naproom" => self.inside = false,
            "<nappage" => {
                self.page = true;
                self.remark("NapPage");
            }
            "</nappage" => self.page = false,
            _ if self.page => {}
            "loadmodule" if args.first() == Some(&"mpm_prefork_module") => self.server.threaded = 0,
            "threadsperchild" => self.server.threads_per_child = words::count(one(name, &args)?)?,
            "maxrequestworkers" | "maxclients" => {
                self.server.max_workers = words::count(one(name, &args)?)?;
            }
            lower if lower.starts_with("nap") => self.directive(name, &args)?,
            _ => {}
        }
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
        match (known, self.rooms.last_mut().filter(|_| self.inside)) {
            (Some(Directive::TicketStatus), _) => Ok(()),
            (Some(which), Some(room)) => room.directive(which, args),
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
        let names: Vec<&str> = self.rooms.iter().map(|room| room.name.as_str()).collect();
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
        let mut room = self.rooms[at];
        if let Some(remark) = room.finish(server)? {
            self.remarks.push(remark.0);
        }
        let workers = Workers {
            per_pool: server.pool(),
            reserve: server.reserve_of_pool(),
            threaded: server.threaded,
            pools: server.pools(),
        };
        Ok(Configured {
            terms: ffi::terms(&room, 0),
            pace: ffi::pace(&room),
            workers: (server.max_workers != 0).then_some(workers),
            remarks: self.remarks,
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
        .chain(ELSEWHERE);
    let near = known.min_by_key(|known| distance(&known.to_lowercase(), &name.to_lowercase()));
    match near.filter(|near| distance(near, name) <= 4) {
        Some(near) => format!("{name} is no directive; did you mean {near}?"),
        None => format!("{name} is no directive"),
    }
}

/// Letters to put in, take out or change, to make one of the other (Levenshtein).
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
    use mod_nap::micros::Micros;
    use mod_nap::sqs::page_scheduler::law;

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
            (shop.terms.run_ready, shop.terms.bound),
            (12, Micros::from_secs(3))
        );
        assert_eq!(shop.terms.prime, Micros::from_secs(5));
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
        assert_eq!(shop.pace.law, law::FIXED);
        let other = room(text, Some("other")).expect("it is good");
        assert_eq!((other.terms.run_ready, other.pace.law), (4, law::AUTO));
    }

    #[test]
    fn the_example_that_comes_with_the_module_can_be_simulated() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("apache-conf/nap.conf");
        let configured = read(&file, None, 2);
        assert!(configured.is_ok_and(|room| room.terms.bound > Micros::ZERO));
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
