//! The checks of fuzzing hold for each file that it has found or began with, and for random inputs.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

#[path = "../fuzz/src/lib.rs"]
pub mod checks;

use std::{fs, net::IpAddr, path::Path};

use http::HeaderValue;
use proptest::{
    collection::vec,
    prelude::{ProptestConfig, Strategy, any, prop, prop_oneof, proptest},
    sample::select,
    test_runner::FileFailurePersistence,
};

/// Gives each file of a corpus to the check of its target.
fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let files = fs::read_dir(corpus.join(target)).unwrap();
    let paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert!(!paths.is_empty(), "the corpus of {target} is empty");
    for path in paths {
        // Shown if the check fails.
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
    }
}

#[test]
fn client_ip() {
    replay("client_ip", checks::client_ip::check);
}

#[test]
fn durations() {
    replay("durations", checks::durations::check);
}

#[test]
fn id_format() {
    replay("id_format", checks::id_format::check);
}

#[test]
fn limits_file() {
    replay("limits_file", checks::limits_file::check);
}

/// Pieces of ids.
const PIECES: &[&str] = &[
    "",
    ",",
    ":",
    "::",
    ".",
    "..",
    "/",
    "/48",
    "/048",
    "/32",
    "/64",
    "%",
    "%eth0",
    "*",
    "*.",
    "-",
    "_",
    " ",
    "\0",
    "0",
    "1",
    "07",
    "12345678",
    "18446744073709551615",
    "18446744073709551616",
    "ffff",
    "FFFF:",
    "2001:db8::",
    "::ffff:",
    "10.0.0.1",
    "255.255.255.255",
    "256",
    "example",
    "com",
    "www.",
    "EXAMPLE.com",
    "example.org",
    "co.uk",
    "xn--",
    "github.io",
    "ck",
    "ä",
    "．",
    "１",
    "\u{130}",
    "\u{ab}missing\u{bb}",
    "[",
    "]",
    "+",
    "0x",
    "e",
];

/// Text that is nearly an id in some format.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => select(PIECES).prop_map(String::from),
        1 => any::<String>(),
        1 => (select(PIECES), 1..300usize).prop_map(|(piece, n)| piece.repeat(n)),
    ];
    vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

/// The bytes that a header's value may hold, those that mean something far more often.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let telling = prop::sample::select(&br#",,;=""\\ []:%.0127afx_for"#[..]);
    let any = any::<u8>().prop_filter("no control characters", |byte| {
        HeaderValue::from_bytes(&[*byte]).is_ok()
    });
    let pieces = prop::sample::select(vec![
        "for=6.6.6.6",
        "6.6.6.6",
        "10.0.0.1",
        "for=10.0.0.1",
        "for=\"[fd00::1]:80\"",
        ", ",
        "\"",
        "\\\"",
        ";",
        "unknown",
        "fd00::1",
    ]);
    let byte = prop_oneof![4 => telling, 1 => any].prop_map(|byte| vec![byte]);
    let piece = pieces.prop_map(|piece| piece.as_bytes().to_vec());
    vec(prop_oneof![byte, piece], 0..40).prop_map(|parts| parts.concat())
}

fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = any::<[u8; 4]>().prop_map(IpAddr::from);
    prop_oneof![v4, any::<[u8; 16]>().prop_map(IpAddr::from)]
}

/// The inputs on which a property has failed, which are tried first.
const REGRESSIONS: &str = "tests/proptest-regressions/corpus.txt";

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..ProptestConfig::with_cases(400)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_an_id_or_none(text in soup()) {
        checks::id_format::check(text.as_bytes());
    }

    #[test]
    fn client_is_found_whatever_it_sends(
        style in 11..=255_u8,
        address in address(),
        lines in vec(value(), 0..4),
    ) {
        let first = [&[style], address.to_string().as_bytes()].concat();
        let lines = [vec![first], lines].concat();
        checks::client_ip::check(&lines.join(&b'\n'));
    }
}
