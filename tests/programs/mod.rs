//! Programs as processes, and requests to them.

#![allow(dead_code, reason = "each test binary uses a part of it")]

mod client;

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
};

#[allow(unused_imports, reason = "as above")]
pub(crate) use self::client::{Pending, Response, Server, Stream, block_on};
use crate::eventually::PATIENCE;

/// A running program, killed when dropped.
pub(crate) struct Program {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Program {
    pub(crate) fn start<S: AsRef<OsStr>>(name: &str, args: &[S]) -> Self {
        let mut command = command(name);
        command.args(args);
        Self::spawn(command)
    }

    /// Starts one that listens on a free port, by the variable `ADDR`.
    pub(crate) fn start_anywhere(name: &str) -> Self {
        Self::start_in(name, &[("ADDR", "127.0.0.1:0")])
    }

    /// Starts one with variables of its environment.
    pub(crate) fn start_in(name: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = command(name);
        command.envs(variables.iter().copied());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        Self {
            stdout: lines(child.stdout.take().expect("it is piped")),
            stderr: lines(child.stderr.take().expect("it is piped")),
            child,
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
        line.expect("the program prints something")
    }

    /// Waits for a line on standard error.
    pub(crate) fn expect_stderr(&self, text: &str) {
        while !self
            .stderr
            .recv_timeout(PATIENCE)
            .expect(text)
            .contains(text)
        {}
    }

    /// Waits for the end, and returns the exit code and the lines printed until then.
    pub(crate) fn finish(mut self) -> (Option<i32>, Vec<String>) {
        let mut rest = Vec::new();
        loop {
            match self.stdout.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the program does not end"),
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

/// Runs a program with variables with which it must end by itself.
pub(crate) fn run_in(name: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = command(name);
    command.envs(variables.iter().copied());
    command.output().expect("the program starts")
}

/// Runs a program with arguments with which it must end by itself.
pub(crate) fn run<S: AsRef<OsStr>>(name: &str, args: &[S]) -> Output {
    let output = command(name).args(args).output();
    output.expect("the program starts")
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

/// A program that is not started yet, and reads nothing.
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

/// Whether a program was built after the last change of its sources, which cargo lists beside it. Cargo builds no examples for the
/// tests of one executable.
fn is_fresh(program: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    let listed = fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let built = changed(program);
    let mut sources = listed.split_whitespace().skip(1);
    built.is_some() && sources.all(|source| changed(Path::new(source)) <= built)
}

/// Reads lines until the other end closes, so that it never blocks on a full pipe. A test that fails shows them.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            eprintln!("{line}");
            // The pipe is read to its end, even if the receiver is gone.
            let _ = sender.send(line);
        }
    });
    receiver
}
