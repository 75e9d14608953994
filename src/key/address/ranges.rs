//! Ranges of addresses: trusted proxies, and exempt or denied clients.

use std::{net::IpAddr, sync::Arc};

use ipnet::{IpNet, Ipv4Net};
use thiserror::Error;

use crate::message::debug_is_message;

/// The error for a list of addresses and ranges that is not valid for [`Proxies`](super::Proxies).
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProxiesError {
    /// The list is empty.
    #[error("the list of trusted proxies is empty: add your proxies, or use `ClientIp::peer()`")]
    Empty,
    /// An entry is not a range.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// A range contains every address.
    #[error(
        "`{entry}` trusts everyone, so clients could choose their address: list the ranges of the \
         proxies, or use `Proxies::hops`"
    )]
    Everyone {
        /// The entry.
        entry: String,
    },
    /// The header does not hold a single address, which [`ProxyHeader::Single`](super::ProxyHeader::Single) requires.
    #[error("`{name}` does not hold a single address: use `ProxyHeader::{variant}`")]
    NotSingle {
        /// The header's name.
        name: &'static str,
        /// The variant of [`ProxyHeader`](super::ProxyHeader) that reads it.
        variant: &'static str,
    },
}

/// The error for a text that is not a range of addresses. Returned by [`ClientIp::within`](crate::ClientIp::within).
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangeError {
    /// It is neither an address nor a range.
    #[error(
        "`{entry}` is not an address or a range: write it as `10.1.2.3`, `10.0.0.0/8` or `fd00::/8`"
    )]
    Syntax {
        /// The entry.
        entry: String,
    },
    /// It has bits set beyond its prefix.
    #[error("`{entry}` has bits set beyond its prefix: write `{range}`, or a single address")]
    HostBits {
        /// The entry.
        entry: String,
        /// The range that it lies in.
        range: String,
    },
    /// It is IPv4-mapped. Such addresses are converted to IPv4 before they are compared.
    #[error("`{entry}` is IPv4-mapped: write `{range}`")]
    Mapped {
        /// The entry.
        entry: String,
        /// The same range in IPv4.
        range: String,
    },
}

debug_is_message!(ProxiesError, RangeError);

/// Ranges of addresses, sorted, none within another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::key) struct Ranges(Arc<[IpNet]>);

impl Ranges {
    /// Parses ranges in CIDR notation, or single addresses.
    pub(in crate::key) fn parse<T: AsRef<str>>(
        entries: impl IntoIterator<Item = T>,
    ) -> Result<Self, RangeError> {
        let entries = entries.into_iter().map(|entry| range(entry.as_ref()));
        entries.collect()
    }

    /// Parses the ranges of proxies, and rejects one that contains every address.
    pub(super) fn of_proxies<T: AsRef<str>>(
        entries: impl IntoIterator<Item = T>,
    ) -> Result<Self, ProxiesError> {
        let entries = entries.into_iter().map(|entry| of_proxies(entry.as_ref()));
        let ranges: Self = entries.collect::<Result<_, ProxiesError>>()?;
        if ranges.0.is_empty() {
            return Err(ProxiesError::Empty);
        }
        if let Some(whole) = ranges.0.iter().find(|range| range.prefix_len() == 0) {
            let entry = whole.to_string();
            return Err(ProxiesError::Everyone { entry });
        }
        Ok(ranges)
    }

    pub(in crate::key) fn contains(&self, ip: IpAddr) -> bool {
        // The last range that does not begin after the address.
        let after = self.0.partition_point(|range| range.network() <= ip);
        after
            .checked_sub(1)
            .is_some_and(|i| self.0[i].contains(&ip))
    }

    pub(in crate::key) fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<IpNet> for Ranges {
    fn from_iter<T: IntoIterator<Item = IpNet>>(ranges: T) -> Self {
        Self(IpNet::aggregate(&ranges.into_iter().collect()).into())
    }
}

fn of_proxies(text: &str) -> Result<IpNet, ProxiesError> {
    let written = parse(text).map(unmapped);
    if written.is_some_and(|range| range.prefix_len() == 0) {
        let entry = text.into();
        return Err(ProxiesError::Everyone { entry });
    }
    Ok(range(text)?)
}

pub(in crate::key) fn range(text: &str) -> Result<IpNet, RangeError> {
    let entry = text.to_owned();
    let Some(written) = parse(text) else {
        return Err(RangeError::Syntax { entry });
    };
    let unmapped = unmapped(written);
    let canonical = unmapped.trunc();
    let range = if text.contains('/') {
        canonical.to_string()
    } else {
        canonical.addr().to_string()
    };
    if unmapped != written {
        Err(RangeError::Mapped { entry, range })
    } else if canonical != written {
        Err(RangeError::HostBits { entry, range })
    } else {
        Ok(canonical)
    }
}

/// The standard library parses the address part, because it rejects `010.0.0.0`.
fn parse(text: &str) -> Option<IpNet> {
    let Some((ip, bits)) = text.split_once('/') else {
        return Some(text.parse::<IpAddr>().ok()?.into());
    };
    let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
    IpNet::new(ip.parse().ok()?, digits.then(|| bits.parse().ok())??).ok()
}

fn unmapped(range: IpNet) -> IpNet {
    let bits = range.prefix_len().checked_sub(96);
    match (range.addr().to_canonical(), bits) {
        (IpAddr::V4(ip), Some(bits)) => Ipv4Net::new(ip, bits).map_or(range, IpNet::V4),
        _ => range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks an address up in all ranges.
    #[test]
    fn ranges_hold_what_any_of_them_holds() {
        let entries = [
            "0.0.0.0/32",
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.128.0.0/9",
            "11.0.0.0/9",
            "192.0.2.0/25",
            "192.0.2.128/25",
            "198.51.100.7",
            "255.255.255.255",
            "::/128",
            "2001:db8::/32",
            "2001:db8:1::/48",
            "ffff::/16",
        ];
        let each: Vec<_> = entries
            .map(|entry| range(entry).expect("a test's range"))
            .into();
        let ranges = Ranges::parse(entries).expect("a test's ranges");
        assert!(ranges.len() < entries.len(), "some are parts of others");
        let edges = each
            .iter()
            .flat_map(|range| [range.network(), range.broadcast()]);
        let near = edges.flat_map(|ip| match ip {
            IpAddr::V4(ip) => [-1_i32, 0, 1].map(|step| {
                std::net::Ipv4Addr::from_bits(ip.to_bits().wrapping_add_signed(step)).into()
            }),
            IpAddr::V6(ip) => [-1_i128, 0, 1].map(|step| {
                std::net::Ipv6Addr::from_bits(ip.to_bits().wrapping_add_signed(step)).into()
            }),
        });
        for ip in near {
            let holds = each.iter().any(|range| range.contains(&ip));
            assert_eq!(ranges.contains(ip), holds, "{ip}");
        }
        let none = Ranges::parse::<&str>([]).expect("there is no mistake in it");
        assert!(!none.contains([10, 0, 0, 1].into()));
    }
}
