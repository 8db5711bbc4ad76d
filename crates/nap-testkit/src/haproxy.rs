//! A HAProxy of a test's own, on a free loopback port, gone with its guard.

use super::{free_port, wait_until};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// One of them.
pub struct HaProxy {
    process: Child,
    port: u16,
    config: PathBuf,
}

impl HaProxy {
    /// With this configuration, written to a file of this name; `{port}` stands for the port to listen on.
    pub fn start(config: &Path, text: &str) -> HaProxy {
        for _ in 0..10 {
            let mut haproxy = HaProxy::launch(config, text, free_port());
            if haproxy.listens() {
                return haproxy;
            }
        }
        let log = fs::read_to_string(config.with_extension("log")).unwrap_or_default();
        panic!("HAProxy ends at once:\n{log}")
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn launch(config: &Path, text: &str, port: u16) -> HaProxy {
        fs::write(config, text.replace("{port}", &port.to_string()))
            .expect("the temp directory takes a file");
        let log = fs::File::create(config.with_extension("log"));
        let program = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"];
        let program = program
            .into_iter()
            .find(|p| Path::new(p).exists())
            .unwrap_or("haproxy");
        let process = Command::new(program)
            .args(["-db", "-f"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("the temp directory takes a file"))
            .spawn()
            .expect("haproxy is installed (tests/setup.sh)");
        HaProxy {
            process,
            port,
            config: config.to_owned(),
        }
    }

    /// False: it has ended, as the port is another's or its configuration is wrong.
    fn listens(&mut self) -> bool {
        let mut lives = true;
        wait_until("HAProxy listens", PATIENCE, || {
            lives = matches!(self.process.try_wait(), Ok(None));
            !lives || TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        lives
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.config);
        let _ = fs::remove_file(self.config.with_extension("log"));
    }
}
