//! The source files of the crate, without those of its command, which is a program of its own.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Every file below `src`.
pub(crate) fn source_files() -> Vec<PathBuf> {
    let mut all = Vec::new();
    add(Path::new("src"), &mut all);
    all
}

fn add(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        match path.is_dir() {
            true if path.ends_with("bin") => {}
            true => add(&path, all),
            false => all.push(path),
        }
    }
}
