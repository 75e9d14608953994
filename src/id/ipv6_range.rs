//! `ipv6RangeCIDR`: a /48 of IPv6 addresses.

use std::net::{IpAddr, Ipv6Addr};

use super::{
    canonical_id::{CanonicalId, IdProblem},
    id::Id,
    ip_address,
};

pub(super) const BITS: u8 = 48;

const FORM: IdProblem =
    IdProblem::Form("use an IPv6 range with a mask of 48 bits, such as `2001:db8::/48`");

const IPV4: IdProblem = IdProblem::Form("an IPv4 address is in no such range: leave it out");

pub(super) fn fold(text: &str) -> Result<CanonicalId<'_>, IdProblem> {
    let (address, is_range) = match text.split_once('/') {
        Some((address, "48")) => (address, true),
        Some(_) => return Err(FORM),
        None => (text, false),
    };
    let (ip, zoned) = ip_address::parse(address).ok_or(FORM)?;
    let IpAddr::V6(ip) = ip else { return Err(IPV4) };
    if is_range && zoned {
        return Err(FORM);
    }
    let is_whole = is_range && masked(ip, BITS) == ip;
    Ok(CanonicalId::canonical(text, network(ip, BITS)).wider(!is_whole))
}

/// The network that an address is in, in CIDR notation. `bits` is at least 1.
pub(crate) fn network(ip: Ipv6Addr, bits: u8) -> Id {
    Id::display(format_args!("{}/{bits}", masked(ip, bits)))
}

/// The first address of the network that an address is in. `bits` is at least 1.
pub(crate) fn masked(ip: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX << (128 - u32::from(bits));
    Ipv6Addr::from_bits(ip.to_bits() & mask)
}

#[cfg(test)]
mod tests {
    use crate::id::IdFormat::Ipv6Range;

    #[test]
    fn what_is_no_48_of_ipv6_is_refused() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/8",
            "10.0.0.0/48",
            "::ffff:10.0.0.1",
            "::ffff:10.0.0.1/48",
            "2001:db8::/32",
            "2001:db8::/64",
            "2001:db8::/128",
            "2001:db8::/",
            "2001:db8::/048",
            "2001:db8::/+48",
            "2001:db8::/48/48",
            "2001:db8::%eth0/48",
            "/48",
            "example.com",
        ] {
            assert!(Ipv6Range.fold(text).is_err(), "{text:?}");
        }
    }
}
