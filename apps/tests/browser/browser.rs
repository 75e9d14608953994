//! A real browser without a window.

use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process,
    sync::{Condvar, LazyLock, Mutex},
    thread,
};

use fantoccini::{
    Client, ClientBuilder, Locator, elements::Element, error::CmdError,
    wd::WebDriverCompatibleCommand,
};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

use crate::{
    eventually::{PATIENCE, eventually},
    programs::block_on,
    redis_support::{Port, Process, new_home},
};

/// A browser with one tab, which no other test has used. The next test gets it with a new tab, unless this one has failed.
pub(crate) struct Browser {
    /// There is one until this is dropped.
    session: Option<Session>,
}

/// The browsers that are free. There are as many as processors, and each test takes one for itself. They end with the process.
static FREE: LazyLock<Mutex<Vec<Option<Session>>>> = LazyLock::new(|| {
    let most = thread::available_parallelism().map_or(1, usize::from);
    Mutex::new((0..most).map(|_| None).collect())
});
static RETURNED: Condvar = Condvar::new();

impl Browser {
    /// Takes a browser that another test has left, or starts one.
    pub(crate) fn start() -> Self {
        let free = FREE.lock().unwrap();
        let mut free = RETURNED.wait_while(free, |free| free.is_empty()).unwrap();
        let started = free.iter().position(Option::is_some);
        let session = free.swap_remove(started.unwrap_or(0));
        drop(free);
        // It is returned even if it does not start.
        let mut browser = Self { session };
        browser.session.get_or_insert_with(Session::start);
        browser
    }

    fn client(&self) -> &Client {
        let session = self.session.as_ref();
        &session.expect("it is there until this is dropped").client
    }

    pub(crate) fn open(&self, url: &str) {
        block_on(self.client().goto(url)).unwrap();
    }

    pub(crate) fn url(&self) -> Url {
        block_on(self.client().current_url()).unwrap()
    }

    #[track_caller]
    fn find(&self, selector: &str) -> Element {
        let found = block_on(self.client().find(Locator::Css(selector)));
        found.unwrap_or_else(|error| panic!("{selector}: {error}"))
    }

    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        block_on(self.find(selector).click()).unwrap();
    }

    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        block_on(self.find(selector).text()).unwrap()
    }

    /// Types into an element. Keys that are no letters are as WebDriver has them.
    #[track_caller]
    pub(crate) fn type_into(&self, selector: &str, keys: &str) {
        block_on(self.find(selector).send_keys(keys)).unwrap();
    }

    /// Types into the element that has the focus.
    #[track_caller]
    pub(crate) fn type_keys(&self, keys: &str) {
        let typed = async {
            let focused = self.client().active_element().await?;
            focused.send_keys(keys).await
        };
        block_on(typed).unwrap();
    }

    /// Waits for an element.
    #[track_caller]
    pub(crate) fn wait_for(&self, selector: &str) {
        self.wait_until(&format!("document.querySelector({})", json!(selector)));
    }

    /// Waits for a condition on the page. A script on the page checks it, which is faster than asking the driver again and again.
    #[track_caller]
    pub(crate) fn wait_until(&self, condition: &str) {
        let script = format!(
            "const looks = setInterval(async () => {{
                if (await ({condition})) {{
                    clearInterval(looks);
                    arguments[0]();
                }}
            }}, 10);"
        );
        let waited = block_on(self.client().execute_async(&script, Vec::new()));
        waited.unwrap_or_else(|error| panic!("never: {condition}: {error}"));
    }

    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Value {
        block_on(self.client().execute(script, Vec::new())).unwrap()
    }

    /// Sets the screen that the page sees: its width, its height, and its pixels per point.
    pub(crate) fn screen(&self, width: u32, height: u32, ratio: u32) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": ratio, "mobile": width < 600,
        });
        self.issue(Command::devtools(
            "Emulation.setDeviceMetricsOverride",
            &metrics,
        ));
    }

    /// Sets what the user prefers, such as `prefers-color-scheme`.
    pub(crate) fn prefer(&self, name: &str, value: &str) {
        let media = json!({"features": [{"name": name, "value": value}]});
        self.issue(Command::devtools("Emulation.setEmulatedMedia", &media));
    }

    /// Writes what the screen shows to a file in the tests' own directory.
    pub(crate) fn screenshot(&self, name: &str) {
        let image = block_on(self.client().screenshot()).unwrap();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(directory.join(format!("{name}.png")), image).unwrap();
    }

    /// The complaints of the page since the last call, but not the missing icon.
    pub(crate) fn complaints(&self) -> Vec<Value> {
        let log = self.issue(Command::log());
        let mut entries: Vec<Value> = serde_json::from_value(log).unwrap();
        entries.retain(|entry| !entry["message"].as_str().unwrap().contains("favicon"));
        entries
    }

    fn issue(&self, command: Command) -> Value {
        block_on(self.client().issue_cmd(command)).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let session = self.session.take().filter(|_| !thread::panicking());
        let renewed = session.filter(|session| block_on(session.renew()).is_ok());
        FREE.lock().unwrap().push(renewed);
        RETURNED.notify_one();
    }
}

/// A running browser, and its driver.
struct Session {
    client: Client,
    _driver: Process,
    _port: Port,
}

impl Session {
    fn start() -> Self {
        let port = Port::claim();
        let mut command = process::Command::new("chromedriver");
        command.arg(format!("--port={}", port.number()));
        let driver = Process::new(new_home(), command.arg("--enable-chrome-logs"));
        driver.start();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        eventually("chromedriver listens", || {
            TcpStream::connect(address).is_ok()
        });
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(serde_json::from_value(capabilities()).unwrap());
        let url = format!("http://127.0.0.1:{}", port.number());
        let client = block_on(builder.connect(&url)).unwrap_or_else(|error| {
            let log = driver.log();
            panic!("chromium does not start (Debian: `apt-get install chromium`): {error}\n{log}")
        });
        Self {
            client,
            _driver: driver,
            _port: port,
        }
    }

    /// Opens a new tab in place of the one that is open, and forgets what the page has complained about.
    async fn renew(&self) -> Result<(), CmdError> {
        let tab = self.client.new_window(true).await?;
        self.client.close_window().await?;
        self.client.switch_to_window(tab.handle).await?;
        // Its pages have the focus, though nothing else in the browser gives it to them.
        let enabled = json!({"enabled": true});
        let focus = Command::devtools("Emulation.setFocusEmulationEnabled", &enabled);
        self.client.issue_cmd(focus).await?;
        self.client.issue_cmd(Command::log()).await?;
        Ok(())
    }
}

/// Chromium without its windows, which needs two thirds of the time. Where there is none, the driver finds the whole browser.
const SHELL: &str = "/usr/bin/chromium-headless-shell";

fn capabilities() -> Value {
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
    let mut options = json!({"args": args});
    if Path::new(SHELL).exists() {
        options["binary"] = json!(SHELL);
    }
    json!({
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL"},
        "timeouts": {"script": PATIENCE.as_millis()},
    })
}

/// A command that only the driver of Chromium has.
#[derive(Debug)]
struct Command {
    path: &'static str,
    body: Value,
}

impl Command {
    fn devtools(command: &str, params: &Value) -> Self {
        Self {
            path: "goog/cdp/execute",
            body: json!({"cmd": command, "params": params}),
        }
    }

    /// Returns the warnings and errors of the page since the last call.
    fn log() -> Self {
        Self {
            path: "se/log",
            body: json!({"type": "browser"}),
        }
    }
}

impl WebDriverCompatibleCommand for Command {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let session = session.expect("there is a session");
        base.join(&format!("session/{session}/{}", self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

/// The colour of the page's ground.
pub(crate) const GROUND: &str = "return getComputedStyle(document.body).backgroundColor";

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
