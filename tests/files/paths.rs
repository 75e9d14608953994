//! The names of files, and the errors for those that cannot be read.

use std::path::Path;

use tollgate::{Limits, limit::LimitsError};

use crate::{TOML, YAML, limit, limit_of, names, support::Folder};

/// Returns the error for a file without its path. It is the same for defaults and for overrides.
fn refusal(path: &Path) -> String {
    let said = |error: LimitsError| {
        assert_eq!(error.path(), Some(path));
        let message = error.to_string();
        let rest = message.strip_prefix(&path.display().to_string());
        rest.unwrap_or_else(|| panic!("no path in {message}"))
            .to_owned()
    };
    let of_defaults = said(names().defaults_file(path).build().unwrap_err());
    let of_overrides = said(names().overrides_file(path).build().unwrap_err());
    assert_eq!(of_defaults, of_overrides);
    of_defaults
}

#[test]
fn extension_selects_the_language() {
    let folder = Folder::new();
    let yaml = "ip:\n  burst: 1\n  count: 2\n  period: 3s\n";
    let json = r#"{"ip": {"burst": 1, "count": 2, "period": "3s"}}"#;
    let toml = "[ip]\nburst = 1\ncount = 2\nperiod = '3s'\n";
    for (name, content, is_read) in [
        ("a.yml", yaml, cfg!(feature = "yaml")),
        ("a.yaml", yaml, cfg!(feature = "yaml")),
        ("a.b.json", json, true),
        ("a.toml", toml, cfg!(feature = "toml")),
    ] {
        if is_read {
            let path = folder.write(name, content);
            let limits = names().defaults_file(path).build().unwrap();
            assert_eq!(limit_of(&limits, "ip", "10.0.0.2"), Some(&limit(1, 2, 3)));
        }
    }
}

#[test]
fn other_extensions_are_refused() {
    let folder = Folder::new();
    for name in [
        "limits",
        "limits.txt",
        "limits.json.bak",
        ".json",
        "json",
        "limits.",
        "limits.jsonc",
    ] {
        let path = folder.write(name, "{}");
        assert_eq!(
            refusal(&path),
            ": its name has no known extension: use .yml, .yaml, .json or .toml",
            "{name}"
        );
    }
}

#[test]
fn other_encodings_than_utf8_are_refused() {
    let folder = Folder::new();
    let utf16: Vec<_> = "\u{feff}{}"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for content in [&b"{\"\xe4\": {}}"[..], &utf16, b"\xff"] {
        let path = folder.write("a.json", content);
        assert_eq!(refusal(&path), ": it is not UTF-8: save it as UTF-8");
    }
}

#[test]
fn languages_of_features_that_are_off_are_named() {
    let folder = Folder::new();
    let languages = [
        (YAML, "yaml", "a.yml", cfg!(feature = "yaml")),
        (YAML, "yaml", "a.yaml", cfg!(feature = "yaml")),
        (TOML, "toml", "a.toml", cfg!(feature = "toml")),
    ];
    for (language, feature, name, _) in languages.into_iter().filter(|(.., is_on)| !is_on) {
        let expected =
            format!(": it needs tollgate's feature `{feature}`: enable it, or write JSON");
        let path = folder.write(name, "");
        assert_eq!(refusal(&path), expected);
        let error = Limits::builder()
            .overrides_text(language, "")
            .build()
            .unwrap_err();
        assert_eq!(error.to_string(), format!("{language}{expected}"));
    }
}

const ONE: &str = r#"{"burst": 1, "count": 1, "period": "1s""#;

#[test]
fn name_that_is_misspelt_in_the_defaults_is_shown_in_both_files() {
    let folder = Folder::new();
    let defaults = folder.write("defaults.json", format!("{{\n\"reqests\": {ONE}}}}}"));
    let overrides = format!("[\n\n{{\"requests\": {ONE}, \"ids\": [\"x\"]}}}}]");
    let overrides = folder.write("overrides.json", overrides);
    let builder = Limits::builder()
        .defaults_file(&defaults)
        .overrides_file(&overrides);
    let error = builder.build().unwrap_err();
    let (defaults, overrides) = (defaults.display(), overrides.display());
    let expected = format!(
        "{overrides}:3: limit `requests`: no limit has this name: did you mean `reqests`? (it is defined \
         in {defaults}:2: if it is misspelt, correct it there)"
    );
    assert_eq!(error.to_string(), expected);
}

/// The id formats whose feature is off.
#[cfg(not(feature = "domains"))]
#[test]
fn formats_of_features_that_are_off_are_named() {
    use tollgate::{id::IdFormat, limit::LimitName};

    use crate::JSON;

    for (format, name) in [
        (IdFormat::Domain, "domain"),
        (IdFormat::RegIdDomain, "regId:domain"),
    ] {
        let expected = format!(
            "limit `certificates`: ids in the format {name} need tollgate's feature `domains`: enable it in \
             Cargo.toml, or use another format"
        );
        let in_code = LimitName::new("certificates", 3, format);
        let error = Limits::builder().name(in_code).build().unwrap_err();
        assert_eq!(error.to_string(), expected);
        let text = format!("{{\n\"certificates\": {{\"number\": 3, \"id\": \"{name}\"}}}}");
        let error = Limits::builder().defaults_text(JSON, &text).build();
        assert_eq!(
            error.unwrap_err().to_string(),
            format!("limits.json:2: {expected}")
        );
    }
}
