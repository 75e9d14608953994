//! Files of limits, in three languages.

use tollgate::{
    Limits,
    id::Id,
    limit::{Language, LimitsBuilder, NamedLimit},
};

/// The most values that a file has without writing each of them out: those of YAML's aliases.
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

/// Checks a file. Its first byte says what it is: `y`, `j` or `t` for defaults in YAML, JSON or
/// TOML, and a capital for overrides.
///
/// # Panics
///
/// If it does not hold.
pub fn check(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let language = match kind.to_ascii_lowercase() {
        b'j' => Language::Json,
        b't' => Language::Toml,
        _ => Language::Yaml,
    };
    let builder = match kind.is_ascii_uppercase() {
        true => Limits::builder()
            .defaults_text(Language::Json, NAMES)
            .overrides_text(language, &text),
        false => Limits::builder().defaults_text(language, &text),
    };
    check_builder(&builder, &text);
}

fn check_builder(builder: &LimitsBuilder, text: &str) {
    match builder.build() {
        Ok(limits) => {
            let size: usize = limits.iter().map(|named| 1 + named.overrides().len()).sum();
            assert!(size <= text.len() + MAX_ALIASED, "{size}");
            survives_writing(&limits);
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            // A parser that misses something at the end may say that it is after the last line.
            let lines = text.split(['\n', '\r']).count() as u64;
            let line = error.line().unwrap_or(1);
            assert!((1..=lines + 1).contains(&line), "{error}");
        }
    }
}

/// What limits are written as loads to the same look-ups.
fn survives_writing(limits: &Limits) {
    let defaults = serde_json::to_string(&limits.as_defaults()).expect("defaults are JSON");
    let overrides = serde_json::to_string(&limits.as_overrides()).expect("overrides are JSON");
    let again = Limits::builder()
        .defaults_text(Language::Json, &defaults)
        .overrides_text(Language::Json, &overrides)
        .build();
    let again = again.unwrap_or_else(|error| panic!("{error}: {defaults} {overrides}"));
    assert_eq!(again.iter().count(), limits.iter().count());
    for (one, other) in limits.iter().zip(again.iter()) {
        assert_same(one, other);
    }
}

fn assert_same(one: &NamedLimit, other: &NamedLimit) {
    assert_eq!(one.name, other.name);
    assert_eq!(one.limit, other.limit);
    assert!(one.overrides().eq(other.overrides()), "{one:?} {other:?}");
    for own in one.overrides().filter(|own| own.id != Id::MISSING) {
        let folded = one.name.format().fold(own.id).expect("it was loaded");
        assert_eq!(folded.as_str(), own.folded);
        assert_eq!(one.override_of(&folded), Some(own));
        assert_eq!(other.limit_of(&folded), Some(own.limit));
    }
}
