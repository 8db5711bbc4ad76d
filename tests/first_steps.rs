//! A new user's first steps: loading our configuration, with the line in it that loads the module, and
//! pointing ab at the server.

use nap_testkit::{Httpd, for_each_mpm, made, wait_until};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

/// mod_nap's message when more visitors could wait than httpd has workers for.
const SMALL: &str = "this room wants MaxRequestWorkers";
const SMALL_REASON: &str = "the test's server is small";

#[test]
fn the_shipped_configuration_loads_and_protects() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/apache-conf"));
    for file in files.expect("apache-conf is there") {
        let path = file.expect("a readable directory").path();
        let config = std::fs::read_to_string(&path).expect("a readable file");
        let installed = "/usr/lib/apache2/modules/mod_nap.so";
        assert!(config.contains(&format!("LoadModule nap_module {installed}\n")));
        let config = config.replace(installed, &made::module().display().to_string());
        let server = Httpd::builder()
            .config(&config)
            .expect_log(SMALL, SMALL_REASON);
        server
            .clone()
            .configtest()
            .unwrap_or_else(|said| panic!("{}: {said}", path.display()));
        let httpd = server.start();
        assert_eq!(httpd.get("/board").status, 200);
        let info = httpd.get("/nap-info?json");
        assert_eq!(info.status, 200);
        assert!(
            info.text().contains("site"),
            "the room shows: {}",
            info.text()
        );
    }
}

#[test]
fn ab_gets_an_answer_to_every_request_and_the_limit_holds() {
    for_each_mpm(|mpm| {
        let httpd = Httpd::builder()
            .mpm(mpm)
            .nap()
            .workers(4, 32)
            .expect_log(SMALL, SMALL_REASON)
            .config("<NapRoom ab>\nNapRunReady 10\nNapWaitMax 4s\n</NapRoom>")
            .config("<Location /counter>\nNapUse ab\n</Location>")
            .start();
        let report = ab(&[
            "-l",
            "-n",
            "5000",
            "-c",
            "100",
            // Ten of them are sure to overlap, however slowly they start.
            &(httpd.url() + "/counter?ms=30"),
        ]);
        let number = |name| number(&report, name);
        assert_eq!(number("Complete requests:"), Some(5000), "{report}");
        assert_eq!(number("Failed requests:"), Some(0), "{report}");
        // ab sends a few more requests than it counts, and httpd logs after answering.
        let statuses = || -> Vec<String> {
            let log = httpd.access_log();
            log.lines()
                .filter_map(|l| Some(l.rsplit(' ').nth(2)?.to_string()))
                .collect()
        };
        wait_until("all is logged", Duration::from_secs(10), || {
            statuses().len() >= 5000
        });
        assert!(
            statuses().iter().all(|s| s == "200" || s == "503"),
            "served or told when"
        );
        let counter = httpd.counter();
        let served = statuses().iter().filter(|s| *s == "200").count();
        assert!(
            counter.started >= served as u64,
            "{counter:?}, {served} served"
        );
        assert_eq!(counter.max, 10, "full, and never over: {counter:?}");
    });
}

#[test]
fn an_old_toolchain_is_told_before_anything_is_built() {
    let dir = std::env::temp_dir().join(format!("nap-old-rust-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory of our own");
    for (name, says) in [("cargo", "cargo 0.66.0"), ("rustc", "rustc 1.63.0")] {
        let program = dir.join(name);
        std::fs::write(&program, format!("#!/bin/sh\necho {says}\n")).expect("our own");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
            .expect("our own");
    }
    let path = format!("{}:/usr/bin:/bin", dir.display());
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/setup.sh"))
        .arg("build")
        .env("PATH", path)
        .output()
        .expect("bash runs");
    std::fs::remove_dir_all(&dir).expect("our own");
    let said = String::from_utf8_lossy(&output.stderr);
    let wanted = env!("CARGO_PKG_RUST_VERSION");
    let sentence = format!("this Rust is 1.63.0, and {wanted} or newer is wanted");
    assert!(
        !output.status.success() && said.contains(&sentence),
        "{said}"
    );
}

fn ab(args: &[&str]) -> String {
    let output = Command::new("ab").args(args).output();
    let output = output.unwrap_or_else(|e| panic!("ab: {e}; `make setup` installs it"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// The number after a name in ab's report; ab leaves out what did not happen.
fn number(report: &str, name: &str) -> Option<u64> {
    let rest = report.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}
