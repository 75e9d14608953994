//! The README: short, with the figures of `benches/README.md`, and with links that work in a clone. And the links between the
//! pages of the guide.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

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
            "overhead of the layer with headers, to the same",
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

/// All files of a kind below a folder, with their texts.
fn texts(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it can be read") {
            let path = entry.expect("it can be read").path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("md" | "rs") => {
                    let text = fs::read_to_string(&path).expect("it can be read");
                    found.push((path, text));
                }
                _ => {}
            }
        }
    }
    found
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
    for (path, text) in [texts("docs"), texts("src")].concat() {
        assert_eq!(text.lines().find(|line| hides(line)), None, "{path:?}");
    }
}

/// The addresses of links and images.
fn links(text: &str) -> BTreeSet<String> {
    let inline = text
        .split("](")
        .skip(1)
        .filter_map(|link| link.split(')').next());
    let defined = text.lines().filter_map(|line| line.strip_prefix('['));
    let defined = defined.filter_map(|line| line.split_once("]: ").map(|(_, link)| link));
    inline.chain(defined).map(str::to_owned).collect()
}

/// The page of each module of the guide, by the path that links to it.
fn pages() -> BTreeMap<String, String> {
    let guide = read("src/guide.rs");
    let lines = guide.lines().filter_map(|line| line.rsplit_once(" = \""));
    let pages = lines.filter_map(|(module, file)| {
        let file = file
            .strip_suffix("\",")
            .filter(|file| file.ends_with(".md"))?;
        let name = module.split_whitespace().last()?;
        let folder = if file.starts_with("recipes/") {
            "recipes::"
        } else {
            ""
        };
        Some((
            format!("crate::guide::{folder}{name}"),
            read(&format!("docs/{file}")),
        ))
    });
    pages.collect()
}

#[test]
fn pages_open_with_the_code_that_most_readers_come_for() {
    for (name, page) in pages() {
        let mut lines = page.lines().take(12);
        assert!(lines.any(|line| line.starts_with("```")), "{name}");
    }
}

/// The anchor that rustdoc gives a heading.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_between_pages_lead_to_headings() {
    let pages = pages();
    let mut seen = 0;
    for (name, page) in &pages {
        for link in links(page) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { name } else { path };
            let (false, Some(target)) = (heading.is_empty(), pages.get(target)) else {
                continue;
            };
            let mut headings = target.lines().filter(|line| line.starts_with('#'));
            assert!(
                headings.any(|line| anchor(line) == heading),
                "{name}: {link}"
            );
            seen += 1;
        }
    }
    assert!(seen > 3, "{seen}");
}

#[test]
fn pages_link_to_nothing_that_docs_rs_does_not_show() {
    let mut seen = 0;
    for (name, page) in pages() {
        for link in links(&page) {
            let starts = ["crate::", "https://", "#"];
            let is_good = starts.iter().any(|start| link.starts_with(start));
            assert!(is_good, "{name}: {link}");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn links_of_the_readme_work_in_a_clone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let links = links(&read("README.md"));
    let (elsewhere, ours): (Vec<_>, Vec<_>) =
        links.iter().partition(|link| link.starts_with("https://"));
    for link in &ours {
        let is_below = !link.starts_with(['/', '.']);
        assert!(is_below && root.join(link).exists(), "{link}");
    }
    assert!(ours.len() > 10, "{ours:?}");
    // The documentation of this crate is not published yet.
    assert!(elsewhere.iter().all(|link| !link.contains("tollgate")));
}

#[test]
fn guide_lists_every_example() {
    let guide = read("src/guide.rs");
    let (_, list) = guide.split_once("# Examples").expect("a section");
    let rows = list.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let names = |row: &str| -> Vec<_> {
        let cell = row.split('|').next().unwrap_or(row);
        cell.split(", ")
            .map(|name| name.replace('`', "").trim().into())
            .collect()
    };
    let listed: BTreeSet<String> = rows.flat_map(names).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = fs::read_dir(folder).expect("it can be read");
    let programs = entries.map(|entry| entry.expect("it can be read").path());
    let programs =
        programs.filter(|path| path.extension().is_some() || path.join("main.rs").exists());
    let name =
        |path: std::path::PathBuf| path.file_stem().expect("a name").to_string_lossy().into();
    assert_eq!(listed, programs.map(name).collect());
}
