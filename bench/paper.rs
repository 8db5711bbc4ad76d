//! The experiment of the NAP-Web paper's chapter 6 on the real server, with the paper's settings:
//! 600 clients post 1 KB to the board, Run Ready 10, bound 4 s, history 100.
//!
//! Each server has served a few accesses when the crowd comes, as a running server has: the paper's laws know
//! nothing before that, and keep what they then say for a whole slot.
//!
//! Three rows: no control, the paper's form of the laws, ours. Prints the paper's Tables 1 and 2 with its own
//! numbers beside ours. Leaves them in target/demo-paper with the responses drawn as in its figures 5 and 6,
//! and with nap-load's rows and reports. The paper's clients post 50 times; with fewer posts the slots and
//! the lifetime of tickets are shorter than its five minutes in proportion. Options:
//!
//! ```text
//! cargo bench --bench paper -- [posts=10] [clients=600] [mpm=event]
//! ```

mod board;
use nap_sim::plot::{Figure, Panel, Point};
use nap_testkit::{Builder, Mpm, made};
use serde_json::Value;
use std::path::Path;

/// What an access costs.
const WORK: &str = "BOARD_CPU_MS 30";
/// The paper's numbers: posts of a client, and its slots and lifetime in seconds.
const POSTS: u32 = 50;
const SLOT_S: u32 = 300;
/// The minimum of NapTicketLifetime.
const SHORTEST_S: u32 = 5;
/// Places in Re Access, fixed. The paper does not say how many it had.
const RE_ACCESS: u32 = 100;
const BOUND_S: f64 = 4.0;

/// As many as run and wait before anything is known, so that nobody is refused yet; they wait in lines of
/// different lengths.
const FIRST_TO_COME: [&str; 8] = [
    "--clients",
    "18",
    "--posts",
    "30",
    "--think",
    "200ms",
    "--seed",
    "1",
];

/// A way to meet the crowd, and the paper's measurements, column by column.
struct Row {
    name: &'static str,
    /// Name of its files in target/demo-paper.
    file: &'static str,
    /// Title of its panel in the figure.
    title: &'static str,
    /// The room's own lines; None: no room.
    room: Option<fn(slot_s: u32) -> String>,
    /// In the order of [`TABLES`]; empty: the paper has no such row.
    paper: [&'static [&'static str]; 2],
}

const ROWS: [Row; 3] = [
    Row {
        name: "no control",
        file: "no-control",
        title: "No control (the paper's figure 5)",
        room: None,
        paper: [&["9.31", "11.61", "82.40", "", "", ""], &[]],
    },
    Row {
        name: "the paper's form",
        file: "paper-form",
        title: "The paper's form (its figure 6)",
        room: Some(|slot_s| {
            format!(
                "NapWaitLimit paper\nNapReAccess {RE_ACCESS}\nNapSlotTickets paper\n\
                 NapSlotPeriod {slot_s}s\nNapTicketLifetime {slot_s}s\nNapTicketPrime {slot_s}s"
            )
        }),
        paper: [
            &["3.92", "0.51", "4.98", "8.88", "16.91", "76.17"],
            &["58.7", "14.7", "72", "2532", "30000", "100 %"],
        ],
    },
    Row {
        name: "mod_nap",
        file: "mod_nap",
        title: "mod_nap as it is by default",
        room: Some(|_| String::new()),
        paper: [&[], &[]],
    },
];

const INFO_LOCKED: [&str; 2] = ["/room/info_locked_ms", "/room/info_locked_most_ms"];

/// A table: its name, its columns.
struct Table {
    name: &'static str,
    columns: [Column; 6],
}

/// Heading, JSON pointer into nap-load's report, decimals.
type Column = (&'static str, &'static str, usize);

const TABLES: [Table; 2] = [
    Table {
        name: "Table 1: response time (s)",
        columns: [
            ("mean", "/response/mean", 2),
            ("variance", "/response/variance", 2),
            ("max", "/response/max", 2),
            ("with waiting: mean", "/total/mean", 2),
            ("variance", "/total/variance", 2),
            ("max", "/total/max", 2),
        ],
    },
    Table {
        name: "Table 2: how long those with a ticket waited for it (s)",
        columns: [
            ("mean", "/wait_told/mean", 1),
            ("variance", "/wait_told/variance", 1),
            ("max", "/wait_told/max", 1),
            ("tickets", "/tickets/issued", 0),
            ("accesses", "/posts/served", 0),
            ("kept", "/kept_share", 0),
        ],
    },
];

fn main() {
    board::require_what_make_builds();
    let posts = board::number_option("posts=", "10");
    let clients = board::number_option("clients=", "600");
    let slot_s = (SLOT_S * posts / POSTS).max(SHORTEST_S);
    let folder = made::directory("demo-paper");
    let [mpm, ..] = board::mpms()[..] else {
        unreachable!("mpms() ends the program where there is none");
    };
    let mut met = Vec::new();
    for row in &ROWS {
        let csv = folder.join(row.file).with_extension("csv");
        eprintln!("\n{}: {clients} clients x {posts} posts", row.name);
        let Some(report) = row.meet(mpm, clients, posts, slot_s, &csv) else {
            std::process::exit(1);
        };
        board::keep(&folder, row.file, &report);
        met.push((row, report, csv));
    }

    let mut text = format!(
        "{clients} clients x {posts} posts of 1 KB, {mpm}, limit {}, bound {BOUND_S} s; the paper's \
         form with slots and tickets of {slot_s} s (its 5 min by {posts}/{POSTS}).\n",
        board::LIMIT
    );
    for (at, table) in TABLES.iter().enumerate() {
        text += &table.written(at, &met);
    }
    let load = board::load_share(met.iter().map(|(_, report, _)| report));
    // The maximum: once the holder of the lock waited that long for a processor.
    let [locked, most] = INFO_LOCKED.map(|pointer| {
        let of_rows = met
            .iter()
            .filter_map(|(_, report, _)| board::figure(report, pointer));
        of_rows.fold(0.0, f64::max)
    });
    text += &format!(
        "\nnap-load itself used {:.0} % of one core; /nap-info, asked four times a second, held the \
         lock for {locked:.3} ms in the median, {most:.3} ms at most.\n",
        100.0 * load,
    );
    print!("\n{text}");
    std::fs::write(folder.join("tables.md"), &text).expect("target takes a file");

    let panels = met.iter().map(|(row, _, csv)| {
        Panel::new(row.title, "seconds of the run", "response time (s)")
            .dots("", served(csv))
            .level(BOUND_S, "bound 4 s")
    });
    let figure = Figure {
        name: "responses".to_string(),
        alt: String::new(),
        panels: panels.collect(),
        alike: true,
    };
    let drawn = figure.draw(&folder).unwrap_or_else(|e| board::stop(&e));
    for path in drawn {
        println!("{}", path.display());
    }
}

impl Row {
    fn meet(&self, mpm: Mpm, clients: u32, posts: u32, slot_s: u32, csv: &Path) -> Option<Value> {
        let httpd = board::start(self.server(mpm, slot_s))?;
        board::send(httpd.port(), None, &FIRST_TO_COME);
        let (clients, posts) = (clients.to_string(), posts.to_string());
        let options = [
            ["--label", self.name],
            ["--clients", &clients],
            ["--posts", &posts],
            ["--post-bytes", "1024"],
            ["--bound", &BOUND_S.to_string()],
            ["--timeout", "600s"],
            ["--stop", "2h"],
            ["--seed", "1"],
            ["--csv", csv.to_str().expect("our own folder's name")],
        ];
        let watched = self.room.is_some().then_some(&httpd);
        Some(board::send(httpd.port(), watched, &options.concat()))
    }

    fn server(&self, mpm: Mpm, slot_s: u32) -> Builder {
        match self.room {
            None => board::plenty(mpm, WORK),
            Some(own) => board::with_nap(
                mpm,
                WORK,
                &format!("{BOUND_S}s\nNapHistory 100\n{}", own(slot_s)),
            ),
        }
    }
}

impl Table {
    /// As Markdown. `at`: which of the tables it is.
    fn written(&self, at: usize, met: &[(&Row, Value, std::path::PathBuf)]) -> String {
        let headings = self.columns.map(|(heading, ..)| heading).join(" | ");
        let mut text = format!(
            "\n{}\n\n| | {headings} |\n|---|{}\n",
            self.name,
            "---:|".repeat(self.columns.len())
        );
        for (row, report, _) in met {
            if !row.paper[at].is_empty() {
                text += &format!("| paper: {} | {} |\n", row.name, row.paper[at].join(" | "));
            }
            if at == 0 || row.room.is_some() {
                let cells = self.columns.map(|column| cell(report, column));
                text += &format!("| {} | {} |\n", row.name, cells.join(" | "));
            }
        }
        text
    }
}

fn cell(report: &Value, (_, pointer, decimals): Column) -> String {
    match board::figure(report, pointer) {
        None => "–".to_string(),
        Some(share) if pointer.ends_with("share") => format!("{:.1} %", 100.0 * share),
        Some(value) => format!("{value:.decimals$}"),
    }
}

/// The served requests in nap-load's rows.
fn served(csv: &Path) -> Vec<Point> {
    let text = std::fs::read_to_string(csv).expect("nap-load has written it");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name| head.iter().position(|&column| column == name);
    let [t, response, reason] = ["t", "response_s", "reason"]
        .map(|name| column(name).unwrap_or_else(|| panic!("nap-load's rows have a column {name}")));
    let point = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells.get(at)?.parse().ok();
        (cells.get(reason) == Some(&"served")).then_some((number(t)?, number(response)?))
    };
    lines.filter_map(point).collect()
}
