//! The README: short, with the figures of `benches/README.md`. And what readers copy from the pages is whole.

use std::{fs, path::Path};

use crate::structure::files_below;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(path).expect("it can be read")
}

/// The cells of a table's rows.
fn rows(text: &str) -> impl Iterator<Item = Vec<String>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix('|'));
    rows.map(|row| {
        let cells = row.trim_end_matches('|').split('|');
        cells
            .map(|cell| cell.replace("**", "").trim().into())
            .collect()
    })
}

/// The cell of the row that begins with a label.
#[track_caller]
fn cell(text: &str, label: &str, column: usize) -> String {
    let mut found = rows(text).filter(|cells| cells[0] == label);
    let row = found.next().unwrap_or_else(|| panic!("no row `{label}`"));
    assert!(found.next().is_none(), "two rows `{label}`");
    row[column].clone()
}

#[test]
fn readme_has_at_most_800_words() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= 800, "{words} words");
}

#[test]
fn figures_are_those_of_the_benches() {
    let (readme, benches) = (read("README.md"), read("benches/README.md"));
    let (_, performance) = readme.split_once("## Performance").expect("a section");
    let pairs = [
        ("time of a decision, to governor", "hot, allowed: backend"),
        (
            "time of a decision by limit name, to governor",
            "hot, allowed: limiter",
        ),
        (
            "decisions per second, a million clients, two threads, to governor",
            "many: backend",
        ),
        (
            "overhead of the layer without headers, to tower_governor with headers",
            "layer overhead, allowed, plain",
        ),
        (
            "overhead of the layer with headers, to tower_governor with headers",
            "layer overhead, allowed, headers",
        ),
        (
            "memory per client (governor: 55.4 B)",
            "bytes per bucket, short ids",
        ),
    ];
    for (ours, theirs) in pairs {
        let is_ratio = !theirs.starts_with("bytes");
        let measured = cell(&benches, theirs, if is_ratio { 3 } else { 1 });
        assert!(measured.contains(|c: char| c.is_ascii_digit()), "{theirs}");
        let shown = cell(performance, ours, 1);
        assert_eq!(shown.trim_end_matches(" B"), measured, "{ours}");
    }
    assert_eq!(cell(&benches, "bytes per bucket, short ids", 2), "55.4");
    // The heading, the line below it, and nothing that is not compared.
    let shown = rows(performance).filter(|cells| cells.len() == 2).count();
    assert_eq!(shown, pairs.len() + 2);
}

/// An example that hides an import is shorter than what a reader has to write.
#[test]
fn no_example_hides_an_import() {
    let hides = |line: &str| {
        let line = line.trim_start();
        let line = line.trim_start_matches("///").trim_start_matches("//!");
        let hidden = line.trim_start().strip_prefix("# ");
        hidden.is_some_and(|line| line.starts_with("use "))
    };
    for path in [files_below("docs"), files_below("src")].concat() {
        // A picture has no lines.
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text.lines().find(|line| hides(line)), None, "{path:?}");
    }
}
