//! `ipAddress`: an IPv4 or IPv6 address.

use std::net::IpAddr;

use super::{
    canonical_id::{CanonicalId, IdProblem},
    id::Id,
};

const FORM: IdProblem =
    IdProblem::Form("use an address such as `203.0.113.7` or `2001:db8::1`, without port or mask");

pub(super) fn fold(text: &str) -> Result<CanonicalId<'_>, IdProblem> {
    let (ip, zoned) = parse(text).ok_or(FORM)?;
    Ok(match ip {
        // The parser of IPv4 addresses accepts no other spelling.
        IpAddr::V4(_) if !text.contains(':') => CanonicalId::same(text),
        ip => CanonicalId::canonical(text, Id::from(ip)).wider(zoned),
    })
}

/// Parses an address, and converts an IPv4-mapped one to IPv4. Also returns whether an IPv6 zone was removed.
pub(super) fn parse(text: &str) -> Option<(IpAddr, bool)> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let ip: IpAddr = address.parse().ok()?;
    let zone_fits = zone.is_none_or(|zone| ip.is_ipv6() && !zone.is_empty());
    zone_fits.then(|| (ip.to_canonical(), zone.is_some()))
}

#[cfg(test)]
mod tests {
    use crate::id::IdFormat::IpAddress;

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            " 10.0.0.1",
            "10.0.0.1 ",
            "10.0.0",
            "10.0.0.256",
            "010.0.0.1",
            "0x0a.0.0.1",
            "167772161",
            "10.0.0.1:80",
            "[::1]",
            "[::1]:80",
            "10.0.0.0/8",
            "10.0.0.1/32",
            "2001:db8::/48",
            "2001:db8::1/128",
            ":::",
            "1::2::3",
            "g::1",
            "fe80::1%",
            "10.0.0.1%eth0",
            "localhost",
            "2001:db8:85a3:0:0:8a2e:370:7334:9000",
            "１０.0.0.1",
        ] {
            assert!(IpAddress.fold(text).is_err(), "{text:?}");
        }
    }
}
