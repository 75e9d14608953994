//! Recipes of `docs/recipes` with tests of their own: each file begins with the code of its page, and then tests what the page
//! promises.
#![cfg(feature = "axum")]

#[cfg(feature = "pace")]
mod calling_apis;
mod database;
mod language_models;
mod logins;
mod testing;
mod testing_waits;
mod websockets;

use std::{fs, path::PathBuf};

/// The code on the pages is the tested code.
#[test]
fn pages_show_the_code_that_runs_here() {
    let files = |folder: &str| {
        let files = fs::read_dir(folder).unwrap();
        files.map(|file| file.unwrap().path())
    };
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let pages: Vec<_> = files("docs/recipes").map(|page| read(&page)).collect();
    for path in files("tests/http/recipes").filter(|path| !path.ends_with("mod.rs")) {
        let file = read(&path);
        let (code, _) = file.split_once("\n// The page ends here.\n").unwrap();
        let code = format!("```rust\n{code}```\n");
        let is_shown = pages.iter().any(|page| page.contains(&code));
        assert!(is_shown, "no page shows {}", path.display());
    }
}
