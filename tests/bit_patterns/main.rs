//! Every bit pattern in the segment is survived: another process may have died midway through a write, a
//! stray write may have hit anything, a state file may come from anywhere. Whatever is there, no operation
//! panics, loops or reads outside the tables. When everything known has left, the room serves newcomers
//! again.
//!
//! `NAP_SEED` repeats one run. A loop ends with SIGXCPU: the process has a limit of CPU time.

mod server;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use mod_nap::layout::Dims;
use mod_nap::shm::clock;
use mod_nap::shm::segment::{Head, Segment};
use mod_nap::state_file;
use nap_core::micros::Micros;
use nap_rng::Rng;
use nap_testkit::long;
use nix::sys::resource::{Resource, setrlimit};
use server::Server;

const DIMS: Dims = Dims {
    children: 6,
    rooms: 2,
    gates: 2,
    places: 24,
    stripes: 0,
    trace_sets: 0,
    untold: 0,
    executors: 0,
    flights: 0,
    session_sets: 2,
    guest_sets: 2,
};

/// CPU seconds that the whole process may use; it uses a few per cent of them.
const CPU: u64 = 1200;

fn bound_the_work() {
    setrlimit(Resource::RLIMIT_CPU, CPU, CPU + 5).expect("less than before");
}

/// How many seeds: `NAP_SEED` names a single one, `NAP_TEST=all` needs many.
fn seeds(few: u64) -> Vec<u64> {
    let given = std::env::var("NAP_SEED").ok().and_then(|s| s.parse().ok());
    match given {
        Some(seed) => vec![seed],
        None => (1..=if long() { 8 * few } else { few }).collect(),
    }
}

/// Prints the seed that a panic belongs to.
struct Telltale(&'static str, u64);

impl Drop for Telltale {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: NAP_SEED={}", self.0, self.1);
        }
    }
}

/// How memory is corrupted.
#[derive(Clone, Copy, Debug)]
enum Spoil {
    /// Any bytes.
    Random,
    /// One value everywhere.
    Fill(u8),
    /// This many bits flipped.
    Flip(u32),
    /// This many words replaced, by small and by large numbers.
    Words(u32),
}

impl Spoil {
    fn any(rng: &mut Rng) -> Spoil {
        match rng.below(8) {
            0 => Spoil::Random,
            1 => Spoil::Fill([0x00, 0xff, 0x01, 0x7f, 0x80][rng.below(5) as usize]),
            2..=4 => Spoil::Flip(1 << rng.below(14)),
            _ => Spoil::Words(1 << rng.below(12)),
        }
    }

    fn bytes(self, bytes: &mut [u8], rng: &mut Rng) {
        let len = bytes.len() as u64;
        match self {
            Spoil::Random => bytes.fill_with(|| rng.bits() as u8),
            Spoil::Fill(value) => bytes.fill(value),
            Spoil::Flip(n) => {
                for _ in 0..n {
                    bytes[rng.below(len) as usize] ^= 1 << rng.below(8);
                }
            }
            Spoil::Words(n) => {
                for _ in 0..n {
                    let at = rng.below(len / 4) as usize * 4;
                    let word = match rng.below(3) {
                        0 => rng.below(30) as u32,
                        1 => u32::MAX - rng.below(3) as u32,
                        _ => rng.bits() as u32,
                    };
                    bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
                }
            }
        }
    }
}

/// Start of the sections; only the parent writes what is before them, and the lock is there.
fn sections(segment: &Segment) -> (*mut u8, usize) {
    let (base, size) = segment.raw();
    let head = size_of::<Head>().next_multiple_of(64);
    // SAFETY: the head is a part of the mapping, which is `size` bytes long.
    (unsafe { base.add(head) }, size - head)
}

/// Corrupts a part of the sections, through a window over the mapping.
fn spoil(segment: &Segment, rng: &mut Rng) {
    let (start, len) = sections(segment);
    let how = Spoil::any(rng);
    // The small tables lie before and after, the large gates between.
    let (from, length) = match rng.below(4) {
        0 => (0, len),
        1 => (0, len.min(1 << 16)),
        2 => (len - len.min(1 << 19), len.min(1 << 19)),
        _ => {
            let from = rng.below(len as u64) as usize & !7;
            (
                from,
                (len - from).min(1 << rng.below(16)).max(8).min(len - from),
            )
        }
    };
    if length < 8 {
        return;
    }
    // SAFETY: inside the mapping; nobody else runs over this segment, and no reference into it is
    // live between two operations.
    let window = unsafe { std::slice::from_raw_parts_mut(start.add(from), length) };
    how.bytes(window, rng);
    // As the once-a-second work does; a debug build would panic where statistics overflow, at 2^64.
    segment.locked(|tables| {
        for gate in tables.gates.iter_mut() {
            gate.counts.check();
        }
    });
}

#[test]
fn a_segment_spoilt_anywhere_serves_again() {
    bound_the_work();
    for seed in seeds(150) {
        let _telltale = Telltale("spoilt", seed);
        let mut rng = Rng::new(seed, 1);
        let segment = Segment::anonymous(DIMS).expect("shared memory");
        let mut server = Server::start(segment, Rng::new(seed, 2));
        server.live_on(rng.below(150) as u32);
        for _ in 0..1 + rng.below(4) {
            spoil(&segment, &mut rng);
            server.live_on(rng.below(120) as u32);
        }
        server.heals();
        segment_ends(segment);
    }
}

/// Unmaps a segment, as a test makes hundreds of them.
fn segment_ends(segment: Segment) {
    let (base, size) = segment.raw();
    // SAFETY: the mapping is ours and nothing refers to it any more.
    unsafe { libc::munmap(base.cast(), size) };
}

/// A private directory, removed with this.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let path = std::env::temp_dir().join(format!("mod_nap-bits-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory of our own");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("ours");
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Damages a state file in some way.
fn harm(file: &mut Vec<u8>, rng: &mut Rng) {
    match rng.below(6) {
        0 => file.truncate(rng.below(file.len() as u64) as usize),
        1 => file.resize(file.len() + rng.below(1 << 16) as usize, rng.bits() as u8),
        // The head: magic, layout, size, clock, directory, and the lock of a dead server.
        2 => Spoil::Words(1 << rng.below(6)).bytes(&mut file[..size_of::<Head>()], rng),
        3 => Spoil::Flip(1 << rng.below(8)).bytes(&mut file[..size_of::<Head>()], rng),
        4 => {
            // It looks genuine: only magic and layout are intact.
            let all = Spoil::any(rng);
            all.bytes(&mut file[16..], rng);
        }
        _ => Spoil::any(rng).bytes(&mut file[size_of::<Head>()..], rng),
    }
}

#[test]
fn a_state_file_of_any_content_is_taken_over_or_set_aside() {
    bound_the_work();
    let dir = Dir::new();
    let path = dir.0.join("state");
    let genuine = {
        let opened = state_file::open(&path, DIMS, 33).expect("new");
        let mut server = Server::start(opened.segment, Rng::new(7, 3));
        server.live_on(400);
        drop(opened.file);
        fs::read(&path).expect("our own")
    };
    let (mut taken_over, mut aside) = (0, 0);
    for seed in seeds(100) {
        let _telltale = Telltale("state file", seed);
        let mut rng = Rng::new(seed, 4);
        let mut file = genuine.clone();
        harm(&mut file, &mut rng);
        fs::write(&path, &file).expect("our own directory");
        let dims = match rng.below(4) {
            0 => Dims { places: 40, ..DIMS },
            _ => DIMS,
        };
        let opened = state_file::open(&path, dims, 33).expect("whatever it holds");
        match opened.remark.contains("set aside") {
            true => aside += 1,
            false => taken_over += 1,
        }
        let segment = opened.segment;
        assert!(segment.now() >= Micros(clock::wall() - 10_000_000));
        let mut server = Server::start(segment, Rng::new(seed, 5));
        server.live_on(120);
        server.heals();
        segment_ends(segment);
    }
    assert!(std::env::var_os("NAP_SEED").is_some() || (taken_over > 9 && aside > 9));
}
