//! A second port of a test's httpd that speaks TLS, with a self-signed certificate.

use super::{Builder, Mpm, made};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

impl Builder {
    /// The same site at this port too, with HTTP/2 if the MPM, chosen before, supports it.
    pub fn tls(mut self, port: u16) -> Builder {
        let (key, certificate) = self_signed();
        let mut protocols = "http/1.1";
        if self.mpm != Mpm::Prefork {
            self = self.modules(&["http2"]);
            protocols = "h2 http/1.1";
        }
        self.modules(&["ssl", "socache_shmcb"])
            .config(&format!(
                "SSLSessionCache shmcb:{{root}}/tls_sessions(512000)\nListen 127.0.0.1:{port}\n\
                 <VirtualHost 127.0.0.1:{port}>\nServerName localhost:{port}\nSSLEngine On\n\
                 SSLCertificateFile {{root}}/cert.pem\nSSLCertificateKeyFile {{root}}/key.pem\n\
                 Protocols {protocols}\nScriptAlias /cgi-bin/ {{root}}/cgi-bin/\n</VirtualHost>"
            ))
            .file("cert.pem", certificate)
            .secret("key.pem", key)
            .expect_log("is a CA certificate", "it is signed by itself")
            .expect_log(
                "was compiled against a newer library",
                "of OpenSSL: Debian's affair",
            )
    }
}

/// A key and a certificate for localhost.
fn self_signed() -> (Vec<u8>, Vec<u8>) {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let n = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = made::directory("tmp");
    let [key, certificate] =
        ["key", "cert"].map(|name| folder.join(format!("{name}-{}-{n}.pem", std::process::id())));
    let status = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stderr(Stdio::null())
        .status();
    assert!(status.expect("openssl runs").success());
    let read = |path| std::fs::read(path).expect("openssl wrote it");
    let both = (read(&key), read(&certificate));
    let _ = std::fs::remove_file(key).and(std::fs::remove_file(certificate));
    both
}
