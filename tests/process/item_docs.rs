//! Public items, which have an example or a link that leads to one.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn files(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        match path.is_dir() {
            true => files(&path, all),
            false => all.push(path),
        }
    }
}

/// Whether a line declares a public item of a module.
fn is_item(line: &str) -> bool {
    let Some(item) = line.strip_prefix("pub ") else {
        return false;
    };
    let item = item.strip_prefix("const fn").map_or(item, |_| "fn ");
    let kinds = [
        "struct ",
        "enum ",
        "trait ",
        "fn ",
        "async fn ",
        "type ",
        "const ",
    ];
    kinds.iter().any(|kind| item.starts_with(kind))
}

/// The documentation above a line, or `None` if it is hidden.
fn docs(lines: &[&str]) -> Option<String> {
    let is_above = |line: &&&str| line.starts_with("///") || line.starts_with("#[");
    let above: Vec<_> = lines.iter().rev().take_while(is_above).collect();
    let hidden = above.iter().any(|line| line.contains("doc(hidden)"));
    let docs = above.iter().filter(|line| line.starts_with("///"));
    (!hidden).then(|| docs.map(|line| format!("{line}\n")).collect())
}

#[test]
fn public_items_have_an_example_or_a_link_to_one() {
    let mut all = Vec::new();
    files(Path::new("src"), &mut all);
    let mut seen = 0;
    for path in all {
        // The cases are public for the macro, and hidden.
        if path.starts_with("src/testing/cases") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("UTF-8");
        let has_example = text.contains("/// ```") || text.contains("//! ```");
        let lines: Vec<_> = text.lines().collect();
        for (i, line) in lines.iter().enumerate().filter(|(_, line)| is_item(line)) {
            let Some(docs) = docs(&lines[..i]) else {
                continue;
            };
            let leads = docs.contains("```") || docs.contains("[`") || docs.contains("](");
            assert!(has_example || leads, "{}: {line}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}
