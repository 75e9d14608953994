//! Files that nobody wrote for us: they are refused, in bounded time and memory.

use std::time::{Duration, Instant};

use allocation_counter::measure;
use tollgate::limit::Language::{self, Json, Toml, Yaml};

use crate::{defaults, override_of, overrides, reads};

const LANGUAGES: [Language; 3] = [Yaml, Json, Toml];

/// Far more than any of these takes, in a debug build on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// What comes of building limits, which is to take a bounded time and at most `megabytes`.
fn bounded<T>(megabytes: u64, build: impl FnOnce() -> T) -> T {
    let (start, mut built) = (Instant::now(), None);
    let used = measure(|| built = Some(build())).bytes_max;
    assert!(used <= megabytes << 20, "{used} bytes");
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    built.unwrap()
}

/// Whether both kinds of files are refused.
fn refused(language: Language, text: &str, megabytes: u64) {
    if reads(language) {
        for build in [defaults, overrides] {
            let error = bounded(megabytes, || build(language, text)).unwrap_err();
            assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    const DEEP: usize = 100_000;

    for (language, before, open, after) in [
        (Yaml, "", "[", ""),
        (Yaml, "", "- ", ""),
        (Yaml, "", "{a: ", ""),
        (Yaml, "", "? ", ""),
        (Yaml, "a: ", "&a [", ""),
        (Json, "", "[", ""),
        (Json, "", "{\"a\":", ""),
        (Toml, "a = ", "[", ""),
        (Toml, "a = ", "{a = ", ""),
        (Toml, "", "a.", "a = 1"),
        (Toml, "[", "a.", "a]"),
    ] {
        refused(
            language,
            &format!("{before}{}{after}", open.repeat(DEEP)),
            64,
        );
    }
    for (language, before) in [(Yaml, ""), (Toml, "a = ")] {
        refused(
            language,
            &format!("{before}{}{}", "[".repeat(DEEP), "]".repeat(DEEP)),
            64,
        );
    }
}

/// Whether YAML is refused because of what its aliases stand for.
fn too_much(yaml: &str) {
    if reads(Yaml) {
        for build in [defaults, overrides] {
            let error = bounded(64, || build(Yaml, yaml)).unwrap_err().to_string();
            let expected = ": aliases expand to too many values: write them out";
            assert!(error.ends_with(expected), "{error}");
        }
    }
}

#[test]
fn aliases_that_multiply_are_refused() {
    let ten = |text: &str| [text; 10].join(",");
    let laugh = |i: usize| format!("b{i}: &a{i} [{}]\n", ten(&format!("*a{}", i - 1)));
    let laughs: String = (1..40).map(laugh).collect();
    too_much(&format!("b0: &a0 [{}]\n{laughs}", ten("x")));
    let (many, aliases) = ("x,".repeat(1_000), "*a,".repeat(1_000));
    too_much(&format!("a: &a [{many}]\nb: [{aliases}]"));
    let anchor = |i: usize| format!("&a{i} [{}", "x,".repeat(100));
    let nested: String = (0..100).map(anchor).collect();
    too_much(&format!("a: {nested}{}", "]".repeat(100)));
}

#[test]
fn long_text_multiplied_by_aliases_is_refused() {
    // Escapes and line ends are undone in memory of their own.
    let (long, aliases) = ("x".repeat(20_000), "*a, ".repeat(20_000));
    for anchored in [
        format!("\"\\n{long}\""),
        format!("{long}\n  y"),
        format!("{{\"\\n{long}\": 1}}"),
    ] {
        too_much(&format!("x: &a {anchored}\na: [{aliases}]"));
    }
}

#[test]
fn modest_aliases_are_not_refused() {
    if reads(Yaml) {
        let group = |i: u32| {
            format!("- account: {{burst: *ten, count: *ten, period: *second, ids: [{i}]}}\n")
        };
        let groups: String = (1..=1_000).map(group).collect();
        let first = "- account: {burst: &ten 10, count: 10, period: &second 1s, ids: [0]}\n";
        let limits = overrides(Yaml, &format!("{first}{groups}")).unwrap();
        assert_eq!(limits.get("account").unwrap().overrides().len(), 1_001);
    }
}

/// A long text in all places that one can be in.
const PLACES: &[(Language, &str)] = &[
    (Yaml, "#"),
    (Yaml, "'#'"),
    (Yaml, "a: \"#\""),
    (Yaml, "a: {burst: #}"),
    (Yaml, "any: {burst: 1, count: 1, period: #, ids: [x]}"),
    (Yaml, "? #\n: {}"),
    (Yaml, "#: {}"),
    (Yaml, "- #"),
    (Yaml, "- ip: {burst: 1, count: 1, period: 1s, ids: [#]}"),
    (Yaml, "- domain: {burst: 1, count: 1, period: 1s, ids: [#]}"),
    (Yaml, "a: &# 1"),
    (Yaml, "a: *#"),
    (Yaml, "a: !# 1"),
    (Yaml, "a: |\n  #"),
    (Json, "#"),
    (Json, "\"#\""),
    (Json, "{\"#\": {}}"),
    (Json, "{\"a\": {\"burst\": \"#\"}}"),
    (
        Json,
        "{\"any\": {\"burst\": 1, \"count\": 1, \"period\": \"#\"}}",
    ),
    (
        Json,
        "{\"ip:#\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\"}}",
    ),
    (
        Json,
        "{\"set:#\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\"}}",
    ),
    (Toml, "#"),
    (Toml, "a = '#'"),
    (Toml, "\"ip:#\" = {burst = 1, count = 1, period = '1s'}"),
    (Toml, "a.burst = '#'"),
];

#[test]
fn long_texts_are_read_in_a_bounded_time() {
    // YAML's simple keys end at 65 536 characters.
    for size in [60_000, 70_000, 200_000] {
        let long = "x".repeat(size);
        for (language, place) in PLACES.iter().filter(|(language, _)| reads(*language)) {
            let text = place.replace('#', &long);
            // A long name is one.
            drop(bounded(256, || defaults(*language, &text)));
            assert!(
                bounded(256, || overrides(*language, &text)).is_err(),
                "{place}"
            );
        }
    }
}

#[test]
fn five_megabytes_are_one_value() {
    let long = "x".repeat(5_000_000);
    for (language, text) in [
        (Yaml, format!("a: {{burst: {long}}}")),
        (
            Yaml,
            format!("- ip: {{burst: 1, count: 1, period: 1s, ids: [\"{long}\"]}}"),
        ),
        (
            Json,
            format!("{{\"ip:{long}\": {{\"burst\": 1, \"count\": 1, \"period\": \"1s\"}}}}"),
        ),
        (Toml, format!("a.period = '{long}'")),
    ] {
        refused(language, &text, 64);
    }
}

#[test]
fn long_digits_are_no_numbers() {
    let digits = "9".repeat(1_000_000);
    for (language, text) in [
        (Yaml, format!("account: {{burst: {digits}}}")),
        (
            Yaml,
            format!("account:{digits}: {{burst: 1, count: 1, period: 1s}}"),
        ),
        (Json, format!("{{\"account\": {{\"count\": {digits}}}}}")),
        (
            Json,
            format!("{{\"account\": {{\"period\": \"{digits}.{digits}h\"}}}}"),
        ),
        (Toml, format!("account.number = {digits}")),
        (Toml, format!("account.period = '0.{digits}s'")),
    ] {
        refused(language, &text, 64);
    }
}

#[test]
fn long_opaque_id_is_an_id() {
    let id = "x".repeat(5_000_000);
    let json = format!(r#"{{"any:{id}": {{"burst": 1, "count": 1, "period": "1s"}}}}"#);
    let limits = bounded(64, || overrides(Json, &json)).unwrap();
    assert!(override_of(&limits, "any", &id).is_some());
}

#[test]
fn many_ids_are_read_in_a_bounded_time() {
    const MANY: u64 = 20_000;

    let ids: Vec<_> = (0..MANY).map(|i| i.to_string()).collect();
    let (commas, lines) = (ids.join(","), ids.join("\n    - "));
    for (language, text) in [
        (
            Yaml,
            format!(
                "- account:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - {lines}\n"
            ),
        ),
        (
            Json,
            format!(
                r#"{{"account": {{"burst": 1, "count": 1, "period": "1s", "ids": [{commas}]}}}}"#
            ),
        ),
        (
            Toml,
            format!("[account]\nburst = 1\ncount = 1\nperiod = '1s'\nids = [{commas}]"),
        ),
    ] {
        if reads(language) {
            let limits = bounded(64, || overrides(language, &text)).unwrap();
            let overrides = limits.get("account").unwrap().overrides();
            assert_eq!(overrides.len() as u64, MANY);
        }
    }
}

const WHOLE: [(Language, &str); 4] = [
    (
        Yaml,
        "# for ä\n- any:\n    burst: &one 1\n    count: *one\n    period: \"1s\"\n    ids:\n    - 'it''s'\n    \
         - {id: ü, comment: >\n        folded}\n- ip:::1: {burst: 1, count: 1, period: 1s}\n",
    ),
    (
        Yaml,
        "---\r\n? \"a\\u00e4\"\r\n: {ids: [1, 2], x: !!str y}\r\n...\r\n",
    ),
    (
        Json,
        r#"[{"any": {"burst": 1, "count": 1, "period": "1s", "ids": ["\u00e4\ud83d\ude00", {"id": 1e5, "comment": "ü"}]}}]"#,
    ),
    (
        Toml,
        "[any] # ä\nburst = 1\ncount = 1\nperiod = '1s'\nids = [\"\\u00e4\", {id = '''ü''', comment = 1979-05-27}]\n[['ip:::1']]\n",
    ),
];

#[test]
fn truncated_files_are_read_or_refused() {
    for (language, text) in WHOLE.into_iter().filter(|(language, _)| reads(*language)) {
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            for build in [defaults, overrides] {
                if let Err(error) = build(language, &text[..end]) {
                    assert!(error.to_string().starts_with("limits"), "{error}");
                }
            }
        }
    }
}

#[test]
fn files_with_one_wrong_character_are_read_or_refused() {
    for (language, text) in WHOLE.into_iter().filter(|(language, _)| reads(*language)) {
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

#[test]
fn languages_are_told_from_each_other() {
    for (language, text) in WHOLE {
        for other in LANGUAGES
            .into_iter()
            .filter(|other| *other != language && reads(*other))
        {
            // JSON is YAML too, but for the names that it has.
            if (language, other) != (Json, Yaml) {
                assert!(overrides(other, text).is_err(), "{other:?} reads {text}");
            }
        }
    }
}
