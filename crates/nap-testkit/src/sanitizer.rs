//! httpd under a sanitizer: `make test-sanitize` and `make test-threads` name a sanitizer's runtime in
//! `NAP_PRELOAD`, and the module built with it in `NAP_SO`.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Loads the runtime before anything else. Its reports go to files that the children can write.
pub fn preload(command: &mut Command, root: &Path) {
    let Some(runtime) = std::env::var_os("NAP_PRELOAD") else {
        return;
    };
    let log = format!("log_path={}/data/sanitizer", root.display());
    // httpd frees most of its memory only by ending.
    let of_addresses = format!("detect_leaks=0:detect_stack_use_after_return=1:{log}");
    command
        .env("RUNTIME", runtime)
        .env("ASAN_OPTIONS", of_addresses)
        .env("UBSAN_OPTIONS", format!("print_stacktrace=1:{log}"))
        .env(
            "TSAN_OPTIONS",
            format!("report_signal_unsafe=0:ignore_noninstrumented_modules=1:{log}"),
        );
}

/// Everything that the sanitizers of a server's processes have reported.
pub fn reports(root: &Path) -> String {
    let entries = fs::read_dir(root.join("data")).into_iter().flatten();
    entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("sanitizer.")
        })
        .map(|entry| fs::read_to_string(entry.path()).expect("a report can be read"))
        .map(|report| without_httpds_races(&report))
        .collect()
}

/// Leaves out TSan's reports of a race without a frame of ours: a stopping httpd, for one, closes sockets
/// that its threads still read from.
fn without_httpds_races(report: &str) -> String {
    let is_httpds = |part: &&str| {
        let is_race = part.starts_with("WARNING: ThreadSanitizer: data race");
        (is_race && !part.contains("c_shim/")) || part.starts_with("ThreadSanitizer: reported ")
    };
    let parts = report.split("==================\n");
    parts.filter(|part| !is_httpds(part)).collect()
}
