//! What fuzzing has found, and what it began with: each file holds to the checks of its target.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

#[path = "../fuzz/src/lib.rs"]
pub mod checks;

use std::{fs, path::Path};

/// Gives each file of a corpus to the check of its target.
fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let files = fs::read_dir(corpus.join(target)).unwrap();
    let paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert!(!paths.is_empty(), "the corpus of {target} is empty");
    for path in paths {
        // Shown if the check fails.
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
    }
}

#[test]
fn client_ip() {
    replay("client_ip", checks::client_ip::check);
}

#[test]
fn durations() {
    replay("durations", checks::durations::check);
}

#[test]
fn id_format() {
    replay("id_format", checks::id_format::check);
}

#[test]
fn limits_file() {
    replay("limits_file", checks::limits_file::check);
}
