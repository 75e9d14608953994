//! Hostile files are refused in bounded memory.

use allocation_counter::measure;

use crate::{JSON, Language, TOML, YAML, defaults, overrides, reads};

/// Returns the result of building limits, and checks that it takes at most `megabytes`.
fn bounded<T>(megabytes: u64, build: impl FnOnce() -> T) -> T {
    let mut built = None;
    let used = measure(|| built = Some(build())).bytes_max;
    assert!(used <= megabytes << 20, "{used} bytes");
    built.unwrap()
}

/// Asserts that both kinds of files are refused.
fn refused(language: Language, text: &str, megabytes: u64) {
    if reads(language) {
        for build in [defaults, overrides] {
            bounded(megabytes, || build(language, text)).unwrap_err();
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    const DEEP: usize = 100_000;

    for (language, before, open, after) in [
        (YAML, "", "[", ""),
        (YAML, "", "- ", ""),
        (YAML, "", "{a: ", ""),
        (YAML, "", "? ", ""),
        (YAML, "a: ", "&a [", ""),
        (JSON, "", "[", ""),
        (JSON, "", "{\"a\":", ""),
        (TOML, "a = ", "[", ""),
        (TOML, "a = ", "{a = ", ""),
        (TOML, "", "a.", "a = 1"),
        (TOML, "[", "a.", "a]"),
    ] {
        refused(
            language,
            &format!("{before}{}{after}", open.repeat(DEEP)),
            64,
        );
    }
    for (language, before) in [(YAML, ""), (TOML, "a = ")] {
        refused(
            language,
            &format!("{before}{}{}", "[".repeat(DEEP), "]".repeat(DEEP)),
            64,
        );
    }
}

/// Asserts that YAML is refused because its aliases expand to too much.
#[cfg(feature = "yaml")]
fn too_much(yaml: &str) {
    for build in [defaults, overrides] {
        let error = bounded(64, || build(YAML, yaml)).unwrap_err().to_string();
        let expected = ": aliases expand to too many values: write them out";
        assert!(error.ends_with(expected), "{error}");
    }
}

#[cfg(feature = "yaml")]
#[test]
fn aliases_that_multiply_are_refused() {
    let ten = |text: &str| [text; 10].join(",");
    let laugh = |i: usize| format!("b{i}: &a{i} [{}]\n", ten(&format!("*a{}", i - 1)));
    let laughs: String = (1..40).map(laugh).collect();
    too_much(&format!("b0: &a0 [{}]\n{laughs}", ten("x")));
    let (many, aliases) = ("x,".repeat(1_000), "*a,".repeat(1_000));
    too_much(&format!("a: &a [{many}]\nb: [{aliases}]"));
    let anchor = |i: usize| format!("&a{i} [{}", "x,".repeat(1_000));
    let nested: String = (0..25).map(anchor).collect();
    too_much(&format!("a: {nested}{}", "]".repeat(25)));
}

#[cfg(feature = "yaml")]
#[test]
fn modest_aliases_are_not_refused() {
    let group =
        |i: u32| format!("- account: {{burst: *ten, count: *ten, period: *second, ids: [{i}]}}\n");
    let groups: String = (1..=1_000).map(group).collect();
    let first = "- account: {burst: &ten 10, count: 10, period: &second 1s, ids: [0]}\n";
    let limits = overrides(YAML, &format!("{first}{groups}")).unwrap();
    assert_eq!(limits.get("account").unwrap().overrides().len(), 1_001);
}

/// A long text in every place that can hold one.
const PLACES: &[(Language, &str)] = &[
    (YAML, "#"),
    (YAML, "'#'"),
    (YAML, "a: \"#\""),
    (YAML, "a: {burst: #}"),
    (YAML, "any: {burst: 1, count: 1, period: #, ids: [x]}"),
    (YAML, "? #\n: {}"),
    (YAML, "#: {}"),
    (YAML, "- #"),
    (YAML, "- ip: {burst: 1, count: 1, period: 1s, ids: [#]}"),
    (YAML, "- domain: {burst: 1, count: 1, period: 1s, ids: [#]}"),
    (YAML, "a: &# 1"),
    (YAML, "a: *#"),
    (YAML, "a: !# 1"),
    (YAML, "a: |\n  #"),
    (JSON, "#"),
    (JSON, "\"#\""),
    (JSON, "{\"#\": {}}"),
    (JSON, "{\"a\": {\"burst\": \"#\"}}"),
    (
        JSON,
        "{\"any\": {\"burst\": 1, \"count\": 1, \"period\": \"#\"}}",
    ),
    (
        JSON,
        "{\"ip:#\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\"}}",
    ),
    (
        JSON,
        "{\"set:#\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\"}}",
    ),
    (TOML, "#"),
    (TOML, "a = '#'"),
    (TOML, "\"ip:#\" = {burst = 1, count = 1, period = '1s'}"),
    (TOML, "a.burst = '#'"),
];

#[test]
fn long_texts_take_bounded_memory() {
    // YAML's simple keys end at 65 536 characters.
    for size in [60_000, 70_000, 200_000] {
        let long = "x".repeat(size);
        for (language, place) in PLACES.iter().filter(|(language, _)| reads(language)) {
            let text = place.replace('#', &long);
            // A long name is one.
            drop(bounded(256, || defaults(language, &text)));
            assert!(
                bounded(256, || overrides(language, &text)).is_err(),
                "{place}"
            );
        }
    }
}

const WHOLE: [(Language, &str); 4] = [
    (
        YAML,
        "# for ä\n- any:\n    burst: &one 1\n    count: *one\n    period: \"1s\"\n    ids:\n    - 'it''s'\n    \
         - {id: ü, comment: >\n        folded}\n- ip:::1: {burst: 1, count: 1, period: 1s}\n",
    ),
    (
        YAML,
        "---\r\n? \"a\\u00e4\"\r\n: {ids: [1, 2], x: !!str y}\r\n...\r\n",
    ),
    (
        JSON,
        r#"[{"any": {"burst": 1, "count": 1, "period": "1s", "ids": ["\u00e4\ud83d\ude00", {"id": 1e5, "comment": "ü"}]}}]"#,
    ),
    (
        TOML,
        "[any] # ä\nburst = 1\ncount = 1\nperiod = '1s'\nids = [\"\\u00e4\", {id = '''ü''', comment = 1979-05-27}]\n[['ip:::1']]\n",
    ),
];

#[test]
fn files_with_one_wrong_character_are_read_or_refused() {
    for (language, text) in WHOLE.into_iter().filter(|(language, _)| reads(language)) {
        for (i, c) in text.char_indices() {
            let (before, after) = (&text[..i], &text[i + c.len_utf8()..]);
            for wrong in [
                "", "\0", "\t", "\r", "\n", ":", "-", "{", "]", "\"", "'", "&", "\\", "\u{feff}",
                "\u{2028}", "😀",
            ] {
                let text = format!("{before}{wrong}{after}");
                for build in [defaults, overrides] {
                    if let Err(error) = build(language, &text) {
                        assert!(error.to_string().starts_with("limits"), "{error}");
                    }
                }
            }
        }
    }
}
