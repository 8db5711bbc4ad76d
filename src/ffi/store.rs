//! The agent of a fleet's store, as the parent starts it: what is wrong with `NapStore`, and the brief.

use std::ffi::{c_char, c_int};
use std::fs::File;
use std::io::ErrorKind::PermissionDenied;
use std::io::{Read as _, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::conf::{server, told};
use super::contract::{nap_conf, nap_str};
use super::guard::guard;
use super::process::{self, Process, Setup};
use super::text::text;
use crate::agent::{Auth, Brief, KeyMark, RoomMark};
use crate::info::Fleet;
use nap_core::conf::{RoomConf, StoreAuth, StoreConf};
use nap_core::fleet::link::Standing;
use nap_core::fleet::member::NAME;
use nap_core::fleet::trouble::Trouble;

/// Bytes of a file of `NapStoreAuth`, or of one that it names.
const FILE_MAX: u64 = 64 << 10;

pub unsafe extern "C" fn brief(
    conf: *const nap_conf,
    auth: nap_str,
    keys: nap_str,
    pipe: c_int,
    pause_ms: u32,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises.
        let (conf, auth, keys) = unsafe { (server(conf)?, text(auth), text(keys)) };
        let result = match pipe {
            -1 => check(keys, auth),
            pipe => {
                // SAFETY: the shim's own pipe, open for the call; it is not closed here.
                let pipe = unsafe { ManuallyDrop::new(File::from_raw_fd(pipe)) };
                tell(&pipe, &conf.store, keys, auth, pause_ms)
            }
        };
        // SAFETY: nap.h's promise.
        Some(unsafe { told(result, err) })
    })
}

pub unsafe extern "C" fn no_agent() {
    guard((), || {
        let process = process::process()?;
        let now = process.segment.now();
        let link = process.segment.link()?;
        // One from before a restart has no say any more.
        link.agent.store(0, SeqCst);
        link.stand(now, Standing::Alone, Some(Trouble::NoAgent));
        Some(())
    });
}

/// Writes the brief into the pipe.
fn tell(
    mut pipe: &File,
    store: &StoreConf,
    keys: &str,
    auth: &str,
    pause_ms: u32,
) -> Result<(), String> {
    let parts = process::process().zip(process::setup());
    let (process, setup) = parts.ok_or("this server is not ready")?;
    has_keys(keys)?;
    let auth = auth_of(auth)?;
    let brief = brief_of(store, auth, process, setup, pause_ms);
    let mut line = serde_json::to_vec(&brief).map_err(|error| error.to_string())?;
    line.push(b'\n');
    // It does not block: nobody reads it yet.
    pipe.write_all(&line)
        .map_err(|_| format!("its pipe has no room for {} bytes", line.len()))?;
    // One that has died may have held a stripe of debts.
    if pause_ms > 0
        && let Some(debts) = process.segment.debts()
    {
        debts.free_of_agent();
    }
    if let Some(link) = process.segment.link() {
        link.starts.fetch_add(1, Relaxed);
        if link.trouble() == Some(Trouble::NoAgent) {
            link.stand(process.segment.now(), Standing::Starting, None);
        }
    }
    Ok(())
}

/// What is known of the fleet; None: this server is no node of one.
pub fn fleet(process: &Process) -> Option<Fleet> {
    let setup = process::setup()?;
    let (store, node) = (&setup.store, setup.node.as_ref()?);
    let mut fleet = Fleet::new(store.url.as_str(), store.fleet(), node);
    process.segment.locked_fleet(|members| fleet.take(members));
    process
        .segment
        .locked(|tables| fleet.take_stakes(tables.stakes));
    if let Some(link) = process.segment.link() {
        fleet.take_link(link, process.segment.now());
    }
    Some(fleet)
}

/// What an agent has to know.
fn brief_of(store: &StoreConf, auth: Auth, process: &Process, setup: &Setup, pause: u32) -> Brief {
    let host = host();
    let rooms = setup.rooms.iter().filter(|room| !room.conf.is_page());
    Brief {
        segment: process.segment.raw().1 as u64,
        store: store.url.as_str().to_owned(),
        fleet: store.fleet().to_owned(),
        timeout: store.timeout_ms(),
        sticky: store.is_sticky(),
        spare: store.spare != 0,
        forget: store.forget_us.max(0) as u64 / 1000,
        auth,
        node: node(store, &host),
        host,
        keys: setup
            .keys
            .marks()
            .map(|(id, mark)| KeyMark { id, mark })
            .collect(),
        rooms: rooms.map(|room| mark_of(&room.conf)).collect(),
        pause,
    }
}

fn mark_of(room: &RoomConf) -> RoomMark {
    let ms = |us: i64| us.max(0) as u64 / 1000;
    RoomMark {
        name: room.name.as_str().to_owned(),
        wait_max: ms(room.wait_max_us),
        prime: ms(room.ticket_prime_us),
        horizon: ms(room.ticket_horizon_us),
        limit: match room.run_ready_shared {
            1 => room.run_ready.max(0) as u64,
            _ => 0,
        },
    }
}

/// The host's name.
fn host() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok())
        .unwrap_or_default()
}

/// What this server is called in its fleet: as configured, or as its host, as far as that is a name.
pub fn node(store: &StoreConf, host: &str) -> String {
    if !store.node.is_empty() {
        return store.node.as_str().to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name = host.chars().take(NAME);
    name.map(|c| if plain(c) { c } else { '-' }).collect()
}

/// The same of this host.
pub fn own_name(store: &StoreConf) -> String {
    node(store, &host())
}

/// What is wrong with the configuration of the store, as far as the user may know who asks.
fn check(keys: &str, auth: &str) -> Result<(), String> {
    has_keys(keys)?;
    let own = nix::unistd::geteuid();
    let about = std::fs::metadata(auth);
    match about {
        Ok(about) if !own.is_root() && about.uid() != own.as_raw() => Ok(()),
        Err(error) if !own.is_root() && error.kind() == PermissionDenied => Ok(()),
        _ => auth_of(auth).map(drop),
    }
}

fn has_keys(keys: &str) -> Result<(), String> {
    match keys {
        "" => Err(
            "NapStore: wants NapTicketKey: tickets of this server could not be told by the others"
                .into(),
        ),
        _ => Ok(()),
    }
}

/// What the file of `NapStoreAuth` says, with what is in the files that it names.
fn auth_of(path: &str) -> Result<Auth, String> {
    if path.is_empty() {
        return Ok(Auth::default());
    }
    let said = |why: String| format!("NapStoreAuth {path}: {why}");
    let text = secret(path).map_err(said)?;
    let lines = StoreAuth::read(&text).map_err(said)?;
    let content = |word: &str, file: &str| match file {
        "" => Ok(String::new()),
        file => read(file).map_err(|why| said(format!("{word} {file}: {why}"))),
    };
    Ok(Auth {
        user: lines.user.to_owned(),
        password: lines.password.to_owned(),
        ca: content("ca", lines.ca)?,
        certificate: content("cert", lines.pair[0])?,
        key: content("key", lines.pair[1])?,
    })
}

/// A file that only its owner may read.
fn secret(path: &str) -> Result<String, String> {
    let about = std::fs::metadata(path).map_err(short)?;
    let own = nix::unistd::geteuid().as_raw();
    if ![0, own].contains(&about.uid()) {
        return Err("must belong to root or to the user who starts the server".into());
    }
    if about.mode() & 0o026 != 0 {
        let why = "must not be readable by everybody nor writable by its group; use chmod 600";
        return Err(why.into());
    }
    read(path)
}

fn read(path: &str) -> Result<String, String> {
    let about = std::fs::metadata(path).map_err(short)?;
    // Anything but a plain file might never end.
    if !about.is_file() || about.len() > FILE_MAX {
        return Err(format!("not a file of at most {} kB", FILE_MAX / 1024));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(short)?;
    file.take(FILE_MAX)
        .read_to_string(&mut text)
        .map_err(short)?;
    Ok(text)
}

/// In the system's words, without its number.
fn short(error: std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::conf::{AnyConf, ServerConf};

    fn store(node: &str) -> StoreConf {
        let mut server = AnyConf::Server(ServerConf::UNSET);
        if !node.is_empty() {
            server.set("NapNode", &[node]).expect("a name");
        }
        match server {
            AnyConf::Server(server) => server.store,
            _ => StoreConf::NONE,
        }
    }

    #[test]
    fn a_node_is_called_as_its_host_unless_it_is_named() {
        assert_eq!(node(&store("web2"), "host.example"), "web2");
        assert_eq!(node(&store(""), "host.example"), "host.example");
        assert_eq!(node(&store(""), "a b{c}"), "a-b-c-");
        assert_eq!(node(&store(""), &"x".repeat(100)), "x".repeat(63));
    }

    #[test]
    fn a_store_wants_keys_and_its_file_is_there() {
        assert!(check("/etc/keys", "").is_ok());
        let said = check("", "").expect_err("no keys");
        assert!(said.starts_with("NapStore: wants NapTicketKey: "), "{said}");
        let said = check("/etc/keys", "/nowhere/auth").expect_err("no file");
        assert_eq!(
            said,
            "NapStoreAuth /nowhere/auth: No such file or directory"
        );
    }
}
