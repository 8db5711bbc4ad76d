//! The program: its parent is httpd, nobody else has a use for it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use mod_nap::agent::{OTHER_LAYOUT, SEGMENT};
use mod_nap::shm::segment::{Inherited, Segment};
use nap_agent::agent::Agent;
use nap_agent::life::Life;
use nap_agent::log::{Level, say};
use nap_core::fleet::link::{Link, Standing};
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;
use nix::sys::prctl::set_dumpable;

fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        println!(
            "nap-agent {}: started by httpd with mod_nap and NapStore, not by hand",
            env!("CARGO_PKG_VERSION")
        );
        return ExitCode::SUCCESS;
    }
    // Its memory and its descriptors are not those of every program that runs as the same user: it knows secrets.
    if let Err(error) = set_dumpable(false) {
        return broken(&format!("its memory cannot be closed to others: {error}"));
    }
    let mut life = match Life::begin() {
        Ok(life) => life,
        Err(error) => return broken(&format!("signals cannot be read: {error}")),
    };
    let brief = match life.brief() {
        Some(Ok(brief)) => brief,
        Some(Err(_)) => return foreign(None),
        None => return ExitCode::SUCCESS,
    };
    match Segment::inherited(SEGMENT, brief.segment) {
        Inherited::Known(segment) => match Agent::new(segment, brief) {
            Some(mut agent) => {
                agent.run(&mut life);
                ExitCode::SUCCESS
            }
            None => foreign(None),
        },
        Inherited::Foreign(segment) => foreign(segment.link().map(|link| (link, segment.now()))),
        Inherited::None(error) => broken(&format!("descriptor {SEGMENT} is no segment: {error}")),
    }
}

/// The module is of another version: so is the next start.
fn foreign(link: Option<(&Link, Micros)>) -> ExitCode {
    if let Some((link, now)) = link {
        link.stand(now, Standing::Alone, Some(Trouble::OtherLayout));
    }
    let words = format!("{}; this server runs alone", Trouble::OtherLayout.words());
    say(Level::Error, &words);
    ExitCode::from(OTHER_LAYOUT)
}

fn broken(words: &str) -> ExitCode {
    say(Level::Error, &format!("nap-agent: {words}"));
    ExitCode::FAILURE
}
