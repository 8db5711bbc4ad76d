//! A run's output: tables or JSON on stdout, files of JSON and CSV.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

/// A run in numbers.
pub trait Findings: Serialize {
    /// As tables, for people.
    fn table(&self) -> String;
    /// Whether anything was served at all.
    fn fruitful(&self) -> bool;
}

/// Run, with a writer for rows if `csv` is wanted, and write the report. False when nothing was served.
pub fn write<F: Findings>(
    json: Option<PathBuf>,
    csv: Option<PathBuf>,
    run: impl FnOnce(Option<Box<dyn Write>>) -> io::Result<(F, io::Result<()>)>,
) -> Result<bool, String> {
    let named = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    // Before the run, so that a wrong name is found out early.
    let create = |path: &Path| File::create(path).map_err(|e| named(path, e));
    let to_stdout = json.as_deref() == Some(Path::new("-"));
    let json = match json.filter(|_| !to_stdout) {
        Some(path) => Some((create(&path)?, path)),
        None => None,
    };
    let rows: Option<Box<dyn Write>> = match &csv {
        Some(path) => Some(Box::new(BufWriter::with_capacity(1 << 16, create(path)?))),
        None => None,
    };
    let (report, written) = run(rows).map_err(|e| format!("cannot run: {e}"))?;
    let text = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
    match to_stdout {
        true => println!("{text}"),
        false => print!("{}", report.table()),
    }
    if let Some((mut file, path)) = json {
        writeln!(file, "{text}").map_err(|e| named(&path, e))?;
    }
    if let (Some(path), Err(error)) = (csv, written) {
        return Err(named(&path, error));
    }
    Ok(report.fruitful())
}

/// The program's exit code for this outcome.
pub fn end(outcome: Result<bool, String>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("nap-load: {error}");
            ExitCode::FAILURE
        }
    }
}
