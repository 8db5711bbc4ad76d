//! The httpd.conf of a test's server: only the modules it needs, only loopback, all paths private.

use super::{Builder, made};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// One of httpd's ways to spread requests over processes and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpm {
    /// Processes of one thread.
    Prefork,
    /// Processes of several threads, one for each connection.
    Worker,
    /// As worker, but idle connections hold no thread.
    Event,
}

impl Mpm {
    /// All three.
    pub const ALL: [Mpm; 3] = [Mpm::Prefork, Mpm::Worker, Mpm::Event];

    /// Its name, as in `mpm_event_module`.
    pub fn name(self) -> &'static str {
        match self {
            Mpm::Prefork => "prefork",
            Mpm::Worker => "worker",
            Mpm::Event => "event",
        }
    }

    /// mod_cgi forks from the child itself, which a threaded child must not do.
    fn cgi(self) -> &'static str {
        if self == Mpm::Prefork { "cgi" } else { "cgid" }
    }
}

impl fmt::Display for Mpm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text of httpd.conf; the test's own lines come last.
pub fn text(server: &Builder, root: &Path, port: u16) -> String {
    let mpm = server.mpm;
    let needed = [
        "unixd",
        "log_config",
        "authz_core",
        "authz_host",
        "alias",
        "dir",
        "env",
    ];
    let mut modules = load(&format!("mpm_{mpm}")) + &load(mpm.cgi());
    modules.extend(needed.iter().map(|name| load(name)));
    modules.extend(server.modules.iter().map(|name| load(name)));
    if server.nap {
        modules += &format!("LoadModule nap_module {}\n", made::module().display());
    }
    let user = nix::unistd::geteuid().is_root();
    let user = if user {
        "User www-data\nGroup www-data"
    } else {
        ""
    };
    let of_mpm = match mpm {
        Mpm::Prefork => "CoreDumpDirectory {root}/cores",
        Mpm::Worker => "ScriptSock cgisock",
        Mpm::Event => "ScriptSock cgisock\nCoreDumpDirectory {root}/cores",
    };
    let sizes = sizes(mpm, server.processes, server.threads);
    let log_format = server.access_log_format.replace('"', "\\\"");
    let text = format!(
        r#"ServerRoot {{root}}
DefaultRuntimeDir {{root}}/run
PidFile run/pid
ServerName localhost
Listen 127.0.0.1:{{port}}
ErrorLog error_log
LogLevel warn
{modules}{user}
{of_mpm}
{sizes}
LogFormat "{log_format}" test
# The harness's own knocking is no access.
CustomLog access_log test "expr=%{{HTTP_USER_AGENT}} != 'knock'"
SetEnv COUNTER_FILE {{root}}/data/counter
SetEnv BOARD_DIR {{root}}/data
ScriptAlias /cgi-bin/ {{root}}/cgi-bin/
ScriptAlias /board {{root}}/cgi-bin/board
ScriptAlias /counter {{root}}/cgi-bin/counter
DocumentRoot {{root}}/htdocs
<Directory {{root}}>
  AllowOverride None
  Require all granted
</Directory>
"#
    );
    (text + &server.config)
        .replace("{root}", &root.display().to_string())
        .replace("{port}", &port.to_string())
}

/// The answer of `apxs -q NAME`, asked once. It is the apxs of the tested httpd: the one that `APXS` names,
/// as for build.rs, or the distribution's.
fn apxs(name: &'static str) -> String {
    let apxs = std::env::var("APXS").unwrap_or_else(|_| "apxs".into());
    let output = Command::new(&apxs).args(["-q", name]).output();
    let output = output.unwrap_or_else(|e| panic!("{apxs}: {e}; `make setup` installs it"));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// The version of the tested httpd; (2, 4, 0) if its apxs does not say.
pub fn version() -> (u32, u32, u32) {
    let said = apxs("HTTPD_VERSION");
    let mut numbers = said.split('.').map(|n| n.parse().unwrap_or(0));
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(major), Some(minor), Some(patch)) => (major, minor, patch),
        _ => (2, 4, 0),
    }
}

/// Whether accesses can be parked there, on event.
pub fn parks() -> bool {
    version() >= (2, 4, 63)
}

/// The server's program: apache2 on Debian, httpd elsewhere.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| Path::new(&apxs("SBINDIR")).join(apxs("PROGNAME")))
}

fn file_of(name: &str) -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| apxs("LIBEXECDIR").into())
        .join(format!("mod_{name}.so"))
}

/// Whether this module, which is never compiled into httpd, is installed with it.
pub fn has_module(name: &str) -> bool {
    file_of(name).exists()
}

/// The LoadModule line of a module; empty for one that is compiled into httpd.
fn load(name: &str) -> String {
    static BUILT_IN: OnceLock<String> = OnceLock::new();
    let file = file_of(name);
    if file.exists() {
        return format!("LoadModule {name}_module {}\n", file.display());
    }
    let built_in = BUILT_IN.get_or_init(|| {
        let output = Command::new(binary())
            .arg("-l")
            .output()
            .expect("httpd runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    assert!(
        built_in.contains(&format!("mod_{name}.c")),
        "no httpd module named {name}"
    );
    String::new()
}

/// Generations of children that ServerLimit has slots for. Under worker and event a child takes two seconds
/// or more to leave at a graceful restart, with our module or without (2.0 to 2.6 s both). So tests that
/// restart faster see several at once.
const GENERATIONS: u32 = 8;

/// A fixed number of workers, all there from the start, and slots for old generations.
fn sizes(mpm: Mpm, processes: u32, threads: u32) -> String {
    let all = processes * threads;
    let slots = GENERATIONS * processes;
    match mpm {
        Mpm::Prefork => format!(
            "ServerLimit {}\nMaxRequestWorkers {all}\nStartServers {all}\nMinSpareServers {all}\n\
             MaxSpareServers {all}",
            2 * all
        ),
        Mpm::Worker | Mpm::Event => format!(
            "ServerLimit {slots}\nThreadLimit {threads}\nThreadsPerChild {threads}\n\
             MaxRequestWorkers {all}\nStartServers {processes}\nMinSpareThreads {all}\n\
             MaxSpareThreads {all}"
        ),
    }
}
