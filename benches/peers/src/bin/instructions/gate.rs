//! Compares the counts with those that `benches/instructions.txt` keeps.

use std::{fmt::Write, fs, process::ExitCode};

use crate::{cases::Case, count::count};

/// The kept counts.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../instructions.txt");

/// A service that does what a refusal needs without tollgate. Another compiler or allocator changes its count as it changes
/// the others.
const REFERENCE: Case = Case::Refusal;

/// The cases, and the case to subtract from each.
const GATED: [(Case, Option<Case>); 10] = [
    (Case::Handle, None),
    (Case::Name, None),
    (Case::Names(4), None),
    (Case::Tiers, None),
    (Case::Window, None),
    (Case::PermitReceipt, None),
    (Case::Plain, Some(Case::Bare)),
    (Case::Default, Some(Case::Bare)),
    (Case::Rules(4), Some(Case::Bare)),
    (Case::Denied, None),
];

/// Counts each case, the reference first.
fn counts() -> Vec<(String, u64)> {
    let gated = GATED.map(|(case, bare)| (case.name(), count(case) - bare.map_or(0, count)));
    [(REFERENCE.name(), count(REFERENCE))]
        .into_iter()
        .chain(gated)
        .collect()
}

/// Keeps the counts of this build.
pub(crate) fn keep() -> ExitCode {
    let mut text = String::from(
        "# Instructions of one run of each case, and first of a reference without tollgate.\n\
         # `script/instructions` compares with them. `script/instructions keep` writes them.\n",
    );
    for (name, count) in counts() {
        writeln!(text, "{name} {count}").expect("a text takes all");
    }
    match fs::write(FILE, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{FILE}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the kept count of a case.
///
/// # Panics
///
/// If the file does not have it.
fn kept(file: &str, name: &str) -> u64 {
    let count = file.lines().find_map(|line| {
        let (case, count) = line.rsplit_once(' ')?;
        (case == name).then(|| count.parse().ok())?
    });
    count.unwrap_or_else(|| panic!("{FILE} has no count of {name}: run `script/instructions keep`"))
}

/// Fails if a case needs more than a tenth more instructions than it did, in proportion to the reference.
pub(crate) fn check() -> ExitCode {
    let file = fs::read_to_string(FILE).unwrap_or_default();
    let counts = counts();
    let reference = (counts[0].1, kept(&file, &counts[0].0));
    let mut result = ExitCode::SUCCESS;
    println!("| instructions | now | kept |\n|---|---|---|");
    for (name, count) in &counts {
        let expected = kept(&file, name) * reference.0 / reference.1;
        println!("| {name} | {count} | {expected} |");
        if *count > expected + expected / 10 {
            eprintln!(
                "{name} needs more than a tenth more instructions: if that is worth it, run `script/instructions keep`"
            );
            result = ExitCode::FAILURE;
        }
    }
    result
}
