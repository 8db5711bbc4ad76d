//! `nap-sim vectors FILE...`: one line a case; a mismatch outweighs a file that cannot be run.

use std::path::PathBuf;
use std::process::ExitCode;

use nap_sim::vectors;

pub fn run(files: &[PathBuf]) -> ExitCode {
    let (mut mismatch, mut refused) = (false, false);
    for file in files {
        let name = file.display();
        let results = std::fs::read_to_string(file)
            .map_err(|e| e.to_string())
            .and_then(|text| vectors::run(&text).map_err(|refused| refused.to_string()));
        match results {
            Err(why) => {
                eprintln!("nap-sim: {name}: {why}");
                refused = true;
            }
            Ok(results) => {
                for vectors::CaseResult {
                    case,
                    expected,
                    got,
                    ok,
                } in results
                {
                    if ok {
                        println!("ok {name}: {case}");
                    } else {
                        println!("MISMATCH {name}: {case}: expected {expected} got {got}");
                        mismatch = true;
                    }
                }
            }
        }
    }
    ExitCode::from(if mismatch { 1 } else { 2 * u8::from(refused) })
}
