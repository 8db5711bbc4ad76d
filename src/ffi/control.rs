//! `nap-control`: an administrator's form, carried out.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use super::bwshare;
use super::contract::nap_form;
use super::guard::guard;
use super::pages::{source_of, wall_now};
use super::process::{self, Process};
use super::session;
use super::text::{bytes, put_error};
use crate::orders;
use crate::page::form::Encoding;
use nap_core::control::{Command, Scope, Sent, Which, is_good};
use nap_core::fleet::link::Standing;
use nap_core::fleet::orders::{ORDERS, Posted};

/// How long an order waits to be told to the store before it is answered.
const PATIENCE: Duration = Duration::from_secs(1);

/// A status and the text to say.
type Outcome = (c_int, String);

pub unsafe extern "C" fn control(
    form: *const nap_form,
    said: *mut c_char,
    back: *mut c_char,
) -> c_int {
    guard(500, || {
        // SAFETY: nap.h's promise.
        let (process, form) = (process::process()?, unsafe { form.as_ref() }?);
        // SAFETY: nap.h's promise: the strings are live for the call.
        let (sent, header, trusted) = unsafe {
            let plain = Encoding::of(bytes(form.content_type)) == Some(Encoding::Urlencoded);
            (
                Sent::parse(bytes(form.body)),
                String::from_utf8_lossy(bytes(form.nonce)).into_owned(),
                (source_of(form).is_same_origin(), plain),
            )
        };
        let (status, words) = outcome(process, &sent, &header, trusted);
        let way = sent.back.filter(|_| status == 200).unwrap_or_default();
        // SAFETY: nap.h's promise: room for NAP_ERR_MAX bytes each.
        unsafe {
            put_error(said, &words);
            put_error(back, &way);
        }
        Some(status)
    })
}

fn outcome(process: &Process, sent: &Sent, header: &str, trusted: (bool, bool)) -> Outcome {
    let (same_origin, urlencoded) = trusted;
    let no = |status, why: &str| (status, why.to_owned());
    if !same_origin {
        return no(
            403,
            "it does not come from a page of this origin (Sec-Fetch-Site, Origin)",
        );
    }
    let nonce = match header {
        "" => sent.nonce.as_str(),
        header => header,
    };
    let secret = process::secret();
    if !is_good(nonce, &secret, wall_now().unix.secs_floor()) {
        return no(
            403,
            "its nonce is missing, wrong or expired; /nap-info shows a new one",
        );
    }
    if !urlencoded {
        return no(415, "only application/x-www-form-urlencoded is read");
    }
    let in_fleet = process::setup().is_some_and(|setup| setup.node.is_some());
    match (&sent.command, sent.scope) {
        (Err(why), _) => no(400, why),
        (Ok(_), Some(Scope::Fleet)) if !in_fleet => {
            no(400, "scope: this server is no node of a fleet")
        }
        (Ok(command), None | Some(Scope::Fleet)) if in_fleet => for_all(process, command),
        (Ok(command), _) => here(process, command),
    }
}

/// Carries it out for this node alone.
fn here(process: &Process, command: &Command) -> Outcome {
    let done = match known(command) {
        Err(outcome) => return outcome,
        Ok(Command::Forgive(client)) => {
            let owed = bwshare::forgive(client.octets());
            let no_debt = if owed { "" } else { "; there was no debt" };
            return (200, format!("{}{no_debt}", command.sentence()));
        }
        Ok(known) => orders::carry_out(&process.segment, &known),
    };
    match done {
        Some(true) => (200, command.sentence()),
        done => not_done(done, command),
    }
}

/// The same for all nodes of the fleet.
fn for_all(process: &Process, command: &Command) -> Outcome {
    let known = match known(command) {
        Err(outcome) => return outcome,
        // What was told of the debt is told to be gone.
        Ok(Command::Forgive(_)) => return here(process, command),
        Ok(known) => known,
    };
    let (done, posted) = match orders::order_all(&process.segment, &known) {
        Some((true, posted)) => (command.sentence(), posted),
        // It may be at another node.
        Some((false, posted @ Some(_))) => (format!("{} here", no_such(command)), posted),
        done => return not_done(done.map(|_| false), command),
    };
    let words = match posted {
        Some(posted) => told(process, posted),
        None => format!("the fleet is not told: {ORDERS} orders wait for the store"),
    };
    (200, format!("{done}; {words}"))
}

/// Waits until the fleet has been told, if that may be soon.
fn told(process: &Process, posted: Posted) -> String {
    let link = process.segment.link();
    let standing = link.map(|link| link.standing(process.segment.now()));
    let patience = match standing {
        Some(Standing::Joined) => PATIENCE,
        _ => Duration::ZERO,
    };
    if process.segment.wait_until_told(posted, patience) {
        return "the fleet has been told".to_owned();
    }
    let trouble = link.and_then(|link| link.trouble());
    let why = trouble.map_or(String::new(), |trouble| format!(" ({})", trouble.words()));
    match standing {
        Some(Standing::Joined) => "the fleet is told as soon as the store answers".to_owned(),
        Some(Standing::Alone) => {
            format!("this server runs alone{why}; the fleet is told when that is over")
        }
        _ => format!("the store is away{why}; the fleet is told when it is back"),
    }
}

/// A session that is named by its cookie by its id.
fn known(command: &Command) -> Result<Command, Outcome> {
    match command {
        Command::End(Which::Cookie { room, value }) => {
            match session::key_of(room, value.as_bytes()) {
                Some(key) => Ok(Command::End(Which::Id(key))),
                None => Err((404, "room: no room of this name has sessions".to_owned())),
            }
        }
        command => Ok(command.clone()),
    }
}

/// `done`: the lock was free, and there was nothing to do it with.
fn not_done(done: Option<bool>, command: &Command) -> Outcome {
    match done {
        Some(_) => (404, no_such(command).to_owned()),
        None => (503, "the tables stay locked; please try again".to_owned()),
    }
}

fn no_such(command: &Command) -> &'static str {
    match command {
        Command::End(_) => "session: there is no such session",
        _ => "room: there is no such room",
    }
}
