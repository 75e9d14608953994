//! The forms that overrides may have, which all say the same.

use tollgate::{
    Limit, Limits,
    limit::Language::{self, Json, Toml, Yaml},
};

use crate::{facts, limit, limit_of, names, override_of, overrides, reads};

/// Two names, three ids and two limits, in every form that has no comments.
const FORMS: &[(Language, &str)] = &[
    // A list, in blocks.
    (
        Yaml,
        "- ip:\n    burst: 1\n    count: 2\n    period: 3s\n    ids:\n      - 10.0.0.2\n      - 2001:0db8::1\n\
         - account:\n    burst: 4\n    count: 5\n    period: 6s\n    ids:\n      - 12345678\n",
    ),
    // With lists as far to the left as their keys.
    (
        Yaml,
        "---\n- ip:\n    ids:\n    - 10.0.0.2\n    - 2001:0db8::1\n    burst: 1\n    count: 2\n    period: 3s\n\
         - account:\n    ids:\n    - 12345678\n    burst: 4\n    count: 5\n    period: 6s\n...\n",
    ),
    // In one line each.
    (
        Yaml,
        "- ip: {burst: 1, count: 2, period: 3s, ids: [10.0.0.2, 2001:0db8::1]}\n\
         - account: {burst: 4, count: 5, period: 6s, ids: [12345678]}\n",
    ),
    // The same name in many items.
    (
        Yaml,
        "- ip: {burst: 1, count: 2, period: 3s, ids: [10.0.0.2]}\n\
         - ip: {burst: 1, count: 2, period: 3s, ids: ['2001:0db8::1']}\n\
         - account: {burst: 4, count: 5, period: 6s, ids: [\"12345678\"]}\n",
    ),
    // A map of names.
    (
        Yaml,
        "ip: {burst: 1, count: 2, period: 3s, ids: [10.0.0.2, 2001:0db8::1]}\n\
         account: {burst: 4, count: 5, period: 6s, ids: [12345678]}\n",
    ),
    // One item with many names.
    (
        Yaml,
        "- ip: {burst: 1, count: 2, period: 3s, ids: [10.0.0.2, 2001:0db8::1]}\n  \
           account: {burst: 4, count: 5, period: 6s, ids: [12345678]}\n",
    ),
    // Ids in maps.
    (
        Yaml,
        "- ip:\n    burst: 1\n    count: 2\n    period: 3s\n    ids:\n      - id: 10.0.0.2\n      - id: 2001:0db8::1\n\
         - account:\n    burst: 4\n    count: 5\n    period: 6s\n    ids:\n      - id: 12345678\n",
    ),
    // Names with ids for keys.
    (
        Yaml,
        "ip:10.0.0.2: {burst: 1, count: 2, period: 3s}\n\
         ip:2001:0db8::1:\n  burst: 1\n  count: 2\n  period: 3s\n\
         ? account:12345678\n: {burst: 4, count: 5, period: 6s}\n",
    ),
    // These in a list, mixed with others.
    (
        Yaml,
        "- ip:10.0.0.2: {burst: 1, count: 2, period: 3s}\n\
         - ip: {burst: 1, count: 2, period: 3s, ids: [2001:0db8::1]}\n\
         - \"account:12345678\": {burst: 4, count: 5, period: 6s}\n",
    ),
    // Anchors and aliases.
    (
        Yaml,
        "- ip: {burst: &one 1, count: 2, period: &period 3s, ids: [&id 10.0.0.2]}\n\
         - ip: {burst: *one, count: 2, period: *period, ids: [2001:0db8::1]}\n\
         - account: {burst: 4, count: 5, period: 6s, ids: &ids [12345678]}\n",
    ),
    (
        Json,
        r#"[{"ip": {"burst": 1, "count": 2, "period": "3s", "ids": ["10.0.0.2", "2001:0db8::1"]}},
            {"account": {"burst": 4, "count": 5, "period": "6s", "ids": [12345678]}}]"#,
    ),
    (
        Json,
        "{\t\"ip\":\t{\n\t\"burst\":\t1,\n\t\"count\": 2,\n\t\"period\": \"3s\",\n\t\"ids\": [{\"id\": \"10.0.0.2\"},\t\
         {\"id\": \"2001:0db8::\\u0031\"}]\t},\n\"account\": {\"burst\": 4, \"count\": 5, \"period\": \"6s\", \"ids\": [\"12345678\"]}}",
    ),
    (
        Json,
        r#"{"ip:10.0.0.2": {"burst": 1, "count": 2, "period": "3s"},
            "ip:2001:0db8::1": {"burst": 1, "count": 2, "period": "3s"},
            "account:12345678": {"burst": 4, "count": 5, "period": "6s"}}"#,
    ),
    // The same name twice, in lists and in the map itself.
    (
        Json,
        r#"{"ip": [{"burst": 1, "count": 2, "period": "3s", "ids": ["10.0.0.2"]},
                   {"burst": 1, "count": 2, "period": "3s", "ids": ["2001:0db8::1"]}],
            "account": {"burst": 4, "count": 5, "period": "6s", "ids": ["12345678"]}}"#,
    ),
    (
        Json,
        r#"{"ip": {"burst": 1, "count": 2, "period": "3s", "ids": ["10.0.0.2"]},
            "ip": {"burst": 1, "count": 2, "period": "3s", "ids": ["2001:0db8::1"]},
            "account": {"burst": 4, "count": 5, "period": "6s", "ids": ["12345678"]}}"#,
    ),
    (
        Toml,
        "[ip]\nburst = 1\ncount = 2\nperiod = '3s'\nids = ['10.0.0.2', '2001:0db8::1']\n\
         [account]\nburst = 4\ncount = 5\nperiod = '6s'\nids = [12345678]\n",
    ),
    // Arrays of tables, where one name has several limits.
    (
        Toml,
        "[[ip]]\nburst = 1\ncount = 2\nperiod = '3s'\nids = ['10.0.0.2']\n\
         [[ip]]\nburst = 1\ncount = 2\nperiod = '3s'\nids = [{id = '2001:0db8::1'}]\n\
         [[account]]\nburst = 4\ncount = 5\nperiod = '6s'\n[[account.ids]]\nid = 12345678\n",
    ),
    (
        Toml,
        "['ip:10.0.0.2']\nburst = 1\ncount = 2\nperiod = '3s'\n\
         [\"ip:2001:0db8::1\"]\nburst = 1\ncount = 2\nperiod = '3s'\n\
         ['account:12345678']\nburst = 4\ncount = 5\nperiod = '6s'\n",
    ),
    (
        Toml,
        "ip = {burst = 1, count = 2, period = '3s', ids = ['10.0.0.2', '2001:0db8::1']}\n\
         account.burst = 4\naccount.count = 5\naccount.period = '6s'\naccount.ids = [12345678]\n",
    ),
];

fn expected() -> Vec<String> {
    let [three, six] = [limit(1, 2, 3), limit(4, 5, 6)];
    let limits = names()
        .override_for("ip", "10.0.0.2", three.clone())
        .override_for("ip", "2001:0db8::1", three)
        .override_for("account", "12345678", six)
        .build();
    facts(&limits.unwrap())
}

#[test]
fn all_forms_say_the_same() {
    let expected = expected();
    for (language, text) in FORMS {
        if reads(*language) {
            let limits = overrides(*language, text).unwrap_or_else(|e| panic!("{e} in {text}"));
            assert_eq!(facts(&limits), expected, "{text}");
        }
    }
}

#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    let expected = expected();
    for (language, text) in FORMS {
        if reads(*language) {
            let windows = text.replace('\n', "\r\n");
            for text in [
                &windows,
                &format!("\u{feff}{text}"),
                &format!("\u{feff}{windows}"),
            ] {
                let limits = overrides(*language, text).unwrap_or_else(|e| panic!("{e} in {text}"));
                assert_eq!(facts(&limits), expected, "{text:?}");
            }
        }
    }
}

#[test]
fn lines_are_counted_however_they_end() {
    for (language, text, line) in [
        (Yaml, "- ip:\n\n    burst: x\n", 3),
        (Json, "[\n{\n\n\"ip\": {\"burst\":\n\"x\"}}]", 5),
        (Toml, "\n\n[ip]\nburst = 'x'", 4),
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
        (Yaml, &["[]", "{}", "---\n[]\n...\n", "any: []"][..]),
        (Json, &["[]", "{}", "\u{feff}[ ]\n", r#"{"any": []}"#]),
        (Toml, &["any = []\n"]),
    ] {
        for text in texts.iter().filter(|_| reads(language)) {
            let limits = overrides(language, text).unwrap();
            assert_eq!(facts(&limits), empty, "{language:?} {text:?}");
        }
    }
}

#[test]
fn empty_file_is_a_mistake() {
    let (list, name) = ("`[]`", "`name = []` for a limit");
    for (language, nothing, texts) in [
        (
            Yaml,
            list,
            &[
                "",
                "\n",
                "# none\n",
                "---\n",
                "---\n...\n",
                "\u{feff}",
                "\r\n# none\r\n",
            ][..],
        ),
        (Json, list, &["", " \r\n\t", "\u{feff}"]),
        (
            Toml,
            name,
            &["", "\n", "# none\n", "\u{feff}", "\r\n# none\r\n"],
        ),
    ] {
        for text in texts.iter().filter(|_| reads(language)) {
            let error = overrides(language, text).unwrap_err().to_string();
            let expected = format!(
                "limits: it is empty: write {nothing} if no client should have an override"
            );
            assert_eq!(error, expected, "{language:?} {text:?}");
        }
    }
}

const COMMENTED: &[(Language, &str)] = &[
    (
        Yaml,
        "- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - id: b\n      comment: 12 is a number\n    \
         - {comment: 'ticket #7: yes', id: a}\n    - c # for nobody to read\n    - {id: d, comment: \"\"}\n",
    ),
    (
        Json,
        r#"{"any": {"burst": 1, "count": 1, "period": "1s", "ids": [{"id": "b", "comment": "12 is a number"},
            {"comment": "ticket #7: yes", "id": "a"}, "c", {"id": "d", "comment": ""}]}}"#,
    ),
    (
        Toml,
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
    for (language, text) in COMMENTED.iter().filter(|(language, _)| reads(*language)) {
        let limits = overrides(*language, text).unwrap();
        let any = limits.get("any").unwrap();
        let listed: Vec<_> = any.overrides().map(|own| (own.id, own.comment)).collect();
        assert_eq!(listed, expected, "{text}");
        let own = override_of(&limits, "any", "a").unwrap();
        assert_eq!(own.comment, Some("ticket #7: yes"));
    }
}

#[test]
fn comment_may_take_many_lines() {
    if !reads(Yaml) {
        return;
    }
    let yaml = "- any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - id: a\n      comment: >\n        two\n        lines\n";
    let limits = overrides(Yaml, yaml).unwrap();
    let own = override_of(&limits, "any", "a").unwrap();
    assert_eq!(own.comment, Some("two lines\n"));
}

#[cfg(feature = "domains")]
#[test]
fn override_keeps_its_id_as_it_was_written() {
    let json = r#"{"domain": {"burst": 1, "count": 1, "period": "1s", "ids": ["Example.COM."]}}"#;
    let limits = overrides(Json, json).unwrap();
    let own = limits.get("domain").unwrap().overrides().next().unwrap();
    assert_eq!((own.id, own.folded), ("Example.COM.", "example.com"));
}

#[cfg(feature = "domains")]
#[test]
fn alias_stands_for_a_whole_entry() {
    if !reads(Yaml) {
        return;
    }
    let yaml = "\
- any: &ten {burst: 10, count: 10, period: 1s, ids: &ids [7, {id: 8, comment: eight}]}
- account: *ten
- set: {burst: 1, count: 1, period: 1s, ids: &names [&com example.com, example.net]}
- domain: {burst: 1, count: 1, period: 1s, ids: *names}
";
    let limits = overrides(Yaml, yaml).unwrap();
    for name in ["any", "account"] {
        assert_eq!(limit_of(&limits, name, "7"), Some(&limit(10, 10, 1)));
        let eight = override_of(&limits, name, "8").unwrap();
        assert_eq!(eight.comment, Some("eight"));
    }
    assert_eq!(
        limit_of(&limits, "domain", "www.example.net"),
        Some(&limit(1, 1, 1))
    );
}

#[test]
fn several_files_and_code_give_overrides() {
    let json = |id| format!(r#"{{"any:{id}": {{"burst": 1, "count": 1, "period": "1s"}}}}"#);
    let builder = || {
        names()
            .overrides_text(Json, &json("x"))
            .override_for("any", "z", limit(2, 2, 2))
    };
    let limits: Limits = builder().overrides_text(Json, &json("y")).build().unwrap();
    let any = limits.get("any").unwrap();
    let order: Vec<_> = any.overrides().map(|own| own.id).collect();
    assert_eq!(order, ["z", "x", "y"]);
    let error = builder()
        .overrides_text(Json, &json("z"))
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "limits:1: limit `any`: id `z`: it has an override already, for `z`: remove one of them"
    );
}

#[test]
fn limit_can_be_written_in_one_line() {
    let texts = [
        (
            Json,
            r#"{"a": "10/s burst 20", "b": "5 in any 15m", "c": "1000 per calendar day", "d": "unlimited"}"#,
        ),
        (
            Yaml,
            "a: 10/s burst 20\nb: 5 in any 15m\nc: 1000 per calendar day\nd: unlimited\n",
        ),
        (
            Toml,
            "a = '10/s burst 20'\nb = '5 in any 15m'\nc = '1000 per calendar day'\nd = 'unlimited'\n",
        ),
    ];
    for (language, text) in texts.into_iter().filter(|(language, _)| reads(*language)) {
        let limits = crate::defaults(language, text).unwrap();
        for (name, line) in [
            ("a", "10/s burst 20"),
            ("b", "5 in any 15m"),
            ("c", "1000 per calendar day"),
            ("d", "unlimited"),
        ] {
            let expected: Limit = line.parse().unwrap();
            assert_eq!(
                limits.get(name).unwrap().limit,
                Some(expected),
                "{language:?}"
            );
        }
    }
    let keyed = r#"{"any:x": "100/s burst 200", "any:y": "blocked"}"#;
    let limits = overrides(Json, keyed).unwrap();
    for (id, line) in [("x", "100/s burst 200"), ("y", "blocked")] {
        let expected: Limit = line.parse().unwrap();
        assert_eq!(limit_of(&limits, "any", id), Some(&expected));
    }
}
