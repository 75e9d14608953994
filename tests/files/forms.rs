//! The forms that defaults and overrides may have, which all say the same.

use std::{fs, path::Path};

use tollgate::{
    Limits,
    id::IdFormat,
    limit::{LimitName, NamedLimit},
};

use crate::{
    JSON, Language, TOML, YAML, defaults, facts, limit, names, override_of, overrides, reads,
};

fn expected() -> Vec<String> {
    let [three, six] = [limit(1, 2, 3), limit(4, 5, 6)];
    let limits = names()
        .override_for("ip", "10.0.0.2", three.clone())
        .override_for("ip", "2001:0db8::1", three)
        .override_for("account", "12345678", six)
        .build();
    facts(&limits.unwrap())
}

/// Each file has the same two names, three ids and two limits, in a form of its own.
#[test]
fn all_forms_say_the_same_whatever_their_line_ends_and_byte_order_marks() {
    let expected = expected();
    let mut seen = 0;
    for file in fs::read_dir("tests/data/forms").unwrap() {
        let path = file.unwrap().path();
        let languages = [YAML, JSON, TOML].into_iter();
        let of_file = |language: &Language| Path::new(language).extension() == path.extension();
        let Some(language) = languages.filter(|language| reads(language)).find(of_file) else {
            continue;
        };
        let text = fs::read_to_string(&path).unwrap();
        let windows = text.replace('\n', "\r\n");
        let with_mark = [&text, &windows].map(|text| format!("\u{feff}{text}"));
        for text in [&text, &windows, &with_mark[0], &with_mark[1]] {
            let limits = overrides(language, text).unwrap_or_else(|e| panic!("{e} in {path:?}"));
            assert_eq!(facts(&limits), expected, "{path:?}");
        }
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}

#[test]
#[cfg_attr(not(feature = "yaml"), ignore = "it needs the feature `yaml`")]
fn alias_stands_for_a_whole_limit() {
    let text = "first: &small {burst: 1, count: 2, period: 3s}\nsecond: *small\n";
    let limits = defaults(YAML, text).unwrap();
    let of = |name| limits.get(name).unwrap().limit().cloned();
    assert_eq!(of("second"), Some(limit(1, 2, 3)));
    assert_eq!(of("first"), of("second"));
}

#[test]
fn lines_are_counted_however_they_end() {
    for (language, text, line) in [
        (YAML, "- ip:\n\n    burst: x\n", 3),
        (JSON, "[\n{\n\n\"ip\": {\"burst\":\n\"x\"}}]", 5),
        (TOML, "\n\n[ip]\nburst = 'x'", 4),
    ] {
        if reads(language) {
            let windows = text.replace('\n', "\r\n");
            for text in [text, &windows, &format!("\u{feff}{windows}")] {
                let error = overrides(language, text).unwrap_err();
                assert_eq!(error.line(), Some(line), "{text:?}: {error}");
            }
        }
    }
}

#[test]
fn file_without_overrides_says_so() {
    let empty = facts(&names().build().unwrap());
    for (language, texts) in [
        (YAML, &["[]", "{}", "---\n[]\n...\n", "any: []"][..]),
        (JSON, &["[]", "{}", "\u{feff}[ ]\n", r#"{"any": []}"#]),
        (TOML, &["any = []\n"]),
    ] {
        for text in texts.iter().filter(|_| reads(language)) {
            let limits = overrides(language, text).unwrap();
            assert_eq!(facts(&limits), empty, "{language:?} {text:?}");
        }
    }
}

const COMMENTED: &[(Language, &str)] = &[
    (
        YAML,
        "- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - id: b\n      comment: 12 is a number\n    \
         - {comment: 'ticket #7: yes', id: a}\n    - c # for nobody to read\n    - {id: d, comment: \"\"}\n",
    ),
    (
        JSON,
        r#"{"any": {"burst": 1, "count": 1, "period": "1s", "ids": [{"id": "b", "comment": "12 is a number"},
            {"comment": "ticket #7: yes", "id": "a"}, "c", {"id": "d", "comment": ""}]}}"#,
    ),
    (
        TOML,
        "[any]\nburst = 1\ncount = 1\nperiod = '1s'\nids = [{id = 'b', comment = '12 is a number'}, \
         {comment = 'ticket #7: yes', id = 'a'}, 'c', {id = 'd', comment = ''}] # the end\n",
    ),
];

#[test]
fn comments_and_order_are_kept() {
    let expected = [
        ("b", Some("12 is a number")),
        ("a", Some("ticket #7: yes")),
        ("c", None),
        ("d", Some("")),
    ];
    for (language, text) in COMMENTED.iter().filter(|(language, _)| reads(language)) {
        let limits = overrides(language, text).unwrap();
        let any = limits.get("any").unwrap();
        let listed: Vec<_> = any
            .overrides()
            .map(|own| (own.id(), own.comment()))
            .collect();
        assert_eq!(listed, expected, "{text}");
        let own = override_of(&limits, "any", "a").unwrap();
        assert_eq!(own.comment(), Some("ticket #7: yes"));
    }
}

#[test]
fn several_files_and_code_give_overrides() {
    let json = |id| format!(r#"{{"any:{id}": {{"burst": 1, "count": 1, "period": "1s"}}}}"#);
    let builder = || {
        names()
            .overrides_text(JSON, &json("x"))
            .override_for("any", "z", limit(2, 2, 2))
    };
    let limits: Limits = builder().overrides_text(JSON, &json("y")).build().unwrap();
    let any = limits.get("any").unwrap();
    let order: Vec<_> = any.overrides().map(|own| own.id()).collect();
    assert_eq!(order, ["z", "x", "y"]);
    let error = builder()
        .overrides_text(JSON, &json("z"))
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "limits.json:1: limit `any`: id `z`: it has an override already, for `z`: remove one of them"
    );
}

/// The same defaults in each language.
const NUMBERED: [(Language, &str); 3] = [
    (
        YAML,
        "a: {number: 6, id: regId, burst: 1, count: 2, period: 3s}\nb: {number: 7}\nc: {}\n",
    ),
    (
        JSON,
        r#"{"a": {"number": 6, "id": "regId", "burst": 1, "count": 2, "period": "3s"}, "b": {"number": 7}, "c": {}}"#,
    ),
    (
        TOML,
        "[a]\nnumber = 6\nid = 'regId'\nburst = 1\ncount = 2\nperiod = '3s'\n[b]\nnumber = 7\n[c]\n",
    ),
];

#[test]
fn number_and_format_belong_to_the_name() {
    for (language, text) in NUMBERED {
        if !reads(language) {
            continue;
        }
        let limits = defaults(language, text).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| limits.get(name).unwrap());
        assert_eq!((a.number(), a.format()), (Some(6), IdFormat::RegId));
        assert_eq!(a.limit(), Some(&limit(1, 2, 3)));
        assert_eq!((b.number(), b.limit()), (Some(7), None));
        assert_eq!(c.bucket_key("x").unwrap(), "c:x");
        let order: Vec<_> = limits.iter().map(NamedLimit::name).collect();
        assert_eq!(order, ["a", "b", "c"]);
    }
}

#[test]
fn file_may_repeat_the_number_and_format_of_the_code() {
    let orders = LimitName::new("orders", 6, IdFormat::RegId);
    for entry in [
        "",
        r#""number": 6"#,
        r#""id": "regId""#,
        r#""number": 6, "id": "regId""#,
    ] {
        let text = format!(r#"{{"orders": {{{entry}}}}}"#);
        let builder = Limits::builder().name(orders.clone());
        let limits = builder.defaults_text(JSON, &text).build().unwrap();
        let found = limits.get("orders").unwrap();
        let found = (found.number(), found.format());
        assert_eq!(found, (Some(6), IdFormat::RegId), "{entry}");
    }
}
