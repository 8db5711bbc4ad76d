//! [`Life`]: what may end the agent: its parent, and signals.

use std::io::{BufRead as _, Read as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use mod_nap::agent::Brief;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Bytes of a brief: certificates are the largest part.
const BRIEF: u64 = 1 << 20;

/// The end of standard input tells that the parent is gone, or that a restart has closed it.
pub struct Life {
    signals: SignalFd,
    parent: bool,
}

/// What has come while it waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Nothing.
    Nothing,
    /// It should end at once.
    Stop,
    /// Nobody holds its standard input any more; this is told once.
    Orphaned,
}

impl Life {
    /// From now on signals are read, not obeyed: those that httpd's parent sends its group are none for us.
    pub fn begin() -> nix::Result<Life> {
        let mut signals = SigSet::empty();
        for signal in [
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGUSR1,
            Signal::SIGWINCH,
        ] {
            signals.add(signal);
        }
        signals.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Life {
            signals: SignalFd::with_flags(&signals, flags)?,
            parent: true,
        })
    }

    /// What the parent writes first. None: it is gone already.
    pub fn brief(&self) -> Option<Result<Brief, serde_json::Error>> {
        let mut line = String::new();
        let read = std::io::stdin().lock().take(BRIEF).read_line(&mut line);
        match read {
            Ok(_) if line.ends_with('\n') => Some(serde_json::from_str(&line)),
            _ => None,
        }
    }

    /// Sleeps so long, unless something comes.
    pub fn wait(&mut self, span: Duration) -> Came {
        let input = std::io::stdin();
        let mut all = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if self.parent {
            all.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
        }
        // Rounded up: a span below a millisecond is no reason to turn round and round.
        let millis = span.as_micros().div_ceil(1000);
        let timeout = PollTimeout::from(u16::try_from(millis).unwrap_or(u16::MAX));
        if poll(&mut all, timeout).is_err() {
            return Came::Nothing;
        }
        let speaks = all.get(1).and_then(PollFd::any) == Some(true);
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo == Signal::SIGTERM as u32 {
                return Came::Stop;
            }
        }
        if speaks && !matches!(input.lock().read(&mut [0; 512]), Ok(1..)) {
            self.parent = false;
            return Came::Orphaned;
        }
        Came::Nothing
    }
}
