//! A headless Chromium for a test, driven over WebDriver (W3C) by Debian's chromedriver.
//!
//! WebDriver is JSON over HTTP, so the client is what the tests have anyway. The guard ends the
//! browser and its driver.

use super::{PATIENCE, free_port, wait_until};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

/// A browser with one window.
pub struct Browser {
    driver: Child,
    session: String,
}

impl Browser {
    /// A fresh browser with these further arguments, and these preferences of its profile.
    pub fn start(arguments: &[&str], preferences: &Value) -> Browser {
        let port = free_port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver runs; `make setup-all` installs it");
        let base = format!("http://127.0.0.1:{port}");
        wait_until("chromedriver listens", PATIENCE, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let own = ["--headless", "--no-sandbox", "--disable-gpu"];
        let all: Vec<&str> = own.iter().chain(arguments).copied().collect();
        let options = json!({"args": all, "prefs": preferences});
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "unhandledPromptBehavior": "accept"
        }}});
        let mut browser = Browser {
            driver,
            session: base,
        };
        let id = browser.tell("/session", &wanted)["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        browser.session = format!("{}/session/{id}", browser.session);
        browser
    }

    /// Opens an address; returns when it has loaded.
    pub fn open(&self, url: &str) {
        self.tell("/url", &json!({"url": url}));
    }

    /// The value of a script's `return`.
    pub fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a script hands to its last argument, a function.
    pub fn run_async(&self, script: &str) -> Value {
        self.tell("/execute/async", &json!({"script": script, "args": []}))
    }

    /// The text that can be seen.
    pub fn text(&self) -> String {
        let body = self.run("return document.body ? document.body.innerText : ''");
        body.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows `part`.
    pub fn until_shows(&self, part: &str) {
        let shown = || self.text().contains(part);
        wait_until(&format!("the browser shows {part:?}"), PATIENCE, shown);
    }

    /// Another tab, in which the next commands act; its handle.
    pub fn new_tab(&self) -> String {
        let tab = self.tell("/window/new", &json!({"type": "tab"}));
        let handle = tab["handle"].as_str().expect("a handle").to_owned();
        self.switch_to(&handle);
        handle
    }

    /// The tab in which the next commands act.
    pub fn switch_to(&self, handle: &str) {
        self.tell("/window", &json!({"handle": handle}));
    }

    fn tell(&self, path: &str, what: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let body = what.to_string();
        let json = [("Content-Type", "application/json")];
        let answer = super::answer::ask("POST", &url, &json, body.as_bytes());
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text());
        answer.json()["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser; the driver is a child of ours.
        super::answer::ask("DELETE", &self.session, &[], b"");
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
