//! One address as proxies write it, with a port, a zone or brackets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest text that is read, in bytes: an IPv6 address and a port, with room for a zone.
pub(super) const MAX_LEN: usize = 128;

/// Reads the address in an item of a plain header: `203.0.113.7`, `203.0.113.7:80`,
/// `2001:db8::7`, `[2001:db8::7]` or `[2001:db8::7]:80`, with spaces around it.
///
/// Returns `None` if the item is anything else (`unknown`, `_hidden`) or an unspecified address (`0.0.0.0`, `::`).
pub(super) fn plain(item: &[u8]) -> Option<IpAddr> {
    let text = text(item.trim_ascii())?;
    match ipv6(text) {
        Some(ip) => named(ip),
        None => with_port(text, is_port),
    }
}

/// Reads the address in an unquoted node of a `Forwarded` header. An IPv6 address is in
/// brackets, and a port can be obfuscated ([RFC 7239, section 6]).
///
/// [RFC 7239, section 6]: https://www.rfc-editor.org/rfc/rfc7239#section-6
pub(super) fn forwarded(node: &[u8]) -> Option<IpAddr> {
    with_port(text(node)?, |port| is_port(port) || is_obfuscated(port))
}

/// Reads an address before a port, an IPv6 one without brackets: `203.0.113.7:80`, `2001:db8::7:80`. The port is
/// required: the text after the last colon is never a part of the address.
pub(super) fn with_bare_port(item: &[u8]) -> Option<IpAddr> {
    let (ip, port) = text(item.trim_ascii())?.rsplit_once(':')?;
    let ip: IpAddr = ip.parse().ok()?;
    is_port(port).then(|| named(ip.to_canonical()))?
}

fn text(item: &[u8]) -> Option<&str> {
    (item.len() <= MAX_LEN).then(|| str::from_utf8(item).ok())?
}

fn with_port(text: &str, is_port: impl Fn(&str) -> bool) -> Option<IpAddr> {
    let (ip, rest) = match text.strip_prefix('[') {
        Some(text) => {
            let (ip, rest) = text.split_once(']')?;
            (ipv6(ip)?, rest)
        }
        None => {
            let (ip, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (ip.parse::<Ipv4Addr>().ok()?.into(), rest)
        }
    };
    let well_formed = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    well_formed.then(|| named(ip))?
}

/// Reads an IPv6 address without its zone. An IPv4-mapped one is converted to IPv4.
fn ipv6(text: &str) -> Option<IpAddr> {
    let ip = match text.split_once('%') {
        Some((ip, zone)) => (!zone.is_empty() && zone.bytes().all(is_of_zone)).then_some(ip)?,
        None => text,
    };
    Some(ip.parse::<Ipv6Addr>().ok()?.to_canonical())
}

fn named(ip: IpAddr) -> Option<IpAddr> {
    (!ip.is_unspecified()).then_some(ip)
}

fn is_of_zone(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)
}

fn is_port(port: &str) -> bool {
    (1..=5).contains(&port.len())
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok()
}

fn is_obfuscated(port: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    port.strip_prefix('_')
        .is_some_and(|name| !name.is_empty() && name.bytes().all(is_of_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("a test's address"))
    }

    #[test]
    fn both_headers_write_ipv4_bare_or_with_a_port() {
        for item in ["203.0.113.7", "203.0.113.7:0", "203.0.113.7:65535"] {
            assert_eq!(plain(item.as_bytes()), ip("203.0.113.7"), "{item}");
            assert_eq!(forwarded(item.as_bytes()), ip("203.0.113.7"), "{item}");
        }
    }

    #[test]
    fn bare_port_is_never_a_part_of_the_address() {
        for (item, address) in [
            ("198.51.100.10:46532", "198.51.100.10"),
            (" 198.51.100.10:0 ", "198.51.100.10"),
            ("2001:db8::7:46532", "2001:db8::7"),
            ("2001:db8::1:443", "2001:db8::1"),
            ("2001:db8:::443", "2001:db8::"),
            ("2001:db8:1:2:3:4:5:6:443", "2001:db8:1:2:3:4:5:6"),
            ("::1:443", "::1"),
            ("::ffff:203.0.113.7:80", "203.0.113.7"),
        ] {
            assert_eq!(with_bare_port(item.as_bytes()), ip(address), "{item}");
        }
        for item in [
            "",
            ":443",
            "198.51.100.10",
            "198.51.100.10:",
            "198.51.100.10:x",
            "198.51.100.10:65536",
            "2001:db8:1:2:3:4:5:6",
            "2001:db8::443",
            "2001:db8::7:",
            "2001:db8::7:abcd",
            "[2001:db8::7]:443",
            "2001:db8::7%eth0:443",
            "0.0.0.0:443",
            ":::443",
            "198.51.100.10:1, 198.51.100.11:1",
        ] {
            assert_eq!(with_bare_port(item.as_bytes()), None, "{item}");
        }
    }

    #[test]
    fn both_headers_write_ipv6_in_brackets() {
        let items = [
            "[2001:db8::7]",
            "[2001:DB8:0:0::0007]:80",
            "[2001:db8::7%eth0]",
            "[2001:db8::7%25eth0]:80",
        ];
        for item in items {
            assert_eq!(plain(item.as_bytes()), ip("2001:db8::7"), "{item}");
            assert_eq!(forwarded(item.as_bytes()), ip("2001:db8::7"), "{item}");
        }
    }

    #[test]
    fn plain_headers_alone_write_ipv6_bare() {
        for item in ["2001:db8::7", "2001:db8::7%eth0", "2001:db8::7%25eth0"] {
            assert_eq!(plain(item.as_bytes()), ip("2001:db8::7"), "{item}");
            assert_eq!(forwarded(item.as_bytes()), None, "{item}");
        }
    }

    #[test]
    fn plain_headers_alone_have_spaces_around() {
        assert_eq!(plain(b" \t203.0.113.7\t "), ip("203.0.113.7"));
        assert_eq!(forwarded(b" 203.0.113.7"), None);
    }

    #[test]
    fn mapped_addresses_are_unmapped() {
        for item in ["[::ffff:203.0.113.7]", "[::ffff:cb00:7107]:80"] {
            assert_eq!(plain(item.as_bytes()), ip("203.0.113.7"), "{item}");
            assert_eq!(forwarded(item.as_bytes()), ip("203.0.113.7"), "{item}");
        }
        assert_eq!(plain(b"::ffff:203.0.113.7"), ip("203.0.113.7"));
    }

    #[test]
    fn forwarded_alone_hides_ports() {
        for port in ["_", "_é", "_a b", "a"] {
            let node = format!("203.0.113.7:{port}");
            assert_eq!(forwarded(node.as_bytes()), None, "{node}");
        }
        assert_eq!(forwarded(b"203.0.113.7:_a.B-9_"), ip("203.0.113.7"));
        assert_eq!(plain(b"203.0.113.7:_a"), None);
    }

    const NO_ADDRESSES: [&str; 44] = [
        "",
        " ",
        "unknown",
        "_hidden",
        "localhost",
        "0.0.0.0",
        "0.0.0.0:80",
        "::",
        "[::]:80",
        "::ffff:0.0.0.0",
        "203.0.113.07",
        "0203.0.113.7",
        "0xcb.0.113.7",
        "203.0.113",
        "203.0.113.256",
        "3405803783",
        "203.0.113.7:",
        "203.0.113.7:65536",
        "203.0.113.7:000080",
        "203.0.113.7:+80",
        "203.0.113.7:80:80",
        "203.0.113.7 80",
        "203.0.113.7%eth0",
        "[203.0.113.7]",
        "[2001:db8::7",
        "2001:db8::7]",
        "[2001:db8::7]80",
        "[2001:db8::7]:",
        "[2001:db8::7]:x",
        "[[2001:db8::7]]",
        "[]",
        "[",
        ":",
        ":80",
        "2001:db8::7%",
        "[2001:db8::7%]",
        "2001:db8::7%eth0]",
        "2001:db8::7%eth0:80 ",
        "2001:db8:::7",
        "1:2:3:4:5:6:7:8:80",
        "２０３.0.113.7",
        "\u{a0}203.0.113.7",
        "http://203.0.113.7",
        "203.0.113.0/24",
    ];

    #[test]
    fn everything_else_is_no_address() {
        let long = format!("[2001:db8::7%{}]", "x".repeat(MAX_LEN));
        for item in NO_ADDRESSES.into_iter().chain([long.as_str()]) {
            assert_eq!(plain(item.as_bytes()), None, "{item}");
            assert_eq!(forwarded(item.as_bytes()), None, "{item}");
        }
        assert_eq!(plain(b"203.0.113.\xff"), None);
    }
}
