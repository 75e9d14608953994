//! The example service as a process, and just enough HTTP to talk to it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// The first instant of 2026.
pub(crate) const T0: u64 = 1_767_225_600_000_000;

pub(crate) const DEFAULTS: &str = "
Orders: {number: 6, burst: 20, count: 20, period: 1s}
Slow: {burst: 5, count: 5, period: 60m}
Sevenths: {burst: 7, count: 7, period: 1s}
Off: {number: 9}
Bare: {}
";

/// How long anything may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running service, killed when dropped.
pub(crate) struct Service {
    child: Child,
    client: Client,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Service {
    /// Starts the service with [`DEFAULTS`], on a free port, by the callers' clock.
    pub(crate) fn start() -> Self {
        Self::start_with(&["--manual-clock"])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self::start_on(DEFAULTS, args)
    }

    /// Starts the service with other defaults.
    pub(crate) fn start_on(defaults: &str, args: &[&str]) -> Self {
        let mut command = command(&["--listen", "127.0.0.1:0", "--defaults"]);
        command.arg(file(defaults)).args(args);
        let mut child = command.spawn().expect("the service starts");
        let stdout = lines(child.stdout.take().expect("it is piped"));
        let stderr = lines(child.stderr.take().expect("it is piped"));
        // From here on, whatever fails, the process ends with this value.
        let mut service = Self {
            child,
            client: Client {
                address: ([127, 0, 0, 1], 0).into(),
            },
            stdout,
            stderr,
        };
        let ready = service.stdout.recv_timeout(PATIENCE);
        let ready = ready.expect("the service says when it is ready");
        let address = ready.strip_prefix("listening on http://127.0.0.1:");
        let port = address.and_then(|port| port.parse().ok());
        service.client.address.set_port(port.expect(&ready));
        service
    }

    /// Sends a signal: `TERM` or `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.expect("there is a shell").success(), "{kill}");
    }

    /// Waits for a line on standard error.
    pub(crate) fn expect_stderr(&self, text: &str) {
        loop {
            let line = self.stderr.recv_timeout(PATIENCE).expect(text);
            if line.contains(text) {
                return;
            }
        }
    }

    /// Waits for the end. Returns the exit code, and standard output after its first line.
    pub(crate) fn finish(mut self) -> (Option<i32>, Vec<String>) {
        let mut rest = Vec::new();
        loop {
            match self.stdout.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the service does not end"),
            }
        }
        let status = self.child.wait().expect("it is our child");
        (status.code(), rest)
    }
}

impl Deref for Service {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended already where `finish` was called.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a service listens, to be shared among threads.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

impl Client {
    /// Opens a connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the service accepts");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("it is not zero");
        stream
    }

    /// Opens a connection for several requests.
    pub(crate) fn connection(&self) -> Connection {
        Connection(BufReader::new(self.connect()))
    }

    /// Sends one request, and returns the status and the body.
    pub(crate) fn send(&self, request: &str, body: &[u8]) -> Response {
        let mut stream = self.connect();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the head is sent");
        stream.write_all(body).expect("the body is sent");
        Response::read(&mut stream)
    }

    /// Sends a body to `/v1/decide`.
    pub(crate) fn post(&self, body: &Value) -> Response {
        self.send("POST /v1/decide", body.to_string().as_bytes())
    }

    /// Asks for a decision and expects one.
    pub(crate) fn decide(&self, op: &str, now: u64, transactions: &Value) -> Value {
        let body = json!({"op": op, "now_us": now, "transactions": transactions});
        let response = self.post(&body);
        assert_eq!(response.status, 200, "{body}: {}", response.body);
        response.body
    }
}

/// A connection that stays open.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Sends a body to `/v1/decide`.
    pub(crate) fn post(&mut self, body: &Value) -> Response {
        let body = body.to_string();
        let request = format!(
            "POST /v1/decide HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let stream = self.0.get_mut();
        stream
            .write_all(request.as_bytes())
            .expect("the request is sent");
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            let read = self.0.read_line(&mut text).expect("the service answers");
            assert!(read > 0, "the service closes after {text:?}");
        }
        let head = text.to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|length| length.parse().ok());
        let mut body = vec![0; length.expect(&head)];
        self.0.read_exact(&mut body).expect("the body is whole");
        text.push_str(str::from_utf8(&body).expect("it is UTF-8"));
        Response::parse(&text)
    }
}

/// The answer without the receipts that a spend has and a check has not.
pub(crate) fn without_receipts(mut answer: Value) -> Value {
    let members = answer["transactions"].as_array_mut().expect("members");
    for member in members {
        let member = member.as_object_mut().expect("a member");
        assert!(member.remove("receipt").is_some(), "{member:?}");
    }
    answer
}

/// A response, read to the end of the connection.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Response {
    pub(crate) fn read(stream: &mut TcpStream) -> Self {
        let mut text = String::new();
        stream
            .read_to_string(&mut text)
            .expect("the service answers and closes");
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect(text);
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        Self {
            status: status.expect(head),
            head: head.to_ascii_lowercase(),
            body: serde_json::from_str(body).expect(text),
        }
    }

    /// The code of an error, whose form is checked.
    pub(crate) fn code(&self) -> &str {
        let error = &self.body["error"];
        let message = error["message"].as_str().expect("a message");
        assert!(message.len() > 10, "{message}");
        let code = error["code"].as_str().expect("a code");
        let exact = json!({"error": {"code": code, "message": message}});
        assert_eq!(self.body, exact);
        code
    }
}

/// Runs the service with arguments with which it must not start.
pub(crate) fn run(args: &[&str]) -> Output {
    // A service that starts anyway would run for ever.
    let mut child = command(args).spawn().expect("the service starts");
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let lines = lines(stdout.expect("it is piped"));
    let unexpected = lines.recv_timeout(PATIENCE);
    if unexpected != Err(RecvTimeoutError::Disconnected) {
        let _ = child.kill();
    }
    let status = child.wait().expect("it is our child");
    let mut message = Vec::new();
    let read = stderr.expect("it is piped").read_to_end(&mut message);
    read.expect("standard error is read");
    Output {
        status,
        stdout: unexpected.unwrap_or_default().into(),
        stderr: message,
    }
}

/// Writes a file of its own for each call.
pub(crate) fn file(text: &str) -> PathBuf {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "service-{}-{}.yml",
        std::process::id(),
        FILES.fetch_add(1, Ordering::Relaxed)
    );
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the target directory can be written to");
    path
}

/// Changes a file as the docs say: what is half written is under another name.
pub(crate) fn replace(path: &Path, text: &str) {
    let whole = file(text);
    fs::rename(whole, path).expect("it is the same directory");
}

fn command(args: &[&str]) -> Command {
    let test = std::env::current_exe().expect("tests have a path");
    let profile = test.ancestors().nth(2).expect("it is target/profile/deps");
    let service = profile.join("examples").join("service");
    assert!(
        service.exists(),
        "{} is missing: build it with `cargo build --example service`",
        service.display()
    );
    let mut command = Command::new(service);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Reads lines until the other end closes, so that it never blocks on a full pipe.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
