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
    "limits: it contains no limits, so nothing would be limited: add some, or do not load the file";

const SHAPES: &[Refusal] = &[
    (Yaml, "", NO_LIMITS),
    (Yaml, "# none\n", NO_LIMITS),
    (Yaml, "{}", NO_LIMITS),
    (Json, " \n", NO_LIMITS),
    (Json, "{}", NO_LIMITS),
    (Toml, "# none\n", NO_LIMITS),
    (
        Yaml,
        "- a",
        "limits:1: expected a map from limit names to their values, found a list",
    ),
    (
        Json,
        "\n[]",
        "limits:2: expected a map from limit names to their values, found an empty list",
    ),
    (
        Yaml,
        "text",
        "limits:1: expected a map from limit names to their values, found `text`",
    ),
    (
        Json,
        "null",
        "limits:1: expected a map from limit names to their values, found `null`",
    ),
    (
        Yaml,
        "\na: 5",
        "limits:2: limit `a`: expected a map, found `5`: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Json,
        "{\n\"a\":\n5}",
        "limits:3: limit `a`: expected a map, found `5`: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Toml,
        "\na = 5",
        "limits:2: limit `a`: expected a map, found `5`: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Json,
        r#"{"a": []}"#,
        "limits:1: limit `a`: expected a map, found an empty list: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Toml,
        "[[a]]\nburst = 1",
        "limits:1: limit `a`: expected a map, found a list: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Yaml,
        "a:\nb: {}",
        "limits:1: limit `a`: it has no values: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Yaml,
        "a:\nburst: 1\ncount: 1\nperiod: 1s",
        "limits:2: burst is a field of a limit, and not a limit: indent it below the name of its limit",
    ),
    (
        Json,
        r#"{"a": null}"#,
        "limits:1: limit `a`: expected a map, found `null`: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Yaml,
        "a: ~",
        "limits:1: limit `a`: expected a map, found `~`: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Yaml,
        "a: {burst: [1]}",
        "limits:1: limit `a`: expected a single value, found a list",
    ),
    (
        Yaml,
        "a:\n  burst:\n  count: 1",
        "limits:2: limit `a`: expected a single value, found nothing",
    ),
    (
        Json,
        "{\"a\": {\n\"period\": {\"seconds\": 1}}}",
        "limits:2: limit `a`: expected a single value, found a map",
    ),
    (
        Toml,
        "[a]\n[a.count]\nx = 1",
        "limits:2: limit `a`: expected a single value, found a map",
    ),
];

const FIELDS: &[Refusal] = &[
    (
        Yaml,
        "a: {rate: 10/s}",
        "limits:1: limit `a`: unknown field `rate`: write `burst: 10, count: 10, period: 1s` instead",
    ),
    (
        Toml,
        "[a]\nrates = \"5 per 15m burst 2\"",
        "limits:2: limit `a`: unknown field `rates`: write `burst: 2, count: 5, period: 15m0s` instead",
    ),
    (
        Json,
        r#"{"a": {"rate": "fast"}}"#,
        "limits:1: limit `a`: unknown field `rate`: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, number, id, shadow, lease, description, docs",
    ),
    (
        Yaml,
        "a: {rate: 10/s, burst: 20}",
        "limits:1: limit `a`: unknown field `rate`: write `burst: 20, count: 10, period: 1s` instead",
    ),
    (
        Yaml,
        "b: {}\na: 10/s brst 20",
        "limits:2: limit `a`: `10/s brst 20` is not a limit: write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`",
    ),
    (
        Yaml,
        "a: {burst:20, count: 10, period: 1s}",
        "limits:1: limit `a`: a space is missing after the colon: write `burst: …`",
    ),
    (
        Yaml,
        "a:\n  burst:20\n",
        "limits:2: limit `a`: a space is missing after the colon: write `burst: …`",
    ),
    (
        Yaml,
        "a:\nburst: 20\ncount: 10\nperiod: 1s",
        "limits:2: burst is a field of a limit, and not a limit: indent it below the name of its limit",
    ),
    (
        Yaml,
        "limits:\n  a: {burst: 20, count: 10, period: 1s}\n  b: 10/s",
        "limits:1: the names of limits stand at the top: remove `limits:`, and the indentation below it",
    ),
    (
        Json,
        "{\"defaults\": {\"a\": \"10/s\"}}",
        "limits:1: the names of limits stand at the top: remove `defaults:`, and the indentation below it",
    ),
    (
        Yaml,
        "a:\n  burst: 1\n  perod: 1s",
        "limits:3: limit `a`: unknown field `perod`: did you mean `period`?",
    ),
    (
        Json,
        "{\"a\": {\"burst\": 1,\n\"Count\": 1}}",
        "limits:2: limit `a`: unknown field `Count`: did you mean `count`?",
    ),
    (
        Toml,
        "[a]\nburst = 1\nperiods = '1s'",
        "limits:3: limit `a`: unknown field `periods`: did you mean `period`?",
    ),
    (
        Yaml,
        "a: {colour: red}",
        "limits:1: limit `a`: unknown field `colour`: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, number, id, shadow, lease, description, docs",
    ),
    (
        Yaml,
        "a: {ids: [1]}",
        "limits:1: limit `a`: unknown field `ids`: they belong to overrides",
    ),
    (
        Yaml,
        "a: {'': 1}",
        "limits:1: limit `a`: unknown field ``: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, number, id, shadow, lease, description, docs",
    ),
    (
        Yaml,
        "a: &x {burst: 1, count: 1, period: 1s}\nb:\n  <<: *x",
        "limits:3: limit `b`: unknown field `<<`: write the fields out",
    ),
    (
        Yaml,
        "a:\n  tiers:\n  - {limit: 5}",
        "limits:3: limit `a`: window is missing: a tier has limit and window, and above the lowest also active",
    ),
    (
        Json,
        "{\"a\":\n{\"tiers\": []}}",
        "limits:2: limit `a`: tiers is empty, so nothing would ever pass: list at least one",
    ),
    (
        Toml,
        "[a]\n[[a.tiers]]\nlimit = 5",
        "limits:2: limit `a`: window is missing: a tier has limit and window, and above the lowest also active",
    ),
    (
        Yaml,
        "a: {burst: 1, burst: 2}",
        "limits:1: limit `a`: burst appears twice, first in line 1: remove one of them",
    ),
    (
        Yaml,
        "a: {number: 1, number: 1}",
        "limits:1: limit `a`: number appears twice, first in line 1: remove one of them",
    ),
    (
        Json,
        "{\"a\": {\"count\": 1,\n\"count\": 1}}",
        "limits:2: limit `a`: count appears twice, first in line 1: remove one of them",
    ),
    (
        Yaml,
        "a: {burst: 1, count: 1}",
        "limits:1: limit `a`: period is missing: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Yaml,
        "a: {count: 1, period: 1s}",
        "limits:1: limit `a`: burst is missing: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Json,
        r#"{"a": {"burst": 1, "period": "1s"}}"#,
        "limits:1: limit `a`: count is missing: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
    (
        Toml,
        "\n[a]\nburst = 1",
        "limits:2: limit `a`: count is missing: write its values, such as `10/s burst 20`, or `{}` to turn it off",
    ),
];

const NUMBERS: &[Refusal] = &[
    (
        Yaml,
        "a:\n  burst: -1",
        "limits:2: limit `a`: burst is `-1`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Yaml,
        "a: {burst: ~}",
        "limits:1: limit `a`: burst is `~`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Yaml,
        "a: {burst: ''}",
        "limits:1: limit `a`: burst is ``: use a whole number up to 4294967295, in digits only",
    ),
    (
        Yaml,
        "a: {burst: 4294967296}",
        "limits:1: limit `a`: burst is `4294967296`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Yaml,
        "a: {burst: 1.5}",
        "limits:1: limit `a`: burst is `1.5`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Yaml,
        "a: {burst: +1}",
        "limits:1: limit `a`: burst is `+1`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Yaml,
        "a: {count: 0x10}",
        "limits:1: limit `a`: count is `0x10`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Yaml,
        "a: {count: ten}",
        "limits:1: limit `a`: count is `ten`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Json,
        r#"{"a": {"count": 1e3}}"#,
        "limits:1: limit `a`: count is `1e3`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Json,
        r#"{"a": {"number": -6}}"#,
        "limits:1: limit `a`: number is `-6`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Json,
        r#"{"a": {"burst": true}}"#,
        "limits:1: limit `a`: burst is `true`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Toml,
        "[a]\nburst = 1_000",
        "limits:2: limit `a`: burst is `1_000`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Toml,
        "[a]\n\ncount = 1.0",
        "limits:3: limit `a`: count is `1.0`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Yaml,
        "a: {burst: 0, count: 1, period: 1s}",
        "limits:1: limit `a`: burst is 0, so nothing would ever pass: use at least 1",
    ),
    (
        Json,
        "{\"a\":\n{\"burst\": 1, \"count\": 0, \"period\": \"1s\"}}",
        "limits:2: limit `a`: count is 0, so no token would ever come back: use at least 1",
    ),
    (
        Toml,
        "[a]\nburst = 1\ncount = 1\nperiod = '0s'",
        "limits:4: limit `a`: period is 0: use the time in which `count` tokens come back, such as `1s` or `3h`",
    ),
    (
        Yaml,
        "a: {burst: 1, count: 1, period: 1ns}",
        "limits:1: limit `a`: period is not a whole number of microseconds: round it to one",
    ),
    (
        Yaml,
        "a: {burst: 4294967295, count: 1, period: 1h}",
        "limits:1: limit `a`: an empty bucket would take more than 71 years (2^51 µs) to fill: lower the burst or the period, or raise the count",
    ),
];

const DURATIONS: &[Refusal] = &[
    (
        Yaml,
        "a:\n  burst: 1\n  count: 1\n  period: 60",
        "limits:4: limit `a`: period: `60` is not a duration: add a unit, one of ns, us, ms, s, m, h",
    ),
    (
        Json,
        "{\"a\": {\n\"period\": 60}}",
        "limits:2: limit `a`: period: `60` is not a duration: add a unit, one of ns, us, ms, s, m, h",
    ),
    (
        Toml,
        "[a]\nperiod = 60",
        "limits:2: limit `a`: period: `60` is not a duration: add a unit, one of ns, us, ms, s, m, h",
    ),
    (
        Yaml,
        "a: {period: 0}",
        "limits:1: limit `a`: period: `0` is not a duration: add a unit, one of ns, us, ms, s, m, h",
    ),
    (
        Yaml,
        "a: {period: ''}",
        "limits:1: limit `a`: period: `` is not a duration: write numbers with units, such as `1s`, `180m`, `1h30m` or `1.5h`",
    ),
    (
        Yaml,
        "a: {period: -1s}",
        "limits:1: limit `a`: period: `-1s` is not a duration: write numbers with units, such as `1s`, `180m`, `1h30m` or `1.5h`",
    ),
    (
        Yaml,
        "a: {period: 1d}",
        "limits:1: limit `a`: period: `1d` is not a duration: the longest unit is the hour: write `24h`",
    ),
    (
        Yaml,
        "a: {period: 1 s}",
        "limits:1: limit `a`: period: `1 s` is not a duration: units are ns, us, ms, s, m and h",
    ),
    (
        Json,
        r#"{"a": {"period": "infinite"}}"#,
        "limits:1: limit `a`: period: `infinite` is not a duration: write numbers with units, such as `1s`, `180m`, `1h30m` or `1.5h`",
    ),
    (
        Toml,
        "[a]\nperiod = '1 minute'",
        "limits:2: limit `a`: period: `1 minute` is not a duration: units are ns, us, ms, s, m and h",
    ),
    (
        Toml,
        "[a]\nperiod = 07:32:00",
        "limits:2: limit `a`: period: `07:32:00` is not a duration: units are ns, us, ms, s, m and h",
    ),
    (
        Yaml,
        "a: {period: 99999999999999999999h}",
        "limits:1: limit `a`: period: `99999999999999999999h` is not a duration: it is too long: shorten it",
    ),
    (
        Yaml,
        "a: {period: 0.1ns}",
        "limits:1: limit `a`: period: `0.1ns` is not a duration: it has a fraction of a nanosecond: round it",
    ),
];

const NAMES: &[Refusal] = &[
    (
        Yaml,
        "a: {}\n\na: {}",
        "limits:3: limit `a`: it is defined twice, first in limits:1: remove one of them",
    ),
    (
        Json,
        "{\"a\": {},\n\"a\": {}}",
        "limits:2: limit `a`: it is defined twice, first in limits:1: remove one of them",
    ),
    (
        Yaml,
        "\na b: {}",
        "limits:2: limit `a b`: `a b` is not a limit name: start with an ASCII letter, and continue with letters, digits, `_`, `.` or `-`",
    ),
    (
        Yaml,
        "ip:10.0.0.2: {}",
        "limits:1: limit `ip:10.0.0.2`: `ip:10.0.0.2` is not a limit name: start with an ASCII letter, and continue with letters, digits, `_`, `.` or `-`",
    ),
    (
        Json,
        r#"{"": {}}"#,
        "limits:1: limit ``: `` is not a limit name: start with an ASCII letter, and continue with letters, digits, `_`, `.` or `-`",
    ),
    (
        Json,
        r#"{"6": {}}"#,
        "limits:1: limit `6`: `6` is not a limit name: start with an ASCII letter, and continue with letters, digits, `_`, `.` or `-`",
    ),
    (
        Toml,
        "['ä']",
        "limits:1: limit `ä`: `ä` is not a limit name: start with an ASCII letter, and continue with letters, digits, `_`, `.` or `-`",
    ),
    (
        Yaml,
        "a: {number: 1}\nb: {number: 1}",
        "limits:2: limit `b`: it has the number 1, which `a` has too: give one of them a number that no limit has had before",
    ),
    (
        Json,
        "{\"a\": {\"number\": 1},\n\"b\": {\"number\": 1}}",
        "limits:2: limit `b`: it has the number 1, which `a` has too: give one of them a number that no limit has had before",
    ),
    (
        Toml,
        "[a]\nnumber = 1\n[b]\nnumber = 1",
        "limits:3: limit `b`: it has the number 1, which `a` has too: give one of them a number that no limit has had before",
    ),
    (
        Yaml,
        "a: {id: regid}",
        "limits:1: limit `a`: `regid` is not an id format: use one of opaque, ipAddress, ipv6RangeCIDR, regId, domain, fqdnSet, regId:domain, regId:fqdnSet",
    ),
    (
        Json,
        "{\"a\": {\n\"id\": 5}}",
        "limits:2: limit `a`: `5` is not an id format: use one of opaque, ipAddress, ipv6RangeCIDR, regId, domain, fqdnSet, regId:domain, regId:fqdnSet",
    ),
    (
        Toml,
        "[a]\nid = ''",
        "limits:2: limit `a`: `` is not an id format: use one of opaque, ipAddress, ipv6RangeCIDR, regId, domain, fqdnSet, regId:domain, regId:fqdnSet",
    ),
];

/// Of names that are declared.
const DECLARED: &[Refusal] = &[
    (
        Yaml,
        "\naccounts: {}",
        "limits:2: limit `accounts`: no limit has this name: did you mean `account`?",
    ),
    (
        Json,
        "{\"IP\":\n{}}",
        "limits:1: limit `IP`: no limit has this name: did you mean `ip`?",
    ),
    (
        Toml,
        "[requests]",
        "limits:1: limit `requests`: no limit has this name: known are account, account_domain, account_set, any, domain, ip, numbered, range, set",
    ),
    (
        Yaml,
        "ip:\n  number: 5",
        "limits:1: limit `ip`: the code has no number and id ipAddress for it: write the same, or neither",
    ),
    (
        Json,
        r#"{"account": {"id": "opaque", "number": 0}}"#,
        "limits:1: limit `account`: the code has no number and id regId for it: write the same, or neither",
    ),
    (
        Toml,
        "\n[any]\nid = 'regId'",
        "limits:2: limit `any`: the code has no number and id opaque for it: write the same, or neither",
    ),
    (
        Yaml,
        "numbered: {number: 7}",
        "limits:1: limit `numbered`: the code has number 6 and id regId for it: write the same, or neither",
    ),
    (
        Yaml,
        "ip: {}\nip: {}",
        "limits:2: limit `ip`: it is defined twice, first in limits:1: remove one of them",
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
                "limits:2: limit `a`: it is defined twice, first in limits:1: remove one of them",
            ),
            (
                Toml,
                "\n\n[b]\nnumber = 1",
                "limits:3: limit `b`: it has the number 1, which `a` has too: give one of them a number that no limit has had before",
            ),
        ],
    );
}
