//! A time zone comes from the system's database or, if that does not have it, from one that is compiled in.

use std::{env, fs, process::Command};

use tollgate::quota::Per;

use crate::{ALONE, support::Folder};

/// A part of the rules of a zone that is always one hour ahead of UTC: a header with the numbers of entries, an offset, and its name.
const PART: &[u8] = b"TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04\0\0\x0e\x10\0\0XST\0";

#[test]
fn process_with_a_database_of_one_zone() {
    if env::var_os(ALONE).is_some() {
        for zone in ["Elsewhere/Base", "America/Los_Angeles"] {
            assert!(Per::Day.try_in_zone(zone).is_ok(), "{zone}");
        }
    }
}

#[test]
fn zones_that_the_system_does_not_have_are_compiled_in() {
    let folder = Folder::new();
    fs::create_dir(folder.path("Elsewhere")).unwrap();
    folder.write("Elsewhere/Base", [PART, PART, b"\nXST-1\n"].concat());
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "zones::process_with_a_database_of_one_zone"]);
    command.env(ALONE, "1").env("TZDIR", folder.path("."));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" 1 passed"), "{text}");
}
