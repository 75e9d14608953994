//! Ids are text, exactly as they are written: no language's guess of a number, a truth value, a date
//! or nothing at all comes between a file and a request.

use tollgate::limit::{
    Language::{self, Json, Toml, Yaml},
    LimitsError,
};

use crate::{limit, limit_of, override_of, overrides, reads};

const GUESSED: &[&str] = &[
    "12345678",
    "0012",
    "0",
    "-1",
    "+5",
    "1e5",
    "1E+5",
    "12345678901234567890",
    "123456789012345678901234567890",
    "true",
    "True",
    "yes",
    "off",
    "n",
    "~",
    "null",
    "Null",
    "0x10",
    "0o17",
    "0b11",
    "1_000",
    "1.0",
    "1.50",
    ".5",
    "5.",
    ".inf",
    "-.inf",
    ".nan",
    "inf",
    "nan",
    "2026-01-01",
    "2026-01-01T00:00:00Z",
    "12:30:45",
    "1:2",
    "<<",
    "=",
    "a b",
    "ä€😀",
];

/// What JSON writes without quotes.
const BARE_IN_JSON: &[&str] = &[
    "12345678",
    "0",
    "-1",
    "-0",
    "1e5",
    "1E+5",
    "1.0",
    "1.50",
    "12345678901234567890",
    "123456789012345678901234567890",
    "1e999",
    "true",
    "false",
    "null",
];

/// What TOML writes without quotes.
const BARE_IN_TOML: &[&str] = &[
    "12345678",
    "0",
    "-1",
    "+5",
    "1e5",
    "1_000",
    "1.0",
    "1.50",
    "0x10",
    "0o17",
    "0b11",
    "12345678901234567890",
    "true",
    "false",
    "inf",
    "nan",
    "2026-01-01",
    "2026-01-01T00:00:00Z",
    "12:30:45",
];

/// Looks a text's only override up, which is of `id` and of nobody else.
fn only(language: Language, text: &str, id: &str) {
    if !reads(language) {
        return;
    }
    let limits = overrides(language, text).unwrap_or_else(|e| panic!("{e} in {text}"));
    let any = limits.get("any").unwrap();
    let ids: Vec<_> = any.overrides().map(|own| (own.id, own.folded)).collect();
    assert_eq!(ids, [(id, id)], "{text}");
    assert_eq!(
        limit_of(&limits, "any", id),
        Some(&limit(1, 1, 1)),
        "{text}"
    );
    assert_eq!(limit_of(&limits, "any", "other"), None);
}

#[test]
fn yaml_ids_are_what_is_written() {
    let values = "burst: 1, count: 1, period: 1s";
    for id in GUESSED {
        only(Yaml, &format!("- any: {{{values}, ids: [{id}]}}"), id);
        only(Yaml, &format!("- any: {{{values}, ids: ['{id}']}}"), id);
        only(Yaml, &format!("- any: {{{values}, ids: [\"{id}\"]}}"), id);
        only(
            Yaml,
            &format!("- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - {id}\n"),
            id,
        );
        only(
            Yaml,
            &format!("- any: {{{values}, ids: [{{id: {id}, comment: {id}}}]}}"),
            id,
        );
        only(Yaml, &format!("any:{id}: {{{values}}}"), id);
        only(
            Yaml,
            &format!("- any:{id}:\n    burst: 1\n    count: 1\n    period: 1s\n"),
            id,
        );
        only(Yaml, &format!("- any: {{{values}, ids: [!!str {id}]}}"), id);
    }
}

#[test]
fn json_ids_are_what_is_written() {
    let values = r#""burst": 1, "count": 1, "period": "1s""#;
    for id in GUESSED {
        only(
            Json,
            &format!(r#"[{{"any": {{{values}, "ids": ["{id}"]}}}}]"#),
            id,
        );
        only(Json, &format!(r#"{{"any:{id}": {{{values}}}}}"#), id);
    }
    for id in BARE_IN_JSON {
        only(
            Json,
            &format!(r#"[{{"any": {{{values}, "ids": [{id}]}}}}]"#),
            id,
        );
        only(
            Json,
            &format!(r#"[{{"any": {{{values}, "ids": [{{"id": {id}}}]}}}}]"#),
            id,
        );
    }
}

#[test]
fn toml_ids_are_what_is_written() {
    let values = "burst = 1, count = 1, period = '1s'";
    for id in GUESSED {
        only(Toml, &format!("any = {{{values}, ids = ['{id}']}}"), id);
        only(Toml, &format!("\"any:{id}\" = {{{values}}}"), id);
    }
    for id in BARE_IN_TOML {
        only(Toml, &format!("any = {{{values}, ids = [{id}]}}"), id);
        only(
            Toml,
            &format!("any = {{{values}, ids = [{{id = {id}}}]}}"),
            id,
        );
    }
}

#[test]
fn comments_are_what_is_written_too() {
    for (language, text) in [
        (
            Yaml,
            "- any: {burst: 1, count: 1, period: 1s, ids: [{id: a, comment: 0012}]}",
        ),
        (
            Toml,
            "any = {burst = 1, count = 1, period = '1s', ids = [{id = 'a', comment = '0012'}]}",
        ),
        (
            Json,
            r#"[{"any": {"burst": 1, "count": 1, "period": "1s", "ids": [{"id": "a", "comment": "0012"}]}}]"#,
        ),
    ] {
        if reads(language) {
            let limits = overrides(language, text).unwrap();
            let own = override_of(&limits, "any", "a").unwrap();
            assert_eq!(own.comment, Some("0012"), "{text}");
        }
    }
}

#[test]
fn escapes_of_a_language_are_undone() {
    only(
        Json,
        r#"{"any:a\"\\\/\u00e4\ud83d\ude00\t": {"burst": 1, "count": 1, "period": "1s"}}"#,
        "a\"\\/ä😀\t",
    );
    only(
        Yaml,
        r#""any:a\"\\\/\u00e4\U0001f600\t\x41": {burst: 1, count: 1, period: 1s}"#,
        "a\"\\/ä😀\tA",
    );
    only(
        Yaml,
        "'any:it''s': {burst: 1, count: 1, period: 1s}",
        "it's",
    );
    only(
        Yaml,
        "any: {burst: 1, count: 1, period: 1s, ids: [a\n  b]}",
        "a b",
    );
    only(
        Toml,
        r#""any:a\"\\\u00e4\U0001f600\t" = {burst = 1, count = 1, period = '1s'}"#,
        "a\"\\ä😀\t",
    );
}

fn mistake(name: &str, id: &str) -> LimitsError {
    let json =
        format!(r#"{{"{name}": {{"burst": 1, "count": 1, "period": "1s", "ids": [{id}]}}}}"#);
    overrides(Json, &json).unwrap_err()
}

#[test]
fn account_is_no_other_by_what_its_number_looks_like() {
    for id in [
        "\"0012\"",
        "1e5",
        "1.0",
        "-1",
        "\"+5\"",
        "\"0x10\"",
        "\"1_000\"",
        "null",
        "true",
        "\"12 \"",
    ] {
        let error = mistake("account", id);
        assert_eq!(error.id(), Some(id.trim_matches('"')), "{error}");
    }
}

#[cfg(feature = "domains")]
#[test]
fn keys_are_split_at_their_first_colon() {
    let json = r#"{
        "ip:2001:db8::1": {"burst": 1, "count": 1, "period": "1s"},
        "range:2001:0db8:0000::/48": {"burst": 1, "count": 1, "period": "1s"},
        "account_domain:12345678:example.com": {"burst": 1, "count": 1, "period": "1s"},
        "account_set:12345678:example.com,example.org": {"burst": 1, "count": 1, "period": "1s"},
        "any:::": {"burst": 1, "count": 1, "period": "1s"}
    }"#;
    let limits = overrides(Json, json).unwrap();
    for (name, id) in [
        ("ip", "2001:db8:0::1"),
        ("range", "2001:db8::5"),
        ("account_domain", "12345678:www.example.com"),
        ("account_set", "12345678:EXAMPLE.org,example.com"),
        ("any", "::"),
    ] {
        assert_eq!(
            limit_of(&limits, name, id),
            Some(&limit(1, 1, 1)),
            "{name}:{id}"
        );
    }
}
