//! The specification of a server, before it starts.

use super::{Httpd, Mpm};
use std::path::PathBuf;

/// The specification of a server; made by [`Httpd::builder`], ended by [`Builder::start`].
#[derive(Clone)]
pub struct Builder {
    pub(super) mpm: Mpm,
    pub(super) nap: bool,
    pub(super) modules: Vec<String>,
    pub(super) config: String,
    pub(super) processes: u32,
    pub(super) threads: u32,
    pub(super) access_log_format: String,
    /// A program with arguments that runs httpd, for example valgrind.
    pub(super) under: Vec<String>,
    /// Path under the ServerRoot, content, mode.
    pub(super) files: Vec<(PathBuf, Vec<u8>, u32)>,
    /// Part of an error-log line, and why it may be there.
    pub(super) expected: Vec<(String, &'static str)>,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            mpm: Mpm::Event,
            nap: false,
            modules: Vec::new(),
            config: String::new(),
            processes: 2,
            threads: 8,
            access_log_format: r#"%h "%r" %>s %b %D"#.to_string(),
            under: Vec::new(),
            files: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// The MPM to run with.
    pub fn mpm(mut self, mpm: Mpm) -> Self {
        self.mpm = mpm;
        self
    }

    /// Loads mod_nap: the one `make` built, or the file that `NAP_SO` names.
    pub fn nap(mut self) -> Self {
        self.nap = true;
        self
    }

    /// Whether mod_nap will be loaded.
    pub fn has_nap(&self) -> bool {
        self.nap
    }

    /// Loads additional modules by their short names, in this order.
    pub fn modules(mut self, names: &[&str]) -> Self {
        self.modules
            .extend(names.iter().map(|name| (*name).to_string()));
        self
    }

    /// Appends to httpd.conf. `{root}` stands for the ServerRoot, `{port}` for the port.
    pub fn config(mut self, text: &str) -> Self {
        self.config.push_str(text);
        self.config.push('\n');
        self
    }

    /// Adds `/nap-info`, for [`Httpd::room`].
    pub fn info(self) -> Self {
        self.config("<Location /nap-info>\nSetHandler nap-info\n</Location>")
    }

    /// Exactly this many children with this many threads; prefork starts `processes * threads` children.
    pub fn workers(mut self, processes: u32, threads: u32) -> Self {
        (self.processes, self.threads) = (processes, threads);
        self
    }

    /// The format of the access log, as in LogFormat.
    pub fn access_log_format(mut self, format: &str) -> Self {
        self.access_log_format = format.to_string();
        self
    }

    /// Runs httpd under another program; `{root}` in its arguments stands for the ServerRoot.
    pub fn under(mut self, program: &[&str]) -> Self {
        self.under = program.iter().map(|word| (*word).to_string()).collect();
        self
    }

    /// Adds a file under the ServerRoot: `htdocs/page.html`.
    pub fn file(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.files
            .push((path.into(), content.as_ref().to_vec(), 0o644));
        self
    }

    /// Adds a file that only its owner can read: root, if the server starts as root.
    pub fn secret(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.files
            .push((path.into(), content.as_ref().to_vec(), 0o600));
        self
    }

    /// Adds a CGI program, served as `/cgi-bin/NAME`.
    pub fn cgi(self, name: &str, script: &str) -> Self {
        self.program(&format!("cgi-bin/{name}"), script)
    }

    /// Adds a program under the ServerRoot: `htdocs/index.cgi`.
    pub fn program(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.files
            .push((path.into(), content.as_ref().to_vec(), 0o755));
        self
    }

    /// Allows error-log lines that contain `part`, giving the reason.
    pub fn expect_log(mut self, part: &str, reason: &'static str) -> Self {
        self.expected.push((part.to_string(), reason));
        self
    }

    /// Starts the server; panics with its error log when it does not come up.
    pub fn start(self) -> Httpd {
        self.try_start()
            .unwrap_or_else(|log| panic!("httpd did not start:\n{log}"))
    }

    /// Starts the server, or returns its own words about why it does not come up.
    pub fn try_start(self) -> Result<Httpd, String> {
        let mut attempts = 0;
        loop {
            let mut httpd = Httpd::lay_out(self.clone());
            match httpd.launch() {
                Ok(()) => return Ok(httpd),
                // Another process took the port between our choosing it and httpd's binding it.
                Err(log) if log.contains("could not bind") && attempts < 5 => attempts += 1,
                Err(log) => return Err(log),
            }
        }
    }

    /// Runs `apachectl configtest` on this server: its complaint, or nothing.
    pub fn configtest(self) -> Result<(), String> {
        let httpd = Httpd::lay_out(self);
        let output = httpd.command().arg("-t").output().expect("httpd runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(())
        } else {
            Err(said)
        }
    }
}
