//! Checks files of limits in three languages.

use tollgate::{
    Limit, Limits,
    id::IdFormat,
    limit::{LimitsBuilder, NamedLimit},
};

/// The most values that the aliases of a YAML file can stand for.
const MAX_ALIASED: usize = 100_000;

/// A name in each format, for overrides.
const NAMES: &str = r#"{
    "any": {"burst": 1, "count": 1, "period": "1s"},
    "ip": {"number": 1, "id": "ipAddress", "burst": 20, "count": 20, "period": "1s"},
    "range": {"number": 2, "id": "ipv6RangeCIDR"},
    "account": {"number": 3, "id": "regId", "burst": 300, "count": 300, "period": "3h"},
    "domain": {"number": 4, "id": "domain"},
    "names": {"number": 5, "id": "fqdnSet"},
    "order": {"number": 6, "id": "regId:domain"},
    "renewal": {"number": 7, "id": "regId:fqdnSet"}
}"#;

/// Checks a file. Its first byte selects the kind: `y`, `j` or `t` for defaults in YAML, JSON or TOML, and a capital letter for
/// overrides.
///
/// # Panics
///
/// If a check fails.
pub fn check(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let name = match kind.to_ascii_lowercase() {
        b'j' => "limits.json",
        b't' => "limits.toml",
        _ => "limits.yml",
    };
    let builder = if kind.is_ascii_uppercase() {
        Limits::builder()
            .defaults_text("names.json", NAMES)
            .overrides_text(name, &text)
    } else {
        Limits::builder().defaults_text(name, &text)
    };
    check_builder(&builder, &text);
}

fn check_builder(builder: &LimitsBuilder, text: &str) {
    match builder.build() {
        Ok(limits) => {
            let size: usize = limits.iter().map(|named| 1 + named.overrides().len()).sum();
            assert!(size <= text.len() + MAX_ALIASED, "{size}");
            limits.iter().for_each(is_found_and_survives_writing);
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            // A parser may report a mistake at the end of the file after the last line.
            let lines = text.split(['\n', '\r']).count() as u64;
            let line = error.line().unwrap_or(1);
            assert!((1..=lines + 1).contains(&line), "{error}");
        }
    }
}

/// Each override is found for its client, and each limit can be read back from its text.
fn is_found_and_survives_writing(named: &NamedLimit) {
    named.limit().into_iter().for_each(survives_writing);
    for own in named.overrides() {
        survives_writing(own.limit());
        if own.id() == "\u{ab}missing\u{bb}" {
            continue;
        }
        let found = named.override_of(own.id()).expect("it was loaded");
        assert_eq!(found.limit(), own.limit());
        if named.format() == IdFormat::IpAddress && own.id().contains('/') {
            continue;
        }
        assert_eq!(named.limit_of(own.id()), Ok(Some(own.limit())));
    }
}

fn survives_writing(limit: &Limit) {
    assert_eq!(limit.to_string().parse().as_ref(), Ok(limit));
    let json = serde_json::to_string(limit).expect("values are JSON");
    let again: Limit = serde_json::from_str(&json).expect(&json);
    assert_eq!(again, *limit, "{json}");
}
