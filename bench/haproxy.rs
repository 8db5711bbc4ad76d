//! HAProxy in front of a server: a limit and a queue, to compare with ours.

use nap_testkit::Httpd;
use nap_testkit::haproxy::HaProxy;

/// With this many connections to the server at once; the others wait for `queue` at most.
pub fn in_front_of(httpd: &Httpd, limit: u32, queue: &str) -> HaProxy {
    let text = format!(
        "global\n  maxconn 4096\ndefaults\n  mode http\n  retries 0\n  option httpclose\n  \
         timeout connect 5s\n  timeout client 300s\n  timeout server 300s\n  timeout queue {queue}\n\
         listen board\n  bind 127.0.0.1:{{port}} backlog 2048\n  \
         server httpd 127.0.0.1:{} maxconn {limit}\n",
        httpd.port()
    );
    HaProxy::start(&httpd.root().join("haproxy.cfg"), &text)
}
