//! The code of `docs/without-axum.md`, and its tests: each file begins with the code of the page.

#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod actix;
mod function;
mod hyper_server;
mod oneshot;
mod warp_filter;

use std::fs;

/// Readers copy what is tested.
#[test]
fn page_shows_the_code_that_runs_here() {
    let page = fs::read_to_string("../../docs/without-axum.md").unwrap();
    let mut shown = 0;
    for entry in fs::read_dir("src").unwrap() {
        let file = fs::read_to_string(entry.unwrap().path()).unwrap();
        let Some((code, _)) = file.split_once("\n// The page ends here.\n") else {
            continue;
        };
        assert!(page.contains(&format!("\n{code}```\n")), "{code}");
        shown += 1;
    }
    let blocks = page.lines().filter(|line| line.starts_with("```rust"));
    assert_eq!(shown, blocks.count());
}
