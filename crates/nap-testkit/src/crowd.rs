//! A crowd of `nap-load` that comes while a test goes on.

use super::made;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A crowd that is there; sent home at the end of a test that has not waited for it.
pub struct Crowd {
    url: String,
    sent: Instant,
    process: Option<Child>,
}

impl Crowd {
    /// Sends visitors with tickets to a URL, with these options of `nap-load`.
    pub fn send(url: &str, options: &[&str]) -> Crowd {
        let process = Command::new(made::file("release/nap-load"))
            .args(options)
            .args(["--json", "-", url])
            .stdout(Stdio::piped())
            .spawn()
            .expect("nap-load runs");
        Crowd {
            url: url.to_owned(),
            sent: Instant::now(),
            process: Some(process),
        }
    }

    /// `nap-load`'s report, when each visitor has been served.
    pub fn report(mut self) -> Value {
        let process = self.process.take().expect("it runs until now");
        let output = process.wait_with_output().expect("nap-load ends");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "nap-load got nothing served by {}: {said}",
            self.url
        );
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
    }

    /// Lets newcomers come until they came for so long, at least, and none then; goes on as [`Crowd::report`].
    pub fn close_after(self, least: Duration) -> Value {
        sleep(least.saturating_sub(self.sent.elapsed()));
        self.signal(Signal::SIGUSR1);
        self.report()
    }

    fn signal(&self, signal: Signal) {
        let Some(process) = &self.process else { return };
        let pid = Pid::from_raw(process.id().cast_signed());
        // Nobody has waited for it: the pid is still its own.
        kill(pid, signal).expect("a crowd of ours may be signalled");
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Some(process) = &mut self.process {
            let _ = process.wait();
        }
    }
}
