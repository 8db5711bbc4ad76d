//! What `make` built for the tests, and whether it is still up to date with the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// The module: the file that `make` put under target/, or the one that `NAP_SO` names.
pub fn module() -> PathBuf {
    match std::env::var_os("NAP_SO") {
        Some(path) => path.into(),
        None => file("release/mod_nap.so"),
    }
}

/// A file that `make` built under target/; panics when it is missing or older than its sources.
pub fn file(name: &str) -> PathBuf {
    look_for(name).unwrap_or_else(|missing| panic!("{missing}"))
}

/// The same, or a sentence that says what to do.
pub fn look_for(name: &str) -> Result<PathBuf, String> {
    let path = target().join(name);
    let made = path.metadata().and_then(|m| m.modified());
    let Ok(made) = made else {
        return Err(format!(
            "{} does not exist: run `make test`, or `make` first",
            path.display()
        ));
    };
    let repository = repository();
    let sources: &[&str] = match name {
        "cgi/board" => &["demo/board.c"],
        "cgi/counter" => &["tests/cgi/counter.c"],
        "cgi/work" => &["demo/work.c"],
        "cgi/backend" => &["demo/backend.c"],
        "preload/die_holding.so" => &["tests/preload/die_holding.c"],
        "preload/late_connection.so" => &["tests/preload/late_connection.c"],
        "preload/wall_clock.so" => &["tests/preload/wall_clock.c"],
        "release/nap-load" => &["crates/nap-load/src", "crates/nap-core/src"],
        "release/nap-agent" => &["crates/nap-agent/src", "src", "crates/nap-core/src"],
        "release/mod_nap.so" => &[
            "src",
            "crates/nap-core/src",
            "c_shim",
            "templates",
            "build.rs",
            "Cargo.toml",
            "Cargo.lock",
        ],
        _ => &[],
    };
    for source in sources {
        if newest(&repository.join(source)) > made {
            return Err(format!(
                "{name} is older than {source}: run `make test`, or `make` first"
            ));
        }
    }
    Ok(path)
}

/// A directory under target/ for a run's output.
pub fn directory(name: &str) -> PathBuf {
    let path = target().join(name);
    fs::create_dir_all(&path).expect("target takes a directory");
    path
}

/// The project's own folder.
pub fn repository() -> &'static Path {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR"));
    kit.ancestors()
        .nth(2)
        .expect("the kit is in crates/nap-testkit")
}

/// Where cargo puts its output: a test program is in its debug/deps.
fn target() -> PathBuf {
    let program = std::env::current_exe().expect("a program has a file");
    let target = program
        .ancestors()
        .nth(3)
        .expect("cargo builds tests in target/debug/deps");
    target.to_owned()
}

/// When the newest file of a tree changed.
fn newest(path: &Path) -> std::time::SystemTime {
    let modified = path.metadata().and_then(|m| m.modified());
    let own = modified.unwrap_or(std::time::SystemTime::UNIX_EPOCH);
    if !path.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).expect("our own source tree").flatten();
    entries
        .map(|entry| newest(&entry.path()))
        .max()
        .unwrap_or(std::time::SystemTime::UNIX_EPOCH)
}
