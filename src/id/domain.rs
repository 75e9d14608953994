//! `domain`: a name that can be registered, by the [public suffix list](https://publicsuffix.org).

use arrayvec::ArrayString;

use super::canonical_id::{CanonicalId, IdProblem};

/// The longest name, in characters (RFC 1035, without the dot at the end).
const MAX_NAME: usize = 253;

const MAX_LABEL: usize = 63;

const FORM: IdProblem = IdProblem::Form(
    "use a name of two labels or more, such as `example.com`, in ASCII letters, digits and `-`",
);

const ADDRESS: IdProblem = IdProblem::Form("an address has no registered domain: use a name");

pub(super) fn fold(text: &str) -> Result<CanonicalId<'_>, IdProblem> {
    let name = name(text.strip_prefix("*.").unwrap_or(text))?;
    let folded = match lower_case(name) {
        None => CanonicalId::same(registrable(name)?),
        Some(name) => CanonicalId::canonical(text, registrable(&name)?.into()),
    };
    let wider = folded.as_str().len() < text.strip_suffix('.').unwrap_or(text).len();
    Ok(folded.wider(wider))
}

/// The name in `text`, without a dot at its end, if it has a name's form.
pub(super) fn name(text: &str) -> Result<&str, IdProblem> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    if !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ADDRESS);
    }
    let has_form = name.len() <= MAX_NAME && name.contains('.') && name.split('.').all(is_label);
    has_form.then_some(name).ok_or(FORM)
}

/// A name in lower case, unless it is already.
pub(super) fn lower_case(name: &str) -> Option<ArrayString<MAX_NAME>> {
    let has_capitals = name.bytes().any(|byte| byte.is_ascii_uppercase());
    let mut lower = has_capitals.then(|| ArrayString::from(name).ok())??;
    lower.make_ascii_lowercase();
    Some(lower)
}

/// The part of a lower-case name that can be registered. A public suffix stands for itself.
#[cfg(feature = "domains")]
fn registrable(name: &str) -> Result<&str, IdProblem> {
    Ok(psl::domain_str(name).unwrap_or(name))
}

#[cfg(not(feature = "domains"))]
fn registrable(_: &str) -> Result<&str, IdProblem> {
    Err(IdProblem::Form(
        "it needs tollgate's feature `domains`: enable it",
    ))
}

fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    matches!(bytes.len(), 1..=MAX_LABEL)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        && bytes[0] != b'-'
        && bytes[bytes.len() - 1] != b'-'
}

#[cfg(all(test, feature = "domains"))]
mod tests {
    use crate::id::IdFormat::Domain;

    #[test]
    fn names_fold_into_what_was_registered() {
        for (text, id) in [
            ("example.com", "example.com"),
            ("www.example.com", "example.com"),
            ("a.b.c.example.com", "example.com"),
            ("EXAMPLE.com", "example.com"),
            ("WWW.Example.COM.", "example.com"),
            ("*.example.com", "example.com"),
            ("www.example.co.uk", "example.co.uk"),
            ("co.uk", "co.uk"),
            // Private suffixes are suffixes.
            ("foo.github.io", "foo.github.io"),
            ("bar.foo.github.io", "foo.github.io"),
            ("github.io", "github.io"),
            // Wildcards and exceptions of the list.
            ("a.b.c.ck", "b.c.ck"),
            ("a.www.ck", "www.ck"),
            // A suffix that is not on the list is one label.
            ("db.corp.internal", "corp.internal"),
            ("xn--mller-kva.de", "xn--mller-kva.de"),
        ] {
            assert_eq!(Domain.fold(text).unwrap().as_str(), id, "{text}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let (long_label, long_name) = ("a".repeat(64), "a.".repeat(127));
        for text in [
            "",
            ".",
            "com",
            "localhost",
            "example..com",
            ".example.com",
            "example.com..",
            "-a.com",
            "a-.com",
            "exa mple.com",
            "example.com ",
            "example_a.com",
            "müller.de",
            "10.0.0.1",
            "example.123",
            "example.com:80",
            "http://example.com",
            "example.com/",
            "*.com",
            "*.*.example.com",
            "a.*.example.com",
            "example.com,example.org",
            "::1",
            &format!("{long_label}.com"),
            &format!("{long_name}com"),
        ] {
            assert!(Domain.fold(text).is_err(), "{text:?}");
        }
    }
}
