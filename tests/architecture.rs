//! Dependencies point one way (src/lib.rs), and only `shm` and `ffi` may be unsafe.

use std::fs;
use std::path::{Path, PathBuf};

/// Each module with those of ours it may name.
const MAY_USE: &[(&str, &[&str])] = &[
    ("charset", &[]),
    ("micros", &[]),
    ("wall", &["micros"]),
    ("control", &["nap", "room"]),
    ("nap", &["micros"]),
    ("bwshare", &["micros"]),
    ("oxthas", &["micros"]),
    ("telepoll", &["micros"]),
    ("sqs", &["micros"]),
    ("room", &["micros", "nap", "sqs", "telepoll"]),
    (
        "conf",
        &[
            "charset", "micros", "nap", "oxthas", "room", "sqs", "telepoll",
        ],
    ),
    (
        "shm",
        &[
            "micros", "nap", "bwshare", "oxthas", "telepoll", "sqs", "room",
        ],
    ),
    ("page", &["charset", "micros", "nap", "room", "wall"]),
    (
        "info",
        &[
            "micros", "nap", "bwshare", "oxthas", "telepoll", "sqs", "room", "wall",
        ],
    ),
    (
        "sim",
        &[
            "micros", "nap", "bwshare", "oxthas", "telepoll", "sqs", "room",
        ],
    ),
    (
        "ffi",
        &[
            "charset", "micros", "nap", "bwshare", "oxthas", "telepoll", "sqs", "room", "shm",
            "page", "info", "conf", "wall", "control",
        ],
    ),
];

fn sources(of: &str) -> Vec<PathBuf> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
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
    found.retain(|path| path.is_file());
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
    for (module, may) in MAY_USE {
        for path in sources(module) {
            for (at, line) in lines(&path) {
                for named in line.split("crate::").skip(1) {
                    let named: String = named
                        .chars()
                        .take_while(|c| c.is_alphanumeric() || *c == '_')
                        .collect();
                    if named != *module && !may.contains(&named.as_str()) && !named.is_empty() {
                        wrong.push(format!("{}:{at}: {module} names {named}", path.display()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_module_is_on_the_map() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"))
        .expect("lib.rs");
    for line in lib.lines() {
        if let Some(module) = line
            .strip_prefix("pub mod ")
            .and_then(|l| l.strip_suffix(';'))
        {
            assert!(
                MAY_USE.iter().any(|(known, _)| *known == module),
                "{module} is not"
            );
        }
    }
}

#[test]
fn only_shm_and_ffi_are_unsafe() {
    let mut wrong = Vec::new();
    for (module, _) in MAY_USE {
        if ["shm", "ffi"].contains(module) {
            continue;
        }
        for path in sources(module) {
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
fn each_directive_has_its_row_in_the_docs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("c_shim/nap_conf.c")).expect("the directives");
    let docs = fs::read_to_string(root.join("docs/directives.md")).expect("their docs");
    let names: Vec<&str> = table
        .lines()
        .filter_map(|line| {
            let (macro_name, rest) = line.trim().split_once("(\"")?;
            let is_row = macro_name.starts_with("AP_INIT")
                || ["ROOM", "SERVER", "PATH", "BWSHARE"].contains(&macro_name);
            is_row.then(|| rest.split('"').next()).flatten()
        })
        .collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let row = format!("| `{name}");
        assert!(
            docs.contains(&row),
            "docs/directives.md has no row for {name}"
        );
    }
}
