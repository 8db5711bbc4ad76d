//! A wall clock that is wrong, and may be set while programs run (tests/preload/wall_clock.c). Their other clocks go on as
//! they do.

use super::{made, open_to_children};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// One of them, for any number of programs.
pub struct WallClock(PathBuf);

impl WallClock {
    /// Ahead of the machine's by so many seconds; behind it, if less than none.
    pub fn ahead(seconds: i64) -> WallClock {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = format!("nap-clock-{}-{n}", std::process::id());
        let clock = WallClock(std::env::temp_dir().join(file));
        clock.set(seconds);
        open_to_children(&clock.0, 0o644);
        clock
    }

    /// Sets it, for programs that run, too.
    pub fn set(&self, seconds: i64) {
        // In place: they have mapped the file.
        let mut way = fs::File::options();
        let way = way.write(true).create(true).truncate(false);
        let mut file = way.open(&self.0).expect("the temp directory takes a file");
        let word = (seconds * 1_000_000).to_ne_bytes();
        file.write_all(&word).expect("eight bytes");
    }

    /// What runs a program by this clock ([`super::Builder::under`]).
    pub fn words(&self) -> Vec<String> {
        let library = made::file("preload/wall_clock.so");
        vec![
            "env".into(),
            format!("LD_PRELOAD={}", library.display()),
            format!("WALL_CLOCK={}", self.0.display()),
        ]
    }
}

impl Drop for WallClock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
