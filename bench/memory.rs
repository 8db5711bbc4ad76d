//! [`Memory`]: too little memory, so that accesses which need too much of it at once make it thrash: a file
//! on the disk, and a control group that cannot hold all of it.

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Memory of an access, how many of these fit, and how many there are.
const PART: u64 = 8 << 20;
const PARTS_FIT: u64 = 12;
const PARTS: u64 = 64;

/// The file and the group; dropping this removes them.
pub struct Memory {
    /// The file.
    pub file: PathBuf,
    group: Group,
}

impl Memory {
    pub fn new() -> Result<Memory, String> {
        let group = Group::new(PARTS_FIT * PART)?;
        let folder = std::env::temp_dir().join(format!("nap-curves-{}", std::process::id()));
        let memory = Memory {
            file: folder.join("memory"),
            group,
        };
        memory
            .write(&folder)
            .map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(memory)
    }

    /// Limits this process, and those it will start, to the group's memory.
    pub fn take_in(&self, pid: i32) {
        self.group.take_in(pid);
    }

    /// Nothing of the file stays in the cache: there it would be charged to us, and free for the group.
    fn write(&self, folder: &Path) -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        let mut file = fs::File::create(&self.file)?;
        for part in 0..PARTS {
            file.write_all(&vec![part as u8 + 1; PART as usize])?;
        }
        file.sync_all()?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        fs::set_permissions(&self.file, fs::Permissions::from_mode(0o644))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(folder) = self.file.parent() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// A control group below our own whose processes share this much memory.
struct Group(PathBuf);

impl Group {
    /// In version 1 below the group of this process. In version 2 below the nearest group that can divide its
    /// memory, as a group with processes of its own cannot.
    fn new(bytes: u64) -> Result<Group, String> {
        let ours = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path_of = |controllers: &str| {
            let mut fields = ours.lines().map(|line| line.splitn(3, ':').skip(1));
            fields.find_map(|mut line| {
                let found = line.next()?.split(',').any(|name| name == controllers);
                line.next()
                    .filter(|_| found)
                    .map(|path| path.trim_start_matches('/'))
            })
        };
        let (root, path, limit) = match (path_of("memory"), path_of("")) {
            (Some(path), _) => ("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"),
            (None, Some(path)) => ("/sys/fs/cgroup", path, "memory.max"),
            (None, None) => return Err("this kernel has no control groups".to_string()),
        };
        let below = Path::new(root).join(path);
        let parents = below.ancestors().take_while(|at| at.starts_with(root));
        let mut why = "no control group limits memory here".to_string();
        for parent in parents {
            let group = Group(parent.join(format!("nap-curves-{}", std::process::id())));
            if let Err(e) = fs::create_dir(&group.0) {
                why = format!("a control group for memory is root's to make: {e}");
                continue;
            }
            match fs::write(group.0.join(limit), bytes.to_string()) {
                Ok(()) => return Ok(group),
                Err(e) => why = format!("no control group limits memory here: {limit}: {e}"),
            }
        }
        Err(why)
    }

    fn take_in(&self, pid: i32) {
        let path = self.0.join("cgroup.procs");
        fs::write(&path, pid.to_string()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Programs of a server that has been stopped may still be ending.
        let begin = Instant::now();
        while fs::remove_dir(&self.0).is_err() && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}
