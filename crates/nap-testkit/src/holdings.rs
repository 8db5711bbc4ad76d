//! What a process holds that it may forget to give back: memory of its own, and open files.

use std::fs;

/// Of one process, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Private memory that is resident, in KiB: `RssAnon` in proc(5).
    pub memory_kib: u64,
    /// Open descriptors. None are seen of a program that has closed itself to its user, unless we are root.
    pub files: usize,
}

impl Holdings {
    /// Now; one that has ended holds nothing.
    pub fn of(pid: i32) -> Holdings {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = own.and_then(|own| own.trim().strip_suffix(" kB"));
        Holdings {
            memory_kib: kib.map_or(0, |kib| kib.trim().parse().expect("a number")),
            files: fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count),
        }
    }

    /// Of all of them.
    pub fn of_all(pids: &[i32]) -> Holdings {
        let all = pids.iter().map(|pid| Holdings::of(*pid));
        all.fold(Holdings::default(), |sum, one| Holdings {
            memory_kib: sum.memory_kib + one.memory_kib,
            files: sum.files + one.files,
        })
    }
}
