//! Who was parked is answered to the byte what they are answered who waited on a worker.

use crate::{PATIENCE, parked, read_all, site};
use nap_testkit::fcgi::Responder;
use nap_testkit::{Builder, has_module, parks};
use std::io::Write as _;

const WHO: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s\\n' \"$REMOTE_ADDR\"\n";

/// Requests on a connection, the last with `Connection: close`.
const EXCHANGES: [(&str, &str); 21] = [
    ("a program", "GET /cgi-bin/app HTTP/1.1\r\n"),
    ("HTTP/1.0", "GET /cgi-bin/app HTTP/1.0\r\n"),
    ("HEAD", "HEAD /file.txt HTTP/1.1\r\n"),
    ("a file", "GET /file.txt HTTP/1.1\r\n"),
    (
        "part of it",
        "GET /file.txt HTTP/1.1\r\nRange: bytes=5-40\r\n",
    ),
    (
        "one behind the other",
        "GET /cgi-bin/app HTTP/1.1\r\nHost: localhost\r\n\r\nGET /file.txt HTTP/1.1\r\n",
    ),
    (
        "a form, and another request",
        "POST /cgi-bin/sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n\
         0123456789GET /cgi-bin/app HTTP/1.1\r\n",
    ),
    (
        "a form in chunks, and another request",
        "POST /cgi-bin/sum HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0\r\n\r\nGET /cgi-bin/app HTTP/1.1\r\n",
    ),
    ("a front controller", "GET /front/app HTTP/1.1\r\n"),
    ("behind two redirects", "GET /front/twice HTTP/1.1\r\n"),
    ("HEAD of that", "HEAD /front/twice HTTP/1.1\r\n"),
    (
        "a form to it, and another request",
        "POST /front/sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n\
         0123456789GET /front/twice HTTP/1.1\r\n",
    ),
    (
        "deflated",
        "GET /file.txt HTTP/1.1\r\nAccept-Encoding: gzip\r\n",
    ),
    (
        "a form that is announced",
        "POST /cgi-bin/sum HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n\
         0123456789GET /cgi-bin/app HTTP/1.1\r\n",
    ),
    (
        "an address that a proxy tells",
        "GET /cgi-bin/who HTTP/1.1\r\nX-Forwarded-For: 192.0.2.7\r\n",
    ),
    ("what is not found", "GET /cgi-bin/none HTTP/1.1\r\n"),
    ("proxied", "GET /proxied/app HTTP/1.1\r\n"),
    (
        "a form, proxied",
        "POST /proxied/sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n\
         0123456789GET /proxied/app HTTP/1.1\r\n",
    ),
    ("FastCGI", "GET /fcgi/ HTTP/1.1\r\n"),
    (
        "a form to FastCGI",
        "POST /fcgi/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n\
         0123456789GET /file.txt HTTP/1.1\r\n",
    ),
    (
        "what mod_security forbids behind a form",
        "POST /cgi-bin/sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n\
         0123456789POST /cgi-bin/sum HTTP/1.1\r\nX-Evil: yes\r\nContent-Length: 0\r\n",
    ),
];

/// What some answers contain, so that both are not wrong in the same way.
const SAID: [(&str, &str); 6] = [
    ("deflated", "Content-Encoding: gzip"),
    ("an address that a proxy tells", "192.0.2.7"),
    ("a form that is announced", "HTTP/1.1 100 Continue"),
    ("proxied", "the application"),
    ("a form to FastCGI", "read\nHTTP/1.1 200 OK"),
    ("what mod_security forbids behind a form", "HTTP/1.1 403 "),
];

const FORBIDS: &str = "security2";

const MODULES: [&str; 9] = [
    "deflate",
    "filter",
    "proxy",
    "proxy_fcgi",
    "proxy_http",
    "remoteip",
    "reqtimeout",
    "status",
    "unique_id",
];

/// The exchanges whose modules are installed.
fn exchanges() -> impl Iterator<Item = (usize, &'static (&'static str, &'static str))> {
    let all = EXCHANGES.iter().enumerate();
    let there = has_module(FORBIDS);
    if !there {
        eprintln!("no mod_{FORBIDS} in this httpd: what it forbids is not asked for");
    }
    all.filter(move |(_, (_, request))| there || !request.contains("X-Evil"))
}

/// With the modules that inspect requests, and ways to applications.
fn among_modules(park: &str, fcgi: &Responder) -> Builder {
    let site = match has_module(FORBIDS) {
        false => site(park),
        true => site(park)
            .modules(&[FORBIDS])
            .config(
                "SecRuleEngine On\nSecRequestBodyAccess On\nSecAuditEngine Off\n\
                 SecRule REQUEST_HEADERS:X-Evil yes \"phase:2,id:1,deny,status:403\"",
            )
            .expect_log(
                "ModSecurity",
                "it says that it is there, and what it forbids",
            ),
    };
    site.workers(2, 25)
        .modules(&MODULES)
        .cgi("who", WHO)
        .config(&format!(
            "<Location /fcgi>\nNapUse site\nProxyPass {}/\n</Location>\n\
             <Location /proxied>\nNapUse site\nProxyPass http://127.0.0.1:{{port}}/free\n</Location>",
            fcgi.url()
        ))
        .config(
            "RequestReadTimeout header=20-40,MinRate=500 body=20,MinRate=500\nRemoteIPHeader X-Forwarded-For\n\
             RemoteIPInternalProxy 127.0.0.1\n<Location /file.txt>\nSetOutputFilter DEFLATE\n</Location>\n\
             <Location /server-status>\nSetHandler server-status\n</Location>\nExtendedStatus On",
        )
        .expect_log("AH01264:", "a program is asked for that is not there")
}

/// The answers to requests that had to wait, without what changes from moment to moment.
fn answers(park: &str) -> Vec<String> {
    let fcgi = Responder::start(Some("Content-Type: text/plain\r\n\r\nread\n"));
    let httpd = among_modules(park, &fcgi).start();
    let answer = |(n, (name, request)): (usize, &(&str, &str))| {
        let held = httpd.hold(Box::leak(format!("held{n}").into_boxed_str()), 1);
        let mut stream = httpd.connect();
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        write!(
            stream,
            "{request}Host: localhost\r\nConnection: close\r\n\r\n"
        )
        .expect("httpd reads");
        httpd.until_waiting(1);
        assert_eq!(
            parked(&httpd),
            usize::from(park == "On" && parks()),
            "{name}"
        );
        assert_eq!(httpd.get("/server-status").status, 200);
        held.release();
        let answer = read_all(&mut stream);
        httpd.until_idle();
        // Whether httpd knows the length of a program's answer is chance: then there are no chunks.
        let programs = ["/cgi-bin/", "/front/", "/proxied/", "/fcgi/"];
        let by_program = programs.iter().any(|path| request.contains(path));
        let by_chance = |line: &&str| {
            let is_length = line.len() < 3 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_length
                || ["Content-Length:", "Transfer-Encoding:"]
                    .iter()
                    .any(|of| line.starts_with(of))
        };
        let now = ["Date:", "Last-Modified:", "ETag:"];
        let of_now = |line: &&str| {
            let is = |of: &&str| line.starts_with(of);
            !(line.is_empty() || now.iter().any(is) || (by_program && by_chance(line)))
        };
        let kept: Vec<&str> = answer.lines().filter(of_now).collect();
        format!("{name}: {}", kept.join("\n"))
    };
    exchanges().map(answer).collect()
}

#[test]
fn what_is_answered_is_the_same_to_the_byte() {
    let [parked, blocked] = ["On", "Off"].map(answers);
    let mut told = 0;
    for (parked, blocked) in parked.iter().zip(&blocked) {
        assert_eq!(parked, blocked);
        let right =
            parked.contains("HTTP/1.1 2") || parked.starts_with("what is not found: HTTP/1.1 404 ");
        assert!(right, "{parked}");
        for (name, said) in SAID {
            told += usize::from(parked.starts_with(&format!("{name}: ")));
            assert!(
                !parked.starts_with(&format!("{name}: ")) || parked.contains(said),
                "{parked}"
            );
        }
    }
    let forbids = usize::from(has_module(FORBIDS));
    assert_eq!(told, SAID.len() - 1 + forbids, "each of these was asked");
}
