//! Names: `domain`, a name that can be registered, by the [public suffix list](https://publicsuffix.org), and `fqdnSet`, a set of
//! names, kept as its SHA-256.

use std::borrow::Cow;

use hmac_sha256::Hash;

use super::{address, id::Remedy};

/// The longest name, in characters (RFC 1035, without the dot at the end).
const MAX_NAME: usize = 253;

const MAX_LABEL: usize = 63;

const NO_NAME: Remedy =
    "use a name of two labels or more, such as `example.com`, in ASCII letters, digits and `-`";

const ADDRESS: Remedy =
    "an address has no registered domain: use a name, or an id format with `domainOrCIDR`";

const NO_IDENTIFIER: Remedy = "use a name of two labels or more, such as `example.com`, or an address such as `203.0.113.7`, without port or mask";

const NO_SET: Remedy = "use names of two labels or more in ASCII, or addresses, with a comma and no space between them";

pub(super) fn fold_domain(text: &str) -> Result<Cow<'_, str>, Remedy> {
    let name = name(text.strip_prefix("*.").unwrap_or(text))?;
    Ok(match lower_case(name) {
        Cow::Borrowed(name) => registrable(name)?.into(),
        Cow::Owned(name) => registrable(&name)?.to_owned().into(),
    })
}

/// Folds a name into its registered domain, and an address into its network.
pub(super) fn fold_domain_or_network(text: &str) -> Result<Cow<'_, str>, Remedy> {
    if let Some(network) = address::fold_network(text) {
        return Ok(network);
    }
    let domain = fold_domain(text);
    domain.map_err(|remedy| match remedy {
        NO_NAME | ADDRESS => NO_IDENTIFIER,
        remedy => remedy,
    })
}

/// Folds a whole name or address, without reducing it to a domain or a network.
pub(super) fn fold_identifier(text: &str) -> Result<Cow<'_, str>, Remedy> {
    member(text).ok_or(NO_IDENTIFIER)
}

/// Returns the part of a lower-case name that can be registered. For a public suffix, it is the suffix itself.
#[cfg(feature = "domains")]
fn registrable(name: &str) -> Result<&str, Remedy> {
    Ok(psl::domain_str(name).unwrap_or(name))
}

#[cfg(not(feature = "domains"))]
fn registrable(_: &str) -> Result<&str, Remedy> {
    Err("it needs tollgate's feature `domains`: enable it")
}

pub(super) fn fold_set(text: &str) -> Result<Cow<'_, str>, Remedy> {
    let members = text.split(',').map(member);
    let mut members = members.collect::<Option<Vec<_>>>().ok_or(NO_SET)?;
    members.sort_unstable();
    members.dedup();
    let hash = Hash::hash(members.join(",").as_bytes());
    let digits = hash.map(|byte| format!("{byte:02x}"));
    Ok(digits.concat().into())
}

/// Canonicalizes an address without a zone, or a name with or without a wildcard.
fn member(text: &str) -> Option<Cow<'_, str>> {
    if let Ok(address) = address::fold_address(text) {
        return (!text.contains('%')).then_some(address);
    }
    let base = text.strip_prefix("*.").unwrap_or(text);
    name(base).ok()?;
    Some(lower_case(text.strip_suffix('.').unwrap_or(text)))
}

/// Returns the name in `text` without a dot at its end, if it has the form of a name.
fn name(text: &str) -> Result<&str, Remedy> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    if !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ADDRESS);
    }
    let has_form = name.len() <= MAX_NAME && name.contains('.') && name.split('.').all(is_label);
    if has_form {
        Ok(name)
    } else if address::fold_address(text).is_ok() {
        Err(ADDRESS)
    } else {
        Err(NO_NAME)
    }
}

fn is_label(label: &str) -> bool {
    let is_of_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    matches!(label.len(), 1..=MAX_LABEL)
        && label.bytes().all(is_of_label)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn lower_case(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        name.to_ascii_lowercase().into()
    } else {
        name.into()
    }
}
