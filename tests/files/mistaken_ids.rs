//! What is said of ids that are none in their limit's format, or not the one that is meant.

use tollgate::{
    id::Id,
    limit::{
        Language::{self, Json, Toml, Yaml},
        LimitsError,
    },
};

use crate::{has_format_of, names, overrides, reads};

/// A limit's name, ids, and what is to be done about them.
const REFUSED: &[(&str, &[&str], &str)] = &[
    (
        "any",
        &[""],
        "it is empty: use the client's id, or leave it out",
    ),
    (
        "ip",
        &[""],
        "it is empty: use the client's id, or leave it out",
    ),
    (
        "ip",
        &["10.0.0.256", "10.0.0.0/8", "[::1]:80", "example.com"],
        "use an address such as `203.0.113.7` or `2001:db8::1`, without port or mask",
    ),
    (
        "ip",
        &["fe80::1%eth0"],
        "it belongs to `fe80::1`, which shares one bucket: write that if you mean all of it",
    ),
    (
        "range",
        &["2001:db8::/32", "10.0.0.0/8"],
        "use an IPv6 range with a mask of 48 bits, such as `2001:db8::/48`",
    ),
    (
        "range",
        &["2001:db8::1", "2001:db8:0:1::/48"],
        "it belongs to `2001:db8::/48`, which shares one bucket: write that if you mean all of it",
    ),
    (
        "range",
        &["10.0.0.1"],
        "an IPv4 address is in no such range: leave it out",
    ),
    (
        "account",
        &["0012", "12 ", "18446744073709551616"],
        "use a whole number up to 18446744073709551615, without sign or leading zeros",
    ),
    (
        "domain",
        &["com", "müller.de", "http://example.com"],
        "use a name of two labels or more, such as `example.com`, in ASCII letters, digits and `-`",
    ),
    (
        "domain",
        &["www.example.com", "*.example.com"],
        "it belongs to `example.com`, which shares one bucket: write that if you mean all of it",
    ),
    (
        "domain",
        &["10.0.0.1"],
        "an address has no registered domain: use a name",
    ),
    (
        "set",
        &[
            "example.com, example.org",
            "example.com,",
            "a379a6f6eeafb9a55e378c118034e2751e682fab9f2d30ab13d2125586ce1947",
        ],
        "use names of two labels or more in ASCII, or addresses, with a comma and no space between them",
    ),
    (
        "account_domain",
        &["12345678"],
        "use an account's number, a colon, and a name or names: `12345678:example.com`",
    ),
    (
        "account_domain",
        &["example.com:12345678", "07:example.com"],
        "use a whole number up to 18446744073709551615, without sign or leading zeros",
    ),
    (
        "account_domain",
        &["7:com"],
        "use a name of two labels or more, such as `example.com`, in ASCII letters, digits and `-`",
    ),
    (
        "account_domain",
        &["7:www.example.com"],
        "it belongs to `7:example.com`, which shares one bucket: write that if you mean all of it",
    ),
    (
        "account_set",
        &["7:", "7:example.com example.org"],
        "use names of two labels or more in ASCII, or addresses, with a comma and no space between them",
    ),
];

/// The limit, the id, and what is said of it, after the place.
fn cases() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let known = REFUSED.iter().filter(|(name, ..)| has_format_of(name));
    known.flat_map(|(name, ids, remedy)| {
        let format = names().build().unwrap().get(name).unwrap().name.format();
        let message = move |id| format!("`{id}` is not an id in the format {format}: {remedy}");
        ids.iter().map(move |id| (*name, *id, message(id)))
    })
}

fn error_of(language: Language, name: &str, id: &str) -> Option<LimitsError> {
    let text = match language {
        Yaml => format!(
            "- {name}:\n    burst: 1\n    count: 1\n    period: 1s\n    ids:\n    - '{id}'\n"
        ),
        Json => format!(
            "{{\"{name}\": {{\"burst\": 1, \"count\": 1,\n\"period\": \"1s\",\n\n\"ids\": [\n\"{id}\"]}}}}"
        ),
        _ => format!("[{name}]\nburst = 1\ncount = 1\nperiod = '1s'\nids = [\n'{id}']\n"),
    };
    reads(language).then(|| overrides(language, &text).unwrap_err())
}

#[test]
fn every_format_says_what_to_write() {
    for (name, id, message) in cases() {
        for (language, line) in [(Json, 5), (Yaml, 6), (Toml, 6)] {
            let Some(error) = error_of(language, name, id) else {
                continue;
            };
            let expected = format!("limits:{line}: limit `{name}`: {message}");
            assert_eq!(error.to_string(), expected, "{language:?}");
            let parts = (error.line(), error.limit(), error.id(), error.path());
            assert_eq!(parts, (Some(line), Some(name), Some(id), None), "{error}");
        }
    }
}

#[test]
fn keys_with_ids_say_the_same() {
    for (name, id, message) in cases().filter(|(_, id, _)| !id.is_empty()) {
        let json =
            format!("{{\n\"{name}:{id}\": {{\"burst\": 1, \"count\": 1, \"period\": \"1s\"}}}}");
        let error = overrides(Json, &json).unwrap_err().to_string();
        assert_eq!(error, format!("limits:2: limit `{name}`: {message}"));
    }
}

#[test]
fn reserved_addresses_and_the_shared_id_are_ids() {
    for (name, id) in [
        ("ip", "10.0.0.2"),
        ("ip", "127.0.0.1"),
        ("ip", "::"),
        ("ip", "fe80::1"),
        ("range", "fe80::/48"),
        ("range", "::/48"),
        ("account", "0"),
        ("domain", "github.io"),
        ("domain", "corp.internal"),
        ("ip", Id::MISSING),
        ("account_set", Id::MISSING),
    ] {
        if !has_format_of(name) {
            continue;
        }
        let json = format!(r#"{{"{name}:{id}": {{"burst": 1, "count": 1, "period": "1s"}}}}"#);
        assert!(overrides(Json, &json).is_ok(), "{name}:{id}");
    }
}

#[test]
fn long_ids_are_shown_shortened_and_in_one_line() {
    let id = format!("{}\\n{}", "x".repeat(50), "y".repeat(5_000));
    let error = error_of(Json, "ip", &id).unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "limits:5: limit `ip`: `{}\u{fffd}{}…` is not an id in the format ipAddress: use an address \
             such as `203.0.113.7` or `2001:db8::1`, without port or mask",
            "x".repeat(50),
            "y".repeat(29)
        )
    );
}
