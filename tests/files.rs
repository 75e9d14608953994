//! Limits from files: what they say, and what is wrong with bad ones.

#![cfg(feature = "yaml")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{env, fs, process, time::Duration};

use tollgate::{
    Limit, Limits,
    limit::{Language, NamedLimit},
};

fn parse(yaml: &str) -> Limits {
    Limits::builder()
        .defaults_text(Language::Yaml, yaml)
        .build()
        .unwrap()
}

#[test]
fn boulders_defaults_are_read_as_written() {
    let limits = parse(
        "NewRegistrationsPerIPAddress:
  burst: 20
  count: 20
  period: 1s
NewOrdersPerAccount:
  burst: 300
  count: 300
  period: 180m
",
    );
    let limit = |name| {
        limits
            .get(name)
            .and_then(|named| named.limit.clone())
            .unwrap()
    };
    assert_eq!(limit("NewRegistrationsPerIPAddress"), Limit::per_second(20));
    let period = Duration::from_secs(3 * 60 * 60);
    assert_eq!(
        limit("NewOrdersPerAccount"),
        Limit::new(300, 300, period).unwrap()
    );
}

#[test]
fn number_and_format_belong_to_the_name() {
    let limits =
        parse("a: {number: 6, id: opaque, burst: 1, count: 2, period: 3s}\nb: {number: 7}\nc: {}");
    let NamedLimit { name, limit, .. } = limits.get("a").unwrap();
    assert_eq!((name.number(), limit.is_some()), (Some(6), true));
    let NamedLimit { name, limit, .. } = limits.get("b").unwrap();
    assert_eq!((name.number(), limit.is_some()), (Some(7), false));
    assert_eq!(limits.get("c").unwrap().name.key().to_string(), "c");
}

/// Files with one mistake each, and what is said of it.
const MISTAKES: &[(&str, &str)] = &[
    (
        "a:\n  burst: 1\n  perod: 1s",
        "limits:3: limit `a`: unknown field `perod`: did you mean `period`?",
    ),
    (
        "a: {colour: red}",
        "limits:1: limit `a`: unknown field `colour`: known are burst, count, period, number, id",
    ),
    (
        "a:\nb: {}",
        "limits:1: limit `a`: it has no values: indent burst, count and period below it, or write `{}` for a name that is not limited",
    ),
    (
        "",
        "limits: it names no limits, so nothing would be limited: add some, or leave the file out",
    ),
    (
        "{}",
        "limits: it names no limits, so nothing would be limited: add some, or leave the file out",
    ),
    (
        "- a",
        "limits:1: expected a map from limit names to their values, found a list",
    ),
    (
        "a: 5",
        "limits:1: limit `a`: expected a map of burst, count and period, found a single value",
    ),
    (
        "a: {burst: [1]}",
        "limits:1: limit `a`: expected a single value, found a list",
    ),
    (
        "a: {burst: ~}",
        "limits:1: limit `a`: burst is `~`: use a whole number up to 4294967295",
    ),
    (
        "a: {burst: 1, count: 1}",
        "limits:1: limit `a`: period is missing: a limit has burst, count and period",
    ),
    (
        "a: {count: 1, period: 1s}",
        "limits:1: limit `a`: burst is missing: a limit has burst, count and period",
    ),
    (
        "a:\n  burst: -1",
        "limits:2: limit `a`: burst is `-1`: use a whole number up to 4294967295",
    ),
    (
        "a: {burst: 4294967296}",
        "limits:1: limit `a`: burst is `4294967296`: use a whole number up to 4294967295",
    ),
    (
        "a: {burst: 1.5}",
        "limits:1: limit `a`: burst is `1.5`: use a whole number up to 4294967295",
    ),
    (
        "a: {burst: 0, count: 1, period: 1s}",
        "limits:1: limit `a`: burst is 0, so nothing would ever pass: use at least 1",
    ),
    (
        "a: {burst: 1, count: 1, period: 0s}",
        "limits:1: limit `a`: period is 0: use the time in which `count` tokens come back, as `1s` or `3h`",
    ),
    (
        "a: {burst: 1, count: 1, period: 60}",
        "limits:1: limit `a`: `60` is not a duration: add a unit, one of ns, us, ms, s, m, h",
    ),
    (
        "a: {burst: 1, count: 1, period: 1ns}",
        "limits:1: limit `a`: period is not a whole number of microseconds: round it to one",
    ),
    (
        "a: {burst: 1, burst: 2}",
        "limits:1: limit `a`: burst is there twice: remove one of them",
    ),
    (
        "a: {}\n\na: {}",
        "limits:3: limit `a`: it is defined twice: remove one of them",
    ),
    (
        "a b: {}",
        "limits:1: limit `a b`: `a b` is not a limit name: begin with an ASCII letter, and go on with letters, digits, `_`, `.` or `-`",
    ),
    (
        "a: {number: 1}\nb: {number: 1}",
        "limits:2: limit `b`: it has the number 1, which is that of `a`: give one of them another, that no limit has had before",
    ),
    (
        "a:\n  tiers:\n  - {limit: 5}",
        "limits:2: limit `a`: tiers are not built in yet",
    ),
    (
        "a: {id: regid}",
        "limits:1: limit `a`: `regid` is not an id format: use one of opaque, ipAddress, ipv6RangeCIDR, regId, domain, fqdnSet, regId:domain, regId:fqdnSet",
    ),
];

#[test]
fn every_mistake_says_where_it_is_and_what_to_change() {
    for (yaml, message) in MISTAKES {
        let error = Limits::builder()
            .defaults_text(Language::Yaml, yaml)
            .build()
            .unwrap_err();
        assert_eq!(error.to_string(), *message, "{yaml:?}");
    }
}

#[test]
fn file_is_named_in_its_errors() {
    let path = env::temp_dir().join(format!("tollgate-{}.yml", process::id()));
    let missing = Limits::builder()
        .defaults_file(&path)
        .build()
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with(&format!("{}: cannot read it: ", path.display())),
        "{missing}"
    );
    fs::write(&path, "a: {burst: 1}\n").unwrap();
    let wrong = Limits::builder()
        .defaults_file(&path)
        .build()
        .unwrap_err()
        .to_string();
    assert!(
        wrong.starts_with(&format!(
            "{}:1: limit `a`: count is missing",
            path.display()
        )),
        "{wrong}"
    );
    fs::write(&path, "a: {burst: 1, count: 1, period: 1s}\n").unwrap();
    assert_eq!(
        Limits::builder()
            .defaults_file(&path)
            .build()
            .unwrap()
            .names(),
        ["a"]
    );
    fs::remove_file(&path).unwrap();
}
