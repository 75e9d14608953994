//! The errors for files with one mistake each.

use tollgate::{
    Limits,
    id::IdFormat,
    limit::{LimitName, LimitsError},
};

use crate::{JSON, Language, TOML, YAML, defaults, has_format_of, names, overrides, reads};

/// Texts of defaults, each with its error: a language and its text, with `\\n` where a line ends, and below it the line of the
/// mistake and the beginning of the message.
const IN_DEFAULTS: &str = include_str!("../data/mistakes/defaults.txt");

/// Of names that are declared in code.
const IN_DECLARED: &str = include_str!("../data/mistakes/declared.txt");

const IN_OVERRIDES: &str = include_str!("../data/mistakes/overrides.txt");

/// Texts that are not YAML.
const IN_YAML: &str = include_str!("../data/mistakes/yaml.txt");

/// Texts, and the line of the mistake. The parsers of these languages word the message.
const OTHERS: &[(Language, &str, u64)] = &[
    (JSON, "{", 1),
    (JSON, "{\n\"a\"", 2),
    (JSON, "{\"a\": {},\n}", 2),
    (JSON, "{\"a\": {}\n\"b\": {}}", 2),
    (JSON, "{a: {}}", 1),
    (JSON, "{'a': {}}", 1),
    (JSON, "{\"a\": {\"burst\": 01}}", 1),
    (JSON, "{\"a\": {\n\"burst\": 1.}}", 2),
    (JSON, "{\"a\": {\n\"burst\": +1}}", 2),
    (JSON, "{\"a\": nul}", 1),
    (JSON, "{\"a\": NaN}", 1),
    (JSON, "{\"a\": \"\\q\"}", 1),
    (JSON, "{\"a\": \"\n\"}", 1),
    (JSON, "{\"a\": \"x", 1),
    (JSON, "{\"a\": {}}\n]", 2),
    (JSON, "{\"a\": {}}\n{\"b\": {}}", 2),
    (JSON, "// none\n{}", 1),
    (JSON, "# none\n", 1),
    (JSON, "\u{feff}\u{feff}{}", 1),
    (JSON, "a:\n  burst: 1\n", 1),
    (TOML, "[a\n", 1),
    (TOML, "\n[a]\n[a]\n", 3),
    (TOML, "[a]\nburst = 1\nburst = 2\n", 3),
    (TOML, "[a]\nburst\n", 2),
    (TOML, "[a]\nburst = \n", 2),
    (TOML, "[a]\nburst = 01\n", 2),
    (TOML, "[a]\nperiod = 1s\n", 2),
    (TOML, "[a]\nperiod = 'x\n", 2),
    (TOML, "[a]\nperiod = \"\\q\"\n", 2),
    (TOML, "[a]\nids = [1\n", 2),
    (TOML, "[a] b\n", 1),
    (TOML, "[]\n", 1),
    (TOML, "[a]\nid: regId\n", 2),
    (TOML, "a = 1\n[a]\n", 2),
    (TOML, "{}", 1),
];

/// A message without the known names whose format is that of a feature that is off.
fn without_absent_names(message: &str) -> String {
    let Some((start, known)) = message.split_once("known are ") else {
        return message.to_owned();
    };
    let known = known.split(", ").filter(|name| has_format_of(name));
    let known: Vec<_> = known.collect();
    format!("{start}known are {}", known.join(", "))
}

/// Builds limits from each text of a table, and compares the mistake.
fn refused(build: impl Fn(Language, &str) -> Result<Limits, LimitsError>, table: &str) {
    let lines: Vec<_> = table.trim().lines().collect();
    for case in lines.chunks(2) {
        let [text, message] = case else {
            panic!("a text without a message: {case:?}")
        };
        let (language, text) = text.split_once(' ').unwrap_or((text, ""));
        let language = match language {
            "yaml" => YAML,
            "json" => JSON,
            _ => TOML,
        };
        let escapes = [("\\n", "\n"), ("\\t", "\t"), ("\\1", "\u{1}")];
        let text = escapes
            .iter()
            .fold(text.to_owned(), |text, (escape, text_of)| {
                text.replace(escape, text_of)
            });
        if reads(language) {
            let error = build(language, &text).expect_err(&text).to_string();
            let told = error.strip_prefix(language).unwrap_or(&error);
            let told = told.strip_prefix(':').unwrap_or(told).trim_start();
            let message = without_absent_names(message.trim_start());
            assert!(
                told.starts_with(&message),
                "{text:?}: {error}\nis not\n{message}"
            );
        }
    }
}

#[test]
fn mistakes_in_defaults_have_their_lines_and_a_remedy() {
    refused(defaults, IN_DEFAULTS);
    let numbered = LimitName::new("numbered", 6, IdFormat::RegId);
    let declared = names().name(numbered);
    let with_names =
        |language: Language, text: &str| declared.clone().defaults_text(language, text).build();
    refused(with_names, IN_DECLARED);
    let first = Limits::builder().defaults_text(JSON, r#"{"a": {"number": 1}}"#);
    let second =
        |language: Language, text: &str| first.clone().defaults_text(language, text).build();
    refused(
        second,
        r#"
json {\n"a": {}}
    2: limit `a`: it is defined twice, first in limits.json:1
toml \n\n[b]\nnumber = 1
    3: limit `b`: it has the number 1, which `a` has too
"#,
    );
}

#[test]
fn mistakes_in_overrides_have_their_lines_and_a_remedy() {
    refused(overrides, IN_OVERRIDES);
}

#[test]
fn syntax_errors_have_their_line() {
    for build in [defaults, overrides] {
        refused(build, IN_YAML);
        for (language, text, line) in OTHERS.iter().filter(|(language, ..)| reads(language)) {
            let error = build(language, text).unwrap_err();
            assert_eq!(error.line(), Some(*line), "{text:?}: {error}");
        }
    }
}

#[test]
fn spaces_that_are_not_plain_are_named() {
    for (language, text, line) in [
        (YAML, "a:\n~ burst: 1\n  count: 1\n  period: 1s\n", 2),
        (YAML, "a:\n  burst: 1\n~ count: 1\n  period: 1s\n", 3),
        (YAML, "a:\n  burst:~1\n  count: 1\n  period: 1s\n", 2),
        (YAML, "a:\n  burst: 1\n  count: 1\n  period:~1s\n", 4),
        (YAML, "a:\n  burst: 1~\n  count: 1\n  period: 1s\n", 2),
        (YAML, "a:~{burst: 1, count: 1, period: 1s}\n", 1),
        (YAML, "a: {burst: 1,~count: 1, period: 1s}\n", 1),
        (YAML, "a: 10 per 1s~# ten\n", 1),
        (YAML, "a~: 10 per 1s\n", 1),
        (YAML, "~a: 10 per 1s\n", 1),
        (YAML, "a: 10 per 1s\n~\nb: 10 per 1s\n", 2),
        (JSON, "{\"a\": {\"burst\": \"1~0\"}}", 1),
        (TOML, "a = '10 per~'", 1),
    ] {
        for (space, name) in [
            ('\u{a0}', "a no-break space, U+00A0"),
            ('\u{202f}', "a no-break space, U+202F"),
            ('\u{3000}', "a special space, U+3000"),
        ] {
            if reads(language) {
                let text = text.replace('~', &space.to_string());
                let error = defaults(language, &text).unwrap_err();
                assert_eq!(error.line(), Some(line), "{text:?}: {error}");
                assert!(error.to_string().contains(name), "{text:?}: {error}");
            }
        }
    }
}

#[test]
#[cfg_attr(not(feature = "yaml"), ignore = "it needs the feature `yaml`")]
fn spaces_within_a_text_stay_as_they_are() {
    let text = "a: {burst: 1, count: 1, period: 1s, description: 100\u{a0}%}\nb: @\n";
    let error = defaults(YAML, text).unwrap_err().to_string();
    assert!(error.contains("unexpected character"), "{error}");
    assert!(defaults(YAML, &text.replace("b: @\n", "")).is_ok());
}
