//! The forms that defaults and overrides may have, which all say the same.

use tollgate::{
    Limits,
    id::IdFormat,
    limit::{LimitName, NamedLimit},
};

use crate::{
    JSON, Language, TOML, YAML, defaults, facts, limit, names, override_of, overrides, reads,
};

/// Two names, three ids and two limits, in every form that has no comments.
const FORMS: &[(Language, &str)] = &[
    // A list, in blocks.
    (
        YAML,
        "- ip:\n    burst: 1\n    count: 2\n    period: 3s\n    ids:\n      - 10.0.0.2\n      - 2001:0db8::1\n\
         - account:\n    burst: 4\n    count: 5\n    period: 6s\n    ids:\n      - 12345678\n",
    ),
    // With lists as far to the left as their keys.
    (
        YAML,
        "---\n- ip:\n    ids:\n    - 10.0.0.2\n    - 2001:0db8::1\n    burst: 1\n    count: 2\n    period: 3s\n\
         - account:\n    ids:\n    - 12345678\n    burst: 4\n    count: 5\n    period: 6s\n...\n",
    ),
    // In one line each.
    (
        YAML,
        "- ip: {burst: 1, count: 2, period: 3s, ids: [10.0.0.2, 2001:0db8::1]}\n\
         - account: {burst: 4, count: 5, period: 6s, ids: [12345678]}\n",
    ),
    // The same name in many items.
    (
        YAML,
        "- ip: {burst: 1, count: 2, period: 3s, ids: [10.0.0.2]}\n\
         - ip: {burst: 1, count: 2, period: 3s, ids: ['2001:0db8::1']}\n\
         - account: {burst: 4, count: 5, period: 6s, ids: [\"12345678\"]}\n",
    ),
    // A map of names.
    (
        YAML,
        "ip: {burst: 1, count: 2, period: 3s, ids: [10.0.0.2, 2001:0db8::1]}\n\
         account: {burst: 4, count: 5, period: 6s, ids: [12345678]}\n",
    ),
    // One item with many names.
    (
        YAML,
        "- ip: {burst: 1, count: 2, period: 3s, ids: [10.0.0.2, 2001:0db8::1]}\n  \
           account: {burst: 4, count: 5, period: 6s, ids: [12345678]}\n",
    ),
    // Ids in maps.
    (
        YAML,
        "- ip:\n    burst: 1\n    count: 2\n    period: 3s\n    ids:\n      - id: 10.0.0.2\n      - id: 2001:0db8::1\n\
         - account:\n    burst: 4\n    count: 5\n    period: 6s\n    ids:\n      - id: 12345678\n",
    ),
    // Names with ids for keys.
    (
        YAML,
        "ip:10.0.0.2: {burst: 1, count: 2, period: 3s}\n\
         ip:2001:0db8::1:\n  burst: 1\n  count: 2\n  period: 3s\n\
         ? account:12345678\n: {burst: 4, count: 5, period: 6s}\n",
    ),
    // These in a list, mixed with others.
    (
        YAML,
        "- ip:10.0.0.2: {burst: 1, count: 2, period: 3s}\n\
         - ip: {burst: 1, count: 2, period: 3s, ids: [2001:0db8::1]}\n\
         - \"account:12345678\": {burst: 4, count: 5, period: 6s}\n",
    ),
    // Anchors and aliases.
    (
        YAML,
        "- ip: {burst: &one 1, count: 2, period: &period 3s, ids: [&id 10.0.0.2]}\n\
         - ip: {burst: *one, count: 2, period: *period, ids: [2001:0db8::1]}\n\
         - account: {burst: 4, count: 5, period: 6s, ids: &ids [12345678]}\n",
    ),
    (
        JSON,
        r#"[{"ip": {"burst": 1, "count": 2, "period": "3s", "ids": ["10.0.0.2", "2001:0db8::1"]}},
            {"account": {"burst": 4, "count": 5, "period": "6s", "ids": [12345678]}}]"#,
    ),
    (
        JSON,
        "{\t\"ip\":\t{\n\t\"burst\":\t1,\n\t\"count\": 2,\n\t\"period\": \"3s\",\n\t\"ids\": [{\"id\": \"10.0.0.2\"},\t\
         {\"id\": \"2001:0db8::\\u0031\"}]\t},\n\"account\": {\"burst\": 4, \"count\": 5, \"period\": \"6s\", \"ids\": [\"12345678\"]}}",
    ),
    (
        JSON,
        r#"{"ip:10.0.0.2": {"burst": 1, "count": 2, "period": "3s"},
            "ip:2001:0db8::1": {"burst": 1, "count": 2, "period": "3s"},
            "account:12345678": {"burst": 4, "count": 5, "period": "6s"}}"#,
    ),
    // The same name twice, in lists and in the map itself.
    (
        JSON,
        r#"{"ip": [{"burst": 1, "count": 2, "period": "3s", "ids": ["10.0.0.2"]},
                   {"burst": 1, "count": 2, "period": "3s", "ids": ["2001:0db8::1"]}],
            "account": {"burst": 4, "count": 5, "period": "6s", "ids": ["12345678"]}}"#,
    ),
    (
        JSON,
        r#"{"ip": {"burst": 1, "count": 2, "period": "3s", "ids": ["10.0.0.2"]},
            "ip": {"burst": 1, "count": 2, "period": "3s", "ids": ["2001:0db8::1"]},
            "account": {"burst": 4, "count": 5, "period": "6s", "ids": ["12345678"]}}"#,
    ),
    (
        TOML,
        "[ip]\nburst = 1\ncount = 2\nperiod = '3s'\nids = ['10.0.0.2', '2001:0db8::1']\n\
         [account]\nburst = 4\ncount = 5\nperiod = '6s'\nids = [12345678]\n",
    ),
    // Arrays of tables, where one name has several limits.
    (
        TOML,
        "[[ip]]\nburst = 1\ncount = 2\nperiod = '3s'\nids = ['10.0.0.2']\n\
         [[ip]]\nburst = 1\ncount = 2\nperiod = '3s'\nids = [{id = '2001:0db8::1'}]\n\
         [[account]]\nburst = 4\ncount = 5\nperiod = '6s'\n[[account.ids]]\nid = 12345678\n",
    ),
    (
        TOML,
        "['ip:10.0.0.2']\nburst = 1\ncount = 2\nperiod = '3s'\n\
         [\"ip:2001:0db8::1\"]\nburst = 1\ncount = 2\nperiod = '3s'\n\
         ['account:12345678']\nburst = 4\ncount = 5\nperiod = '6s'\n",
    ),
    (
        TOML,
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
fn all_forms_say_the_same_whatever_their_line_ends_and_byte_order_marks() {
    let expected = expected();
    for (language, text) in FORMS.iter().filter(|(language, _)| reads(language)) {
        let windows = text.replace('\n', "\r\n");
        let with_mark = [text, &*windows].map(|text| format!("\u{feff}{text}"));
        for text in [text, &*windows, &with_mark[0], &with_mark[1]] {
            let limits = overrides(language, text).unwrap_or_else(|e| panic!("{e} in {text}"));
            assert_eq!(facts(&limits), expected, "{text:?}");
        }
    }
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
fn file_may_say_what_code_says_in_part_or_whole() {
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
