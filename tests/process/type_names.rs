//! A type's name has one meaning in the whole crate.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::source_files::source_files;

/// Types that have a twin for builds without a feature or on another system.
const TWINS: [&str; 8] = [
    "Durations",
    "Fallbacks",
    "Hangups",
    "Meter",
    "StartTime",
    "Stopwatch",
    "StoreCall",
    "StoreDurations",
];

/// The type that a line at the beginning of a file's line defines.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split([' ', '<', '(', ';', ':', '{']);
    let keyword = words.find(|word| !word.is_empty() && !word.starts_with("pub"));
    // `pub(in crate::limit)` has more words.
    let keyword = match keyword? {
        "in" | "crate)" | "super)" => words.find(|word| is_keyword(word))?,
        keyword => keyword,
    };
    is_keyword(keyword).then(|| words.next()).flatten()
}

fn is_keyword(word: &str) -> bool {
    ["struct", "enum", "trait", "union"].contains(&word)
}

#[test]
fn definitions_are_found() {
    for (line, name) in [
        ("struct A(u8);", Some("A")),
        ("pub struct Bc<T> {", Some("Bc")),
        ("pub(crate) enum D {", Some("D")),
        ("pub(super) trait E: Sized {", Some("E")),
        ("pub(in crate::limit) struct F<'a> {", Some("F")),
        ("impl G {", None),
        ("use structs::H;", None),
        ("fn enum_of(a: u8) {", None),
    ] {
        assert_eq!(defined(line), name, "{line}");
    }
}

#[test]
fn no_two_types_have_one_name() {
    let mut defined_in = BTreeMap::<String, Vec<PathBuf>>::new();
    let all = source_files();
    for path in all
        .iter()
        .filter(|path| path.extension() == Some("rs".as_ref()))
    {
        let text = fs::read_to_string(path).expect("it can be read");
        let code = text.split("\nmod tests {").next().unwrap_or(&text);
        for name in code.lines().filter_map(|line| defined(line.trim_start())) {
            defined_in
                .entry(name.into())
                .or_default()
                .push(path.clone());
        }
    }
    assert!(defined_in.len() > 300, "{}", defined_in.len());
    defined_in.retain(|name, files| files.len() > 1 && !TWINS.contains(&name.as_str()));
    assert!(defined_in.is_empty(), "{defined_in:#?}");
}
