use std::process::Command;

use crate::cases::{Case, RUNS};

/// The instructions of one run of a case.
///
/// # Panics
///
/// If valgrind is not installed, or its output is not understood.
pub(crate) fn count(case: Case) -> u64 {
    let program = std::env::current_exe().expect("a program knows its path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*measured*")
        .arg(program)
        .arg(case.name())
        .output()
        .expect("valgrind runs: install it with `apt-get install valgrind`");
    let report = String::from_utf8_lossy(&output.stderr);
    let collected = report
        .lines()
        .find_map(|line| line.split("Collected :").nth(1));
    let collected = collected.and_then(|count| count.trim().parse::<u64>().ok());
    let collected = collected.unwrap_or_else(|| panic!("callgrind counted nothing:\n{report}"));
    collected / RUNS
}
