//! An example as a process, and just enough HTTP to talk to it.

#![allow(dead_code, reason = "each test binary uses a part of it")]

mod connection;

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, SystemTime},
};

use serde_json::Value;

pub(crate) use self::connection::Connection;

/// The longest time for which a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running example, killed when dropped.
pub(crate) struct Program {
    child: Child,
    stdout: Receiver<String>,
    /// The lines of standard error, if the test reads them.
    stderr: Option<Receiver<String>>,
}

impl Program {
    pub(crate) fn start<S: AsRef<OsStr>>(name: &str, args: &[S]) -> Self {
        let mut command = command(name);
        command.args(args);
        Self::spawn(command)
    }

    /// Starts one whose standard error is read by [`expect_stderr`](Self::expect_stderr).
    pub(crate) fn start_heard<S: AsRef<OsStr>>(name: &str, args: &[S]) -> Self {
        let mut command = command(name);
        command.args(args).stderr(Stdio::piped());
        Self::spawn(command)
    }

    /// Starts one that listens on the address in `ADDR`.
    pub(crate) fn start_at(name: &str, address: &str) -> Self {
        let mut command = command(name);
        command.env("ADDR", address);
        Self::spawn(command)
    }

    /// Starts one with variables of its environment.
    pub(crate) fn start_in(name: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = command(name);
        command.envs(variables.iter().copied());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example starts");
        let stdout = lines(child.stdout.take().expect("it is piped"));
        let stderr = child.stderr.take().map(lines);
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Waits until it says where it listens. It says so once for each server.
    pub(crate) fn next_server(&self) -> Server {
        self.next_server_after("listening on http://")
    }

    /// Waits until it says, in other words, where it listens.
    pub(crate) fn next_server_after(&self, words: &str) -> Server {
        let ready = self.next_line();
        let address = ready.strip_prefix(words).expect(&ready);
        let address = address.split('/').next().unwrap_or(address);
        Server(address.to_owned())
    }

    /// Waits for the next line that it prints.
    pub(crate) fn next_line(&self) -> String {
        let line = self.stdout.recv_timeout(PATIENCE);
        line.expect("the example prints something")
    }

    /// Waits for a line on standard error.
    pub(crate) fn expect_stderr(&self, text: &str) {
        let stderr = self.stderr.as_ref().expect("it is read");
        while !stderr.recv_timeout(PATIENCE).expect(text).contains(text) {}
    }

    /// Waits for the end, and returns the exit code and the lines printed until then.
    pub(crate) fn finish(mut self) -> (Option<i32>, Vec<String>) {
        let mut rest = Vec::new();
        loop {
            match self.stdout.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the example does not end"),
            }
        }
        let status = self.child.wait().expect("it is our child");
        (status.code(), rest)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.expect("there is a shell").success(), "{kill}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs an example with variables with which it must end by itself.
pub(crate) fn run_in(name: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = command(name);
    command.envs(variables.iter().copied());
    command.output().expect("the example starts")
}

/// Runs an example with arguments with which it must end by itself.
pub(crate) fn run<S: AsRef<OsStr>>(name: &str, args: &[S]) -> Output {
    let mut command = command(name);
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.output().expect("the example starts")
}

/// The address at which an example listens.
pub(crate) struct Server(String);

impl Server {
    /// A server that is no example.
    pub(crate) fn at(address: &impl ToString) -> Self {
        Self(address.to_string())
    }

    pub(crate) fn address(&self) -> &str {
        &self.0
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0)
    }

    /// Sends one request with a body in JSON.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Response {
        let length = body.len();
        let headers = "host: localhost\r\ncontent-type: application/json";
        self.exchange(
            &format!(
                "{method} {path} HTTP/1.1\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{body}"
            ),
            1,
        )
        .remove(0)
    }

    /// Sends one request, with lines of header that each end in `\r\n`.
    pub(crate) fn get(&self, path: &str, headers: &str) -> Response {
        let mut responses = self.get_often(1, path, headers);
        responses.remove(0)
    }

    /// Sends this number of requests at once over one connection. They are served one after the other.
    pub(crate) fn get_often(&self, times: usize, path: &str, headers: &str) -> Vec<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n");
        self.exchange(&request.repeat(times), times)
    }

    /// Sends one request with lines of header and a body, which need not be text.
    pub(crate) fn request(&self, line: &str, headers: &[u8], body: &[u8]) -> Response {
        let length = format!("content-length: {}\r\n\r\n", body.len());
        let mut connection = self.connect();
        connection.send(format!("{line} HTTP/1.1\r\nhost: test\r\n"));
        connection.send([headers, length.as_bytes(), body].concat());
        connection.response()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.0)
    }

    fn exchange(&self, requests: &str, times: usize) -> Vec<Response> {
        let mut connection = self.connect();
        connection.send(requests);
        (0..times).map(|_| connection.response()).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    fn read(stream: &mut impl BufRead) -> Self {
        let mut response = Self::read_head(stream);
        if response.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = read_chunk(stream) {
                response.body.push_str(&chunk);
            }
            return response;
        }
        let length = match response.status {
            204 => Some(0),
            _ => response
                .header("content-length")
                .and_then(|text| text.parse().ok()),
        };
        let body = stream.take(length.expect("the length of the body"));
        let read = { body }.read_to_string(&mut response.body);
        read.expect("the example sends the body");
        response
    }

    fn read_head(stream: &mut impl BufRead) -> Self {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = stream.read_line(&mut head);
            assert_ne!(read.expect("the example answers"), 0, "it ends: {head}");
        }
        head.make_ascii_lowercase();
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        Self {
            status: status.expect(&head),
            head,
            body: String::new(),
        }
    }

    /// A field of the head, which is in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.find_map(|(field, value)| (field == name).then_some(value.trim()))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }
}

/// One chunk of a body, or `None` at its end.
fn read_chunk(stream: &mut impl BufRead) -> Option<String> {
    let mut size = String::new();
    stream.read_line(&mut size).expect("a chunk has a size");
    let size = u64::from_str_radix(size.trim_end(), 16).expect("a size of a chunk");
    let mut chunk = String::new();
    let mut rest = stream.take(size + 2);
    rest.read_to_string(&mut chunk).expect("a chunk of text");
    chunk.truncate(chunk.trim_end_matches("\r\n").len());
    Some(chunk).filter(|_| size > 0)
}

/// Writes a file that no other test uses, and returns its path.
pub(crate) fn file(name: &str, text: &str) -> String {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let (directory, process) = (env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = format!("{directory}/{process}-{number}-{name}");
    fs::write(&path, text).expect("the target directory can be written to");
    path
}

/// Replaces a file as a whole, by writing it under another name first.
pub(crate) fn replace(path: &str, text: &str) {
    fs::rename(file("new", text), path).expect("it is the same directory");
}

/// An example that is not started yet, and reads nothing.
pub(crate) fn command(name: &str) -> Command {
    let test = std::env::current_exe().expect("tests have a path");
    let profile = test.ancestors().nth(2).expect("it is target/profile/deps");
    let program = profile.join(crate::PROGRAMS).join(name);
    assert!(
        is_fresh(&program),
        "{} is missing or older than its source: build it with `cargo build --examples --all-features`",
        program.display()
    );
    let mut command = Command::new(program);
    // Lines without colours, so that tests find words in them.
    command.stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// Whether a program was built after the last change of its source. Cargo builds no examples for the tests of one executable.
fn is_fresh(program: &Path) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = program.file_name().expect("it is a file");
    let own = root.join("examples").join(name);
    let sources = [root.join("src"), own.with_extension("rs"), own];
    let changed = sources.iter().filter_map(|path| last_change(path)).max();
    let built = program.metadata().and_then(|file| file.modified());
    built.is_ok_and(|built| Some(built) >= changed)
}

/// The last change of a file, or of one in a folder.
fn last_change(path: &Path) -> Option<SystemTime> {
    let Ok(entries) = fs::read_dir(path) else {
        return path.metadata().ok()?.modified().ok();
    };
    entries
        .filter_map(|entry| last_change(&entry.ok()?.path()))
        .max()
}

/// Reads lines until the other end closes, so that it never blocks on a full pipe.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // The pipe is read to its end, even if the receiver is gone.
            let _ = sender.send(line);
        }
    });
    receiver
}
