//! Ids are text, exactly as they are written, even if a language reads them as numbers, truth values, dates or nothing.

use std::path::Path;

use tollgate::limit::LimitsError;

use crate::{JSON, Language, TOML, YAML, has_format_of, limit, limit_of, names, overrides, reads};

const GUESSED: &str = "\
    12345678 0012 0 -1 +5 1e5 1E+5 12345678901234567890 123456789012345678901234567890 true True yes off n ~ null \
    Null 0x10 0o17 0b11 1_000 1.0 1.50 .5 5. .inf -.inf .nan inf nan 2026-01-01 2026-01-01T00:00:00Z 12:30:45 1:2 \
    << = ä€😀";

/// Ids that JSON writes without quotes.
const BARE_IN_JSON: &str = "\
    12345678 0 -1 -0 1e5 1E+5 1.0 1.50 12345678901234567890 123456789012345678901234567890 1e999 true false null";

/// Ids that TOML writes without quotes.
const BARE_IN_TOML: &str = "\
    12345678 0 -1 +5 1e5 1_000 1.0 1.50 0x10 0o17 0b11 12345678901234567890 true false inf nan 2026-01-01 \
    2026-01-01T00:00:00Z 12:30:45";

/// Looks up the only override of a text, which applies to `id` and to no other client.
fn only(language: Language, text: &str, id: &str) {
    if !reads(language) {
        return;
    }
    let limits = overrides(language, text).unwrap_or_else(|e| panic!("{e} in {text}"));
    let any = limits.get("any").unwrap();
    let ids: Vec<_> = any.overrides().map(|own| own.id()).collect();
    assert_eq!(ids, [id], "{text}");
    assert_eq!(
        limit_of(&limits, "any", id),
        Some(&limit(1, 1, 1)),
        "{text}"
    );
    assert_eq!(limit_of(&limits, "any", "other"), None);
}

#[test]
fn yaml_ids_are_what_is_written() {
    for id in GUESSED.split(' ') {
        for form in [
            "- any: {#, ids: [@]}",
            "- any: {#, ids: ['@']}",
            "- any: {#, ids: [\"@\"]}",
            "- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - @\n",
            "- any: {#, ids: [{id: @, comment: @}]}",
            "any:@: {#}",
            "- any:@:\n    burst: 1\n    count: 1\n    period: 1s\n",
            "- any: {#, ids: [!!str @]}",
        ] {
            let text = form.replace('#', "burst: 1, count: 1, period: 1s");
            only(YAML, &text.replace('@', id), id);
        }
    }
}

#[test]
fn json_ids_are_what_is_written() {
    let values = r#""burst": 1, "count": 1, "period": "1s""#;
    let quoted = [r#"[{"any": {#, "ids": ["@"]}}]"#, r#"{"any:@": {#}}"#];
    let bare = [
        r#"[{"any": {#, "ids": [@]}}]"#,
        r#"[{"any": {#, "ids": [{"id": @}]}}]"#,
    ];
    for (ids, forms) in [(GUESSED, quoted), (BARE_IN_JSON, bare)] {
        for (id, form) in ids.split(' ').flat_map(|id| forms.map(|form| (id, form))) {
            only(JSON, &form.replace('#', values).replace('@', id), id);
        }
    }
}

#[test]
fn toml_ids_are_what_is_written() {
    let values = "burst = 1, count = 1, period = '1s'";
    let quoted = ["any = {#, ids = ['@']}", "\"any:@\" = {#}"];
    let bare = ["any = {#, ids = [@]}", "any = {#, ids = [{id = @}]}"];
    for (ids, forms) in [(GUESSED, quoted), (BARE_IN_TOML, bare)] {
        for (id, form) in ids.split(' ').flat_map(|id| forms.map(|form| (id, form))) {
            only(TOML, &form.replace('#', values).replace('@', id), id);
        }
    }
}

#[test]
fn escapes_of_a_language_are_undone() {
    only(
        JSON,
        r#"{"any:a\"\\\/\u00e4\ud83d\ude00\t": {"burst": 1, "count": 1, "period": "1s"}}"#,
        "a\"\\/ä😀\t",
    );
    only(
        YAML,
        r#""any:a\"\\\/\u00e4\U0001f600\t\x41": {burst: 1, count: 1, period: 1s}"#,
        "a\"\\/ä😀\tA",
    );
    only(
        YAML,
        "'any:it''s': {burst: 1, count: 1, period: 1s}",
        "it's",
    );
    only(
        YAML,
        "any: {burst: 1, count: 1, period: 1s, ids: [a\n  b]}",
        "a b",
    );
    only(
        TOML,
        r#""any:a\"\\\u00e4\U0001f600\t" = {burst = 1, count = 1, period = '1s'}"#,
        "a\"\\ä😀\t",
    );
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
    let limits = overrides(JSON, json).unwrap();
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

#[test]
fn ranges_of_addresses_are_read_in_every_form() {
    for (language, text) in [
        (
            YAML,
            "- ip:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - {id: 198.51.100.0/24, comment: the office}\n    \
             - 2001:0db8:7::/48\n",
        ),
        (
            JSON,
            r#"{"ip:198.51.100.0/24": {"burst": 1, "count": 1, "period": "1s"},
                "ip:2001:db8:7::/48": {"burst": 1, "count": 1, "period": "1s"}}"#,
        ),
        (
            TOML,
            "[ip]\nburst = 1\ncount = 1\nperiod = '1s'\nids = ['198.51.100.0/24', '2001:db8:7::/48']\n",
        ),
    ] {
        if !reads(language) {
            continue;
        }
        let limits = overrides(language, text).unwrap();
        for (id, expected) in [
            ("198.51.100.9", Some(&limit(1, 1, 1))),
            ("2001:db8:7:9::", Some(&limit(1, 1, 1))),
            ("198.51.101.9", None),
            ("2001:db8:8::", None),
        ] {
            assert_eq!(limit_of(&limits, "ip", id), expected, "{language:?} {id}");
        }
    }
}

/// Names of limits and ids, each with the remedy below it.
const REFUSED: &str = include_str!("../data/mistakes/ids.txt");

/// Returns the limits and ids, each with its error after the location.
fn cases() -> Vec<(&'static str, &'static str, String)> {
    let lines: Vec<_> = REFUSED.lines().collect();
    let mut cases = Vec::new();
    for case in lines.chunks(2) {
        let (mut ids, remedy) = (case[0].split(" | "), case[1].trim_start());
        let name = ids.next().unwrap();
        if has_format_of(name) {
            let format = names().build().unwrap().get(name).unwrap().format();
            let message = |id| format!("`{id}` is not an id in the format {format}: {remedy}");
            cases.extend(ids.map(|id| (name, id, message(id))));
        }
    }
    cases
}

fn error_of(language: Language, name: &str, id: &str) -> Option<LimitsError> {
    let text = match language {
        YAML => format!(
            "- {name}:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - '{id}'\n"
        ),
        JSON => format!(
            "{{\"{name}\": {{\"burst\": 1, \"count\": 1,\n\"period\": \"1s\",\n\n\"ids\": [\n\"{id}\"]}}}}"
        ),
        _ => format!("[{name}]\nburst = 1\ncount = 1\nperiod = '1s'\nids = [\n'{id}']\n"),
    };
    reads(language).then(|| overrides(language, &text).unwrap_err())
}

#[test]
fn every_format_has_an_example_in_its_error() {
    for (name, id, message) in cases() {
        for (language, line) in [(JSON, 5), (YAML, 6), (TOML, 6)] {
            let Some(error) = error_of(language, name, id) else {
                continue;
            };
            let expected = format!("{language}:{line}: limit `{name}`: {message}");
            assert_eq!(error.to_string(), expected, "{language:?}");
            let parts = (error.line(), error.limit(), error.id(), error.path());
            assert_eq!(
                parts,
                (Some(line), Some(name), Some(id), Some(Path::new(language))),
                "{error}"
            );
        }
    }
}
