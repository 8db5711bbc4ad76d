//! The cost of mod_nap for a request, in userspace instructions as valgrind's callgrind counts them.
//!
//! Two servers (prefork) have the same configuration except for the module. Asking twice, with few and with
//! many requests, subtracts start-up. Wall-clock time cannot show a per cent here; instructions can. Beside
//! each ratio stands docs/dev/design.md's goal, and a ratio once reached with some room for where strings
//! happen to lie. Exits 1 when a row exceeds that, so that nothing is lost again.
//!
//! Comparing a string that crosses a page's border takes twenty instructions more, and the request memory
//! that a module uses shifts the strings behind it. So mod_nap's addition to an access is the mean over all
//! places in a page, set by a header in front of all.
//!
//! docs/checks.md says why some goals are not reached:
//!
//! - admitted: a small static file that is really scheduled, over one kept-alive connection;
//! - member: an access of a session, in a room with pages;
//! - debts: with `BwShare On` for everything;
//! - of these, proxied: the rooms' main purpose, a page of an application behind mod_proxy; only httpd is
//!   counted. Debian: with the modules that Debian loads by default, and their usual settings. Both: as most
//!   sites that need a room are set up;
//! - a poll: where does the holder of a ticket stand, compared with a small static file of httpd's own; each
//!   on a connection of its own, as polls are;
//! - refused: with a ticket, compared with `Redirect 503` with an ErrorDocument of the same size; and the
//!   same with Debian's modules;
//! - parking: with the module on event, an admitted access that does not wait, where a waiting access holds
//!   no worker compared with where it does;
//! - NapStore: with the module, at the only node of a fleet, compared with a server that is in none: admitted,
//!   refused with a ticket, and a holder whom only the ticket lets in, so that the store is asked.
//!
//! `cargo bench --bench instructions -- ROW..` measures the rows whose names contain a given word. With `NAP_SO` it measures
//! another build of the module, such as the one before a change.

mod held_page;
mod holders;

use held_page::HeldPages;
use nap_testkit::store::Store;
use nap_testkit::{Builder, Httpd, Mpm, made, wait_until};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Where strings lie: this many places, this far apart; together a page of memory.
const PLACES: u32 = 64;
const APART: usize = 64;

/// All places equally often.
const FEW: u32 = 3 * PLACES;
const MANY: u32 = 19 * PLACES;

/// Of holders, who come one after the other and take their time.
const HOLDERS: [u32; 2] = [16, 16 + PLACES];

/// Loaded by Debian's apache2 as installed, in addition to what every server here has.
const DEBIAN: [&str; 13] = [
    "access_compat",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_user",
    "autoindex",
    "deflate",
    "filter",
    "mime",
    "negotiation",
    "reqtimeout",
    "setenvif",
    "status",
];

/// The settings that usually go with them, in our own words.
const DEBIAN_SETTINGS: &str = r#"
ExtendedStatus On
<Location /server-status>
  SetHandler server-status
  Require local
</Location>
<FilesMatch "^\.ht">
  Require all denied
</FilesMatch>
TypesConfig /etc/mime.types
AddType application/x-compress .Z
AddType application/x-gzip .gz .tgz
AddLanguage en .en
AddLanguage ja .ja
AddCharset utf-8 .utf8
AddHandler type-map var
LanguagePriority en ja
ForceLanguagePriority Prefer Fallback
DirectoryIndex index.html index.cgi index.php
IndexOptions FancyIndexing VersionSort HTMLTable
AddOutputFilterByType DEFLATE text/html text/plain text/xml text/css
AddOutputFilterByType DEFLATE application/javascript application/xml image/svg+xml
RequestReadTimeout header=20-40,minrate=500 body=10,minrate=500
BrowserMatch "Mozilla/2" nokeepalive
BrowserMatch "MSIE 4" nokeepalive downgrade-1.0 force-response-1.0
BrowserMatch "Java/1" force-response-1.0
BrowserMatch "WebDrive" redirect-carefully
BrowserMatch "^gvfs" redirect-carefully
"#;

/// A row of the table: its name, what is measured (without and with the module), the goal, and the ratio that
/// has been reached and must not be exceeded.
type Row = (&'static str, fn() -> [f64; 2], f64, f64);

const ROWS: [Row; 17] = [
    ("admitted", || admitted(FILE), 1.015, 1.028),
    (
        "admitted, Debian",
        || admitted(FILE.by_debian()),
        1.015,
        1.021,
    ),
    ("admitted, proxied", || admitted(PROXIED), 1.015, 1.018),
    (
        "admitted, proxied, Debian",
        || admitted(PROXIED.by_debian()),
        1.015,
        1.016,
    ),
    ("member", || member(FILE), 1.035, 1.069),
    ("member, proxied", || member(PROXIED), 1.035, 1.042),
    (
        "member, proxied, Debian",
        || member(PROXIED.by_debian()),
        1.035,
        1.036,
    ),
    ("debts", || with_debts(FILE), 1.025, 1.049),
    ("debts, proxied", || with_debts(PROXIED), 1.025, 1.031),
    (
        "debts, proxied, Debian",
        || with_debts(PROXIED.by_debian()),
        1.025,
        1.026,
    ),
    ("a poll", polled, 1.15, 1.13),
    ("refused", refused, 1.10, 1.83),
    ("refused, Debian", refused_by_debian, 1.10, 1.592),
    ("parking", parking, 1.0, 1.0015),
    ("admitted, NapStore", admitted_in_fleet, 1.0, 1.0015),
    ("refused, NapStore", refused_in_fleet, 1.01, 1.01),
    ("holder, NapStore", holder_in_fleet, 1.08, 1.06),
];

/// After this the parent has done the work of a server's first second.
const SETTLED: Duration = Duration::from_secs(3);

/// Accesses of each of three visitors before a node's rate is known.
const WARM_UP: usize = 40;

/// How long a node may take to find its fleet.
const JOINING: Duration = Duration::from_secs(60);

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let is_wanted =
        |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    println!(
        "\n| instructions per request | without | with | ratio | goal | held | |\n|---|---:|---:|---:|---:|---:|---|"
    );
    let mut within = true;
    for (name, measure, goal, held) in ROWS.into_iter().filter(|(name, ..)| is_wanted(name)) {
        let [without, with] = measure();
        let ratio = with / without;
        let verdict = match ratio {
            ratio if ratio > held => "worse than it was",
            ratio if ratio > goal => "goal not reached",
            _ => "goal reached",
        };
        println!(
            "| {name} | {without:.0} | {with:.0} | {ratio:.4} | {goal} | {held} | {verdict} |"
        );
        within &= ratio <= held;
    }
    if !within {
        std::process::exit(1);
    }
}

/// A server with or without the module; only what is in `<IfModule>` differs.
fn server(nap: bool, config: &str) -> Builder {
    let builder = Httpd::builder()
        .mpm(Mpm::Prefork)
        .workers(8, 1)
        .under(&[
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file={root}/data/callgrind.%p",
            "--log-file={root}/data/valgrind.%p",
        ])
        .file("htdocs/page/a.html", "x".repeat(1000))
        .config("KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 60")
        .config(config);
    let builder = builder
        .expect_log("this room wants MaxRequestWorkers", "a few workers suffice")
        .expect_log("did not exit, sending a SIGTERM", "valgrind is slow to end");
    if nap { builder.nap() } else { builder }
}

/// What is requested, and from which server.
#[derive(Clone, Copy)]
struct Base {
    name: &'static str,
    /// Where its pages lie.
    under: &'static str,
    /// The page, and the first one of a session.
    page: &'static str,
    start: &'static str,
    proxied: bool,
    debian: bool,
}

const FILE: Base = Base {
    name: "file",
    under: "/page/",
    page: "/page/a.html",
    start: "/page/start.html",
    proxied: false,
    debian: false,
};

const PROXIED: Base = Base {
    name: "proxied",
    under: "/app/",
    page: "/app/a",
    start: "/app/start",
    proxied: true,
    debian: false,
};

impl Base {
    fn by_debian(self) -> Base {
        Base {
            debian: true,
            ..self
        }
    }

    /// A name for callgrind's files.
    fn named(self, what: &str) -> String {
        let debian = if self.debian { "-debian" } else { "" };
        format!("{what}-{}{debian}", self.name)
    }

    /// How to make its server with this configuration, with or without the module.
    fn server(self, config: &str) -> impl Fn(bool) -> Builder {
        let port = self.proxied.then(application);
        move |nap| {
            let mut builder = server(nap, config).file("htdocs/page/start.html", "welcome");
            if let Some(port) = port {
                let pass = format!("ProxyPass /app http://127.0.0.1:{port}/app");
                builder = builder.modules(&["proxy", "proxy_http"]).config(&pass);
            }
            match self.debian {
                true => builder.modules(&DEBIAN).config(DEBIAN_SETTINGS),
                false => builder,
            }
        }
    }

    /// Panics unless a room schedules the page, as it would otherwise cost nothing and prove nothing: if the
    /// room is full it must be refused.
    fn is_scheduled(self) {
        let full = room("NapRunReady 1\nNapWaitLimit 2\nNapWaitMax 10min");
        let httpd = self.server(&full)(true).under(&[]).start();
        let _held = fill_up(&httpd);
        assert_eq!(httpd.get(self.page).status, 503, "it is scheduled");
    }
}

/// An admitted request, without and with the module.
fn admitted(base: Base) -> [f64; 2] {
    base.is_scheduled();
    plain("admitted", base, &room("NapRunReady 2"))
}

/// Admitted on event, where waiting accesses hold a worker and where they do not.
fn parking() -> [f64; 2] {
    ["Off", "On"].map(|park| {
        let config = format!("NapPark {park}\n{}", room("NapRunReady 2"));
        let server = || FILE.server(&config)(true).mpm(Mpm::Event).workers(1, 8);
        per_request(&format!("park-{park}"), true, server, files)
    })
}

/// Asks for the page so often.
fn files(httpd: &Httpd, requests: u32) {
    let mut stream = httpd.connect();
    for n in 0..requests {
        let answer = exchange_with(&mut stream, FILE.page, &shifted(n));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

/// Admitted, in no fleet and in one.
fn admitted_in_fleet() -> [f64; 2] {
    FILE.is_scheduled();
    let site = || server(true, &room("NapRunReady 2"));
    in_fleet("admitted", [FEW, MANY], "", site, files)
}

/// The module, in no fleet and as the only node of one.
fn in_fleet(
    name: &str,
    requests: [u32; 2],
    options: &str,
    site: impl Fn() -> Builder,
    ask: impl Fn(&Httpd, u32),
) -> [f64; 2] {
    let store = Store::with(&["--maxmemory-policy", "noeviction"]);
    let agent = std::fs::read(made::file("release/nap-agent")).expect("it is there");
    let node = || {
        let key = "7 00112233445566778899aabbccddeeff\n";
        let builder = site().secret("keys", key);
        builder.config("NapTicketKey {root}/keys")
    };
    let joined = |httpd: &Httpd, requests: u32| {
        wait_until("it has joined its fleet", JOINING, || {
            httpd.error_log().contains("as web1 (number 1)")
        });
        ask(httpd, requests);
    };
    let url = store.url();
    let member = || {
        let builder = node().program("nap-agent", &agent);
        let config = format!("NapStore {url} agent={{root}}/nap-agent {options}\nNapNode web1");
        builder.config(&config)
    };
    [
        per_request_of(requests, &format!("{name}-store"), false, node, &ask),
        per_request_of(requests, &format!("{name}-store"), true, member, joined),
    ]
}

/// The same with debts for each client as well.
fn with_debts(base: Base) -> [f64; 2] {
    let debts = |files: &str| {
        let debts = format!("BwShare On\nBwShareFiles {files}\nBwShareBytes 1G 1G");
        room("NapRunReady 2") + &format!("\n<IfModule nap_module>\n{debts}\n</IfModule>")
    };
    let strict = base.server(&debts("1 0.0001"))(true).under(&[]).start();
    let statuses = [0; 2].map(|_| strict.get(base.page).status);
    assert_eq!(statuses, [200, 429], "it is charged");
    plain("debts", base, &debts("1000000 100000"))
}

fn plain(what: &str, base: Base, config: &str) -> [f64; 2] {
    let ask = |httpd: &Httpd, requests: u32, shift: Shift| {
        let mut stream = httpd.connect();
        for n in 0..requests {
            let answer = exchange_with(&mut stream, base.page, &shift(n));
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    };
    added(&base.named(what), base.server(config), ask)
}

/// The header by which the n-th request's strings are shifted.
type Shift = fn(u32) -> String;

/// A request without the module, and the same plus what the module adds.
fn added(
    name: &str,
    server: impl Fn(bool) -> Builder,
    ask: impl Fn(&Httpd, u32, Shift),
) -> [f64; 2] {
    let bare = per_request(
        &format!("{name}-bare"),
        false,
        || server(false),
        |httpd, requests| ask(httpd, requests, |_| String::new()),
    );
    let [without, with] = [false, true].map(|nap| {
        let ask = |httpd: &Httpd, requests| ask(httpd, requests, shifted);
        per_request(name, nap, || server(nap), ask)
    });
    [bare, bare + with - without]
}

fn shifted(n: u32) -> String {
    let place = (n % PLACES) as usize;
    format!("X-Shift: {}\r\n", "x".repeat(place * APART))
}

/// The same for a member of a session, in a room with pages.
fn member(base: Base) -> [f64; 2] {
    let Base {
        under, page, start, ..
    } = base;
    let config = room(&format!(
        "NapRunReady 2\nNapPage search ^/search$\nNapPage page ^{under}\n\
         NapSession start=^{start} end=^/end\nNapSessionStart 1ms"
    ));
    let server = base.server(&config);
    let begin = |stream: &mut TcpStream| {
        let answer = exchange(stream, start);
        let cookie = answer
            .split_once("Set-Cookie: naps~r=")
            .map(|(_, rest)| rest);
        let value = cookie.and_then(|rest| rest.split(';').next());
        value.map(str::to_owned)
    };
    let started = {
        let httpd = server(true).under(&[]).start();
        begin(&mut httpd.connect()).expect("a session begins")
    };
    let ask = |httpd: &Httpd, requests: u32, shift: Shift| {
        let mut stream = httpd.connect();
        // Without the module nobody sets a cookie, but one is sent there as well.
        let cookie = begin(&mut stream).unwrap_or_else(|| "x".repeat(started.len()));
        for n in 0..requests {
            let header = format!("{}Cookie: naps~r={cookie}\r\n", shift(n));
            let answer = exchange_with(&mut stream, page, &header);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    };
    added(&base.named("member"), server, ask)
}

/// An application that answers everything with 1000 bytes, over connections that are kept alive.
fn application() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    port
}

fn answer_all(mut stream: TcpStream) {
    let body = "x".repeat(1000);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (mut asked, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut part) {
        asked.extend_from_slice(&part[..length]);
        if asked.ends_with(b"\r\n\r\n") {
            asked.clear();
            // httpd always has to wait for it: otherwise the result would vary by tens of instructions.
            std::thread::sleep(Duration::from_millis(1));
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// A refused request: Redirect 503, and a refusal with a ticket.
fn refused() -> [f64; 2] {
    refused_where("refused", |builder| builder)
}

/// The same on a server as Debian sets it up.
fn refused_by_debian() -> [f64; 2] {
    refused_where("refused-debian", |builder| {
        builder.modules(&DEBIAN).config(DEBIAN_SETTINGS)
    })
}

/// Refused with a ticket, in no fleet and in one. How fast the server is must be known: else next to nothing is leased.
fn refused_in_fleet() -> [f64; 2] {
    let site = || server(true, &room(FULL));
    in_fleet("refused", [FEW, MANY], "", site, |httpd, requests| {
        // One runs and two wait: only while somebody waits the rate is measured.
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..WARM_UP {
                        exchange(&mut httpd.connect(), "/counter?ms=1");
                    }
                });
            }
        });
        refusals("/counter")(httpd, requests);
    })
}

/// Holders at a full node, in no fleet and in one.
fn holder_in_fleet() -> [f64; 2] {
    let pages = HeldPages::start();
    let site = || holders::at_full(server(true, &room(holders::FULL)), &pages);
    let [_, all] = HOLDERS;
    let come = |httpd: &Httpd, some| holders::come(httpd, &pages, [some, all], shifted);
    // valgrind is slow.
    in_fleet("holder", HOLDERS, "timeout=250ms", site, come)
}

/// Two waiters keep the room full. They also determine the ledger, which has room for some twenty tickets; a
/// static Re Access sells as many as a large room's ledger does.
const FULL: &str = "NapRunReady 1\nNapWaitLimit 2\nNapReAccess 1000\nNapWaitMax 2min\nNapTicketPrime 5s\n\
                    NapSlotTickets 1000\nNapTicketsPerClient 100000";

/// Is refused so often.
fn refusals(path: &'static str) -> impl Fn(&Httpd, u32) {
    move |httpd: &Httpd, requests: u32| {
        // On the server without the module this holds nothing, but it runs there as well.
        let _held = fill_up(httpd);
        for _ in 0..requests {
            let answer = exchange(&mut httpd.connect(), path);
            assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        }
    }
}

fn refused_where(name: &str, also: impl Fn(Builder) -> Builder) -> [f64; 2] {
    let config = room(FULL);
    let page = {
        let httpd = also(server(true, &config)).under(&[]).start();
        let _held = fill_up(&httpd);
        httpd.get("/counter")
    };
    let sold = page.header("set-cookie").is_some();
    assert!(
        sold,
        "refused without a ticket: {:?}\n{}",
        page.headers,
        page.text()
    );
    let plain = config.clone() + "\nRedirect 503 /busy\nErrorDocument 503 /page/busy.html";
    let busy = "x".repeat(page.body.len());
    let without = || also(server(false, &plain)).file("htdocs/page/busy.html", &busy);
    let with = || also(server(true, &config));
    [
        per_request(name, false, without, refusals("/busy")),
        per_request(name, true, with, refusals("/counter")),
    ]
}

/// A poll compared with a static file. Its goal is a rate, nine tenths of static files': bench/rates.rs.
fn polled() -> [f64; 2] {
    let config = room("NapRunReady 1\nNapWaitLimit 0\nNapReAccess 4\nNapWaitMax 10min");
    let alone = |httpd: &Httpd, path: &str, head: &[(&str, &str)]| {
        let answer = httpd.request("GET", path, head, b"");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    };
    let files = |httpd: &Httpd, requests: u32| {
        for _ in 0..requests {
            alone(httpd, "/page/a.html", &[]);
        }
    };
    let polls = |httpd: &Httpd, requests: u32| {
        let _held = fill_up(httpd);
        let refused = httpd.get("/counter");
        let ticket = refused.header("nap-ticket").expect("a ticket").to_owned();
        for _ in 0..requests {
            let poll = alone(httpd, "/nap-ticket/status", &[("Nap-Ticket", &ticket)]);
            assert_eq!(poll.json()["state"], "wait", "{poll:?}");
        }
    };
    [
        per_request("polled", false, || server(false, &config), files),
        per_request("polled", true, || server(true, &config), polls),
    ]
}

/// A room for everything; without the module the section remains.
fn room(settings: &str) -> String {
    format!(
        "<IfModule nap_module>\n<NapRoom r>\nNapStatic On\n{settings}\n</NapRoom>\n</IfModule>\n\
         <Location />\n<IfModule nap_module>\nNapUse r\n</IfModule>\n\
         </Location>"
    )
}

/// Sends endless programs until the room refuses one. One runs and the others wait while their streams exist.
/// Without the module the last of them runs as well.
fn fill_up(httpd: &Httpd) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut stream = httpd.connect();
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .expect("above zero");
        stream
            .write_all(b"GET /counter?ms=600000 HTTP/1.0\r\n\r\n")
            .expect("httpd listens");
        let refused = stream.read_exact(&mut [0; 12]).is_ok();
        if refused {
            break;
        }
        held.push(stream);
    }
    held
}

/// The instructions of one of MANY requests.
fn per_request(
    name: &str,
    nap: bool,
    server: impl Fn() -> Builder,
    ask: impl Fn(&Httpd, u32),
) -> f64 {
    per_request_of([FEW, MANY], name, nap, server, ask)
}

/// The children's instructions for many requests less those for few, divided by the difference in requests.
/// Leaves callgrind's files in target/bench, for callgrind_annotate.
fn per_request_of(
    [few, many]: [u32; 2],
    name: &str,
    nap: bool,
    server: impl Fn() -> Builder,
    ask: impl Fn(&Httpd, u32),
) -> f64 {
    let kept = nap_testkit::made::directory("bench");
    let which = if nap { "with" } else { "without" };
    let counted = [few, many].map(|requests| {
        let mut httpd = server().start();
        // The first work of each second clears tables: it is the parent's, unless a child is before it.
        std::thread::sleep(SETTLED);
        ask(&httpd, requests);
        let parent = format!("callgrind.{}", httpd.pid());
        httpd.stop();
        let files = std::fs::read_dir(httpd.root().join("data")).expect("our own directory");
        let names = files
            .flatten()
            .map(|file| file.file_name().to_string_lossy().into_owned());
        // The parent's work depends on the clock, not on requests.
        let children = names.filter(|name| name.starts_with("callgrind.") && *name != parent);
        let mut all = 0.0;
        for (n, child) in children.enumerate() {
            let copy = kept.join(format!("callgrind.{name}-{which}.{requests}.{n}"));
            std::fs::copy(httpd.root().join("data").join(child), &copy).expect("target has room");
            all += count(&copy);
        }
        all
    });
    (counted[1] - counted[0]) / f64::from(many - few)
}

/// The count in callgrind's file: its line `totals: N`.
fn count(path: &Path) -> f64 {
    let text = std::fs::read_to_string(path).expect("callgrind's file");
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0.0)
}

/// The answer to a request for a path.
fn exchange(stream: &mut TcpStream, path: &str) -> String {
    exchange_with(stream, path, "")
}

/// The same with additional headers, each with the end of its line.
fn exchange_with(stream: &mut TcpStream, path: &str, headers: &str) -> String {
    String::from_utf8_lossy(&nap_testkit::exchange(stream, path, headers)).into_owned()
}
