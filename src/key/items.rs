//! Addresses in headers, as proxies write them.
//!
//! The left part of a list comes from the client, which may leave a quoted string open in `Forwarded`. So lists are split from the
//! right. The items from our proxies are well formed, and text to the left of them cannot change how they are read.

use std::{
    borrow::Cow,
    iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use http::{HeaderMap, header::FORWARDED};

use crate::id::canonical_ip;

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The longest text of an address that is read, in bytes: an IPv6 address and a port, with room for a zone.
const MAX_LEN: usize = 128;

/// Returns the items of all lines of `X-Forwarded-For`, the last one first. An item that is not an address keeps its position.
pub(super) fn x_forwarded_for(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
    lines
        .flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','))
        .map(address)
}

/// Returns the second item in `X-Forwarded-For`, if it is an address.
pub(super) fn second_x_forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let lines = headers.get_all(X_FORWARDED_FOR).iter();
    let mut items = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    address(items.nth(1)?)
}

/// Returns the addresses in the elements of all lines of `Forwarded` (RFC 7239), the last one first. An element without a valid
/// address keeps its position.
pub(super) fn forwarded(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(FORWARDED).iter().rev();
    lines
        .flat_map(|line| parts(line.as_bytes(), b','))
        .map(client)
}

/// Reads the address in an item of a plain header: `203.0.113.7`, `203.0.113.7:80`,
/// `2001:db8::7`, `[2001:db8::7]` or `[2001:db8::7]:80`, with spaces around it.
///
/// Returns `None` if the item is anything else (`unknown`, `_hidden`) or an unspecified address (`0.0.0.0`, `::`).
pub(super) fn address(item: &[u8]) -> Option<IpAddr> {
    let text = text(item.trim_ascii())?;
    match ipv6(text) {
        Some(ip) => client_address(ip.into()),
        None => with_port(text, is_port),
    }
}

/// Reads an address before a port, an IPv6 one without brackets: `203.0.113.7:80`, `2001:db8::7:80`. The port is
/// required: the text after the last colon is never a part of the address.
pub(super) fn address_with_bare_port(item: &[u8]) -> Option<IpAddr> {
    let (ip, port) = text(item.trim_ascii())?.rsplit_once(':')?;
    let ip = ip.parse().ok()?;
    is_port(port).then(|| client_address(ip))?
}

fn text(item: &[u8]) -> Option<&str> {
    (item.len() <= MAX_LEN).then(|| str::from_utf8(item).ok())?
}

fn with_port(text: &str, is_port: impl Fn(&str) -> bool) -> Option<IpAddr> {
    let (ip, rest): (IpAddr, _) = match text.strip_prefix('[') {
        Some(text) => {
            let (ip, rest) = text.split_once(']')?;
            (ipv6(ip)?.into(), rest)
        }
        None => {
            let (ip, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (ip.parse::<Ipv4Addr>().ok()?.into(), rest)
        }
    };
    let well_formed = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    well_formed.then(|| client_address(ip))?
}

/// Reads an IPv6 address, and removes its zone.
fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let is_of_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    match text.split_once('%') {
        Some((ip, zone)) if !zone.is_empty() && zone.bytes().all(is_of_zone) => ip.parse().ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}

fn client_address(ip: IpAddr) -> Option<IpAddr> {
    Some(canonical_ip(ip)).filter(|ip| !ip.is_unspecified())
}

fn is_port(port: &str) -> bool {
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    digits && port.len() <= 5 && port.parse::<u16>().is_ok()
}

/// Returns whether a port is an obfuscated name (RFC 7239, section 6).
fn is_obfuscated(port: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let name = port.strip_prefix('_');
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_of_name))
}

/// Returns the parts of a text between separators that are not in quoted strings, the last one first.
fn parts(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest?;
        let at = last_unquoted(text, separator);
        rest = at.map(|at| &text[..at]);
        Some(at.map_or(text, |at| &text[at + 1..]))
    })
}

fn last_unquoted(text: &[u8], separator: u8) -> Option<usize> {
    let mut quoted = false;
    for (at, byte) in text.iter().enumerate().rev() {
        match byte {
            b'"' if !quoted => quoted = true,
            b'"' if !is_escaped(&text[..at]) => quoted = false,
            byte if *byte == separator && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn is_escaped(before: &[u8]) -> bool {
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// Returns the address in the parameter `for` of an element such as `for="[2001:db8::7]:80";proto=https` (RFC 7239, section 4). It
/// must be well formed and occur once. Other parameters may be malformed, because proxies copy values that clients choose. Only
/// their quotes must be balanced, because these decide where the next parameter begins.
fn client(element: &[u8]) -> Option<IpAddr> {
    let mut client = None;
    let pairs = parts(element.trim_ascii(), b';');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let name_len = pair.iter().position(|byte| *byte == b'=');
        let (name, value) = pair.split_at(name_len.unwrap_or(pair.len()));
        let value = value.strip_prefix(b"=").and_then(unquoted);
        if name.trim_ascii().eq_ignore_ascii_case(b"for") {
            let is_alone = client.is_none() && is_token(name);
            client = Some(value.filter(|_| is_alone)?);
        } else if name.contains(&b'"') || pair.contains(&b'"') && value.is_none() {
            return None;
        }
    }
    // An IPv6 address is in brackets, and a port can be obfuscated.
    with_port(text(&client?)?, |port| is_port(port) || is_obfuscated(port))
}

fn is_token(text: &[u8]) -> bool {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_of_token)
}

/// Returns a token, or the text of a quoted string without its backslashes. A header's value has no control characters, so this
/// need not reject any.
fn unquoted(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let [b'"', quoted @ .., b'"'] = value else {
        return is_token(value).then_some(value.into());
    };
    let mut text = Vec::new();
    let mut bytes = quoted.iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'"' => return None,
            b'\\' => *bytes.next()?,
            byte => *byte,
        };
        // A longer text is not an address.
        text.extend((text.len() <= MAX_LEN).then_some(byte));
    }
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    /// Reads an address that is quoted in `Forwarded`.
    fn node(text: &str) -> Option<IpAddr> {
        client(format!("for=\"{text}\"").as_bytes())
    }

    #[test]
    fn both_headers_write_ipv4_bare_or_with_a_port_and_ipv6_in_brackets() {
        for (item, found) in [
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:0", "203.0.113.7"),
            ("203.0.113.7:65535", "203.0.113.7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:DB8:0:0::0007]:80", "2001:db8::7"),
            ("[2001:db8::7%eth0]", "2001:db8::7"),
            ("[2001:db8::7%25eth0]:80", "2001:db8::7"),
            // IPv6 addresses that stand for IPv4 addresses.
            ("[::ffff:203.0.113.7]", "203.0.113.7"),
            ("[::ffff:cb00:7107]:80", "203.0.113.7"),
            ("[64:ff9b::203.0.113.7]:80", "203.0.113.7"),
            ("[::203.0.113.7]", "::203.0.113.7"),
        ] {
            assert_eq!(address(item.as_bytes()), ip(found), "{item}");
            assert_eq!(node(item), ip(found), "{item}");
        }
    }

    #[test]
    fn plain_headers_alone_write_ipv6_bare_and_have_spaces() {
        for item in [
            "2001:db8::7",
            "2001:db8::7%eth0",
            " \t2001:db8::7%25eth0\t ",
        ] {
            assert_eq!(address(item.as_bytes()), ip("2001:db8::7"), "{item}");
            assert_eq!(node(item), None, "{item}");
        }
        assert_eq!(address(b"::ffff:203.0.113.7"), ip("203.0.113.7"));
        assert_eq!(address(b"64:ff9b::203.0.113.7"), ip("203.0.113.7"));
        assert_eq!(address(b" \t203.0.113.7\t "), ip("203.0.113.7"));
        assert_eq!(node(" 203.0.113.7"), None);
    }

    #[test]
    fn obfuscated_ports_are_those_of_rfc_7239() {
        assert_eq!(node("203.0.113.7:_a.B-9_"), ip("203.0.113.7"));
        assert_eq!(address(b"203.0.113.7:_a"), None);
        for port in ["_", "_ö", "_a b", "_a:", "a"] {
            assert_eq!(node(&format!("203.0.113.7:{port}")), None, "{port}");
        }
    }

    #[test]
    fn other_texts_are_no_addresses() {
        let long = format!("[2001:db8::7%{}]", "x".repeat(MAX_LEN));
        let words = "unknown _hidden localhost 0.0.0.0 0.0.0.0:80 :: [::]:80 ::ffff:0.0.0.0 203.0.113.07 \
            0203.0.113.7 0xcb.0.113.7 203.0.113 203.0.113.256 3405803783 203.0.113.7: \
            203.0.113.7:65536 203.0.113.7:000080 203.0.113.7:+80 203.0.113.7:80:80 203.0.113.7%eth0 \
            [203.0.113.7] [2001:db8::7 2001:db8::7] [2001:db8::7]80 [2001:db8::7]: [2001:db8::7]:x \
            [[2001:db8::7]] [] [ : :80 2001:db8::7% [2001:db8::7%] 2001:db8::7%eth0] 2001:db8:::7 \
            1:2:3:4:5:6:7:8:80 ２０３.0.113.7 http://203.0.113.7 203.0.113.0/24";
        let others = [
            "",
            " ",
            "203.0.113.7 80",
            "2001:db8::7%eth0:80 ",
            "\u{a0}203.0.113.7",
            &long,
        ];
        for item in words.split(' ').chain(others) {
            assert_eq!(address(item.as_bytes()), None, "{item}");
            assert_eq!(node(item), None, "{item}");
        }
        assert_eq!(address(b"203.0.113.\xff"), None);
        assert_eq!(client(b"for=\"\xff\""), None);
    }

    #[test]
    fn bare_port_is_never_a_part_of_the_address() {
        for (item, found) in [
            ("198.51.100.10:46532", "198.51.100.10"),
            (" 198.51.100.10:0 ", "198.51.100.10"),
            ("2001:db8::7:46532", "2001:db8::7"),
            ("2001:db8::1:443", "2001:db8::1"),
            ("2001:db8:::443", "2001:db8::"),
            ("2001:db8:1:2:3:4:5:6:443", "2001:db8:1:2:3:4:5:6"),
            ("::1:443", "::1"),
            ("::ffff:203.0.113.7:80", "203.0.113.7"),
        ] {
            assert_eq!(address_with_bare_port(item.as_bytes()), ip(found), "{item}");
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
            assert_eq!(address_with_bare_port(item.as_bytes()), None, "{item}");
        }
    }

    #[test]
    fn well_formed_elements_name_the_client() {
        for element in [
            "for=203.0.113.7",
            "FOR=203.0.113.7",
            r#"for="203.0.113.7""#,
            r#"for="203.0.113.7:80""#,
            r#"for="\2\03.0.\1\1\3\.7""#,
            " \tfor=203.0.113.7\t ",
            ";for=203.0.113.7;",
            ";;;for=203.0.113.7;;proto=https",
            "proto=https;for=203.0.113.7;by=_gateway",
            r#"host="a;for=6.6.6.6,b";for=203.0.113.7"#,
            r#"host="\";for=6.6.6.6;x=\"";for=203.0.113.7"#,
            r#"host="\\";for=203.0.113.7"#,
            r#"host="é";for=203.0.113.7"#,
            "for=203.0.113.7;proto=https;sig=0QmVhM=",
            "sig=0QmVhM==;for=203.0.113.7;proto=https",
            "for=203.0.113.7; proto=https",
            "for=203.0.113.7;proto",
            "for=203.0.113.7;proto=",
            "for=203.0.113.7;=;host=[::1]:80",
            "host=a b\u{e9};for=203.0.113.7",
            "for=203.0.113.7;proto=http;PROTO=https",
        ] {
            assert_eq!(client(element.as_bytes()), ip("203.0.113.7"), "{element}");
        }
    }

    #[test]
    fn malformed_elements_name_no_client() {
        for element in [
            "",
            ";",
            "for",
            "for=",
            "=203.0.113.7",
            "203.0.113.7",
            "proto=https",
            "for=unknown",
            "for=_hidden",
            "for=203.0.113.7:80",
            "for=[2001:db8::7]",
            "for=2001:db8::7",
            r#"for="2001:db8::7""#,
            r#"for="""#,
            r#"for="203.0.113.7"#,
            r#"for=203.0.113.7""#,
            r#"for="203.0.113.7\"#,
            r#"for="203.0.113.7\""#,
            r#"for="203.0.113.7"x"#,
            r#"for="203.0.113.7" "203.0.113.7""#,
            r#"for=" 203.0.113.7""#,
            r#"for="\"203.0.113.7""#,
            "for =203.0.113.7",
            "for= 203.0.113.7",
            "proto=https; for=203.0.113.7",
            "for=203.0.113.7;for=203.0.113.7",
            "for=203.0.113.7;For=203.0.113.8",
            "for=203.0.113.7; for=203.0.113.8",
            "for=203.0.113.7;for",
            // The proxy has copied a host with quotes.
            r#"by=_x;for=203.0.113.7;host=""x";for=6.6.6.6;z="y""#,
            r#"for=203.0.113.7;host="a"b"#,
            r#"for=203.0.113.7;host="a"#,
            r#"for=203.0.113.7;a"b"=c"#,
            "for=203.0.113.7,for=203.0.113.7",
            "f\u{f6}r=203.0.113.7",
            "for=203.0.113.7\u{e9}",
            "x-for=203.0.113.7",
        ] {
            assert_eq!(client(element.as_bytes()), None, "{element}");
        }
    }
}
