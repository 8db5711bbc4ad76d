//! `nap-control`: an administrator's form, carried out.

use std::ffi::{c_char, c_int};

use super::bwshare;
use super::contract::nap_form;
use super::guard::guard;
use super::pages::{source_of, wall_now};
use super::process::{self, Process};
use super::session;
use super::text::{bytes, put_error};
use crate::page::form::Encoding;
use nap_core::control::{Command, Sent, Which, is_good};

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
    match &sent.command {
        Err(why) => no(400, why),
        Ok(command) => carry_out(process, command),
    }
}

fn carry_out(process: &Process, command: &Command) -> Outcome {
    match command {
        Command::Room(room, order) => {
            let room = room.as_deref();
            let done = process.segment.locked(|tables| tables.order(room, order));
            told(done, command, "room: there is no such room")
        }
        Command::End(which) => end_session(process, command, which),
        Command::Forgive(client) => match bwshare::forgive(client.octets()) {
            true => (200, command.sentence()),
            false => (200, format!("{}; there was no debt", command.sentence())),
        },
    }
}

fn end_session(process: &Process, command: &Command, which: &Which) -> Outcome {
    let key = match which {
        Which::Id(id) => *id,
        Which::Cookie { room, value } => match session::key_of(room, value.as_bytes()) {
            Some(key) => key,
            None => return (404, "room: no room of this name has sessions".to_owned()),
        },
    };
    let done = process
        .segment
        .locked_sessions(|members| members.revoke(key));
    told(done, command, "session: there is no such session")
}

/// `done`: has it been, under the lock? `missing`: why not.
fn told(done: Option<bool>, command: &Command, missing: &str) -> Outcome {
    match done {
        Some(true) => (200, command.sentence()),
        Some(false) => (404, missing.to_owned()),
        None => (503, "the tables stay locked; please try again".to_owned()),
    }
}
