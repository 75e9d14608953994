//! The structure of the crate: imports point down the picture of modules.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
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

/// The files of Rust in a folder without those of tests, each with its code.
fn sources(folder: impl AsRef<Path>) -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    for path in files_below(folder) {
        let is_of_tests = path.components().any(|part| part.as_os_str() == "tests");
        let is_rust = path.extension().is_some_and(|kind| kind == "rs");
        if is_rust && !is_of_tests && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("UTF-8");
            sources.push((path, code(&text)));
        }
    }
    sources
}

/// The code of a file, without its tests and comments.
fn code(text: &str) -> String {
    let code = text.split("\nmod tests {").next().unwrap_or(text);
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The first words of what stands behind a path: that of a name, or those of the names in braces.
fn heads(after: &str) -> Vec<String> {
    let Some(group) = after.strip_prefix('{') else {
        return vec![word(after)];
    };
    let mut names = Vec::new();
    let mut depth = 0;
    let mut starts = true;
    for (i, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => starts = true,
            c if starts && !c.is_whitespace() => {
                names.push(word(&group[i..]));
                starts = false;
            }
            _ => {}
        }
    }
    names
}

fn word(text: &str) -> String {
    let is_of_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    text.chars().take_while(is_of_word).collect()
}

#[test]
fn files_that_contributing_names_exist() {
    let text = fs::read_to_string("CONTRIBUTING.md").expect("it can be read");
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/._-<>".contains(c);
    let mut seen = 0;
    for word in text.split(|c| !is_of_path(c)) {
        let folder = word.split_once('/').map(|(folder, _)| Path::new(folder));
        if folder.is_some_and(Path::is_dir) {
            assert!(Path::new(word.trim_end_matches('.')).exists(), "{word}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Cargo takes it for success if no test has a name.
#[test]
fn tests_that_scripts_name_exist() {
    let read = |path: PathBuf| fs::read_to_string(path).expect("UTF-8");
    let sources = ["src", "tests"].into_iter().flat_map(files_below);
    let sources = sources.filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let sources: String = sources.map(read).collect();
    let mut scripts = files_below("script");
    scripts.push("CONTRIBUTING.md".into());
    let mut seen = 0;
    for script in scripts.into_iter().map(read) {
        let commands = script.lines().filter(|line| line.contains("cargo "));
        let filters = commands
            .flat_map(str::split_whitespace)
            .filter(|word| word.contains("::"));
        for name in filters
            .flat_map(|filter| filter.split("::"))
            .filter(|name| !name.is_empty())
        {
            let forms = [
                format!("mod {name};"),
                format!("fn {name}("),
                format!("conformance!({name},"),
            ];
            let is_macro = sources.contains(&format!("conformance!(\n    {name},"));
            let exists = is_macro || forms.iter().any(|form| sources.contains(form));
            assert!(exists, "no test is called `{name}`");
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn imports_point_down_the_picture_of_modules() {
    for leaf in LEAVES {
        let file = Path::new("src").join(leaf).with_extension("rs");
        assert!(file.exists(), "{leaf} is not a module");
    }
    let picture = picture();
    let place = |module: &str| picture.iter().position(|other| other == module);
    let src = Path::new("src");
    let mut seen = 0;
    for (path, code) in sources(src) {
        let Some(module) = entry_of(src, &path) else {
            continue;
        };
        let imports = imported_paths(&path, &code);
        for import in imports.iter().filter_map(|import| entry_of(src, import)) {
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
fn files_of_a_folder_import_each_other_in_one_direction() {
    let files = files_below("src");
    let folders: HashSet<_> = files.iter().filter_map(|file| file.parent()).collect();
    let mut seen = 0;
    for folder in folders {
        let mut imports = imports_within(folder);
        seen += imports.values().map(HashSet::len).sum::<usize>();
        // A file that imports none of those that are left is no part of a circle.
        while let Some(file) = imports.iter().find(|(_, others)| others.is_empty()) {
            let file = file.0.clone();
            imports.remove(&file);
            for others in imports.values_mut() {
                others.remove(&file);
            }
        }
        assert!(
            imports.is_empty(),
            "a circle in {}: {imports:?}",
            folder.display()
        );
    }
    assert!(seen > 150, "{seen}");
}

/// The files and folders in a folder, each with those beside it that it imports. The central type of a folder is in its `mod.rs`,
/// and all files are about that.
fn imports_within(folder: &Path) -> HashMap<String, HashSet<String>> {
    let mut imports: HashMap<String, HashSet<String>> = HashMap::new();
    for (path, code) in sources(folder) {
        if let Some(file) = entry_of(folder, &path) {
            let others = imported_paths(&path, &code);
            let others = others.iter().filter_map(|other| entry_of(folder, other));
            imports.entry(file).or_default().extend(others);
        }
    }
    let files: HashSet<String> = imports.keys().cloned().collect();
    for (file, others) in &mut imports {
        others.retain(|other| other != file && files.contains(other));
    }
    imports
}

/// The name of the file or folder in a folder that is or has a path.
fn entry_of(folder: &Path, path: &Path) -> Option<String> {
    let first = path.strip_prefix(folder).ok()?.iter().next()?.to_str()?;
    let name = first.trim_end_matches(".rs");
    (name != "mod" && name != "lib").then(|| name.to_owned())
}

/// The paths, as below `src`, of what the code of a file imports from the crate.
fn imported_paths(file: &Path, code: &str) -> Vec<PathBuf> {
    let is_mod = file.ends_with("mod.rs");
    let module = if is_mod {
        file.parent().expect("a folder").to_owned()
    } else {
        file.with_extension("")
    };
    let of_crate = code
        .split("crate::")
        .skip(1)
        .map(|rest| (PathBuf::from("src"), rest));
    // A path after `super::super::` is resolved at the second `super`, from the folder of the first one.
    let mut above = module.clone();
    let of_parents = code.split("super::").skip(1).map(|rest| {
        above.pop();
        let parent = above.clone();
        if !rest.is_empty() {
            above.clone_from(&module);
        }
        (parent, rest)
    });
    let mut paths = Vec::new();
    for (mut folder, mut rest) in of_crate.chain(of_parents) {
        while let Some((name, after)) = rest.split_once("::")
            && word(name) == name
        {
            folder.push(name);
            rest = after;
        }
        paths.extend(heads(rest).into_iter().map(|name| folder.join(name)));
    }
    paths
}

#[test]
fn no_two_types_share_a_name() {
    let mut places: HashMap<String, PathBuf> = HashMap::new();
    for (path, code) in sources("src") {
        // `off.rs` stands in for what a feature turns off.
        if path.ends_with("off.rs") || path.ends_with("off/mod.rs") {
            continue;
        }
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
fn other_packages_include_no_file_of_the_crate() {
    for path in [files_below("cli/src"), files_below("postgres/src")].concat() {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let includes = ["#[path", "include!("].iter().any(|way| text.contains(way));
        assert!(!includes, "{} includes another file", path.display());
    }
}

/// Every file in a folder and in those below it.
pub(crate) fn files_below(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            files.extend(files_below(path));
        } else {
            files.push(path);
        }
    }
    files
}
