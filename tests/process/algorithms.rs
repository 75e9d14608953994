//! What is true of one algorithm alone stands in its folder: few files outside of `src/algorithm` name one.

use std::fs;

use crate::source_files::source_files;

/// The enums with one variant for each algorithm.
const ENUMS: [&str; 7] = [
    "Algorithm",
    "AlgorithmKey",
    "Charge",
    "Each",
    "ShownBucket",
    "State",
    "View",
];
const VARIANTS: [&str; 5] = ["Concurrency", "Gcra", "Quota", "Tiers", "Window"];

/// The files that name an algorithm: where users choose one, the default of a key, the one path of decisions, and what holds for
/// one algorithm only, such as that permits cannot be leased.
const NAMING: [&str; 12] = [
    "src/backend/deny_cache.rs",
    "src/backend/lease/mod.rs",
    "src/backend/redis/multi_slot.rs",
    "src/backend/redis/protocol.rs",
    "src/decision/decision.rs",
    "src/decision/judge.rs",
    "src/limit/assembly.rs",
    "src/limit/bounds.rs",
    "src/limit/limit.rs",
    "src/limit/limits.rs",
    "src/limiter/lookup.rs",
    "src/transaction/bucket_key.rs",
];

fn names_an_algorithm(text: &str) -> bool {
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    ENUMS.iter().any(|name| {
        let named = |variant| code.contains(&format!("{name}::{variant}"));
        VARIANTS.into_iter().any(named)
    })
}

#[test]
fn few_files_outside_of_the_folders_name_an_algorithm() {
    let all = source_files().into_iter();
    let outside = all.filter(|path| !path.starts_with("src/algorithm"));
    let code = outside.filter(|path| {
        !path.starts_with("src/testing")
            && !path.components().any(|part| part.as_os_str() == "tests")
    });
    let naming = code.filter(|path| {
        let text = fs::read_to_string(path).expect("UTF-8");
        !path.ends_with("tests.rs") && names_an_algorithm(&text)
    });
    let mut naming: Vec<_> = naming.map(|path| path.display().to_string()).collect();
    naming.sort();
    assert_eq!(naming, NAMING);
}
