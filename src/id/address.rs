//! Addresses: `ipAddress`, and `ipv6RangeCIDR`, a /48 of IPv6 addresses.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{IpNet, Ipv6Net};

use super::id::{self, Id, Remedy};

/// The bits of a range's prefix.
const RANGE: u8 = 48;

/// The bits of the IPv6 prefix that one client has.
const NETWORK: u8 = 64;

const NO_ADDRESS: Remedy =
    "use an address such as `203.0.113.7` or `2001:db8::1`, without port or mask";

const NO_RANGE: Remedy = "use an IPv6 range with a mask of 48 bits, such as `2001:db8::/48`";

const IPV4: Remedy = "an IPv4 address is in no such range: leave it out";

pub(super) fn fold_address(text: &str) -> Result<Cow<'_, str>, Remedy> {
    let ip = parse(text).ok_or(NO_ADDRESS)?;
    // The parser of IPv4 addresses accepts a single spelling, so the text is canonical.
    if ip.is_ipv4() && !text.contains(':') {
        Ok(text.into())
    } else {
        Ok(written(ip, text))
    }
}

pub(super) fn fold_range(text: &str) -> Result<Cow<'_, str>, Remedy> {
    let address = match text.split_once('/') {
        Some((address, "48")) if !address.contains('%') => address,
        Some(_) => return Err(NO_RANGE),
        None => text,
    };
    match parse(address).ok_or(NO_RANGE)? {
        IpAddr::V4(_) => Err(IPV4),
        IpAddr::V6(ip) => Ok(written(format_args!("{}/{RANGE}", masked(ip, RANGE)), text)),
    }
}

/// Returns whether a text that folds into a range names the range, and not only an address or a smaller range in it.
pub(super) fn is_whole_range(text: &str, folded: &str) -> bool {
    let first = |range: &str| range.strip_suffix("/48")?.parse::<Ipv6Addr>().ok();
    first(text).is_some() && first(text) == first(folded)
}

/// Folds an address without a zone into its network: the /32 of IPv4, or the /64 of IPv6. A network of this size is folded into
/// itself.
pub(super) fn fold_network(text: &str) -> Option<Cow<'_, str>> {
    let given = if text.contains('/') {
        Some(text.parse::<IpNet>().ok()?)
    } else {
        None
    };
    let ip = given.map_or_else(|| text.parse().ok(), |given| Some(given.addr()))?;
    let network = match canonical_ip(ip) {
        ip @ IpAddr::V4(_) => IpNet::from(ip),
        IpAddr::V6(ip) => Ipv6Net::new(masked(ip, NETWORK), NETWORK).ok()?.into(),
    };
    let is_network = given.is_none_or(|given| given == network);
    is_network.then(|| written(network, text))
}

/// Returns whether two texts are the same address.
pub(super) fn is_same(text: &str, other: &str) -> bool {
    parse(text).is_some_and(|ip| parse(other) == Some(ip))
}

/// Returns the range of a folded IPv6 address.
pub(super) fn range_of(address: &str) -> Option<String> {
    let ip = address.parse().ok()?;
    Some(network(ip, RANGE).to_string())
}

/// Parses an address, and removes the zone of an IPv6 one.
fn parse(text: &str) -> Option<IpAddr> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let ip: IpAddr = address.parse().ok()?;
    let fits = zone.is_none_or(|zone| ip.is_ipv6() && !zone.is_empty());
    fits.then(|| canonical_ip(ip))
}

/// The first address of the prefix that NAT64 translators give IPv4 clients.
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// Converts an IPv6 address that stands for an IPv4 one: an IPv4-mapped address, or one of a NAT64 translator.
#[inline]
pub(crate) fn canonical_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => match embedded_ipv4(ip) {
            // This address belongs to no client, but it begins an IPv6 range.
            Some(ipv4) if ip != NAT64 => ipv4.into(),
            _ => ip.into(),
        },
        IpAddr::V4(_) => ip,
    }
}

/// Returns the IPv4 address in an address of `::ffff:0:0/96` (IPv4-mapped, RFC 4291) or `64:ff9b::/96` (NAT64, RFC 6052).
pub(super) fn embedded_ipv4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            let [.., a, b, c, d] = ip.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
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

/// Returns the displayed form of a value. It borrows `text` if that is equal, as in most cases.
fn written(value: impl fmt::Display, text: &str) -> Cow<'_, str> {
    match id::written(format_args!("{value}")) {
        value if value == text => text.into(),
        value => String::from(value).into(),
    }
}
