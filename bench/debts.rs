//! The table of debts with a million clients in it: memory, instructions and time of a request's lookup and
//! charge, and which debtors are still known after a flood of new addresses.
//!
//! The table is the module's own, in a shared segment, with its locks. A measured operation finds a client
//! and charges it one file; the clients come in random order. Time is given in random reads. Each reads 64
//! bytes of an array as large as the table, from a mapping of the same kind. The previous read determines the
//! place, as a lookup cannot begin before its key is known. Rounds of both alternate; the median of their
//! ratios and the middle half are printed. Instructions are counted by valgrind's callgrind over this program
//! itself, less those of drawing the clients; including the latch they are within the bound as well. Exits 1
//! when a bound of docs/dev/design.md is exceeded.

use mod_nap::layout::Dims;
use mod_nap::shm::debts::Debts;
use mod_nap::shm::segment::Segment;
use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::limits::{DebtAnswer, Lane, Limits, Rule};
use nap_core::bwshare::table::{Stripe, stripe_of, stripes_for};
use nap_core::bwshare::till::Books as _;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

const CLIENTS: u64 = 1_000_000;
const HEAVY: u64 = 1000;
const FLOOD: u64 = 10_000_000;
const ROUNDS: usize = 15;
const OPERATIONS: u64 = 1_000_000;
/// For callgrind: lookups in two runs, whose difference leaves out everything else.
const FEW: u64 = 1000;
const MANY: u64 = 101_000;

const MEMORY_MIB: f64 = 64.0;
const INSTRUCTIONS: f64 = 250.0;
const READS: f64 = 3.0;

const NOW: u64 = 1_000_000 * SECOND_NS;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip_while(|arg| arg != "--count")
        .collect();
    if let [_, what, n, ..] = &args[..] {
        return count(what, n.parse().expect("a number"));
    }
    let debts = filled();
    let memory = debts.bytes()[0] as f64 / f64::from(1 << 20);
    let ratios = times(&debts);
    let [low, reads, high] = [ROUNDS / 4, ROUNDS / 2, ROUNDS - 1 - ROUNDS / 4].map(|i| ratios[i]);
    let draws = instructions("draws");
    let [table, locked] = ["table", "locked"].map(|what| instructions(what) - draws);
    let (known, lost) = flood();
    println!(
        "\n| debts of {CLIENTS} clients | | bound |\n|---|---:|---:|\n\
         | memory, MiB | {memory:.1} | {MEMORY_MIB} |\n\
         | instructions a lookup and charge | {table:.0} | {INSTRUCTIONS} |\n\
         | with its latch | {locked:.0} | {INSTRUCTIONS} |\n\
         | its time, random reads | {reads:.2} ({low:.2} to {high:.2}) | {READS} |\n\
         | of {HEAVY} heavy debtors known after {FLOOD} new addresses | {known} | {HEAVY} |\n\
         | small debts lost meanwhile | {lost} | |"
    );
    let within = memory <= MEMORY_MIB && reads <= READS && known == HEAVY;
    if !within
        || [table, locked]
            .iter()
            .any(|n| !(1.0..=INSTRUCTIONS).contains(n))
    {
        std::process::exit(1);
    }
}

fn limits() -> Limits {
    Limits {
        files: Lane::new(300.0, 5.0, true),
        bytes: Lane::new(2e8, 1e6, false),
        rule: Rule::Exact,
        refused: 0.0,
        horizons: Horizons::NONE,
    }
}

/// SplitMix64: keys as good as the hashes of real clients.
fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn key(client: u64) -> u64 {
    mixed(client + 1).max(2) & !1
}

fn enter(debts: &Debts, key: u64, limits: &Limits) -> DebtAnswer {
    let answer = debts.of(key, |stripe, _| stripe.visit(key, limits, NOW).ask(false));
    answer.expect("the lock is free")
}

fn segment() -> Segment {
    let dims = Dims {
        children: 1,
        rooms: 1,
        gates: 1,
        places: 1,
        stripes: stripes_for(CLIENTS, 1),
        trace_sets: 1,
        untold: 0,
        executors: 0,
        flights: 0,
        session_sets: 0,
        guest_sets: 0,
    };
    Segment::anonymous(dims).expect("shared memory")
}

/// A table in which every client owes one file.
fn filled() -> Debts {
    let (debts, limits) = (segment().debts().expect("stripes"), limits());
    for client in 0..CLIENTS {
        enter(&debts, key(client), &limits);
    }
    debts
}

fn charge(debts: &Debts, n: u64, seed: u64) -> u64 {
    let limits = limits();
    let draws = (0..n).map(|i| mixed(seed << 40 | i) % CLIENTS);
    draws
        .map(|client| enter(debts, key(client), &limits).wait_ns())
        .sum()
}

/// A lookup's time divided by a random read's, in rising order.
fn times(debts: &Debts) -> Vec<f64> {
    let array = array(debts.bytes()[0] / 64);
    charge(debts, OPERATIONS, 99);
    let mut ratios: Vec<f64> = (0..ROUNDS as u64)
        .map(|round| {
            let begin = Instant::now();
            black_box(charge(debts, OPERATIONS, round));
            let lookups = begin.elapsed();
            let begin = Instant::now();
            black_box(read(&array, OPERATIONS, round));
            lookups.as_secs_f64() / begin.elapsed().as_secs_f64()
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

/// Lines of 64 bytes, in a mapping of the table's kind.
fn array(lines: usize) -> memmap2::MmapMut {
    let name = c"mod_nap bench";
    let file = nix::sys::memfd::memfd_create(name, nix::sys::memfd::MFdFlags::empty());
    let file = std::fs::File::from(file.expect("a memfd"));
    file.set_len(lines as u64 * 64).expect("memory");
    // SAFETY: nobody else has the file.
    let mut array = unsafe { memmap2::MmapMut::map_mut(&file) }.expect("mapped");
    for (n, line) in array.chunks_exact_mut(8).enumerate() {
        line.copy_from_slice(&mixed(n as u64).to_le_bytes());
    }
    array
}

fn read(array: &[u8], n: u64, seed: u64) -> u64 {
    let (lines, _) = array.as_chunks::<64>();
    (0..n).fold(seed, |sum, i| {
        // The last read's value helps to choose the next place.
        let line = &lines[(mixed(sum ^ i) % lines.len() as u64) as usize];
        let words = line.as_chunks::<8>().0.iter();
        words.fold(0, |sum, word| sum ^ u64::from_le_bytes(*word))
    })
}

/// What callgrind counts: drawing clients, and charging them in a table without locks or in the shared one.
fn count(what: &str, n: u64) {
    let limits = limits();
    let drawn = (0..n).map(|i| key(mixed(i) % CLIENTS));
    match what {
        "draws" => {
            black_box(drawn.fold(0, |sum, key| sum ^ key));
        }
        "locked" => {
            let debts = filled();
            black_box(
                drawn
                    .map(|key| enter(&debts, key, &limits).wait_ns())
                    .sum::<u64>(),
            );
        }
        _ => {
            let mut table = vec![Stripe::default(); stripes_for(CLIENTS, 1) as usize];
            let stripes = table.len();
            let mut charge = |key| {
                table[stripe_of(key, stripes)]
                    .visit(key, &limits, NOW)
                    .ask(false)
            };
            (0..CLIENTS).for_each(|client| {
                black_box(charge(key(client)));
            });
            black_box(drawn.map(|key| charge(key).wait_ns()).sum::<u64>());
        }
    }
}

/// Instructions of one operation, as callgrind counts them.
fn instructions(what: &str) -> f64 {
    let counted = [FEW, MANY].map(|n| {
        let out = std::env::temp_dir().join(format!("debts.{}.{n}", std::process::id()));
        let status = Command::new("valgrind")
            .args(["--tool=callgrind", "--log-file=/dev/null"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(std::env::current_exe().expect("this program"))
            .args(["--count", what, &n.to_string()])
            .status();
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        let _ = std::fs::remove_file(&out);
        let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let totals = totals.and_then(|n| n.trim().parse::<f64>().ok());
        totals.filter(|_| status.is_ok_and(|status| status.success()))
    });
    match counted {
        [Some(few), Some(many)] => (many - few) / (MANY - FEW) as f64,
        _ => f64::NAN,
    }
}

/// Heavy debtors that are still refused after the flood, and debts lost in it.
fn flood() -> (u64, u64) {
    let (debts, limits) = (segment().debts().expect("stripes"), limits());
    let heavy = |n: u64| key(1 << 50 | n);
    for n in 0..HEAVY {
        for _ in 0..=300 {
            enter(&debts, heavy(n), &limits);
        }
    }
    for n in 0..FLOOD {
        enter(&debts, key(n), &limits);
    }
    let known = (0..HEAVY).filter(|n| enter(&debts, heavy(*n), &limits) != DebtAnswer::Pass);
    let known = known.count() as u64;
    let lost = (0..debts.stripes()).filter_map(|at| debts.at(at, |s, _| s.counts.evicted));
    (known, lost.sum())
}
