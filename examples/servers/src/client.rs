use std::net::{IpAddr, Ipv6Addr};

/// The id of an address. A subscriber has a /64 of IPv6, and is one client.
pub(crate) fn client(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).to_string(),
    }
}

// The page ends here.

#[test]
fn addresses_of_a_subscriber_are_one_client() {
    for (address, id) in [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
    ] {
        assert_eq!(client(address.parse().unwrap()), id);
    }
}
