//! Ranges of addresses: trusted proxies, and exempt or denied clients.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use thiserror::Error;

use crate::{id::range, message::debug_is_message};

/// The error for a mistake in a list of addresses, or in the header that [`Proxies`](super::Proxies) read. It names the entry, and what
/// to change.
#[derive(Clone, Error)]
#[error("{0}")]
pub struct ProxiesError(String);

debug_is_message!(ProxiesError);

impl From<String> for ProxiesError {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// Ranges of addresses, sorted. None is within another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges(Arc<[IpNet]>);

impl Ranges {
    /// Parses ranges in CIDR notation, or single addresses.
    pub(super) fn parse<T: AsRef<str>>(
        entries: impl IntoIterator<Item = T>,
    ) -> Result<Self, ProxiesError> {
        let entries = entries.into_iter().map(|entry| range(entry.as_ref()));
        entries.collect::<Result<_, _>>().map_err(ProxiesError)
    }

    /// Parses the ranges of proxies. Together, they must not contain every address.
    pub(super) fn of_proxies<T: AsRef<str>>(
        entries: impl IntoIterator<Item = T>,
    ) -> Result<Self, ProxiesError> {
        let ranges = Self::parse(entries)?;
        if ranges.0.is_empty() {
            let message = "no proxies are trusted: add them, or use `ClientIp::peer()`";
            return Err(message.to_owned().into());
        }
        let whole = ranges.0.iter().find(|range| range.prefix_len() == 0);
        whole.map_or(Ok(ranges.clone()), |whole| {
            let message = "trusts everyone, so clients could choose their address";
            let remedy = "list the ranges of the proxies, or use `Proxies::hops`";
            Err(format!("`{whole}` {message}: {remedy}").into())
        })
    }

    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        // Finds the last range that does not begin after the address.
        let after = self.0.partition_point(|range| range.network() <= ip);
        let last = after.checked_sub(1);
        last.is_some_and(|i| self.0[i].contains(&ip))
    }
}

impl FromIterator<IpNet> for Ranges {
    fn from_iter<T: IntoIterator<Item = IpNet>>(ranges: T) -> Self {
        Self(IpNet::aggregate(&ranges.into_iter().collect()).into())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

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
        let each = entries.map(|entry| range(entry).unwrap());
        let ranges = Ranges::parse(entries).unwrap();
        assert!(ranges.0.len() < entries.len(), "some are parts of others");
        let edges = each
            .iter()
            .flat_map(|range| [range.network(), range.broadcast()]);
        let near = edges.flat_map(|ip| match ip {
            IpAddr::V4(ip) => [-1_i32, 0, 1]
                .map(|step| Ipv4Addr::from_bits(ip.to_bits().wrapping_add_signed(step)).into()),
            IpAddr::V6(ip) => [-1_i128, 0, 1]
                .map(|step| Ipv6Addr::from_bits(ip.to_bits().wrapping_add_signed(step)).into()),
        });
        for ip in near {
            let holds = each.iter().any(|range| range.contains(&ip));
            assert_eq!(ranges.contains(ip), holds, "{ip}");
        }
        let none = Ranges::parse::<&str>([]).unwrap();
        assert!(!none.contains([10, 0, 0, 1].into()));
    }

    fn message(entry: &str) -> String {
        let error = Ranges::of_proxies(["192.0.2.1", entry]).unwrap_err();
        error.to_string()
    }

    #[test]
    fn mistakes_name_the_entry_and_the_right_one() {
        for (entry, right) in [("10.1.2.3/8", "10.0.0.0/8"), ("fd00::1/8", "fd00::/8")] {
            let expected = format!(
                "`{entry}` has bits set beyond its prefix: write `{right}`, or a single address"
            );
            assert_eq!(message(entry), expected);
        }
        for (entry, right) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("64:ff9b::10.0.0.0/104", "10.0.0.0/8"),
            ("64:ff9b::10.1.2.3", "10.1.2.3"),
        ] {
            let expected = format!("`{entry}` is IPv4 written as IPv6: write `{right}`");
            assert_eq!(message(entry), expected);
        }
    }

    #[test]
    fn all_addresses_are_refused_as_trusted_proxies() {
        for entry in ["0.0.0.0/0", "::/0"] {
            let expected = format!("`{entry}` trusts everyone, so clients could choose");
            assert!(message(entry).starts_with(&expected), "{entry}");
        }
        for entry in ["10.0.0.0/0", "::ffff:1.2.3.4/96", "64:ff9b::/96"] {
            let expected = "write `0.0.0.0/0`";
            assert!(message(entry).contains(expected), "{entry}");
        }
        let halves = Ranges::of_proxies(["0.0.0.0/1", "128.0.0.0/1"]).unwrap_err();
        assert!(
            halves
                .to_string()
                .starts_with("`0.0.0.0/0` trusts everyone")
        );
        let none = Ranges::of_proxies::<&str>([]).unwrap_err().to_string();
        assert!(none.starts_with("no proxies are trusted"), "{none}");
    }

    #[test]
    fn other_texts_are_no_ranges() {
        for entry in [
            "",
            " 10.0.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0.0.0/255.0.0.0",
            "10.0.0/8",
            "010.0.0.0/8",
            "fd00::/129",
            "[fd00::]/8",
            "fe80::1%eth0",
            "10.0.0.1:80",
            "localhost",
            "/8",
        ] {
            let expected = format!("`{entry}` is not an address or a range: write it as");
            assert!(message(entry).starts_with(&expected), "{entry}");
        }
    }
}
