//! What the benches share: the board behind a server of a given kind, a crowd sent to it, what the room says
//! of itself meanwhile, and the figures of the reports.

use nap_testkit::{self, Builder, Httpd, Mpm, made};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Accesses at once, in every way that has a limit.
pub const LIMIT: u32 = 10;
/// How often the room is read while a crowd is there.
const LOOK: Duration = Duration::from_millis(250);

/// The value of an option `name=value`, or the default.
pub fn option(name: &str, otherwise: &str) -> String {
    let given = std::env::args().find_map(|arg| Some(arg.strip_prefix(name)?.to_string()));
    given.unwrap_or_else(|| otherwise.to_string())
}

/// The number of an option.
pub fn number_option(name: &str, otherwise: &str) -> u32 {
    let given = option(name, otherwise);
    let number = given.parse().ok().filter(|n| *n > 0);
    number.unwrap_or_else(|| stop(&format!("{name}{given}: a whole number from 1 is meant")))
}

/// The MPMs that `mpm=` asks for: one of them or `all`.
pub fn mpms() -> Vec<Mpm> {
    let wanted = option("mpm=", "event");
    let all = Mpm::ALL.into_iter();
    let chosen: Vec<Mpm> = all
        .filter(|mpm| wanted == "all" || mpm.name() == wanted)
        .collect();
    if chosen.is_empty() {
        stop(&format!("mpm={wanted}: prefork, worker, event or all"));
    }
    chosen
}

/// Ends the bench with a sentence if something that `make` builds is missing or old.
pub fn require_what_make_builds() {
    let needed = ["cgi/board", "cgi/counter", "release/nap-load"];
    let module = std::env::var_os("NAP_SO").map_or(Some("release/mod_nap.so"), |_| None);
    for name in needed.into_iter().chain(module) {
        if let Err(missing) = made::look_for(name) {
            stop(&missing);
        }
    }
}

/// Ends the bench with a sentence.
pub fn stop(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(2)
}

/// A server for the board: `work` sets the cost of an access (`BOARD_CPU_MS 30`).
pub fn sized(mpm: Mpm, processes: u32, threads: u32, work: &str) -> Builder {
    server(work).mpm(mpm).workers(processes, threads)
}

/// The same, with its workers still to be set.
pub fn server(work: &str) -> Builder {
    on(Httpd::builder(), work)
}

/// The same on a server that has something already.
pub fn on(server: Builder, work: &str) -> Builder {
    server
        .config("ListenBacklog 2048\nKeepAlive Off\nTimeout 300")
        .config(&format!("SetEnv {}", work.replace('\n', "\nSetEnv ")))
        .expect_log("AH00045:", "a busy machine takes its time to stop")
        .expect_log(
            "(9)Bad file descriptor: AH00468:",
            "event's own race for sockets at a stop",
        )
}

/// Enough workers for the largest crowd, so that workers are not the limit; few large children, as the README
/// says.
pub fn plenty(mpm: Mpm, work: &str) -> Builder {
    sized(mpm, 3, 256, work)
}

/// The same with a room around the board and the counter.
pub fn with_nap(mpm: Mpm, work: &str, bound: &str) -> Builder {
    with_room(plenty(mpm, work), bound)
}

/// A server with a room around the board and the counter; `park=Off`: accesses wait on workers on event too.
pub fn with_room(server: Builder, bound: &str) -> Builder {
    let park = match option("park=", "").as_str() {
        "" => String::new(),
        told => format!("NapPark {told}\n"),
    };
    let room =
        format!("{park}<NapRoom board>\nNapRunReady {LIMIT}\nNapWaitMax {bound}\n</NapRoom>");
    server
        .nap()
        .config(&room)
        .config("<LocationMatch ^/(board|counter)>\nNapUse board\n</LocationMatch>")
        .config("<Location /nap-info>\nSetHandler nap-info\nRequire local\n</Location>")
}

/// Starts a server; None, with its own words on stderr, if it does not come up.
pub fn start(server: Builder) -> Option<Httpd> {
    match server.try_start() {
        Ok(httpd) => Some(httpd),
        Err(log) => {
            eprintln!("httpd did not start (is everything there? run `make` first):\n{log}");
            None
        }
    }
}

/// Sends a crowd to the board at a port and returns nap-load's report. Under `room`: what the server's
/// `/nap-info` said meanwhile, if it was `watched`.
pub fn send(port: u16, watched: Option<&Httpd>, options: &[&str]) -> Value {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = watched.map(|httpd| scope.spawn(|| watch(httpd, &over)));
        let mut report = {
            // However it ends, the watch ends with it.
            let _over = nap_testkit::SetOnDrop(&over);
            nap_testkit::crowd(&format!("http://127.0.0.1:{port}/board"), options)
        };
        if let Some(watch) = watch {
            report["room"] = watch.join().expect("looking does not fail");
        }
        report
    })
}

/// Reads the room until the run is over. Medians of what was seen while somebody waited.
fn watch(httpd: &Httpd, over: &AtomicBool) -> Value {
    let (mut wanted, mut used, mut most_held) = (Vec::new(), Vec::new(), 0.0_f64);
    let mut locked_ms = Vec::new();
    while !over.load(Relaxed) {
        let answer = httpd.get("/nap-info?json");
        let info: Value = serde_json::from_slice(answer.body.as_ref()).unwrap_or_default();
        locked_ms.extend(info["locked_s"].as_f64().map(|s| 1000.0 * s));
        let gate = &info["rooms"][0]["gates"][0];
        let figure = |pointer: &str| gate.pointer(pointer).and_then(Value::as_f64);
        let queue = figure("/wait/queue").unwrap_or(0.0);
        // Before the server's speed is known no limit is wanted yet, and all may wait.
        if queue > 0.0
            && let (Some(want), Some(limit)) = (figure("/wait/wanted"), figure("/wait/limit"))
        {
            wanted.push(want);
            used.push(limit);
        }
        // A well-behaved visitor runs, waits or holds a ticket: one of the three.
        let held = ["/run_ready/running", "/promise/outstanding"];
        let held = held.into_iter().filter_map(figure).sum::<f64>() + queue;
        most_held = most_held.max(held);
        std::thread::sleep(LOOK);
    }
    json!({
        "wait_wanted": median(wanted),
        "wait_used": median(used),
        "most_held": most_held,
        "info_locked_most_ms": locked_ms.iter().copied().fold(0.0, f64::max),
        "info_locked_ms": median(locked_ms),
    })
}

/// Writes a report into a folder.
pub fn keep(folder: &Path, name: &str, report: &Value) {
    let path = folder.join(format!("{}.json", name.replace(' ', "-")));
    let text = serde_json::to_string_pretty(report).expect("a JSON value");
    std::fs::write(path, text).expect("target takes a file");
}

/// A number of a report, by its JSON pointer.
pub fn figure(report: &Value, pointer: &str) -> Option<f64> {
    report.pointer(pointer)?.as_f64()
}

/// The middle one, or the mean of the middle two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[values.len() / 2]) / 2.0)
}

/// The most of one core that nap-load itself took in any of these runs.
pub fn load_share<'a>(reports: impl Iterator<Item = &'a Value>) -> f64 {
    reports
        .filter_map(|report| figure(report, "/generator/cpu_share"))
        .fold(0.0, f64::max)
}
