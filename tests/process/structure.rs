//! The structure of the crate: imports point down the picture of modules.

use std::{
    collections::HashMap,
    fs,
    path::{Component, Path, PathBuf},
};

/// Private modules that import nothing of the crate, so that the picture leaves them out.
const LEAVES: [&str; 4] = ["message", "outage_log", "random", "task"];

/// The modules in the order of the picture.
fn picture() -> Vec<String> {
    let lib = fs::read_to_string("src/lib.rs").expect("it can be read");
    let picture = lib.split("//! ```text\n").nth(1).expect("there is one");
    let lines = picture
        .lines()
        .take_while(|line| !line.starts_with("//! ```"));
    lines
        .map(|line| {
            let line = line.trim_start_matches("//!").trim_start();
            // Two spaces end the names.
            line.split("  ").next().unwrap_or(line).to_owned()
        })
        .flat_map(|names| names.split(", ").map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// The top-level modules that the code of a file imports, but not its tests or documentation.
fn imports(text: &str) -> Vec<String> {
    let code = text.split("\nmod tests {").next().unwrap_or(text);
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut names = Vec::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            None => names.push(word(after)),
            Some(group) => {
                let mut depth = 0;
                let mut start = true;
                for (i, c) in group.char_indices() {
                    match c {
                        '}' if depth == 0 => break,
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && !c.is_whitespace() => {
                            names.push(word(&group[i..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

fn word(text: &str) -> String {
    let is_of_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    text.chars().take_while(is_of_word).collect()
}

/// Returns whether this is the folder of a module of tests.
fn is_tests(part: Component<'_>) -> bool {
    part.as_os_str() == "tests"
}

#[test]
fn files_that_contributing_names_exist() {
    const FOLDERS: [&str; 7] = [
        "benches/",
        "docs/",
        "examples/",
        "fuzz/",
        "script/",
        "src/",
        "tests/",
    ];
    let text = fs::read_to_string("CONTRIBUTING.md").expect("it can be read");
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/._-<>".contains(c);
    let mut seen = 0;
    for word in text.split(|c| !is_of_path(c)) {
        if FOLDERS.iter().any(|folder| word.starts_with(folder)) {
            assert!(Path::new(word.trim_end_matches('.')).exists(), "{word}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn imports_point_down_the_picture_of_modules() {
    for leaf in LEAVES {
        let file = Path::new("src").join(leaf).with_extension("rs");
        assert!(file.exists(), "{leaf} is not a module");
    }
    let picture = picture();
    let place = |module: &str| picture.iter().position(|other| other == module);
    let mut seen = 0;
    for path in files_below("src") {
        let inner = path.strip_prefix("src").expect("it is in there");
        let first = inner.iter().next().and_then(|name| name.to_str());
        let module = first.expect("UTF-8").trim_end_matches(".rs").to_owned();
        let is_test = path.ends_with("tests.rs") || inner.components().any(is_tests);
        if module == "lib" || is_test {
            continue;
        }
        for import in imports(&fs::read_to_string(&path).expect("UTF-8")) {
            // Macros of the crate are at its root, whichever file defines them.
            let is_macro = import.starts_with("__");
            if import == module || is_macro || LEAVES.contains(&&*import) {
                continue;
            }
            let (from, to) = (place(&module), place(&import));
            assert!(
                from.is_some() && to.is_some() && from < to,
                "{}: `{import}` does not stand below `{module}`",
                path.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn no_two_types_share_a_name() {
    let mut places: HashMap<String, PathBuf> = HashMap::new();
    for path in files_below("src") {
        // `off.rs` stands in for what a feature turns off.
        let is_stand_in = path.ends_with("off.rs") || path.ends_with("off/mod.rs");
        let is_test = path.ends_with("tests.rs") || path.components().any(is_tests);
        if is_stand_in || is_test {
            continue;
        }
        let text = fs::read_to_string(&path).expect("UTF-8");
        let code = text.split("\nmod tests {").next().unwrap_or(&text);
        for name in code.lines().filter_map(declared_type) {
            if let Some(first) = places.insert(name.clone(), path.clone()) {
                assert_eq!(first, path, "`{name}` is a type of both files");
            }
        }
    }
    assert!(places.len() > 200, "{}", places.len());
}

/// The name of the type that a line of a module declares.
fn declared_type(line: &str) -> Option<String> {
    let declaration = match line.strip_prefix("pub") {
        None => line,
        Some(after) => after.split_once(' ')?.1,
    };
    ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|keyword| declaration.strip_prefix(keyword))
        .map(word)
}

#[test]
fn command_uses_the_public_api_alone() {
    for path in files_below("cli/src") {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let includes = ["#[path", "include!("].iter().any(|way| text.contains(way));
        assert!(!includes, "{} includes another file", path.display());
    }
}

/// Every file below a folder.
fn files_below(folder: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    add(Path::new(folder), &mut all);
    all
}

fn add(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            add(&path, all);
        } else {
            all.push(path);
        }
    }
}
