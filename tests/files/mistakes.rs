//! What is said of files with one mistake each.

use tollgate::{
    Limits,
    id::IdFormat,
    limit::{LimitName, LimitsError},
};

use crate::{JSON, Language, TOML, YAML, defaults, has_format_of, names, overrides, reads};

/// Texts of defaults and what is said of each: a language and its text, with `\\n` where a line ends, and below it the line of the
/// mistake and the beginning of its message.
const IN_DEFAULTS: &str = r#"
yaml
    it contains no limits, so nothing would be limited: add some, or do not load the file
yaml - a
    1: expected a map from limit names to their values, found a list
yaml text
    1: expected a map from limit names to their values, found `text`
yaml \na: 5
    2: limit `a`: expected a map, found `5`: write its values, such as `10/s burst 20`, or `{}` to turn it off
yaml a:\nb: {}
    1: limit `a`: it has no values
yaml a:\nburst: 1\ncount: 1\nperiod: 1s
    2: burst is a field of a limit, and not a limit: indent it below the name of its limit
json {"a": {\n"period": {"seconds": 1}}}
    2: limit `a`: expected a single value, found a map
yaml a: {rate: 10/s}
    1: limit `a`: unknown field `rate`: write `burst: 10, count: 10, period: 1s` instead
yaml a: {rate: 5 in any 15m}
    1: limit `a`: unknown field `rate`: write `limit: 5, window: 15m0s` instead
json {"a": {"rate": "fast"}}
    1: limit `a`: unknown field `rate`: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, number, id, shadow, lease, description, docs
yaml b: {}\na: 10/s brst 20
    2: limit `a`: `10/s brst 20` is not a limit: write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`
yaml a: {burst:20, count: 10, period: 1s}
    1: limit `a`: a space is missing after the colon: write `burst: …`
yaml limits:\n  a: {burst: 20, count: 10, period: 1s}\n  b: 10/s
    1: the names of limits stand at the top: remove `limits:`, and the indentation below it
yaml a:\n  burst: 1\n  perod: 1s
    3: limit `a`: unknown field `perod`: did you mean `period`?
yaml a: {ids: [1]}
    1: limit `a`: unknown field `ids`: they belong to overrides
yaml a: &x {burst: 1, count: 1, period: 1s}\nb:\n  <<: *x
    3: limit `b`: unknown field `<<`: write the fields out
json {"a":\n{"tiers": []}}
    2: limit `a`: tiers is empty, so nothing would ever pass: list at least one
yaml a: {burst: 1, burst: 2}
    1: limit `a`: burst appears twice, first in line 1: remove one of them
yaml a: {burst: 1, count: 1}
    1: limit `a`: period is missing
yaml a:\n  burst: -1
    2: limit `a`: burst is `-1`: use a whole number up to 4294967295, in digits only
yaml a: {burst: 1.5}
    1: limit `a`: burst is `1.5`
yaml a: {count: 0x10}
    1: limit `a`: count is `0x10`
yaml a: {burst: 0, count: 1, period: 1s}
    1: limit `a`: burst is 0, so nothing would ever pass: use at least 1
json {"a":\n{"burst": 1, "count": 0, "period": "1s"}}
    2: limit `a`: count is 0, so no token would ever come back
toml [a]\nburst = 1\ncount = 1\nperiod = '0s'
    4: limit `a`: period is 0: use the time in which `count` tokens come back, such as `1s` or `3h`
yaml a: {burst: 1, count: 1, period: 1ns}
    1: limit `a`: period is not a whole number of microseconds: round it to one
yaml a: {burst: 4294967295, count: 1, period: 1h}
    1: limit `a`: an empty bucket would take more than 71 years (2^51 µs) to fill: lower the burst or the period, or raise the count
yaml a:\n  burst: 1\n  count: 1\n  period: 60
    4: limit `a`: period: `60` is not a duration: add a unit, one of ns, us, ms, s, m, h
yaml a: {}\n\na: {}
    3: limit `a`: it is defined twice, first in limits.yml:1
yaml \na b: {}
    2: limit `a b`: `a b` is not a limit name: start with an ASCII letter, and continue with letters, digits, `_`, `.` or `-`
yaml a: {number: 1}\nb: {number: 1}
    2: limit `b`: it has the number 1, which `a` has too: give one of them a number that no limit has had before
yaml a: {id: regid}
    1: limit `a`: `regid` is not an id format: use one of opaque, ipAddress, ipv6RangeCIDR, regId, domain, fqdnSet, regId:domain, regId:fqdnSet
yaml a:\n  tiers: 5
    2: limit `a`: expected a list of `{limit, window, active, cooldown}`, the lowest tier first, found `5`
yaml a:\n  tiers:\n  - {limit: 5}
    3: limit `a`: window is missing
json {"a": {"tiers": [{"limit": 5, "window": "1s"},\n{"limit": 5, "window": "1s"}]}}
    2: limit `a`: active is missing
json {"a": {"tiers": [\n{"limit": 5,\n"window": "1s",\n"limit": 6}]}}
    4: limit `a`: limit appears twice, first in line 2
json {"a": {"tiers": [\n{"burst": 5, "window": "1s"}]}}
    2: limit `a`: unknown field `burst`: a tier has a limit
json {"a": {"tiers": [\n{"limit": 5, "period": "1s"}]}}
    2: limit `a`: unknown field `period`: a tier has a window
json {"a": {"tiers": [\n{"limit": 5, "window": "1s",\n"skippable": "yes"}]}}
    3: limit `a`: skippable is `yes`: write true or false
json {"a": {"tiers": [\n{"limit":\n0, "window": "1s"}]}}
    3: limit `a`: tier 0: limit is 0, so no request could ever enter the tier: use at least 1, for the request that enters the tier
json {"a": {"tiers": [\n{"limit": 1,\n"window": "0s"}]}}
    3: limit `a`: tier 0: window is 0: use a duration such as `1s`, or `infinite`
json {"a": {"tiers": [\n{"limit": 1, "window": "1s",\n"cooldown": "1000000h"}]}}
    3: limit `a`: tier 0: cooldown is more than 71 years (2^51 µs): lower it, or make it `infinite`
json {"a": {"tiers": [\n{"window": "1s",\n"limit": 4097}]}}
    3: limit `a`: tier 0: limit 4097 is above 4096 in a window that slides, where each unit has to be remembered: lower it, make the window at least as long as active (and, in the lowest tier, cooldown at least as long as the window), or use burst, count and period
json {"a": {"tiers": [{"limit": 5, "window": "1s"}],\n"burst": 5}}
    2: limit `a`: it mixes tiers with burst, count and period, which are different kinds of limit: keep one of them
json {"a": {"limit": 5, "window": "15m",\n"max_wait": "2s"}}
    2: limit `a`: max_wait is only for burst, count and period, because no other kind of limit has a line to wait in
json {"a": {"burst": 1, "count": 1, "period": "1s",\n"max_wait": "1000000h"}}
    2: limit `a`: max_wait and the time in which an empty bucket fills are more than 71 years (2^51 us) together: lower max_wait
json {"a": {"limit": 0,\n"window": "1s"}}
    1: limit `a`: limit is 0, so nothing would ever pass
json {"a": {"window": "1s",\n"limit": 4097}}
    2: limit `a`: limit is above 4096 in a window, where each unit has to be remembered: lower it, or use a quota, or burst, count and period
json {"a": {"limit": 5,\n"window": "0s"}}
    2: limit `a`: window is 0: use the time in which at most `limit` pass, as `1s` or `15m`
json {"a": {"limit": 5,\n"window": "1000000h"}}
    2: limit `a`: window is more than 71 years (2^51 us)
yaml a:\n  quota: 5\n  per: days
    3: limit `a`: per is `days`: did you mean `day`?
json {"a": {"quota": 5, "per": "fortnight"}}
    1: limit `a`: per is `fortnight`: write `hour`, `day`, `week` or `month`, or a duration such as `24h`, which starts with the first request
json {"a": {"quota": 5,\n"per": "0s"}}
    2: limit `a`: per is 0: use the length of the period, as `24h`, or `hour`, `day`, `week` or `month`
json {"a": {"quota": 0,\n"per": "day"}}
    1: limit `a`: quota is 0, so nothing would ever pass
json {"a": {"quota": 5, "per": "day",\n"utc_offset": "+24:00"}}
    2: limit `a`: utc_offset is `+24:00`: write an offset from UTC as `+02:00` or `-03:30`, from `-23:59` to `+23:59`
json {"a": {"quota": 5, "per": "24h",\n"utc_offset": "+02:00"}}
    2: limit `a`: utc_offset is for quotas per hour, day, week or month; a period of this length starts with the first request: remove it
json {"a": {"limit": 5, "window": "1s",\n"burst": 5}}
    1: limit `a`: it mixes burst, count and period with limit and window, which are different kinds of limit
toml [a]\nquota = 5\nblocked = true\nunlimited = true\ntiers = []\nperiod = '1s'\nwindow = '1s'
    3: limit `a`: it mixes unlimited with blocked and with tiers and with burst, count and period and with limit and window and with quota and per, which are different kinds of limit
"#;

/// Of names that are declared in code.
const IN_DECLARED: &str = r#"
yaml \naccounts: {}
    2: limit `accounts`: no limit has this name: did you mean `account`?
json {"IP":\n{}}
    1: limit `IP`: no limit has this name: did you mean `ip`?
toml [requests]
    1: limit `requests`: no limit has this name: known are account, account_domain, account_set, any, domain, ip, numbered, range, set
yaml ip:\n  number: 5
    1: limit `ip`: the code has no number and id ipAddress for it: write the same, or neither
yaml numbered: {number: 7}
    1: limit `numbered`: the code has number 6 and id regId for it
"#;

const IN_OVERRIDES: &str = r#"
yaml \ntext
    2: expected a list of `- name: {burst, count, period, ids}`, found `text`
yaml any: 5
    1: limit `any`: expected a map, found `5`: write its values, such as burst, count and period, and its ids
yaml - any:\n
    1: limit `any`: it has no values
yaml - any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids: [x]\n
    2: burst is a field of a limit, and not a limit
yaml \nany:x:\n
    2: limit `any`: id `x`: it has no values: write its values, such as `10/s burst 20`
yaml - any: 7 per day
    1: limit `any`: values are not written as `7 per day`: write `{burst: 7, count: 7, period: 24h0m0s}`
yaml - any:\n    burst: 1\n    id: [x]\n
    3: limit `any`: unknown field `id`: list the ids below `ids`
json {"any": {\n"number": 6}}
    2: limit `any`: unknown field `number`: known are burst, count, period, max_wait, limit, window, quota, per, utc_offset, concurrent, hold, tiers, unlimited, blocked, ids
json {"any": {"ids": ["x"],\n"ids": ["y"]}}
    2: limit `any`: ids appears twice, first in line 1
json {"any:x": {}}
    1: limit `any`: id `x`: burst is missing
yaml any: {burst: 1, count: 1, period: 1s}
    1: limit `any`: ids is missing
yaml \n- nosuch: {burst: 1, count: 1, period: 1s, ids: [x]}
    2: limit `nosuch`: no limit has this name: known are account, account_domain, account_set, any, domain, ip, range, set
yaml :x: {burst: 1, count: 1, period: 1s}
    1: the key of an override is `:x`: write the limit's name, a colon and an id
json {"any:x":\n{"burst": 1, "count": 1, "period": "1s", "ids": ["y"]}}
    2: limit `any`: id `x`: unknown field `ids`: the key has the id already
yaml - any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids: []\n
    5: limit `any`: ids is empty, so the override applies to nobody: list its clients, or remove it
yaml - any:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n
    5: limit `any`: ids is empty, so the override applies to nobody
yaml any: {burst: 1, count: 1, period: 1s, ids: x}
    1: limit `any`: expected a list of ids, found `x`
yaml any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - x\n  - comment: y\n
    7: limit `any`: id is missing: an id stands alone, or has a comment beside it
yaml any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - id: x\n    coment: y\n
    7: limit `any`: unknown field `coment`: did you mean `comment`?
toml [any]\nburst = 1\ncount = 1\nperiod = '1s'\n[[any.ids]]\nid = 'x'\nnote = 'y'
    7: limit `any`: unknown field `note`: known are id, comment
yaml any: {burst: 1, count: 1, period: 1s, ids: [{id: x, id: y}]}
    1: limit `any`: id appears twice, first in line 1
yaml overrides:\n  any: {burst: 1, count: 1, period: 1s, ids: [x]}
    1: the names of limits stand at the top: remove `overrides:`, and the indentation below it
yaml any:\n  burst: 1\n  count: 1\n  period: 1s\n  ids:\n  - x\n  - x\n
    7: limit `any`: id `x`: it has an override already, for `x` in limits.yml:6
yaml - any:x: {burst: 1, count: 1, period: 1s}\n- any: {burst: 1, count: 1, period: 1s, ids: [x]}\n
    2: limit `any`: id `x`: it has an override already, for `x` in limits.yml:1
yaml - ip:2001:0db8::1: {burst: 1, count: 1, period: 1s}\n- ip:2001:db8::1: {burst: 1, count: 1, period: 1s}\n
    2: limit `ip`: id `2001:db8::1`: it has an override already, for `2001:0db8::1` in limits.yml:1
toml [['ip']]\nburst = 1\ncount = 1\nperiod = '1s'\nids = ['10.0.0.1']\n[[ip]]\nburst = 1\ncount = 1\nperiod = '1s'\nids = [\n'::ffff:10.0.0.1']
    11: limit `ip`: id `::ffff:10.0.0.1`: it has an override already, for `10.0.0.1` in limits.toml:5
json {\n"eny": []}
    2: limit `eny`: no limit has this name: did you mean `any`?
json [\n{}]
    2: expected a list of `- name: {burst, count, period, ids}`, found an empty map
"#;

/// What is no YAML, whatever it says.
const IN_YAML: &str = r#"
yaml a:\n\tburst: 1\n
    2: a tab indents this line: YAML takes spaces only
yaml a:\n  burst:\t1\n  count: @\n
    3: unexpected character: `@'
yaml a: {burst: 1
    1: unclosed bracket '{'
yaml \na: 'x\n
    3: invalid indentation in multiline quoted scalar
yaml a: {}\n b: {}\n
    2: this line is indented differently from those around it: indent all fields of a limit equally
yaml a: {}\nb\n
    2: a `:` is missing: write the name of a limit or a field, a colon, a space and a value
yaml a: b: c\n
    1: a value and a `:` after it: indent this line like the one before, or put text with a `:` in quotes
yaml a: {}]\n
    1: misplaced bracket
yaml a: "\q"\n
    1: while parsing a quoted scalar, found unknown escape character
yaml a: {}\n: {}\n
    2: a key is missing before a `:`
yaml ? [a]\n: {}\n
    1: a key is a list: use text
yaml a: {}\n---\nb: {}\n
    2: a second document begins: use one for each file
yaml \na: *b\n
    2: while parsing node, found unknown anchor: put text that begins with `*` in quotes
yaml a: {}\nb: &x [*x]\n
    2: an alias refers to its own anchor: write the value out
yaml a: !b!c {}\n
    1: the handle wasn't declared
yaml %YAML 3.0\n---\na: {}\n
    1: unsupported YAML major version
yaml a: \1\n
    1: unexpected character: `\u{1}'
"#;

/// Texts, and the line of the mistake. What is said of it is up to the parsers of these languages.
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
fn mistakes_in_defaults_are_told_with_their_lines_and_what_to_change() {
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
fn mistakes_in_overrides_are_told_with_their_lines_and_what_to_change() {
    refused(overrides, IN_OVERRIDES);
}

#[test]
fn texts_that_are_not_in_their_language_are_told_with_the_line() {
    for build in [defaults, overrides] {
        refused(build, IN_YAML);
        for (language, text, line) in OTHERS.iter().filter(|(language, ..)| reads(language)) {
            let error = build(language, text).unwrap_err();
            assert_eq!(error.line(), Some(*line), "{text:?}: {error}");
        }
    }
}
