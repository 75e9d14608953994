//! What is said of overrides with one mistake each.

use tollgate::{
    Limits,
    limit::Language::{Json, Toml, Yaml},
};

use crate::{Refusal, overrides, refused};

const SHAPES: &[Refusal] = &[
    (
        Yaml,
        "\ntext",
        "limits:2: expected a list of `- name: {burst, count, period, ids}`, found `text`",
    ),
    (
        Json,
        "null",
        "limits:1: expected a list of `- name: {burst, count, period, ids}`, found `null`",
    ),
    (
        Json,
        "5",
        "limits:1: expected a list of `- name: {burst, count, period, ids}`, found `5`",
    ),
    (
        Yaml,
        "- any: {burst: 1, count: 1, period: 1s, ids: [x]}\n- any",
        "limits:2: expected a list of `- name: {burst, count, period, ids}`, found `any`",
    ),
    (
        Json,
        "[\n[]]",
        "limits:2: expected a list of `- name: {burst, count, period, ids}`, found an empty list",
    ),
    (
        Yaml,
        "-\n- any",
        "limits:1: expected a list of `- name: {burst, count, period, ids}`, found nothing",
    ),
    (
        Yaml,
        "any: 5",
        "limits:1: limit `any`: expected a map, found `5`: write its values, such as burst, count and period, and its ids",
    ),
    (
        Toml,
        "\nany = 5",
        "limits:2: limit `any`: expected a map, found `5`: write its values, such as burst, count and period, and its ids",
    ),
    (
        Json,
        "{\"any\": [\n5]}",
        "limits:2: limit `any`: expected a map, found `5`: write its values, such as burst, count and period, and its ids",
    ),
    (
        Yaml,
        "- any:\n",
        "limits:1: limit `any`: it has no values: write its values, such as burst, count and period, and its ids",
    ),
    (
        Yaml,
        "- any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids: [x]\n",
        "limits:2: burst is a field of a limit, and not a limit: indent it below the name of its limit",
    ),
    (
        Yaml,
        "\nany:x:\n",
        "limits:2: limit `any`: id `x`: it has no values: write its values, such as `10/s burst 20`",
    ),
    (
        Yaml,
        "any: {burst: {}}",
        "limits:1: limit `any`: expected a single value, found an empty map",
    ),
    (
        Json,
        "{\"any\": {\n\"count\": []}}",
        "limits:2: limit `any`: expected a single value, found an empty list",
    ),
];

const FIELDS: &[Refusal] = &[
    (
        Yaml,
        "- any: {rate: 100/min, ids: [a]}",
        "limits:1: limit `any`: unknown field `rate`: write `burst: 100, count: 100, period: 1m0s` instead",
    ),
    (
        Yaml,
        "- any: 7 per day",
        "limits:1: limit `any`: values are not written as `7 per day`: write `{burst: 7, count: 7, period: 24h0m0s}`",
    ),
    (
        Yaml,
        "- any:\n    burst: 1\n    id: [x]\n",
        "limits:3: limit `any`: unknown field `id`: list the ids below `ids`",
    ),
    (
        Json,
        "{\"any\": {\n\"number\": 6}}",
        "limits:2: limit `any`: unknown field `number`: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, ids",
    ),
    (
        Toml,
        "[any]\nperiod = '1s'\nBurst = 1",
        "limits:3: limit `any`: unknown field `Burst`: did you mean `burst`?",
    ),
    (
        Yaml,
        "any: {colour: red}",
        "limits:1: limit `any`: unknown field `colour`: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, ids",
    ),
    (
        Yaml,
        "- any: {tiers: [], ids: [x]}",
        "limits:1: limit `any`: tiers is empty, so nothing would ever pass: list at least one",
    ),
    (
        Json,
        "{\"any\": {\"ids\": [\"x\"],\n\"ids\": [\"y\"]}}",
        "limits:2: limit `any`: ids appears twice, first in line 1: remove one of them",
    ),
    (
        Yaml,
        "any: {ids: [x]}",
        "limits:1: limit `any`: burst is missing: write its values, such as burst, count and period, and its ids",
    ),
    (
        Yaml,
        "\nany: {}",
        "limits:2: limit `any`: burst is missing: write its values, such as burst, count and period, and its ids",
    ),
    (
        Json,
        "{\"any:x\": {}}",
        "limits:1: limit `any`: id `x`: burst is missing: write its values, such as `10/s burst 20`",
    ),
    (
        Yaml,
        "- any: {count: 1, period: 1s, ids: [x]}",
        "limits:1: limit `any`: burst is missing: write its values, such as burst, count and period, and its ids",
    ),
    (
        Json,
        "[{\"any\":\n{\"burst\": 1, \"period\": \"1s\", \"ids\": [\"x\"]}}]",
        "limits:1: limit `any`: count is missing: write its values, such as burst, count and period, and its ids",
    ),
    (
        Toml,
        "[['any:x']]\nburst = 1\ncount = 1",
        "limits:1: limit `any`: id `x`: period is missing: write its values, such as `10/s burst 20`",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s}",
        "limits:1: limit `any`: ids is missing: write its values, such as burst, count and period, and its ids",
    ),
    (
        Toml,
        "\n[any]\nburst = 1\ncount = 1\nperiod = '1s'",
        "limits:2: limit `any`: ids is missing: write its values, such as burst, count and period, and its ids",
    ),
];

const VALUES: &[Refusal] = &[
    (
        Yaml,
        "- any:\n    burst: -1\n",
        "limits:2: limit `any`: burst is `-1`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Json,
        "{\"any\": {\n\"count\": 1.0}}",
        "limits:2: limit `any`: count is `1.0`: use a whole number up to 4294967295, in digits only",
    ),
    (
        Toml,
        "[any]\nburst = 1\n\nperiod = 60",
        "limits:4: limit `any`: period: `60` is not a duration: add a unit, one of ns, us, ms, s, m, h",
    ),
    (
        Yaml,
        "- any: {burst: 0, count: 1, period: 1s, ids: [x]}",
        "limits:1: limit `any`: burst is 0, so nothing would ever pass: use at least 1",
    ),
    (
        Json,
        r#"{"any:x": {"burst": 1, "count": 0, "period": "1s"}}"#,
        "limits:1: limit `any`: id `x`: count is 0, so no token would ever come back: use at least 1",
    ),
    (
        Toml,
        "[any]\nburst = 1\ncount = 1\nperiod = '0s'\nids = ['x']",
        "limits:4: limit `any`: period is 0: use the time in which `count` tokens come back, such as `1s` or `3h`",
    ),
    (
        Yaml,
        "any:x: {burst: 1, count: 1, period: 1.5us}",
        "limits:1: limit `any`: id `x`: period is not a whole number of microseconds: round it to one",
    ),
    (
        Yaml,
        "any:x: {burst: 4294967295, count: 1, period: 1h}",
        "limits:1: limit `any`: id `x`: an empty bucket would take more than 71 years (2^51 µs) to fill: lower the burst or the period, or raise the count",
    ),
];

const KEYS: &[Refusal] = &[
    (
        Yaml,
        "\n- nosuch: {burst: 1, count: 1, period: 1s, ids: [x]}",
        "limits:2: limit `nosuch`: no limit has this name: known are account, account_domain, account_set, any, domain, ip, range, set",
    ),
    (
        Json,
        "{\"accounts\":\n{\"burst\": 1, \"count\": 1, \"period\": \"1s\", \"ids\": [\"x\"]}}",
        "limits:1: limit `accounts`: no limit has this name: did you mean `account`?",
    ),
    (
        Toml,
        "['Account:x.com']\nburst = 1\ncount = 1\nperiod = '1s'",
        "limits:1: limit `Account`: no limit has this name: did you mean `account`?",
    ),
    (
        Yaml,
        ":x: {burst: 1, count: 1, period: 1s}",
        "limits:1: the key of an override is `:x`: write the limit's name, a colon and an id",
    ),
    (
        Yaml,
        "any:x: {burst: 1, count: 1, period: 1s}\n'any:': {burst: 1, count: 1, period: 1s}",
        "limits:2: the key of an override is `any:`: write the limit's name, a colon and an id",
    ),
    (
        Json,
        "{\n\":\": {}}",
        "limits:2: the key of an override is `:`: write the limit's name, a colon and an id",
    ),
    (
        Json,
        "{\"any:x\":\n{\"burst\": 1, \"count\": 1, \"period\": \"1s\", \"ids\": [\"y\"]}}",
        "limits:2: limit `any`: id `x`: unknown field `ids`: the key has the id already",
    ),
    (
        Yaml,
        "any:x: {burst: 1, count: 1, period: 1s, ids: []}",
        "limits:1: limit `any`: id `x`: unknown field `ids`: the key has the id already",
    ),
];

const LISTS: &[Refusal] = &[
    (
        Yaml,
        "- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids: []\n",
        "limits:5: limit `any`: ids is empty, so the override applies to nobody: list its clients, or remove it",
    ),
    (
        Yaml,
        "- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n",
        "limits:5: limit `any`: ids is empty, so the override applies to nobody: list its clients, or remove it",
    ),
    (
        Json,
        "{\"any\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\",\n\"ids\": []}}",
        "limits:2: limit `any`: ids is empty, so the override applies to nobody: list its clients, or remove it",
    ),
    (
        Toml,
        "[any]\nburst = 1\ncount = 1\nperiod = '1s'\nids = []",
        "limits:5: limit `any`: ids is empty, so the override applies to nobody: list its clients, or remove it",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: x}",
        "limits:1: limit `any`: expected a list of ids, found `x`",
    ),
    (
        Json,
        "{\"any\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\",\n\"ids\": {\"id\": \"x\"}}}",
        "limits:2: limit `any`: expected a list of ids, found a map",
    ),
    (
        Yaml,
        "any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - x\n  - [y]\n",
        "limits:7: limit `any`: expected a single value, found a list",
    ),
    (
        Yaml,
        "any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - x\n  - comment: y\n",
        "limits:7: limit `any`: id is missing: an id stands alone, or has a comment beside it",
    ),
    (
        Json,
        "{\"any\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\", \"ids\": [\n{}]}}",
        "limits:2: limit `any`: id is missing: an id stands alone, or has a comment beside it",
    ),
    (
        Yaml,
        "any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - id: x\n    coment: y\n",
        "limits:7: limit `any`: unknown field `coment`: did you mean `comment`?",
    ),
    (
        Toml,
        "[any]\nburst = 1\ncount = 1\nperiod = '1s'\n[[any.ids]]\nid = 'x'\nnote = 'y'",
        "limits:7: limit `any`: unknown field `note`: known are id, comment",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: [{id: x, id: y}]}",
        "limits:1: limit `any`: id appears twice, first in line 1: remove one of them",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: [{id: [x]}]}",
        "limits:1: limit `any`: expected a single value, found a list",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: [{id: }]}",
        "limits:1: limit `any`: expected a single value, found nothing",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: [{id: x, comment: [y]}]}",
        "limits:1: limit `any`: expected a single value, found a list",
    ),
    (
        Json,
        "{\"any\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\", \"ids\": [{\"id\": \"x\", \"comment\":\n{}}]}}",
        "limits:2: limit `any`: expected a single value, found an empty map",
    ),
];

const TWICE: &[Refusal] = &[
    (
        Yaml,
        "overrides:\n  any: {burst: 1, count: 1, period: 1s, ids: [x]}",
        "limits:1: the names of limits stand at the top: remove `overrides:`, and the indentation below it",
    ),
    (
        Yaml,
        "- any:\n  burst: 1\n  ids: [x]",
        "limits:2: burst is a field of a limit, and not a limit: indent it below the name of its limit",
    ),
    (
        Yaml,
        "any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - x\n  - x\n",
        "limits:7: limit `any`: id `x`: it has an override already, for `x` in limits:6: remove one of them",
    ),
    (
        Yaml,
        "- any:x: {burst: 1, count: 1, period: 1s}\n- any: {burst: 1, count: 1, period: 1s, ids: [x]}\n",
        "limits:2: limit `any`: id `x`: it has an override already, for `x` in limits:1: remove one of them",
    ),
    (
        Yaml,
        "- ip:2001:0db8::1: {burst: 1, count: 1, period: 1s}\n- ip:2001:db8::1: {burst: 1, count: 1, period: 1s}\n",
        "limits:2: limit `ip`: id `2001:db8::1`: it has an override already, for `2001:0db8::1` in limits:1: remove one of them",
    ),
    (
        Json,
        "{\"set\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\", \"ids\": [\"a.com,b.com\",\n\"B.com,a.com\"]}}",
        "limits:2: limit `set`: id `B.com,a.com`: it has an override already, for `a.com,b.com` in limits:1: remove one of them",
    ),
    (
        Toml,
        "[['ip']]\nburst = 1\ncount = 1\nperiod = '1s'\nids = ['10.0.0.1']\n[[ip]]\nburst = 1\ncount = 1\nperiod = '1s'\nids = [\n'::ffff:10.0.0.1']",
        "limits:11: limit `ip`: id `::ffff:10.0.0.1`: it has an override already, for `10.0.0.1` in limits:5: remove one of them",
    ),
    (
        Json,
        "{\"range:2001:0db8::/48\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\"},\n\"range:2001:db8::/48\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\"}}",
        "limits:2: limit `range`: id `2001:db8::/48`: it has an override already, for `2001:0db8::/48` in limits:1: remove one of them",
    ),
];

#[test]
fn shapes_and_fields() {
    refused(overrides, SHAPES);
    refused(overrides, FIELDS);
}

#[test]
fn values_of_limits() {
    refused(overrides, VALUES);
}

#[test]
fn keys_that_name_nothing() {
    refused(overrides, KEYS);
    let text = r#"{"any": {"burst": 1, "count": 1, "period": "1s", "ids": ["x"]}}"#;
    refused(
        |language, text| Limits::builder().overrides_text(language, text).build(),
        &[(
            Json,
            text,
            "limits:1: limit `any`: no limit has this name: none are known",
        )],
    );
}

#[test]
fn lists_of_ids() {
    refused(overrides, LISTS);
}

#[test]
fn ids_that_are_there_twice() {
    refused(overrides, TWICE);
}

/// Entries without content, which say of nobody anything, and so are mistakes.
const EMPTY: &[Refusal] = &[
    (
        Json,
        "{\n\"eny\": []}",
        "limits:2: limit `eny`: no limit has this name: did you mean `any`?",
    ),
    (
        Json,
        "[\n{}]",
        "limits:2: expected a list of `- name: {burst, count, period, ids}`, found an empty map",
    ),
];

#[test]
fn empty_entries() {
    refused(overrides, EMPTY);
}
