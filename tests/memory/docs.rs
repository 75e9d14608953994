//! What the documentation shows is all that a reader has to write.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The README, and all files of documentation and code.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs"), root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("md" | "rs") => found.push(path),
                _ => {}
            }
        }
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    };
    found.into_iter().map(read).collect()
}

/// A line of documentation as it is rendered, whether it is in a file of its own or in code.
fn shown(line: &str) -> &str {
    let line = line.trim_start();
    let comment = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"));
    comment.unwrap_or(line).trim_start()
}

/// The blocks of Rust in a document.
fn examples(text: &str) -> Vec<String> {
    let mut examples = Vec::new();
    let mut lines = text.lines().map(shown);
    while let Some(fence) = lines.by_ref().find(|line| line.starts_with("```")) {
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        let language = fence.trim_start_matches('`').split(',').next();
        if matches!(language, Some("" | "rust" | "no_run" | "should_panic")) {
            examples.push(block.join("\n"));
        }
    }
    examples
}

/// A hidden import makes an example shorter than what a reader has to write.
#[test]
fn no_example_hides_an_import() {
    let mut looked_at = 0;
    for (path, text) in documents() {
        for example in examples(&text) {
            looked_at += 1;
            let hidden = example.lines().find(|line| {
                let hidden = line.strip_prefix('#').map(str::trim_start);
                hidden.is_some_and(|line| line.starts_with("use "))
            });
            assert_eq!(hidden, None, "{}", path.display());
        }
    }
    assert!(looked_at > 50, "{looked_at} examples");
}

/// The examples that a reader meets first need three names of this crate. That they compile, the tests of the documentation show.
#[test]
fn first_examples_are_a_line_and_its_imports() {
    for file in ["README.md", "src/lib.rs", "src/layer/mod.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = fs::read_to_string(path).unwrap();
        let first = &examples(&text)[0];
        let mut imports = first.lines().filter(|line| line.contains("tollgate::"));
        let import = "use tollgate::{ClientIp, Limit, RateLimitLayer};";
        assert_eq!(imports.next(), Some(import), "{file}");
        assert_eq!(imports.next(), None, "{file}");
        assert!(!first.contains("\n# "), "{file}");
        let layer = "RateLimitLayer::new(Limit::per_second(10).burst(20), ClientIp::peer())";
        assert!(first.contains(layer), "{file}");
    }
}
