//! A real browser without a window, ended when dropped, even by a panic.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use fantoccini::{Client, ClientBuilder, Locator, wd::WebDriverCompatibleCommand};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

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
    let name = format!("simulator-{}-{nth}", std::process::id());
    let directory = env::temp_dir().join(name);
    fs::create_dir_all(&directory).expect("files can be written");
    directory
}

pub(crate) struct Browser {
    client: Client,
    _driver: Driver,
}

impl Browser {
    pub(crate) async fn start() -> Self {
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
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities.as_object().unwrap().clone())
            .connect(&format!("http://{}", driver.address))
            .await;
        let client = client.expect("the browser starts: install the package `chromium`");
        Self {
            client,
            _driver: driver,
        }
    }

    pub(crate) async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    pub(crate) async fn url(&self) -> Url {
        self.client.current_url().await.unwrap()
    }

    pub(crate) async fn find(&self, selector: &str) -> fantoccini::elements::Element {
        let element = self.client.find(Locator::Css(selector)).await;
        element.unwrap_or_else(|error| panic!("{selector}: {error}"))
    }

    pub(crate) async fn click(&self, selector: &str) {
        self.find(selector).await.click().await.unwrap();
    }

    pub(crate) async fn text(&self, selector: &str) -> String {
        self.find(selector).await.text().await.unwrap()
    }

    pub(crate) async fn wait_for(&self, selector: &str) {
        let wait = self.client.wait().at_most(PATIENCE);
        let wait = wait.every(POLL);
        let found = wait.for_element(Locator::Css(selector)).await;
        found.unwrap_or_else(|error| panic!("no {selector}: {error}"));
    }

    pub(crate) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Lets a condition on the page come true.
    pub(crate) async fn wait_until(&self, condition: &str) {
        let start = Instant::now();
        while self.run(&format!("return Boolean({condition})")).await != true {
            assert!(start.elapsed() < PATIENCE, "never: {condition}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sets what the page takes the screen for: its width, its height, and its pixels per point.
    pub(crate) async fn screen(&self, width: u32, height: u32, ratio: u32) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": ratio, "mobile": width < 600,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
            .await;
    }

    /// Sets what the user prefers, such as `prefers-color-scheme`.
    pub(crate) async fn prefer(&self, name: &str, value: &str) {
        let media = json!({"features": [{"name": name, "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// Writes what the screen shows to a file in the tests' own directory.
    pub(crate) async fn screenshot(&self, name: &str) {
        let image = self.client.screenshot().await.unwrap();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(directory.join(format!("simulator-{name}.png")), image).unwrap();
    }

    /// What the page has complained of.
    pub(crate) async fn complaints(&self) -> Value {
        let log = Driven {
            path: "se/log",
            body: json!({"type": "browser"}),
        };
        self.client.issue_cmd(log).await.unwrap()
    }

    async fn devtools(&self, command: &str, params: Value) {
        let command = Driven {
            path: "goog/cdp/execute",
            body: json!({"cmd": command, "params": params}),
        };
        self.client.issue_cmd(command).await.unwrap();
    }
}

/// A command of this browser's driver that is not in the standard.
#[derive(Debug)]
struct Driven {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Driven {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/{}", self.path))
    }

    fn method_and_body(&self, _: &Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}
