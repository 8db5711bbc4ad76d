//! lbmethod=nap with FastCGI members: a request that mod_proxy_fcgi has sent or answered is not repeated.

use nap_testkit::fcgi::Responder;
use nap_testkit::{Httpd, backends, for_each_mpm, free_port};
use std::io::{Read as _, Write as _};

const HELLO: &str = "Content-Type: text/plain\r\n\r\nhello\n";

fn balancer(urls: &[String]) -> nap_testkit::Builder {
    let members: String = (urls.iter())
        .map(|url| format!("BalancerMember {url}\n"))
        .collect();
    Httpd::builder()
        .nap()
        .modules(&backends::MODULES)
        .modules(&["proxy_fcgi"])
        .config(&format!(
            "<Proxy balancer://work>\n{members}ProxySet lbmethod=nap\nOxthasRetry 2\n</Proxy>\n\
             ProxyPass / balancer://work/"
        ))
}

/// Status and body of each answer in a connection's data, which must contain nothing else.
fn answers(mut said: &[u8]) -> Vec<(u16, String)> {
    let mut found = Vec::new();
    while !said.is_empty() {
        let all = String::from_utf8_lossy(said).into_owned();
        let (head, _) = all.split_once("\r\n\r\n").expect("the end of a head");
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|s| s.get(..3));
        let status = status.unwrap_or_else(|| panic!("no answer begins here: {all}"));
        said = &said[head.len() + 4..];
        let length = (head.lines())
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .map(|length| length.parse().expect("a number"));
        let body = match length {
            Some(length) => take(&mut said, length),
            None => {
                assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
                chunks(&mut said)
            }
        };
        found.push((status.parse().expect("a number"), body));
    }
    found
}

fn take(said: &mut &[u8], length: usize) -> String {
    let (body, rest) = said.split_at(length);
    *said = rest;
    String::from_utf8_lossy(body).into_owned()
}

fn chunks(said: &mut &[u8]) -> String {
    let mut body = String::new();
    loop {
        let end = said.windows(2).position(|two| two == b"\r\n");
        let line = take(said, end.expect("a chunk's length") + 2);
        let length = usize::from_str_radix(line.trim_end(), 16).expect("a length");
        body += &take(said, length);
        assert_eq!(take(said, 2), "\r\n", "a chunk's end");
        if length == 0 {
            return body;
        }
    }
}

#[test]
fn a_fastcgi_member_s_own_error_page_is_the_one_answer() {
    const BROKEN: &str = "Status: 502 Broken\r\nContent-Type: text/plain\r\n\r\nmy own page\n";
    for_each_mpm(|mpm| {
        let (broken, well) = (
            Responder::start(Some(BROKEN)),
            Responder::start(Some(HELLO)),
        );
        let httpd = balancer(&[broken.url(), well.url()]).mpm(mpm).start();
        let mut stream = httpd.connect();
        let asks = ["keep-alive", "keep-alive", "keep-alive", "close"]
            .map(|kept| format!("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: {kept}\r\n\r\n"));
        let mut said = Vec::new();
        stream
            .write_all(asks.concat().as_bytes())
            .expect("httpd reads");
        stream.read_to_end(&mut said).expect("all answers");
        let answers = answers(&said);
        assert_eq!(answers.len(), asks.len(), "{answers:?}");
        let of = |status, body: &str| {
            let same = |answer: &&(u16, String)| **answer == (status, body.to_owned());
            answers.iter().filter(same).count()
        };
        let (failed, served) = (of(502, "my own page\n"), of(200, "hello\n"));
        assert_eq!(
            (failed, served),
            (broken.bodies().len(), well.bodies().len())
        );
        assert!(failed > 0 && failed + served == asks.len(), "{answers:?}");
    });
}

#[test]
fn with_proxyerroroverride_too_it_is_answered_once() {
    const BROKEN: &str = "Status: 502 Broken\r\nContent-Type: text/plain\r\n\r\nmy own page\n";
    let (one, other) = (
        Responder::start(Some(BROKEN)),
        Responder::start(Some(BROKEN)),
    );
    let httpd = balancer(&[one.url(), other.url()])
        .config("ProxyErrorOverride On")
        .start();
    let answer = httpd.get("/");
    assert_eq!(answer.status, 502);
    assert!(answer.text().ends_with("</html>\n"), "{}", answer.text());
    assert_eq!(one.bodies().len() + other.bodies().len(), 1);
}

#[test]
fn a_post_that_a_fastcgi_member_has_read_goes_to_no_other() {
    for_each_mpm(|mpm| {
        let (one, other) = (Responder::start(None), Responder::start(None));
        let httpd = balancer(&[one.url(), other.url()])
            .mpm(mpm)
            .expect_log("AH01067:", "it hangs up")
            .expect_log("AH01075:", "it hangs up")
            .start();
        let answer = httpd.request("POST", "/order", &[], b"one book");
        assert_eq!(answer.status, 503);
        let bodies = [one.bodies(), other.bodies()].concat();
        assert_eq!(bodies, [b"one book"]);
    });
}

#[test]
fn a_post_that_found_no_fastcgi_member_goes_to_another_with_its_body() {
    let well = Responder::start(Some(HELLO));
    let nobody = format!("fcgi://127.0.0.1:{}", free_port());
    let httpd = ["AH00957:", "AH00959:", "AH01079:"]
        .iter()
        .fold(balancer(&[nobody, well.url()]), |builder, line| {
            builder.expect_log(line, "nobody listens there")
        })
        .start();
    for _ in 0..10 {
        assert_eq!(
            httpd.request("POST", "/order", &[], b"one book").status,
            200
        );
    }
    assert_eq!(well.bodies(), [b"one book"; 10]);
    let log = httpd.error_log();
    assert!(log.contains("AH00957:"), "the other one was tried: {log}");
}
