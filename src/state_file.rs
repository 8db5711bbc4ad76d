//! `NapStateFile`: a segment backed by a file outlives the server, and the tickets with it.
//!
//! The file *is* the segment, fully allocated before it is mapped (a hole on a full disk would be
//! SIGBUS in every child). On opening, key, epoch, slots, ticket states, ledger and statistics are
//! taken over; permits, places and children are emptied. A torn or foreign file is renamed and stays
//! beside the new one. If its tables have other sizes, it is carried over into a new file, in which
//! rooms, gates and places are never fewer.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fallocate, fcntl};

use crate::layout::Dims;
use crate::shm::segment::{Segment, SegmentError};

/// A segment with the file behind it, and how it was opened.
pub struct Opened {
    /// The mapping.
    pub segment: Segment,
    /// Keeps the parent's lock on the file: close it and a second server may take the file.
    pub file: OwnedFd,
    /// A sentence for the log, empty if all was ordinary.
    pub remark: String,
}

/// Why a state file cannot be used.
#[derive(Debug)]
pub enum StateFileError {
    /// The children's user can write to its directory, and so put another file there.
    Exposed(PathBuf),
    /// Another server has it.
    InUse,
    /// The disk is full, the path is wrong, the path is a symbolic link ...
    Segment(SegmentError),
}

impl std::fmt::Display for StateFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StateFileError::Exposed(directory) => write!(
                f,
                "the directory {} can be written by the user the children run as",
                directory.display()
            ),
            StateFileError::InUse => write!(f, "another server is using it"),
            StateFileError::Segment(error) => write!(f, "{error}"),
        }
    }
}

impl<E: Into<SegmentError>> From<E> for StateFileError {
    fn from(error: E) -> Self {
        StateFileError::Segment(error.into())
    }
}

/// Opens or makes the state file at `path` with tables of `dims`.
pub fn open(path: &Path, dims: Dims, children_uid: u32) -> Result<Opened, StateFileError> {
    check_directory(path, children_uid)?;
    let file = open_locked(path)?;
    let length = file.metadata()?.len();
    if length == 0 {
        return make(file, dims, String::new());
    }
    // This very descriptor: closing a copy of it would give the lock back (fcntl(2)).
    let file = OwnedFd::from(file);
    let old = Segment::map(&file, length as usize)?;
    let dims = match old.check(None) {
        Ok(()) => old.no_smaller(dims),
        Err(_) => dims,
    };
    match old.check(Some(dims)) {
        Ok(()) => {
            // A copy that was restored may have holes.
            allocate(&file, length as usize)?;
            old.renew()?;
            Ok(Opened {
                segment: old,
                file,
                remark: String::new(),
            })
        }
        Err(SegmentError::Differs) => {
            let new = beside(path, "new");
            let made = make(fresh(&new)?, dims, "its tables have other sizes now".into())?;
            made.segment.carry_over(&old);
            made.segment.renew()?;
            std::fs::rename(new, path)?;
            Ok(made)
        }
        Err(error) => {
            let aside = beside(path, "aside");
            std::fs::rename(path, &aside)?;
            let remark = format!("{error}: set aside as {}, beginning anew", aside.display());
            make(open_locked(path)?, dims, remark)
        }
    }
}

fn make(file: File, dims: Dims, remark: String) -> Result<Opened, StateFileError> {
    let size = dims.bytes();
    if let Err(error) = allocate(&file, size) {
        // The next start takes an empty file for a new one; half a segment would be torn.
        file.set_len(0)?;
        return Err(error.into());
    }
    let file = OwnedFd::from(file);
    let segment = Segment::map(&file, size)?;
    segment.format(dims)?;
    Ok(Opened {
        segment,
        file,
        remark,
    })
}

/// Allocates disk space for all of the file, so that no write to its mapping can fail.
fn allocate(file: impl AsFd, size: usize) -> Result<(), nix::Error> {
    fallocate(file, nix::fcntl::FallocateFlags::empty(), 0, size as i64)
}

fn open_locked(path: &Path) -> Result<File, StateFileError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    // Another owner could truncate it under the server.
    if file.metadata()?.uid() != nix::unistd::geteuid().as_raw() {
        let whose = "it does not belong to the user who starts the server";
        return Err(Error::new(ErrorKind::PermissionDenied, whose).into());
    }
    lock(&file)?;
    Ok(file)
}

/// The file at `path`, without anything that a former start may have left there.
fn fresh(path: &Path) -> Result<File, StateFileError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => open_locked(path),
    }
}

/// A lock of this process (fcntl): children forked later do not hold it.
fn lock(file: &File) -> Result<(), StateFileError> {
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_SETLK(&whole)) {
        Ok(_) => Ok(()),
        Err(nix::Error::EACCES | nix::Error::EAGAIN) => Err(StateFileError::InUse),
        Err(error) => Err(error.into()),
    }
}

fn check_directory(path: &Path, children_uid: u32) -> Result<(), StateFileError> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .ok_or_else(|| Error::new(ErrorKind::InvalidInput, "not an absolute path"))?;
    let meta = directory.metadata()?;
    let anybody = meta.mode() & 0o002 != 0;
    if anybody || (children_uid != 0 && meta.uid() == children_uid) {
        return Err(StateFileError::Exposed(directory.to_owned()));
    }
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::micros::Micros;
    use nap_core::room::owner::Owner;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    const DIMS: Dims = Dims {
        children: 4,
        rooms: 2,
        gates: 2,
        places: 16,
        stripes: 3,
        trace_sets: 1,
        untold: 0,
        executors: 0,
        flights: 0,
        session_sets: 0,
        guest_sets: 0,
    };

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let path =
                std::env::temp_dir().join(format!("mod_nap-state-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a directory of our own");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).expect("ours");
            Dir(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("state")
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn a_second_start_finds_key_epoch_and_statistics_and_nobody_running() {
        let dir = Dir::new("again");
        let first = open(&dir.file(), DIMS, 33).expect("new");
        let life = first.segment.child_starts(4711).expect("room");
        let permits = first.segment.permits(0).expect("a gate");
        permits.set_limit(3);
        permits.claim(Owner::new(life, 1)).expect("free");
        first
            .segment
            .locked(|tables| tables.gates[0].counts.waited = 42);
        let (key, epoch) = (first.segment.head().key, first.segment.head().epoch);
        let before = first.segment.now();
        drop(first.file);

        let second = open(&dir.file(), DIMS, 33).expect("again");
        assert_eq!(
            (second.segment.head().key, second.segment.head().epoch),
            (key, epoch)
        );
        assert!(second.segment.now() >= before);
        let waited = second
            .segment
            .locked(|tables| tables.gates[0].counts.waited);
        assert_eq!(waited, Some(42));
        assert!(second.segment.children()[0].life(0).is_none());
    }

    #[test]
    fn a_file_with_other_table_sizes_is_carried_over() {
        let dir = Dir::new("sizes");
        let first = open(&dir.file(), DIMS, 33).expect("new");
        first
            .segment
            .locked(|tables| tables.gates[1].counts.sold = 7);
        let epoch = first.segment.head().epoch;
        drop(first.file);
        let larger = Dims {
            gates: 3,
            places: 64,
            ..DIMS
        };
        let second = open(&dir.file(), larger, 33).expect("carried over");
        assert!(!second.remark.is_empty());
        assert_eq!(second.segment.head().epoch, epoch);
        let sold = second.segment.locked(|tables| tables.gates[1].counts.sold);
        assert_eq!(sold, Some(7));
        assert_eq!(
            std::fs::metadata(dir.file()).expect("there").len(),
            larger.bytes() as u64
        );
    }

    #[test]
    fn smaller_tables_lose_nobody() {
        let dir = Dir::new("smaller");
        let first = open(&dir.file(), DIMS, 33).expect("new");
        let last = DIMS.places - 1;
        first.segment.locked(|tables| {
            (tables.rooms[1].used, tables.rooms[1].pages[0]) = (1, 2);
            tables.gates[1].kind = 1;
            let slots = &mut tables.gates[1].slots;
            let terms = nap_core::nap::slots::SlotTerms {
                period: Micros::from_secs(10),
                capacity: 10,
                issue_limit: 10,
                late_share_ppm: 0,
                horizon: Micros::from_secs(3600),
                bound: Micros::from_secs(4),
                prime: Micros::from_secs(3),
                lifetime: Micros::from_secs(60),
            };
            let sold = slots.book(Micros::ZERO, Micros(1), &terms, &mut |_, _| true);
            assert_eq!(sold.map(|sold| (sold.seq, sold.index)), Some((1, 0)));
            tables.places.entries[last as usize].gate = 1;
        });
        drop(first.file);
        let smaller = Dims {
            rooms: 1,
            gates: 1,
            places: 4,
            stripes: 2,
            ..DIMS
        };
        for again in [false, true] {
            let second = open(&dir.file(), smaller, 33).expect("carried over");
            assert_eq!(second.remark.is_empty(), again);
            let found = second.segment.locked(|tables| {
                let places = tables.places.entries.len() as u32;
                let sold = tables.gates[1].slots.position(1, 0).is_some();
                (tables.rooms[1].used, sold, places)
            });
            assert_eq!(found, Some((1, true, DIMS.places)));
        }
    }

    #[test]
    fn torn_and_foreign_files_are_set_aside() {
        for (name, content) in [("foreign", vec![7u8; 1 << 16]), ("short", vec![1, 2, 3])] {
            let dir = Dir::new(name);
            File::create(dir.file())
                .and_then(|mut f| f.write_all(&content))
                .expect("written");
            let opened = open(&dir.file(), DIMS, 33).expect("begun anew");
            assert!(opened.remark.contains("set aside"), "{name}");
            assert_eq!(
                std::fs::read(beside(&dir.file(), "aside")).expect("kept"),
                content
            );
        }
    }

    #[test]
    fn a_file_of_another_user_is_left_alone() {
        let dir = Dir::new("foreign-owner");
        drop(open(&dir.file(), DIMS, 33).expect("new").file);
        // Without root it cannot be given away.
        if std::os::unix::fs::chown(dir.file(), Some(33), None).is_err() {
            return;
        }
        let before = std::fs::read(dir.file()).expect("there");
        let said = open(&dir.file(), DIMS, 33)
            .err()
            .map(|said| said.to_string());
        assert!(
            said.as_ref()
                .is_some_and(|said| said.contains("does not belong to the user")),
            "{said:?}"
        );
        assert_eq!(std::fs::read(dir.file()).expect("there"), before);
    }

    #[test]
    fn a_directory_the_children_can_write_and_a_symbolic_link_are_refused() {
        let dir = Dir::new("exposed");
        std::fs::set_permissions(&dir.0, PermissionsExt::from_mode(0o777)).expect("ours");
        assert!(matches!(
            open(&dir.file(), DIMS, 33),
            Err(StateFileError::Exposed(_))
        ));
        std::fs::set_permissions(&dir.0, PermissionsExt::from_mode(0o700)).expect("ours");
        let own = dir.0.metadata().expect("there").uid();
        if own != 0 {
            assert!(matches!(
                open(&dir.file(), DIMS, own),
                Err(StateFileError::Exposed(_))
            ));
        }
        std::os::unix::fs::symlink("/dev/null", dir.file()).expect("a link");
        assert!(matches!(
            open(&dir.file(), DIMS, 33),
            Err(StateFileError::Segment(_))
        ));
    }
}
