//! Checks ids in each format.

use std::net::{IpAddr, Ipv6Addr};

use tollgate::{
    Limit, Limits,
    id::{IdError, IdFormat},
    limit::LimitName,
};

/// The digits of a SHA-256.
const HASH: usize = 64;

/// The id in files of requests without one.
const MISSING: &str = "\u{ab}missing\u{bb}";

const FORMATS: [IdFormat; 11] = [
    IdFormat::Opaque,
    IdFormat::IpAddress,
    IdFormat::Ipv6Range,
    IdFormat::RegId,
    IdFormat::Domain,
    IdFormat::FqdnSet,
    IdFormat::DomainOrCidr,
    IdFormat::RegIdDomain,
    IdFormat::RegIdDomainOrCidr,
    IdFormat::RegIdIdentValue,
    IdFormat::RegIdFqdnSet,
];

/// Checks the text in every format.
///
/// # Panics
///
/// If a check fails.
pub fn check(input: &[u8]) {
    let text = &*String::from_utf8_lossy(input);
    for format in FORMATS {
        match format.fold(text) {
            Ok(folded) => {
                is_canonical(format, text, folded.as_str());
                has_other_spellings(format, text);
            }
            Err(error) => is_short(&error),
        }
        makes_an_override(format, text);
    }
    pairs_are_their_parts(text);
    standard_library_agrees(text);
}

/// Errors quote text that clients have sent, so they must be short and on one line.
fn is_short(error: &IdError) {
    let message = error.to_string();
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(message.chars().count() < 400, "{message}");
}

/// A folded id is in its format, and folds into itself.
fn is_canonical(format: IdFormat, text: &str, folded: &str) {
    match format {
        _ if text == MISSING => assert_eq!(folded, text),
        IdFormat::Opaque | IdFormat::RegId => assert_eq!(folded, text),
        IdFormat::FqdnSet => assert!(is_hash(folded), "{folded}"),
        IdFormat::RegIdFqdnSet => {
            let (_, hash) = folded.split_once(':').expect("a pair");
            assert!(is_hash(hash), "{folded}");
        }
        IdFormat::Ipv6Range => {
            let range = folded.strip_suffix("/48").expect("a /48");
            let ip: Ipv6Addr = range.parse().expect("an IPv6 address");
            assert_eq!(ip.to_bits() << 48, 0, "{folded}");
            assert_eq!(ip.to_string(), range);
        }
        IdFormat::DomainOrCidr => assert!(is_name_or_network(folded), "{folded}"),
        _ => {}
    }
    let is_set = matches!(format, IdFormat::FqdnSet | IdFormat::RegIdFqdnSet);
    if !is_set || text == MISSING {
        let again = format.fold(folded).expect("it is folded");
        assert_eq!(again.as_str(), folded, "{format}");
    }
}

fn is_name_or_network(folded: &str) -> bool {
    let Some((first, mask)) = folded.split_once('/') else {
        return folded.contains('.') && folded.parse::<IpAddr>().is_err();
    };
    match first.parse().expect("an address") {
        IpAddr::V4(_) => mask == "32",
        IpAddr::V6(ip) => mask == "64" && ip.to_bits() << 64 == 0,
    }
}

fn is_hash(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == HASH && text.bytes().all(is_digit)
}

/// One client has one id, however it is written.
fn has_other_spellings(format: IdFormat, text: &str) {
    if format == IdFormat::Opaque || text == MISSING {
        return;
    }
    let same = |other: &str| assert_eq!(format.fold(other), format.fold(text), "{format}");
    same(&text.to_ascii_uppercase());
    same(&text.to_ascii_lowercase());
    let (prefix, names) = match format {
        IdFormat::Domain | IdFormat::FqdnSet => ("", text),
        IdFormat::RegIdDomain | IdFormat::RegIdFqdnSet => text.split_at(prefix_len(text)),
        _ => return,
    };
    let mut members: Vec<_> = names.split(',').collect();
    let last = members.last().expect("a split has a part");
    if !last.ends_with('.') && last.parse::<IpAddr>().is_err() {
        same(&format!("{text}."));
    }
    match format {
        IdFormat::Domain | IdFormat::RegIdDomain => {
            let base = names.strip_prefix("*.").unwrap_or(names);
            same(&format!("{prefix}{base}"));
            same(&format!("{prefix}*.{base}"));
        }
        _ => {
            members.reverse();
            let reversed = members.join(",");
            same(&format!("{prefix}{reversed}"));
            same(&format!("{prefix}{names},{reversed}"));
        }
    }
}

fn prefix_len(pair: &str) -> usize {
    pair.find(':').map_or(0, |colon| colon + 1)
}

/// An override that loads applies to the client for which it was written.
fn makes_an_override(format: IdFormat, text: &str) {
    let own = Limit::per_second(2);
    let limits = Limits::builder()
        .limit(LimitName::unnumbered("all", format), Limit::per_second(1))
        .override_for("all", text, own.clone())
        .build();
    let Ok(limits) = limits else { return };
    let named = limits.get("all").expect("it was defined");
    // Requests cannot have the id of requests without one, or a range as their id.
    if format.fold(text).is_err() && text == MISSING {
        return;
    }
    let found = named.override_of(text).expect("it has one");
    assert_eq!((found.id(), found.limit()), (text, &own));
    if format == IdFormat::IpAddress && text.contains('/') {
        return;
    }
    assert_eq!(named.limit_of(text), Ok(Some(&own)));
}

fn pairs_are_their_parts(text: &str) {
    if text == MISSING {
        return;
    }
    let pair = format!("7:{text}");
    for (single, paired) in [
        (IdFormat::Domain, IdFormat::RegIdDomain),
        (IdFormat::DomainOrCidr, IdFormat::RegIdDomainOrCidr),
        (IdFormat::FqdnSet, IdFormat::RegIdFqdnSet),
    ] {
        let expected = single.fold(text).ok().map(|id| format!("7:{id}"));
        let found = paired.fold(&pair).ok().map(|id| id.to_string());
        assert_eq!(found, expected, "{paired}");
    }
}

/// A text is an address or a number exactly if the standard library parses it as one.
fn standard_library_agrees(text: &str) {
    let folded = |format: IdFormat| format.fold(text).ok().map(|id| id.to_string());
    if text != MISSING {
        let address = text.split_once('%').map_or(text, |(address, _)| address);
        let ip = address
            .parse::<IpAddr>()
            .ok()
            .map(super::client_ip::canonical);
        if let Some(found) = folded(IdFormat::IpAddress) {
            assert_eq!(Some(found), ip.map(|ip| ip.to_string()));
        } else {
            assert!(ip.is_none() || address.len() < text.len(), "{text}");
        }
        let number = text.parse::<u64>().ok().map(|number| number.to_string());
        let number = number.filter(|number| number == text);
        assert_eq!(folded(IdFormat::RegId), number);
    }
}
