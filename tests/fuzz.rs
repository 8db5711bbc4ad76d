//! The fuzz targets on stable Rust: each over its corpus (`tests/fuzz/corpus`), over every beginning of its
//! inputs, and over a number of seeded mutations. `NAP_SEED` repeats a run; `NAP_TEST=all` takes 50 times as
//! many. What a fuzzer finds is added to the corpus and stays.

#[path = "fuzz/targets.rs"]
mod targets;

use nap_rng::Rng;
use nap_testkit::long;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Longest input; httpd's own limit for a header line is 8190.
const LONGEST: usize = 9000;
/// Building blocks of all targets' grammars.
const TOKENS: &[&[u8]] = &[
    b"nap",
    b"=",
    b";",
    b",",
    b"&",
    b"\"",
    b"%",
    b"%00",
    b"%E3%81%82",
    b"+",
    b"\r\n",
    b"--",
    b"nap-ticket",
    b"multipart/form-data; boundary=",
    b"filename",
    b"min",
    b"auto",
    b"18446744073709551616",
    b"9223372036854775807",
    b".",
    b"us",
    b"h",
    b" ",
    b"\0",
    b"\xff",
    b"q=0",
    b"*/*",
    b"&do=",
    b"&room=",
    b"revoke",
    b"shop=",
    b"\n",
];

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(target);
    let entries = std::fs::read_dir(dir).expect("each target has a corpus");
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has an empty corpus");
    files
        .iter()
        .map(|path| std::fs::read(path).expect("a file"))
        .collect()
}

fn below(rng: &mut Rng, n: usize) -> usize {
    rng.below(n as u64) as usize
}

/// One to eight changes: a byte, a bit, a token, a piece of another input, a cut, a repetition.
fn mutate(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = seeds[below(rng, seeds.len())].clone();
    for _ in 0..1 + below(rng, 8) {
        let at = below(rng, data.len() + 1);
        let to = at + below(rng, data.len() + 1 - at);
        match below(rng, 7) {
            0 if at < data.len() => data[at] = rng.below(256) as u8,
            1 if at < data.len() => data[at] ^= 1 << rng.below(8),
            2 => drop(data.splice(at..at, TOKENS[below(rng, TOKENS.len())].iter().copied())),
            3 => {
                let other = &seeds[below(rng, seeds.len())];
                let from = below(rng, other.len() + 1);
                drop(data.splice(at..to, other[from..].iter().copied()));
            }
            4 => drop(data.drain(at..to)),
            5 => {
                let again = data[at..to].to_vec();
                drop(data.splice(at..at, again));
            }
            _ => data.truncate(at),
        }
        data.truncate(LONGEST);
    }
    data
}

fn try_one(name: &str, target: targets::Target, data: &[u8], from: &str) {
    let tried = catch_unwind(AssertUnwindSafe(|| target(data)));
    assert!(
        tried.is_ok(),
        "{name} fails on {:?} ({from})",
        data.escape_ascii().to_string()
    );
}

#[test]
fn no_input_breaks_a_target() {
    let given = std::env::var("NAP_SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or(1);
    for (name, target, runs) in targets::ALL {
        let seeds = corpus(name);
        for data in &seeds {
            let beginnings = (0..=data.len()).filter(|_| *runs > 1000);
            for n in beginnings.chain([data.len()]) {
                try_one(name, *target, &data[..n], "corpus");
            }
        }
        let mut rng = Rng::new(seed, 0);
        for _ in 0..runs * if long() { 50 } else { 1 } {
            let data = mutate(&mut rng, &seeds);
            try_one(name, *target, &data, &format!("NAP_SEED={seed}"));
        }
    }
}
