//! Dependencies point one way (src/lib.rs, crates/nap-core/src/lib.rs), and only `shm` and `ffi` may be
//! unsafe. Cargo enforces what the manifests say: nap-core does not depend on httpd, nor nap-sim and nap-load
//! on the module.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A module, and which of our modules it may name.
type May = (&'static str, &'static [&'static str]);

/// Each module of nap-core, with those of nap-core that it may name.
const CORE: &[May] = &[
    ("charset", &[]),
    ("micros", &[]),
    ("row", &[]),
    ("control", &["fleet", "nap", "room"]),
    ("nap", &["micros", "row"]),
    ("bwshare", &["micros"]),
    ("oxthas", &["micros", "row"]),
    ("telepoll", &["micros", "row"]),
    ("sqs", &["micros", "row"]),
    ("fleet", &["micros", "nap", "row"]),
    (
        "room",
        &["micros", "fleet", "nap", "row", "sqs", "telepoll"],
    ),
    (
        "conf",
        &[
            "charset", "fleet", "micros", "nap", "bwshare", "oxthas", "room", "sqs", "telepoll",
        ],
    ),
];

/// Each module of mod_nap, with those of mod_nap and nap-core that it may name.
const MODULE: &[May] = &[
    ("wall", &["micros"]),
    ("latch", &[]),
    ("agent", &[]),
    (
        "layout",
        &[
            "latch", "fleet", "nap", "bwshare", "oxthas", "telepoll", "sqs", "room",
        ],
    ),
    (
        "shm",
        &[
            "latch", "layout", "fleet", "micros", "nap", "bwshare", "oxthas", "telepoll", "sqs",
            "room",
        ],
    ),
    ("orders", &["control", "fleet", "micros", "shm"]),
    ("state_file", &["layout", "shm", "micros", "nap", "room"]),
    (
        "page",
        &["charset", "micros", "nap", "bwshare", "room", "wall"],
    ),
    (
        "info",
        &[
            "micros", "fleet", "nap", "bwshare", "oxthas", "telepoll", "sqs", "room", "wall",
        ],
    ),
    (
        "ffi",
        &[
            "agent",
            "charset",
            "fleet",
            "micros",
            "nap",
            "bwshare",
            "oxthas",
            "telepoll",
            "sqs",
            "room",
            "latch",
            "layout",
            "shm",
            "state_file",
            "page",
            "info",
            "conf",
            "wall",
            "control",
            "orders",
        ],
    ),
];

/// Packages that the module is built from on Linux, its own two included.
const PACKAGES: usize = 45;

/// The two packages with their folders.
const PARTS: [(&[May], &str); 2] = [(CORE, "crates/nap-core/src"), (MODULE, "src")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(of: &str, folder: &str) -> Vec<PathBuf> {
    let src = root().join(folder);
    let mut found = vec![src.join(format!("{of}.rs"))];
    let mut folders = vec![src.join(of)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => found.push(path),
            }
        }
    }
    // Generated, and full of C's own nap_core.
    found.retain(|path| path.is_file() && !path.ends_with("ffi/contract.rs"));
    assert!(!found.is_empty(), "{of} is not in {folder}");
    found
}

fn lines(path: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(path).expect("a source of ours");
    text.lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.starts_with("//"))
        .map(|(at, line)| (at + 1, line.to_owned()))
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    let mut wrong = Vec::new();
    for (modules, folder) in PARTS {
        for (module, may) in modules {
            for path in sources(module, folder) {
                for (at, line) in lines(&path) {
                    for named in names_after(&line, &["crate::", "nap_core::"]) {
                        if named != *module && !may.contains(&named.as_str()) {
                            wrong.push(format!("{}:{at}: {module} names {named}", path.display()));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The names that follow each of these paths in the line.
fn names_after(line: &str, paths: &[&str]) -> Vec<String> {
    let behind = paths.iter().flat_map(|path| line.split(path).skip(1));
    let word = |text: &str| -> String {
        let is_of_a_name = |c: &char| c.is_alphanumeric() || *c == '_';
        text.chars().take_while(is_of_a_name).collect()
    };
    behind.map(word).filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_module_is_on_the_map() {
    for (modules, folder) in PARTS {
        let lib = fs::read_to_string(root().join(folder).join("lib.rs")).expect("lib.rs");
        let declared = lib
            .lines()
            .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        let declared: BTreeSet<&str> = declared.collect();
        let known: BTreeSet<&str> = modules.iter().map(|(name, _)| *name).collect();
        assert_eq!(declared, known, "{folder}");
    }
}

#[test]
fn only_shm_and_ffi_are_unsafe() {
    let core = fs::read_to_string(root().join("crates/nap-core/src/lib.rs")).expect("lib.rs");
    assert!(core.contains("\n#![forbid(unsafe_code)]\n"));
    let mut wrong = Vec::new();
    for (module, _) in MODULE {
        if ["shm", "ffi"].contains(module) {
            continue;
        }
        for path in sources(module, "src") {
            for (at, line) in lines(&path) {
                if line.contains("unsafe ") || line.contains("unsafe{") {
                    wrong.push(format!("{}:{at}: {line}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_module_is_built_from_few_packages() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "mod_nap", "--edges", "normal,build"])
        .args(["--prefix", "none", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let packages: BTreeSet<&str> = said
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    assert!(output.status.success(), "{output:?}");
    assert!(packages.len() > 10, "{said}");
    assert!(packages.len() <= PACKAGES, "{}: {said}", packages.len());
}
