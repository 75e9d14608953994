//! Files with several mistakes: the error lists all of them, and none that only follows from another.

use tollgate::{
    Limit, Limits,
    id::IdFormat,
    limit::{LimitName, LimitsError},
};

use crate::{JSON, Language, TOML, YAML, limit, reads, support::Folder};

/// Returns the lines of an error.
fn lines_of(error: &LimitsError) -> Vec<String> {
    let mistakes = error.mistakes().map(|mistake| mistake.to_string());
    let mistakes: Vec<_> = mistakes.collect();
    assert_eq!(error.to_string(), mistakes.join("\n"));
    mistakes
}

const DEFAULTS: &str = "\
orders:
  burst: -1
  count: ten
  period: 60
  perod: 60s
  description: [x]
uploads: 10/s brst 20
downloads: {burst: 5, count: 5, period: 1s, id: regid}
exports: {concurrent: 0, hold: 5, lease: 5%}
logins: {limit: 5}
6: {}
logins: {number: 1}
sessions: {number: 1, docs: none}
tiered:
  tiers:
  - {limit: 0, window: 1s}
  - {limit: 5, window: 1, actve: 1s}
  - {limit: 5}
";

const TOLD_OF_DEFAULTS: &[&str] = &[
    "5: limit `orders`: unknown field `perod`: did you mean `period`?",
    "2: limit `orders`: burst is `-1`: use a whole number up to 4294967295, in digits only",
    "3: limit `orders`: count is `ten`: use a whole number",
    "4: limit `orders`: period: `60` is not a duration: add a unit",
    "6: limit `orders`: expected a single value, found a list",
    "7: limit `uploads`: `10/s brst 20` is not a limit",
    "8: limit `downloads`: `regid` is not an id format",
    "9: limit `exports`: hold: `5` is not a duration",
    "9: limit `exports`: concurrent is 0, so nothing would ever pass",
    "10: limit `logins`: window is missing",
    "11: limit `6`: `6` is not a limit name",
    "12: limit `logins`: it is defined twice, first in limits.yml:10",
    "13: limit `sessions`: docs is `none`: write a link",
    "17: limit `tiered`: unknown field `actve`: did you mean `active`?",
    "17: limit `tiered`: window: `1` is not a duration",
    "18: limit `tiered`: window and active are missing",
];

fn compare(error: &LimitsError, language: Language, expected: &[&str]) {
    let lines = lines_of(error);
    for (line, expected) in lines.iter().zip(expected) {
        let rest = line
            .strip_prefix(language)
            .and_then(|rest| rest.strip_prefix(':'));
        assert!(
            rest.is_some_and(|rest| rest.starts_with(expected)),
            "{line}\nis not\n{expected}"
        );
    }
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
}

#[test]
#[cfg_attr(not(feature = "yaml"), ignore = "it needs the feature `yaml`")]
fn error_of_defaults_lists_all_mistakes() {
    let error = crate::defaults(YAML, DEFAULTS).unwrap_err();
    compare(&error, YAML, TOLD_OF_DEFAULTS);
}

#[test]
fn error_of_overrides_lists_all_mistakes() {
    let json = r#"[
{"any": {"burst": 0, "count": 1, "period": "1s", "ids": ["a", "b"]}},
{"account": {"burst": 1, "count": 1, "period": "1s", "ids": [7, "x",
  {"id": 8, "coment": "y"}, [9], 7]}},
{"ip:10.0.0.256": {"burst": 1}},
{"nosuch": {"burst": x, "ids": [1]}}, 5,
{"ipp": {"blocked": true, "ids": []}},
{":y": "blocked"},
{"any": {"burst": 1, "count": 1, "period": "1s", "ids": ["b", "c"]}}]"#;
    let json = json.replace(": x,", ": \"x\",");
    let error = crate::overrides(JSON, &json).unwrap_err();
    compare(
        &error,
        JSON,
        &[
            "2: limit `any`: burst is 0, so nothing would ever pass",
            "4: limit `account`: unknown field `coment`: did you mean `comment`?",
            "4: limit `account`: expected a single value, found a list",
            "3: limit `account`: `x` is not an id in the format regId",
            "4: limit `account`: id `7`: it has an override already, for `7` in limits.json:3",
            "5: limit `ip`: id `10.0.0.256`: count and period are missing",
            "5: limit `ip`: `10.0.0.256` is not an id in the format ipAddress",
            "6: limit `nosuch`: no limit has this name: known are",
            "6: limit `nosuch`: burst is `x`",
            "6: limit `nosuch`: count and period are missing",
            "6: expected a list of `- name: {burst, count, period, ids}`, found `5`",
            "7: limit `ipp`: no limit has this name: did you mean `ip`?",
            "7: limit `ipp`: ids is empty, so the override applies to nobody",
            "8: the key of an override is `:y`",
            "9: limit `any`: id `b`: it has an override already, for `b` in limits.json:2",
        ],
    );
}

/// Files of defaults with their errors. Overrides of their limits lead to no further errors.
const CASCADES: &[(Language, &str, usize)] = &[
    (JSON, r#"{"a": {"id": "regid"}}"#, 1),
    (
        JSON,
        r#"{"a": {"burst": "x", "count": 1, "period": "1s"}}"#,
        1,
    ),
    (JSON, r#"{"a": "#, 1),
    (JSON, "[]", 1),
    (YAML, "a: {}\n b: {}\n", 1),
    (YAML, "limits:\n  a: {}\n", 1),
];

#[test]
fn mistake_in_defaults_is_not_repeated_for_overrides() {
    let overrides = r#"{"a": {"burst": 1, "count": 1, "period": "1s", "ids": ["no number"]}}"#;
    for (language, text, count) in CASCADES.iter().filter(|(language, ..)| reads(language)) {
        let builder = Limits::builder()
            .defaults_text(language, text)
            .overrides_text(JSON, overrides);
        let error = builder.build().unwrap_err();
        assert_eq!(error.mistakes().len(), *count, "{text}: {error}");
    }
}

#[test]
fn mistakes_in_code_and_in_all_files_are_listed_together() {
    let one = limit(1, 1, 1);
    let error = Limits::builder()
        .name(LimitName::new("a b", 1, IdFormat::RegId))
        .name(LimitName::new("orders", 1, IdFormat::RegId).docs("nowhere"))
        .limit("unsaid", Limit::concurrent(4))
        .limit(
            LimitName::from("exports").lease(1, 20),
            Limit::concurrent(4),
        )
        .override_for("orders", "x", one.clone())
        .override_for("ordrs", "7", one)
        .defaults_text("one.json", r#"{"orders": {"number": 2}, "others": {}}"#)
        .defaults_text("two.json", "{")
        .overrides_text("three.json", r#"{"orders:y": "blocked"}"#)
        .build()
        .unwrap_err();
    let lines = lines_of(&error);
    let expected = [
        "limit `a b`: `a b` is not a limit name",
        "limit `orders`: docs is `nowhere`",
        "limit `orders`: it has the number 1, which `a b` has too",
        "limit `exports`: lease is only for burst, count and period, because the store alone decides by other kinds of \
         limit: remove it",
        "one.json:1: limit `orders`: the code has number 1 and id regId for it",
        "one.json:1: limit `others`: no limit has this name: did you mean `orders`?",
        "two.json:1: EOF while parsing an object",
        "limit `ordrs`: id `7`: no limit has this name: did you mean `orders`?",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\nis not\n{expected}");
    }
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    assert_eq!((error.path(), error.limit()), (None, Some("a b")));
}

#[test]
fn every_unreadable_file_is_listed() {
    let folder = Folder::new();
    let latin = folder.write("latin.json", b"\xe4");
    let error = Limits::builder()
        .defaults_file(folder.path("missing.json"))
        .defaults_text("text.txt", "")
        .overrides_file(latin)
        .build()
        .unwrap_err();
    let lines = lines_of(&error);
    for (line, expected) in lines.iter().zip([
        ": cannot read it: ",
        ": its name has no",
        ": it is not UTF-8",
    ]) {
        assert!(line.contains(expected), "{line}");
    }
    assert_eq!(lines.len(), 3);
    let causes: Vec<_> = error
        .mistakes()
        .map(|error| std::error::Error::source(&error).is_some())
        .collect();
    assert_eq!(causes, [true, false, false]);
}

#[test]
fn thousands_of_mistakes_are_cut() {
    let ids: Vec<_> = (0..5_000).map(|i| format!("\"x{i}\"")).collect();
    let json = format!(
        r#"{{"account": {{"blocked": true, "ids": [{}]}}}}"#,
        ids.join(",")
    );
    let error = crate::overrides(JSON, &json).unwrap_err();
    assert_eq!(error.mistakes().len(), 1000);
}

#[test]
#[cfg_attr(not(feature = "toml"), ignore = "it needs the feature `toml`")]
fn name_with_dots_in_toml_is_to_be_quoted() {
    let values = "burst = 1\ncount = 1\nperiod = '1s'\n";
    for (text, line, name) in [
        (format!("[free.requests]\n{values}"), 1, "free.requests"),
        (
            format!("[free]\n{values}\n[free.uploads]\n{values}"),
            6,
            "free.uploads",
        ),
        (
            format!("[[free.requests]]\n{values}ids = ['x']\n"),
            1,
            "free.requests",
        ),
    ] {
        for build in [crate::defaults, crate::overrides] {
            let error = build(TOML, &text).unwrap_err().to_string();
            let expected = format!(
                "limits.toml:{line}: limit `free`: unknown field `{}`: if it is a part of the name of a limit, quote the \
                 whole name: `\"{name}\"`",
                &name[5..]
            );
            assert!(error.contains(&expected), "{error}\nis not\n{expected}");
        }
    }
    let quoted = format!("[\"free.requests\"]\n{values}");
    assert!(
        crate::defaults(TOML, &quoted)
            .unwrap()
            .get("free.requests")
            .is_some()
    );
}
