//! Groups of ids: the limits of one client stay together in a store of many nodes.

use super::{
    format::IdFormat,
    id::Id,
    ip_address,
    ipv6_range::{BITS, network},
};

impl IdFormat {
    /// Returns the group of a folded id: an address's IPv6 range, a pair's account, or the id itself.
    /// It is written to `room` if it is not a part of the id.
    pub(crate) fn group<'a>(self, id: &'a str, room: &'a mut Option<Id>) -> &'a str {
        match self {
            Self::IpAddress if id.contains(':') => match ip_address::parse(id) {
                Some((std::net::IpAddr::V6(ip), _)) => room.insert(network(ip, BITS)).as_str(),
                _ => id,
            },
            Self::RegIdDomain | Self::RegIdFqdnSet => {
                id.split_once(':').map_or(id, |(account, _)| account)
            }
            _ => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_one_client_are_one_group() {
        let groups = [
            (IdFormat::IpAddress, "203.0.113.7", "203.0.113.7"),
            (IdFormat::IpAddress, "2001:db8:1:2::", "2001:db8:1::/48"),
            (IdFormat::Ipv6Range, "2001:db8:1::/48", "2001:db8:1::/48"),
            (IdFormat::RegId, "12345678", "12345678"),
            (IdFormat::RegIdDomain, "12345678:example.com", "12345678"),
            (IdFormat::RegIdFqdnSet, "12345678:394e82", "12345678"),
            (IdFormat::Domain, "example.com", "example.com"),
            (IdFormat::Opaque, "a:b", "a:b"),
            (IdFormat::IpAddress, Id::MISSING, Id::MISSING),
            (IdFormat::RegIdDomain, Id::MISSING, Id::MISSING),
        ];
        for (format, id, group) in groups {
            assert_eq!(format.group(id, &mut None), group, "{format} {id}");
        }
    }
}
