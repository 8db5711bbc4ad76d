//! `nap-sim vectors` as a user runs it: lines and exit status.

use std::process::{Command, Output};

fn vectors(files: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nap-sim"))
        .arg("vectors")
        .args(files)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("nap-sim starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn vectors_that_agree_print_a_line_each_and_exit_zero() {
    let output = vectors(&[
        "tests/vectors/nap_wait.json",
        "tests/vectors/nap_ticket.json",
        "tests/vectors/bwshare.json",
        "tests/vectors/oxthas.json",
        "tests/vectors/telepolling.json",
    ]);
    let lines = text(&output.stdout);
    assert_eq!(
        (output.status.code(), lines.lines().count()),
        (Some(0), 41),
        "{lines}"
    );
    assert!(lines.lines().all(|line| line.starts_with("ok ")), "{lines}");
}

#[test]
fn a_mismatch_is_shown_with_both_values_and_exits_one() {
    let file = format!("{}/wrong.json", env!("CARGO_TARGET_TMPDIR"));
    let wrong = r#"{"name": "nap_ticket", "cases": [{"case": "return rate", "expect": {"r": 0.9},
        "input": {"op": "return_rate", "returned": 5, "closed": 9, "z": 1.6, "closed_min": 10}}]}"#;
    std::fs::write(&file, wrong).expect("written");
    let output = vectors(&[&file, "no/such/file.json"]);
    let lines = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(lines.starts_with("MISMATCH "), "{lines}");
    assert!(
        lines.contains(r#"expected {"r":0.9} got {"r":1.0}"#),
        "{lines}"
    );
    assert!(text(&output.stderr).contains("no/such/file.json: "));
}

#[test]
fn a_file_that_cannot_be_run_says_why_and_exits_two() {
    let file = format!("{}/unknown.json", env!("CARGO_TARGET_TMPDIR"));
    let unknown = r#"{"name": "tides", "cases": [
        {"case": "c", "input": {"law": "moon"}, "expect": {"m": 1}}]}"#;
    std::fs::write(&file, unknown).expect("written");
    let output = vectors(&[&file]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("unsupported: \"moon\" in a file named \"tides\""),
        "{said}"
    );
    assert_eq!(vectors(&["Cargo.toml"]).status.code(), Some(2));
}
