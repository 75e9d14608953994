//! The name of a public type has one meaning in the whole crate.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::source_files::source_files;

/// The public type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let mut words = rest.split([' ', '<', '(', ';', ':', '{']);
    let is_type = ["struct", "enum", "trait", "union", "type"].contains(&words.next()?);
    is_type.then(|| words.next()).flatten()
}

#[test]
fn definitions_are_found() {
    for (line, name) in [
        ("struct A(u8);", None),
        ("pub struct Bc<T> {", Some("Bc")),
        ("pub(crate) enum D {", None),
        ("pub trait E: Sized {", Some("E")),
        ("impl G {", None),
        ("use structs::H;", None),
        ("fn enum_of(a: u8) {", None),
    ] {
        assert_eq!(defined(line), name, "{line}");
    }
}

#[test]
fn no_two_public_types_have_one_name() {
    let mut defined_in = BTreeMap::<String, Vec<PathBuf>>::new();
    let all = source_files();
    for path in all
        .iter()
        .filter(|path| path.extension() == Some("rs".as_ref()))
    {
        let text = fs::read_to_string(path).expect("it can be read");
        let code = text.split("\nmod tests {").next().unwrap_or(&text);
        for name in code.lines().filter_map(defined) {
            defined_in
                .entry(name.into())
                .or_default()
                .push(path.clone());
        }
    }
    assert!(defined_in.len() > 60, "{}", defined_in.len());
    defined_in.retain(|_, files| files.len() > 1);
    assert!(defined_in.is_empty(), "{defined_in:#?}");
}
