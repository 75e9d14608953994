//! Runs the command.

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;

/// A path that no other test uses.
pub(crate) fn path(extension: &str) -> String {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let (directory, process) = (env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    format!("{directory}/command-{process}-{number}.{extension}")
}

/// Writes a file that no other test uses, and returns its path.
pub(crate) fn file(extension: &str, content: impl AsRef<[u8]>) -> String {
    let path = path(extension);
    fs::write(&path, content).expect("the target directory can be written to");
    path
}

/// Runs the command with nothing on standard input.
pub(crate) fn run<S: AsRef<OsStr>>(args: &[S]) -> Output {
    run_with(args, b"")
}

/// Runs the command with this on standard input.
pub(crate) fn run_with<S: AsRef<OsStr>>(args: &[S], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    // The command may end without reading all of its input.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    child.wait_with_output().expect("the command ends")
}

/// Replays a log by these limits, with `--json`.
pub(crate) fn replay(limits: &str, more: &[&str], log: impl AsRef<[u8]>) -> Output {
    let limits = file("yml", limits);
    let args = ["replay", "--json", "--limits", &limits];
    run_with(&[&args, more].concat(), log.as_ref())
}

pub(crate) fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("it is UTF-8")
}

pub(crate) fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("it is UTF-8")
}

/// Runs the command, and expects one line of JSON and success.
#[track_caller]
pub(crate) fn json<S: AsRef<OsStr>>(args: &[S]) -> Value {
    json_of(&run(args))
}

/// Expects one line of JSON, and success.
#[track_caller]
pub(crate) fn json_of(output: &Output) -> Value {
    json_with_code(output, 0)
}

/// Expects one line of JSON, and this exit code.
#[track_caller]
pub(crate) fn json_with_code(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    let text = stdout(output);
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).expect(text)
}

/// Expects this exit code, nothing on standard output, and an error that holds `texts`.
#[track_caller]
pub(crate) fn expect_refusal(output: &Output, code: i32, texts: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert_eq!(stdout(output), "");
    for text in texts {
        assert!(message.contains(text), "{message}");
    }
}
