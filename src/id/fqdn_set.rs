//! `fqdnSet`: a set of domain names, kept as its SHA-256.

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use super::{
    canonical_id::{CanonicalId, IdProblem},
    domain,
    id::Id,
    ip_address,
};

const FORM: IdProblem = IdProblem::Form(
    "use names of two labels or more in ASCII, or addresses, with a comma and no space between them",
);

pub(super) fn fold(text: &str) -> Result<CanonicalId<'_>, IdProblem> {
    let mut members = text
        .split(',')
        .map(member)
        .collect::<Result<SmallVec<[CanonicalId<'_>; 8]>, _>>()?;
    members.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    members.dedup();
    let mut hash = Sha256::new();
    for (i, member) in members.iter().enumerate() {
        if i > 0 {
            hash.update(b",");
        }
        hash.update(member.as_str());
    }
    Ok(CanonicalId::canonical(text, hex(&hash.finalize())))
}

/// Canonicalizes a name to lower case, or an address.
fn member(text: &str) -> Result<CanonicalId<'_>, IdProblem> {
    if let Ok(address) = ip_address::fold(text) {
        return (!address.is_wider()).then_some(address).ok_or(FORM);
    }
    let base = text.strip_prefix("*.").unwrap_or(text);
    let name = domain::name(base).map_err(|_| FORM)?;
    // The name with its wildcard, but without the dot at its end.
    let text = &text[..text.len() - base.len() + name.len()];
    let wildcard = &text[..text.len() - name.len()];
    Ok(match domain::lower_case(name) {
        Some(name) => CanonicalId::canonical(text, Id::display(format_args!("{wildcard}{name}"))),
        None => CanonicalId::same(text),
    })
}

fn hex(bytes: &[u8]) -> Id {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let text: SmallVec<[u8; 64]> = digits.map(|digit| DIGITS[usize::from(digit)]).collect();
    str::from_utf8(&text).expect("digits are ASCII").into()
}

#[cfg(test)]
mod tests {
    use crate::id::IdFormat::FqdnSet;

    const COM: &str = "a379a6f6eeafb9a55e378c118034e2751e682fab9f2d30ab13d2125586ce1947";

    #[test]
    fn what_is_no_list_of_names_is_refused() {
        for text in [
            "",
            ",",
            "a.com,",
            ",a.com",
            "a.com,,b.com",
            "a.com, b.com",
            "a.com;b.com",
            "com",
            COM,
            "a.com,*.*.b.com",
            "a.com\n",
            "fe80::1%eth0",
        ] {
            assert!(FqdnSet.fold(text).is_err(), "{text:?}");
        }
    }
}
