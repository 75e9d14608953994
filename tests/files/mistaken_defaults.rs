//! What is said of defaults with one mistake each.

use tollgate::{
    Limits,
    id::IdFormat,
    limit::{
        Language::{Json, Toml, Yaml},
        LimitName,
    },
};

use crate::{Refusal, defaults, names, refused};

const NO_LIMITS: &str =
    "it contains no limits, so nothing would be limited: add some, or do not load the file";

const SHAPES: &[Refusal] = &[
    (Yaml, "", NO_LIMITS),
    (Yaml, "{}", NO_LIMITS),
    (Json, " \n", NO_LIMITS),
    (Toml, "# none\n", NO_LIMITS),
    (
        Yaml,
        "- a",
        "1: expected a map from limit names to their values, found a list",
    ),
    (
        Json,
        "\n[]",
        "2: expected a map from limit names to their values, found an empty list",
    ),
    (
        Yaml,
        "text",
        "1: expected a map from limit names to their values, found `text`",
    ),
    (
        Yaml,
        "\na: 5",
        "2: limit `a`: expected a map, found `5`: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (Toml, "\na = 5", "2: limit `a`: expected a map, found `5`"),
    (Yaml, "a:\nb: {}", "1: limit `a`: it has no values"),
    (
        Yaml,
        "a:\nburst: 1\ncount: 1\nperiod: 1s",
        "2: burst is a field of a limit, and not a limit: indent it below the name of its limit",
    ),
    (
        Yaml,
        "a:\n  burst:\n  count: 1",
        "2: limit `a`: expected a single value, found nothing",
    ),
    (
        Json,
        "{\"a\": {\n\"period\": {\"seconds\": 1}}}",
        "2: limit `a`: expected a single value, found a map",
    ),
    (Toml, "[a]\n[a.count]\nx = 1", "2: limit `a`"),
];

const FIELDS: &[Refusal] = &[
    (
        Yaml,
        "a: {rate: 10/s}",
        "1: limit `a`: unknown field `rate`: write `burst: 10, count: 10, period: 1s` instead",
    ),
    (
        Yaml,
        "a: {rate: 5 in any 15m}",
        "1: limit `a`: unknown field `rate`: write `limit: 5, window: 15m0s` instead",
    ),
    (
        Json,
        r#"{"a": {"rate": "fast"}}"#,
        "1: limit `a`: unknown field `rate`: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, number, id, shadow, lease, description, docs",
    ),
    (
        Yaml,
        "a: {rate: 10/s, burst: 20}",
        "1: limit `a`: unknown field `rate`: write `burst: 20, count: 10, period",
    ),
    (
        Yaml,
        "b: {}\na: 10/s brst 20",
        "2: limit `a`: `10/s brst 20` is not a limit: write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`",
    ),
    (
        Yaml,
        "a: {burst:20, count: 10, period: 1s}",
        "1: limit `a`: a space is missing after the colon: write `burst: …`",
    ),
    (
        Yaml,
        "limits:\n  a: {burst: 20, count: 10, period: 1s}\n  b: 10/s",
        "1: the names of limits stand at the top: remove `limits:`, and the indentation below it",
    ),
    (
        Json,
        "{\"defaults\": {\"a\": \"10/s\"}}",
        "1: the names of limits stand at the top: remove `defaults:`, and the indentation below it",
    ),
    (
        Yaml,
        "a:\n  burst: 1\n  perod: 1s",
        "3: limit `a`: unknown field `perod`: did you mean `period`?",
    ),
    (
        Yaml,
        "a: {ids: [1]}",
        "1: limit `a`: unknown field `ids`: they belong to overrides",
    ),
    (
        Yaml,
        "a: &x {burst: 1, count: 1, period: 1s}\nb:\n  <<: *x",
        "3: limit `b`: unknown field `<<`: write the fields out",
    ),
    (
        Json,
        "{\"a\":\n{\"tiers\": []}}",
        "2: limit `a`: tiers is empty, so nothing would ever pass: list at least one",
    ),
    (
        Yaml,
        "a: {burst: 1, burst: 2}",
        "1: limit `a`: burst appears twice, first in line 1: remove one of them",
    ),
    (
        Yaml,
        "a: {burst: 1, count: 1}",
        "1: limit `a`: period is missing",
    ),
    (
        Yaml,
        "a: {count: 1, period: 1s}",
        "1: limit `a`: burst is missing",
    ),
    (
        Json,
        r#"{"a": {"burst": 1, "period": "1s"}}"#,
        "1: limit `a`: count is missing",
    ),
];

const NUMBERS: &[Refusal] = &[
    (
        Yaml,
        "a:\n  burst: -1",
        "2: limit `a`: burst is `-1`: use a whole number up to 4294967295, in digits only",
    ),
    (Yaml, "a: {burst: ~}", "1: limit `a`: burst is `~`"),
    (
        Yaml,
        "a: {burst: 4294967296}",
        "1: limit `a`: burst is `4294967296`",
    ),
    (Yaml, "a: {burst: 1.5}", "1: limit `a`: burst is `1.5`"),
    (Yaml, "a: {burst: +1}", "1: limit `a`: burst is `+1`"),
    (Yaml, "a: {count: 0x10}", "1: limit `a`: count is `0x10`"),
    (
        Json,
        r#"{"a": {"count": 1e3}}"#,
        "1: limit `a`: count is `1e3`",
    ),
    (Toml, "[a]\nburst = 1_000", "2: limit `a`: burst is `1_000`"),
    (
        Yaml,
        "a: {burst: 0, count: 1, period: 1s}",
        "1: limit `a`: burst is 0, so nothing would ever pass: use at least 1",
    ),
    (
        Json,
        "{\"a\":\n{\"burst\": 1, \"count\": 0, \"period\": \"1s\"}}",
        "2: limit `a`: count is 0, so no token would ever come back",
    ),
    (
        Toml,
        "[a]\nburst = 1\ncount = 1\nperiod = '0s'",
        "4: limit `a`: period is 0: use the time in which `count` tokens come back, such as `1s` or `3h`",
    ),
    (
        Yaml,
        "a: {burst: 1, count: 1, period: 1ns}",
        "1: limit `a`: period is not a whole number of microseconds: round it to one",
    ),
    (
        Yaml,
        "a: {burst: 4294967295, count: 1, period: 1h}",
        "1: limit `a`: an empty bucket would take more than 71 years (2^51 µs) to fill: lower the burst or the period, or raise the count",
    ),
];

const DURATIONS: &[Refusal] = &[
    (
        Yaml,
        "a:\n  burst: 1\n  count: 1\n  period: 60",
        "4: limit `a`: period: `60` is not a duration: add a unit, one of ns, us, ms, s, m, h",
    ),
    (
        Toml,
        "[a]\nperiod = 07:32:00",
        "2: limit `a`: period: `07:32:00` is not a duration",
    ),
];

const NAMES: &[Refusal] = &[
    (
        Yaml,
        "a: {}\n\na: {}",
        "3: limit `a`: it is defined twice, first in limits:1",
    ),
    (
        Yaml,
        "\na b: {}",
        "2: limit `a b`: `a b` is not a limit name: start with an ASCII letter, and continue with letters, digits, `_`, `.` or `-`",
    ),
    (
        Json,
        r#"{"6": {}}"#,
        "1: limit `6`: `6` is not a limit name",
    ),
    (Toml, "['ä']", "1: limit `ä`: `ä` is not a limit name"),
    (
        Yaml,
        "a: {number: 1}\nb: {number: 1}",
        "2: limit `b`: it has the number 1, which `a` has too: give one of them a number that no limit has had before",
    ),
    (
        Yaml,
        "a: {id: regid}",
        "1: limit `a`: `regid` is not an id format: use one of opaque, ipAddress, ipv6RangeCIDR, regId, domain, fqdnSet, regId:domain, regId:fqdnSet",
    ),
    (
        Json,
        "{\"a\": {\n\"id\": 5}}",
        "2: limit `a`: `5` is not an id format",
    ),
];

/// Of names that are declared.
const DECLARED: &[Refusal] = &[
    (
        Yaml,
        "\naccounts: {}",
        "2: limit `accounts`: no limit has this name: did you mean `account`?",
    ),
    (
        Json,
        "{\"IP\":\n{}}",
        "1: limit `IP`: no limit has this name: did you mean `ip`?",
    ),
    (
        Toml,
        "[requests]",
        "1: limit `requests`: no limit has this name: known are account, account_domain, account_set, any, domain, ip, numbered, range, set",
    ),
    (
        Yaml,
        "ip:\n  number: 5",
        "1: limit `ip`: the code has no number and id ipAddress for it: write the same, or neither",
    ),
    (
        Yaml,
        "numbered: {number: 7}",
        "1: limit `numbered`: the code has number 6 and id regId for it",
    ),
];

#[test]
fn shapes_and_fields() {
    refused(defaults, SHAPES);
    refused(defaults, FIELDS);
}

#[test]
fn numbers_and_durations() {
    refused(defaults, NUMBERS);
    refused(defaults, DURATIONS);
}

#[test]
fn names_of_their_own() {
    refused(defaults, NAMES);
}

#[test]
fn names_that_are_declared() {
    let numbered = LimitName::new("numbered", 6, IdFormat::RegId);
    let builder = names().name(numbered);
    refused(
        |language, text| builder.clone().defaults_text(language, text).build(),
        DECLARED,
    );
}

#[test]
fn names_in_two_files() {
    let builder = Limits::builder().defaults_text(Json, r#"{"a": {"number": 1}}"#);
    refused(
        |language, text| builder.clone().defaults_text(language, text).build(),
        &[
            (
                Json,
                "{\n\"a\": {}}",
                "2: limit `a`: it is defined twice, first in limits:1",
            ),
            (
                Toml,
                "\n\n[b]\nnumber = 1",
                "3: limit `b`: it has the number 1, which `a` has too",
            ),
        ],
    );
}
