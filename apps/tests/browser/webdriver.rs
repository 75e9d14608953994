//! Just enough of WebDriver (<https://www.w3.org/TR/webdriver2/>) to drive one browser.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    programs::Server,
    redis_support::{Process, comes_true, new_home},
};

/// The key of what stands for an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser, by the driver that has started it.
pub(crate) struct Session {
    server: Server,
    path: String,
    _driver: Driver,
}

impl Session {
    /// Starts a browser. The error is what the driver says if none starts.
    pub(crate) fn start(driver: Driver, capabilities: &Value) -> Result<Self, String> {
        let server = Server::at(&driver.address());
        let wanted = json!({"capabilities": {"alwaysMatch": capabilities}});
        let started = server.send("POST", "/session", &wanted.to_string());
        let started = started.json();
        let Some(id) = started["value"]["sessionId"].as_str() else {
            let why = &started["value"]["message"];
            return Err(format!(
                "chromium does not start (Debian: `apt-get install chromium`): {why}; it has printed:\n{}",
                driver.output()
            ));
        };
        let path = format!("/session/{id}");
        Ok(Self {
            server,
            path,
            _driver: driver,
        })
    }

    /// Opens a new tab in place of the one that is open, and forgets what the page has complained about.
    pub(crate) fn renew(&self) -> Result<(), Value> {
        let post = |path, body: Value| self.send("POST", path, &body.to_string());
        let tab = post("window/new", json!({"type": "tab"}))?;
        self.send("DELETE", "window", "")?;
        post("window", json!({"handle": tab["handle"]}))?;
        // Its pages have the focus, though nothing else in the browser gives it to them.
        let focus =
            json!({"cmd": "Emulation.setFocusEmulationEnabled", "params": {"enabled": true}});
        post("goog/cdp/execute", focus)?;
        self.complaints()?;
        Ok(())
    }

    /// Returns the warnings and errors of the page since the last call.
    pub(crate) fn complaints(&self) -> Result<Value, Value> {
        self.send("POST", "se/log", &json!({"type": "browser"}).to_string())
    }

    /// Returns the driver's answer to a `GET`.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        self.send("GET", path, "").unwrap()
    }

    /// Returns the driver's answer to a `POST`.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.send("POST", path, &body.to_string()).unwrap()
    }

    /// The first element that a CSS selector selects.
    pub(crate) fn find(&self, selector: &str) -> Option<Element<'_>> {
        let by = json!({"using": "css selector", "value": selector});
        let found = self.send("POST", "element", &by.to_string()).ok()?;
        let id = found[ELEMENT].as_str().expect(selector).to_owned();
        Some(Element { session: self, id })
    }

    /// The element that has the focus.
    #[track_caller]
    pub(crate) fn active(&self) -> Element<'_> {
        let id = self.get("element/active")[ELEMENT]
            .as_str()
            .unwrap()
            .to_owned();
        Element { session: self, id }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Result<Value, Value> {
        let path = format!("{}/{path}", self.path);
        let response = self.server.send(method, &path, body);
        let value = response.json()["value"].take();
        match response.status {
            200 => Ok(value),
            _ => Err(value),
        }
    }
}

/// A part of the page.
pub(crate) struct Element<'a> {
    session: &'a Session,
    id: String,
}

impl Element<'_> {
    #[track_caller]
    pub(crate) fn click(&self) {
        self.post("click", &json!({}));
    }

    /// Types a text, in which keys that are no letters are as WebDriver has them.
    #[track_caller]
    pub(crate) fn send_keys(&self, text: &str) {
        self.post("value", &json!({"text": text}));
    }

    #[track_caller]
    pub(crate) fn text(&self) -> String {
        self.get("text")
    }

    #[track_caller]
    pub(crate) fn css_value(&self, property: &str) -> String {
        self.get(&format!("css/{property}"))
    }

    #[track_caller]
    fn get(&self, what: &str) -> String {
        let value = self.session.get(&format!("element/{}/{what}", self.id));
        value.as_str().expect("a text").to_owned()
    }

    #[track_caller]
    fn post(&self, what: &str, body: &Value) {
        let path = format!("element/{}/{what}", self.id);
        self.session.post(&path, body);
    }
}

/// The longest time for which a test waits for the browser.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The interval at which a condition is checked.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// The text that chromedriver prints before its port.
const LISTENS: &str = "started successfully on port ";

/// The words in its output when it cannot listen on its port.
const ENDS: &str = "Exiting...";

/// The program that drives browsers. It is killed when dropped, and at the latest with the process of the test.
pub(crate) struct Driver {
    process: Process,
    address: SocketAddr,
}

impl Driver {
    /// Starts one on a port, or on any if this is 0. The error is what it has printed if it does not listen.
    ///
    /// chromedriver finds a free port of IPv6, and ends if the same port of IPv4 is in use.
    pub(crate) fn start(port: u16) -> Result<Self, String> {
        let args = [format!("--port={port}"), "--enable-chrome-logs".to_owned()];
        let process = Process::new(new_home(), "chromedriver", &args);
        process.start();
        let mut listens = None;
        comes_true(|| {
            let output = process.log();
            listens = port_in(&output);
            listens.is_some() || output.contains(ENDS)
        });
        let Some(port) = listens else {
            return Err(process.log());
        };
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Ok(Self { process, address })
    }

    /// Returns the address at which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the output of the driver and its browsers so far.
    pub(crate) fn output(&self) -> String {
        self.process.log()
    }
}

/// The port on which it says that it listens.
fn port_in(output: &str) -> Option<u16> {
    let (_, rest) = output.split_once(LISTENS)?;
    let (port, _) = rest.split_once('.')?;
    port.parse().ok()
}
