//! A real browser without a window, ended when dropped, even by a panic.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use url::Url;

use crate::webdriver::{Element, Session};

/// How long the browser may take for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(20);

const MISSING: &str =
    "chromedriver is missing: install the packages `chromium` and `chromium-driver`";

/// The program that drives browsers. It ends them when it is told to end.
struct Driver {
    child: Child,
    address: SocketAddr,
    /// Where it and its browsers leave what they need.
    files: PathBuf,
}

impl Driver {
    fn start() -> Self {
        let files = directory();
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").env("TMPDIR", &files);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect(MISSING);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        // Whatever else it prints must not fill the pipe.
        thread::spawn(|| lines.for_each(drop));
        let port: u16 = port.expect("chromedriver says on which port it listens");
        Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            files,
        }
    }

    /// Asks it to end its browsers and itself.
    fn shut_down(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let address = self.address;
        write!(
            stream,
            "GET /shutdown HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
        )?;
        stream.read_to_end(&mut Vec::new())?;
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.shut_down();
        let start = Instant::now();
        while !self.has_ended() && start.elapsed() < PATIENCE {
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// A new directory with a short path, since the browser has sockets in it.
fn directory() -> PathBuf {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let nth = STARTED.fetch_add(1, Ordering::Relaxed);
    let name = format!("browser-{}-{nth}", std::process::id());
    let directory = env::temp_dir().join(name);
    fs::create_dir_all(&directory).expect("files can be written");
    directory
}

pub(crate) struct Browser {
    session: Session,
    _driver: Driver,
    _turn: Turn,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let turn = Turn::wait();
        let driver = Driver::start();
        let args = [
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
        Self {
            session: Session::start(driver.address, &capabilities),
            _driver: driver,
            _turn: turn,
        }
    }

    pub(crate) fn open(&self, url: &str) {
        self.session.post("url", &json!({"url": url}));
    }

    pub(crate) fn url(&self) -> Url {
        let url = self.session.get("url");
        Url::parse(url.as_str().unwrap()).unwrap()
    }

    #[track_caller]
    pub(crate) fn find(&self, selector: &str) -> Element<'_> {
        let found = self.session.find(selector);
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
        comes_true(selector, || self.session.find(selector).is_some());
    }

    pub(crate) fn run(&self, script: &str) -> Value {
        let script = json!({"script": script, "args": []});
        self.session.post("execute/sync", &script)
    }

    /// Lets a condition on the page come true.
    #[track_caller]
    pub(crate) fn wait_until(&self, condition: &str) {
        let holds = format!("return Boolean({condition})");
        comes_true(condition, || self.run(&holds) == true);
    }

    /// Sets what the page takes the screen for: its width, its height, and its pixels per point.
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
        let image = self.session.get("screenshot");
        let image = STANDARD.decode(image.as_str().unwrap()).unwrap();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(directory.join(format!("{name}.png")), image).unwrap();
    }

    /// The complaints of the page, but not the missing icon.
    pub(crate) fn complaints(&self) -> Vec<Value> {
        let log = self.session.post("se/log", &json!({"type": "browser"}));
        let mut entries: Vec<Value> = serde_json::from_value(log).unwrap();
        entries.retain(|entry| !entry["message"].as_str().unwrap().contains("favicon"));
        entries
    }

    /// Types into the element that has the focus.
    #[track_caller]
    pub(crate) fn type_keys(&self, text: &str) {
        self.session.active().send_keys(text);
    }

    fn devtools(&self, command: &str, params: &Value) {
        let command = json!({"cmd": command, "params": params});
        self.session.post("goog/cdp/execute", &command);
    }
}

/// One of the browsers that run at a time: as many as there are processors, each of which takes one for itself.
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
