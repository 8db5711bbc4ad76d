//! A server's answer, read completely.

use std::time::Duration;

/// Status, headers and body of one answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// In the order they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers_named(name).next()
    }

    /// All headers of this name (lower case), in order.
    pub fn headers_named(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; the test fails if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in: {}", self.text()))
    }
}

/// Asks once, on a connection of its own, without following redirects or keeping cookies.
pub fn ask(method: &str, url: &str, head: &[(&str, &str)], body: &[u8]) -> Answer {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(Duration::from_secs(60)))
        .allow_non_standard_methods(true)
        .build()
        .new_agent();
    let mut request = ureq::http::Request::builder().method(method).uri(url);
    for (name, value) in head {
        request = request.header(*name, *value);
    }
    let answered = if body.is_empty() && method != "POST" {
        agent.run(request.body(()).expect("a well-formed request"))
    } else {
        agent.run(request.body(body).expect("a well-formed request"))
    };
    let mut answer = answered.unwrap_or_else(|e| panic!("{method} {url}: {e}"));
    let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into();
    Answer {
        status: answer.status().as_u16(),
        headers: answer
            .headers()
            .iter()
            .map(|(n, v)| (n.to_string(), text(v)))
            .collect(),
        body: answer
            .body_mut()
            .with_config()
            .limit(1 << 30)
            .read_to_vec()
            .expect("a whole body"),
    }
}
