//! A real browser without a window.

use std::{
    fs,
    path::Path,
    sync::{Condvar, Mutex},
    thread,
    time::Instant,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use url::Url;

use crate::webdriver::{Driver, Element, PATIENCE, POLL, Session};

/// The number of attempts to start a browser.
const ATTEMPTS: usize = 5;

/// A browser with one tab, which no other test has used. The next test gets it with a new tab, unless this one has failed.
pub(crate) struct Browser {
    /// There is one until this is dropped.
    session: Option<Session>,
    _turn: Turn,
}

/// The browsers that tests have left. They end with the process.
static LEFT: Mutex<Vec<Session>> = Mutex::new(Vec::new());

impl Browser {
    /// Takes a browser that another test has left, or starts one.
    pub(crate) fn start() -> Self {
        let turn = Turn::wait();
        let left = LEFT.lock().unwrap().pop();
        Self {
            session: Some(left.unwrap_or_else(Self::start_session)),
            _turn: turn,
        }
    }

    /// Starts one. If another process takes the port first, or the machine is short of memory, it tries again.
    fn start_session() -> Session {
        let mut failures = Vec::new();
        while failures.len() < ATTEMPTS {
            match Self::try_start() {
                Ok(session) => return session,
                Err(failure) => failures.push(failure),
            }
        }
        panic!("no browser starts:\n{}", failures.join("\n"));
    }

    fn try_start() -> Result<Session, String> {
        let driver = Driver::start(0)?;
        let args = [
            // It ends when its driver does, however that ends.
            "--remote-debugging-pipe",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--disable-sync",
            "--no-first-run",
            "--window-size=1280,1000",
        ];
        let capabilities = json!({
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        Session::start(driver, &capabilities)
    }

    fn session(&self) -> &Session {
        self.session
            .as_ref()
            .expect("it is there until this is dropped")
    }

    pub(crate) fn open(&self, url: &str) {
        self.session().post("url", &json!({"url": url}));
    }

    pub(crate) fn url(&self) -> Url {
        let url = self.session().get("url");
        Url::parse(url.as_str().unwrap()).unwrap()
    }

    #[track_caller]
    pub(crate) fn find(&self, selector: &str) -> Element<'_> {
        let found = self.session().find(selector);
        found.unwrap_or_else(|| panic!("no {selector}"))
    }

    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.find(selector).click();
    }

    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        self.find(selector).text()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, selector: &str) {
        comes_true(selector, || self.session().find(selector).is_some());
    }

    pub(crate) fn run(&self, script: &str) -> Value {
        let script = json!({"script": script, "args": []});
        self.session().post("execute/sync", &script)
    }

    /// Waits for a condition on the page.
    #[track_caller]
    pub(crate) fn wait_until(&self, condition: &str) {
        let holds = format!("return Boolean({condition})");
        comes_true(condition, || self.run(&holds) == true);
    }

    /// Sets the screen that the page sees: its width, its height, and its pixels per point.
    pub(crate) fn screen(&self, width: u32, height: u32, ratio: u32) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": ratio, "mobile": width < 600,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Sets what the user prefers, such as `prefers-color-scheme`.
    pub(crate) fn prefer(&self, name: &str, value: &str) {
        let media = json!({"features": [{"name": name, "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    /// Writes what the screen shows to a file in the tests' own directory.
    pub(crate) fn screenshot(&self, name: &str) {
        let image = self.session().get("screenshot");
        let image = STANDARD.decode(image.as_str().unwrap()).unwrap();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(directory.join(format!("{name}.png")), image).unwrap();
    }

    /// The complaints of the page, but not the missing icon.
    pub(crate) fn complaints(&self) -> Vec<Value> {
        let log = self.session().complaints().unwrap();
        let mut entries: Vec<Value> = serde_json::from_value(log).unwrap();
        entries.retain(|entry| !entry["message"].as_str().unwrap().contains("favicon"));
        entries
    }

    /// Types into the element that has the focus.
    #[track_caller]
    pub(crate) fn type_keys(&self, text: &str) {
        self.session().active().send_keys(text);
    }

    fn devtools(&self, command: &str, params: &Value) {
        let command = json!({"cmd": command, "params": params});
        self.session().post("goog/cdp/execute", &command);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let session = self.session.take().filter(|_| !thread::panicking());
        if let Some(session) = session
            && session.renew().is_ok()
        {
            LEFT.lock().unwrap().push(session);
        }
    }
}

/// One of the browsers that run at a time: as many as there are processors. Each takes one for itself.
struct Turn;

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

impl Turn {
    fn wait() -> Self {
        let most = thread::available_parallelism().map_or(1, usize::from);
        let running = RUNNING.lock().unwrap();
        *ENDED
            .wait_while(running, |running| *running >= most)
            .unwrap() += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Ok(mut running) = RUNNING.lock() {
            *running -= 1;
        }
        ENDED.notify_one();
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn comes_true(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(POLL);
    }
}

/// Lists the text that is too faint on its ground: below 4.5 to 1, as the WCAG count it.
pub(crate) const FAINT: &str = r"
    const rgb = (text) => text.match(/[\d.]+/g).map(Number);
    const linear = (part) => part <= 10.3 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ground = (node) => {
        const color = rgb(getComputedStyle(node).backgroundColor);
        return color[3] === 0 ? ground(node.parentElement) : color;
    };
    const ratio = (node) => {
        const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    return [...document.querySelectorAll('body *')]
        .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
        .filter((node) => !node.disabled && node.checkVisibility() && ratio(node) < 4.5)
        .map((node) => `${ratio(node)}: ${node.outerHTML}`);
";

/// Lists the controls and pictures that have no name for assistive technology.
pub(crate) const NAMELESS: &str = r"
    const text = (node) => node?.textContent.trim();
    const isNamed = (one) => one.ariaLabel || text(one) || [...one.labels ?? []].some(text);
    return [...document.querySelectorAll('button, select, input, canvas, [role=img]')]
        .filter((one) => one.checkVisibility() && !isNamed(one))
        .map((one) => one.outerHTML);
";
