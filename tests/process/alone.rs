//! Tests in processes of their own, for what the library counts in a whole process.

use std::{env, process::Command};

/// The variable that tells a process that it is one of these.
const ALONE: &str = "TOLLGATE_TEST_ALONE";

/// Whether this process runs nothing but `test`, named as in `cargo test -- --exact`. If not, this runs it in one that does.
#[track_caller]
pub(crate) fn alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", test]);
    let output = command.env(ALONE, "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains(" 1 passed"),
        "{stdout}{stderr}"
    );
    false
}
