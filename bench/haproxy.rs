//! HAProxy in front of a server: a limit and a queue, to compare with ours.

use nap_testkit::{Httpd, free_port, wait_until};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

pub struct HaProxy {
    process: Child,
    port: u16,
    config: PathBuf,
}

impl HaProxy {
    /// With this many connections to the server at once; the others wait for `queue` at most.
    pub fn start(httpd: &Httpd, limit: u32, queue: &str) -> HaProxy {
        let port = free_port();
        let config = httpd.root().join("haproxy.cfg");
        let text = format!(
            "global\n  maxconn 4096\ndefaults\n  mode http\n  retries 0\n  option httpclose\n  \
             timeout connect 5s\n  timeout client 300s\n  timeout server 300s\n  timeout queue {queue}\n\
             listen board\n  bind 127.0.0.1:{port} backlog 2048\n  \
             server httpd 127.0.0.1:{} maxconn {limit}\n",
            httpd.port()
        );
        std::fs::write(&config, text).expect("the ServerRoot takes a file");
        let program = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"];
        let program = program
            .into_iter()
            .find(|p| Path::new(p).exists())
            .unwrap_or("haproxy");
        let process = Command::new(program)
            .args(["-db", "-q", "-f"])
            .arg(&config)
            .spawn()
            .expect("haproxy is installed: `make setup-all`");
        let haproxy = HaProxy {
            process,
            port,
            config,
        };
        wait_until("HAProxy listens", Duration::from_secs(10), || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        haproxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.config);
    }
}
