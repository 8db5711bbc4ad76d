//! A headless Chromium for a test, driven over WebDriver (W3C) by Debian's chromedriver.
//!
//! WebDriver is JSON over HTTP, so the tests' own HTTP client suffices. The guard ends the browser and its
//! driver.

use super::answer::Answer;
use super::{PATIENCE, comes_true, free_port, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

/// A browser with one window.
pub struct Browser {
    driver: Child,
    session: String,
}

impl Browser {
    /// A fresh browser with these additional arguments, and these preferences in its profile.
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
            "goog:chromeOptions": options, "unhandledPromptBehavior": "accept",
            "acceptInsecureCerts": true, "goog:loggingPrefs": {"browser": "ALL"}
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
        comes_true(PATIENCE, || {
            self.tell("/url", &json!({"url": url}));
            !self.has_given_up()
        });
    }

    /// The browser gives up what is on its way when the machine's network changes, as it does where containers come and go.
    fn has_given_up(&self) -> bool {
        let script = "return location.protocol == 'chrome-error:' && \
                      document.documentElement.outerHTML.includes('ERR_NETWORK_CHANGED')";
        self.run(script) == true
    }

    /// The same of the first frame of its page.
    pub fn has_given_up_frame(&self) -> bool {
        self.tell("/frame", &json!({"id": 0}));
        let given_up = self.has_given_up();
        self.tell("/frame", &json!({"id": null}));
        given_up
    }

    /// The Back button.
    pub fn back(&self) {
        self.tell("/back", &json!({}));
    }

    /// The value of a script's `return`.
    pub fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a script passes to its last argument, a function.
    pub fn run_async(&self, script: &str) -> Value {
        self.tell("/execute/async", &json!({"script": script, "args": []}))
    }

    /// The visible text.
    pub fn text(&self) -> String {
        let body = self.run("return document.body ? document.body.innerText : ''");
        body.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows `part`.
    pub fn until_shows(&self, part: &str) {
        let shows = comes_true(PATIENCE, || self.text().contains(part));
        let text = self.text();
        assert!(
            shows,
            "waited {PATIENCE:?} in vain for {part:?}; it shows {text:?}"
        );
    }

    /// Opens another tab, in which the next commands act; returns its handle.
    pub fn new_tab(&self) -> String {
        let tab = self.tell("/window/new", &json!({"type": "tab"}));
        let handle = tab["handle"].as_str().expect("a handle").to_owned();
        self.switch_to(&handle);
        handle
    }

    /// The tab in which commands act now.
    pub fn handle(&self) -> String {
        let url = format!("{}/window", self.session);
        let answer = super::answer::ask("GET", &url, &[], b"").json();
        answer["value"].as_str().expect("a handle").to_owned()
    }

    /// Switches the tab's network on or off.
    pub fn network(&self, there: bool) {
        self.devtools("Network.enable", &json!({}));
        let state = json!({"offline": !there, "latency": 0, "downloadThroughput": -1,
            "uploadThroughput": -1});
        self.devtools("Network.emulateNetworkConditions", &state);
    }

    /// As if its computer slept: all its processes are stopped until the guard is dropped. Send no command
    /// meanwhile.
    pub fn sleep(&self) -> Asleep {
        let mut processes = children(self.driver.id() as i32);
        let mut seen = 0;
        while let Some(pid) = processes.get(seen).copied() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
            processes.extend(children(pid));
            seen += 1;
        }
        Asleep(processes)
    }

    /// Chooses the tab in which the next commands act.
    pub fn switch_to(&self, handle: &str) {
        self.tell("/window", &json!({"handle": handle}));
    }

    /// Clicks on the first element that this selector finds, as a visitor would. If the page has moved on by
    /// itself meanwhile, on that of the next page.
    pub fn click(&self, selector: &str) {
        let mut tried = Ok(());
        let clicked = comes_true(PATIENCE, || {
            tried = self.try_click(selector);
            tried.is_ok()
        });
        assert!(clicked, "{selector}: {tried:?}");
    }

    fn try_click(&self, selector: &str) -> Result<(), String> {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.ask("/element", &wanted);
        let id = found.json()["value"]
            .as_object()
            .and_then(|o| Some(o.values().next()?.as_str()?.to_owned()));
        let id = id
            .filter(|_| found.status == 200)
            .ok_or_else(|| found.text())?;
        let clicked = self.ask(&format!("/element/{id}/click"), &json!({}));
        match clicked.status {
            200 => Ok(()),
            _ => Err(clicked.text()),
        }
    }

    /// The text of the first element that this selector finds; works without JavaScript.
    pub fn text_of(&self, selector: &str) -> Option<String> {
        let wanted = json!({"using": "css selector", "value": selector});
        let url = format!("{}/elements", self.session);
        let found = super::answer::ask("POST", &url, JSON, wanted.to_string().as_bytes()).json();
        let first = found["value"].get(0)?.as_object()?.values().next()?;
        let url = format!("{}/element/{}/text", self.session, first.as_str()?);
        let text = super::answer::ask("GET", &url, &[], b"").json();
        Some(text["value"].as_str()?.to_owned())
    }

    /// Sets a window of this many CSS pixels, in dark mode or not.
    pub fn look_like(&self, width: u32, height: u32, dark: bool) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    /// Runs a script at the start of each page from now on, before the page's own scripts.
    pub fn on_each_page(&self, script: &str) {
        let wanted = json!({"source": script});
        self.devtools("Page.addScriptToEvaluateOnNewDocument", &wanted);
    }

    /// The whole page as a PNG, not only the part that the window shows.
    pub fn picture(&self) -> Vec<u8> {
        self.capture(true)
    }

    /// The part of it that the window shows.
    pub fn view(&self) -> Vec<u8> {
        self.capture(false)
    }

    fn capture(&self, beyond: bool) -> Vec<u8> {
        use base64::Engine as _;
        let wanted = json!({"format": "png", "captureBeyondViewport": beyond});
        let png = self.devtools("Page.captureScreenshot", &wanted);
        base64::engine::general_purpose::STANDARD
            .decode(png["data"].as_str().expect("a picture"))
            .expect("base64")
    }

    /// Console messages since the last call.
    pub fn console(&self) -> Vec<String> {
        let said = self.tell("/se/log", &json!({"type": "browser"}));
        let lines = said.as_array().expect("a list").iter();
        lines.map(|line| line["message"].to_string()).collect()
    }

    /// What axe-core finds wrong with the page, and how many rules it checked.
    pub fn axe(&self) -> Value {
        let path = super::made::file("axe/axe.min.js");
        let script = std::fs::read_to_string(path).expect("`make setup-all` fetches axe-core");
        self.run(&format!("{script}; return 1"));
        self.run_async(
            "var done = arguments[arguments.length - 1];
             axe.run(document).then(function (found) {
               done({passes: found.passes.length, violations: found.violations.map(function (v) {
                 return v.impact + ' ' + v.id + ': ' + v.nodes.map(function (n) { return n.html; }).join(' ');
               })});
             }, function (error) { done({passes: 0, violations: [String(error)]}); });",
        )
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.tell(
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        )
    }

    fn tell(&self, path: &str, what: &Value) -> Value {
        let answer = self.ask(path, what);
        assert_eq!(answer.status, 200, "{path} {what}: {}", answer.text());
        answer.json()["value"].clone()
    }

    fn ask(&self, path: &str, what: &Value) -> Answer {
        let url = format!("{}{path}", self.session);
        super::answer::ask("POST", &url, JSON, what.to_string().as_bytes())
    }
}

/// A stopped browser.
pub struct Asleep(Vec<i32>);

impl Drop for Asleep {
    fn drop(&mut self) {
        for pid in self.0.iter().rev() {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGCONT);
        }
    }
}

fn children(pid: i32) -> Vec<i32> {
    super::process::processes()
        .filter(|process| process.parent == pid)
        .map(|process| process.pid)
        .collect()
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser; the driver is a child of ours.
        super::answer::ask("DELETE", &self.session, &[], b"");
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
