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
        "2: expected a list of `- name: {burst, count, period, ids}`, found `text`",
    ),
    (
        Json,
        "null",
        "1: expected a list of `- name: {burst, count, period, ids}`, found `null`",
    ),
    (
        Yaml,
        "-\n- any",
        "1: expected a list of `- name: {burst, count, period, ids}`, found nothing",
    ),
    (
        Yaml,
        "any: 5",
        "1: limit `any`: expected a map, found `5`: write its values, such as burst, count and period, and its ids",
    ),
    (Yaml, "- any:\n", "1: limit `any`: it has no values"),
    (
        Yaml,
        "- any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids: [x]\n",
        "2: burst is a field of a limit, and not a limit",
    ),
    (
        Yaml,
        "\nany:x:\n",
        "2: limit `any`: id `x`: it has no values: write its values, such as `10/s burst 20`",
    ),
];

const FIELDS: &[Refusal] = &[
    (
        Yaml,
        "- any: 7 per day",
        "1: limit `any`: values are not written as `7 per day`: write `{burst: 7, count: 7, period: 24h0m0s}`",
    ),
    (
        Yaml,
        "- any:\n    burst: 1\n    id: [x]\n",
        "3: limit `any`: unknown field `id`: list the ids below `ids`",
    ),
    (
        Json,
        "{\"any\": {\n\"number\": 6}}",
        "2: limit `any`: unknown field `number`: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, ids",
    ),
    (
        Json,
        "{\"any\": {\"ids\": [\"x\"],\n\"ids\": [\"y\"]}}",
        "2: limit `any`: ids appears twice, first in line 1",
    ),
    (
        Json,
        "{\"any:x\": {}}",
        "1: limit `any`: id `x`: burst is missing",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s}",
        "1: limit `any`: ids is missing",
    ),
    (
        Json,
        r#"{"any:x": {"burst": 1, "count": 0, "period": "1s"}}"#,
        "1: limit `any`: id `x`: count is 0, so no token would ever come back",
    ),
];

const KEYS: &[Refusal] = &[
    (
        Yaml,
        "\n- nosuch: {burst: 1, count: 1, period: 1s, ids: [x]}",
        "2: limit `nosuch`: no limit has this name: known are account, account_domain, account_set, any, domain, ip, range, set",
    ),
    (
        Yaml,
        ":x: {burst: 1, count: 1, period: 1s}",
        "1: the key of an override is `:x`: write the limit's name, a colon and an id",
    ),
    (
        Yaml,
        "any:x: {burst: 1, count: 1, period: 1s}\n'any:': {burst: 1, count: 1, period: 1s}",
        "2: the key of an override is `any:`",
    ),
    (
        Json,
        "{\"any:x\":\n{\"burst\": 1, \"count\": 1, \"period\": \"1s\", \"ids\": [\"y\"]}}",
        "2: limit `any`: id `x`: unknown field `ids`: the key has the id already",
    ),
];

const LISTS: &[Refusal] = &[
    (
        Yaml,
        "- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids: []\n",
        "5: limit `any`: ids is empty, so the override applies to nobody: list its clients, or remove it",
    ),
    (
        Yaml,
        "- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n",
        "5: limit `any`: ids is empty, so the override applies to nobody",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: x}",
        "1: limit `any`: expected a list of ids, found `x`",
    ),
    (
        Json,
        "{\"any\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\",\n\"ids\": {\"id\": \"x\"}}}",
        "2: limit `any`: expected a list of ids, found a map",
    ),
    (
        Yaml,
        "any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - x\n  - [y]\n",
        "7: limit `any`",
    ),
    (
        Yaml,
        "any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - x\n  - comment: y\n",
        "7: limit `any`: id is missing: an id stands alone, or has a comment beside it",
    ),
    (
        Yaml,
        "any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - id: x\n    coment: y\n",
        "7: limit `any`: unknown field `coment`: did you mean `comment`?",
    ),
    (
        Toml,
        "[any]\nburst = 1\ncount = 1\nperiod = '1s'\n[[any.ids]]\nid = 'x'\nnote = 'y'",
        "7: limit `any`: unknown field `note`: known are id, comment",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: [{id: x, id: y}]}",
        "1: limit `any`: id appears twice, first in line 1",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: [{id: [x]}]}",
        "1: limit `any`",
    ),
    (
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: [{id: x, comment: [y]}]}",
        "1: limit `any`",
    ),
];

const TWICE: &[Refusal] = &[
    (
        Yaml,
        "overrides:\n  any: {burst: 1, count: 1, period: 1s, ids: [x]}",
        "1: the names of limits stand at the top: remove `overrides:`, and the indentation below it",
    ),
    (
        Yaml,
        "any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - x\n  - x\n",
        "7: limit `any`: id `x`: it has an override already, for `x` in limits:6",
    ),
    (
        Yaml,
        "- any:x: {burst: 1, count: 1, period: 1s}\n- any: {burst: 1, count: 1, period: 1s, ids: [x]}\n",
        "2: limit `any`: id `x`: it has an override already, for `x` in limits:1",
    ),
    (
        Yaml,
        "- ip:2001:0db8::1: {burst: 1, count: 1, period: 1s}\n- ip:2001:db8::1: {burst: 1, count: 1, period: 1s}\n",
        "2: limit `ip`: id `2001:db8::1`: it has an override already, for `2001:0db8::1` in limits:1",
    ),
    (
        Toml,
        "[['ip']]\nburst = 1\ncount = 1\nperiod = '1s'\nids = ['10.0.0.1']\n[[ip]]\nburst = 1\ncount = 1\nperiod = '1s'\nids = [\n'::ffff:10.0.0.1']",
        "11: limit `ip`: id `::ffff:10.0.0.1`: it has an override already, for `10.0.0.1` in limits:5",
    ),
];

#[test]
fn shapes_and_fields() {
    refused(overrides, SHAPES);
    refused(overrides, FIELDS);
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
            "1: limit `any`: no limit has this name: none are known",
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
        "2: limit `eny`: no limit has this name: did you mean `any`?",
    ),
    (
        Json,
        "[\n{}]",
        "2: expected a list of `- name: {burst, count, period, ids}`, found an empty map",
    ),
];

#[test]
fn empty_entries() {
    refused(overrides, EMPTY);
}
