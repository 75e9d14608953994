//! What defaults say.

use tollgate::{
    Limits,
    id::IdFormat,
    limit::{
        Language::{self, Json, Toml, Yaml},
        LimitName, NamedLimit,
    },
};

use crate::{defaults, facts, limit, limit_of, names, reads};

/// The same defaults in each language.
const NUMBERED: [(Language, &str); 3] = [
    (
        Yaml,
        "a: {number: 6, id: regId, burst: 1, count: 2, period: 3s}\nb: {number: 7}\nc: {}\n",
    ),
    (
        Json,
        r#"{"a": {"number": 6, "id": "regId", "burst": 1, "count": 2, "period": "3s"}, "b": {"number": 7}, "c": {}}"#,
    ),
    (
        Toml,
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
        let NamedLimit { name, limit: a, .. } = limits.get("a").unwrap();
        assert_eq!(*name, LimitName::new("a", 6, "regId".parse().unwrap()));
        assert_eq!(*a, Some(limit(1, 2, 3)));
        let NamedLimit { name, limit, .. } = limits.get("b").unwrap();
        assert_eq!((name.number(), limit), (Some(7), &None));
        assert_eq!(limits.get("c").unwrap().name.key().to_string(), "c");
        let order: Vec<_> = limits.iter().map(|named| named.name.as_str()).collect();
        assert_eq!(order, ["a", "b", "c"]);
    }
}

#[test]
fn languages_say_the_same() {
    let read = NUMBERED
        .into_iter()
        .filter(|(language, _)| reads(*language));
    let said: Vec<_> = read
        .map(|(language, text)| facts(&defaults(language, text).unwrap()))
        .collect();
    assert!(said.iter().all(|facts| *facts == said[0]), "{said:#?}");
}

#[test]
fn numbers_may_be_quoted() {
    for (language, text) in [
        (Yaml, "a: {burst: '1', count: \"2\", period: '3s'}"),
        (
            Json,
            r#"{"a": {"burst": "1", "count": "2", "period": "3s"}}"#,
        ),
        (Toml, "a = {burst = '1', count = \"2\", period = '3s'}"),
    ] {
        if reads(language) {
            let limits = defaults(language, text).unwrap();
            assert_eq!(limits.get("a").unwrap().limit, Some(limit(1, 2, 3)));
        }
    }
}

#[test]
fn values_alone_are_enough_for_declared_names() {
    let json =
        r#"{"account": {"burst": 1, "count": 2, "period": "3s"}, "ip": {"id": "ipAddress"}}"#;
    let limits = names().defaults_text(Json, json).build().unwrap();
    assert_eq!(limit_of(&limits, "account", "5"), Some(&limit(1, 2, 3)));
    assert_eq!(limit_of(&limits, "ip", "::1"), None);
}

#[test]
fn several_files_and_code_come_together() {
    let text = |name| format!(r#"{{"{name}": {{"burst": 1, "count": 2, "period": "3s"}}}}"#);
    let limits = Limits::builder()
        .defaults_text(Json, &text("b"))
        .defaults_text(Json, &text("a"))
        .limit("c", limit(4, 5, 6))
        .build()
        .unwrap();
    let order: Vec<_> = limits.iter().map(|named| named.name.as_str()).collect();
    assert_eq!(order, ["c", "b", "a"]);
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
        let limits = builder
            .defaults_text(Language::Json, &text)
            .build()
            .unwrap();
        assert_eq!(limits.get("orders").unwrap().name, orders, "{entry}");
    }
}
