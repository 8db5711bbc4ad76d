//! The machine's processes, as /proc/PID/stat tells them (proc(5)).

use std::fs;

pub struct Process {
    pub pid: i32,
    pub state: char,
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// Of its program, the first 15 bytes.
    pub name: String,
    pub threads: u32,
}

/// Every process there is now.
pub fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Process {
            pid,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            name: name.split_once('(')?.1.to_owned(),
            threads: fields.get(17)?.parse().ok()?,
        })
    })
}

/// Whether every thread of a process has been stopped by a signal.
pub fn stands_still(pid: i32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    tasks.flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default();
        state.trim_start().starts_with('T')
    })
}
