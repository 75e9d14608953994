//! The `Forwarded` header, to which each proxy appends an element ([RFC 7239]).
//!
//! The left part of the header comes from the client, which may leave a quoted string open. So lines are split from the
//! right: the elements from our proxies are well formed, and nothing to their left can change how they are read.
//!
//! [RFC 7239]: https://www.rfc-editor.org/rfc/rfc7239

use std::net::IpAddr;

use arrayvec::ArrayVec;
use http::{HeaderMap, header::FORWARDED};

use super::node;

/// The most parameters of an element. RFC 7239 defines four.
const MAX_PARAMETERS: usize = 16;

/// Returns the addresses in the elements of all lines, the last one first. An element without a valid address
/// keeps its place.
pub(super) fn from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(FORWARDED).iter().rev();
    lines
        .flat_map(|line| Elements(Some(line.as_bytes())))
        .map(client)
}

/// The elements of one line, the last one first.
struct Elements<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.0?;
        let (rest, element) = match last_comma(line) {
            Some(at) => (Some(&line[..at]), &line[at + 1..]),
            None => (None, line),
        };
        self.0 = rest;
        Some(element)
    }
}

/// Finds the last comma outside of quoted strings.
fn last_comma(line: &[u8]) -> Option<usize> {
    let mut quoted = false;
    for (at, byte) in line.iter().enumerate().rev() {
        match byte {
            b',' if !quoted => return Some(at),
            b'"' if !quoted => quoted = true,
            b'"' if !is_escaped(&line[..at]) => quoted = false,
            _ => {}
        }
    }
    None
}

fn is_escaped(before: &[u8]) -> bool {
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// Returns the address in the parameter `for` of an element such as `for="[2001:db8::7]:80";proto=https`, or `None` if the
/// element violates the grammar ([RFC 7239, section 4]) or repeats a parameter.
///
/// [RFC 7239, section 4]: https://www.rfc-editor.org/rfc/rfc7239#section-4
fn client(element: &[u8]) -> Option<IpAddr> {
    let mut rest = element.trim_ascii();
    let mut names = ArrayVec::<&[u8], MAX_PARAMETERS>::new();
    let mut client = None;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b";") {
            rest = after;
            continue;
        }
        let (name, value, after) = pair(rest)?;
        if names.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            return None;
        }
        names.try_push(name).ok()?;
        if name.eq_ignore_ascii_case(b"for") {
            client = Some(value);
        }
        rest = after;
    }
    node::forwarded(&unescaped(client?)?)
}

/// Returns the name and the value, still escaped, of the pair at the start of `text`, and the text after the
/// pair: nothing or a semicolon.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name, rest) = token(text)?;
    let rest = rest.strip_prefix(b"=")?;
    let (value, rest) = match rest.strip_prefix(b"\"") {
        Some(rest) => quoted(rest)?,
        None => token(rest)?,
    };
    matches!(rest, [] | [b';', ..]).then_some((name, value, rest))
}

fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = text.iter().take_while(|byte| is_of_token(**byte)).count();
    (len > 0).then(|| text.split_at(len))
}

/// Splits the text at the closing quote. A header's value has no control
/// characters, so this need not reject any.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })?;
    Some((&text[..end], &text[end + 1..]))
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns the value without its backslashes (a token has none), or `None` if it is too long for an address.
fn unescaped(value: &[u8]) -> Option<ArrayVec<u8, { node::MAX_LEN }>> {
    let mut text = ArrayVec::new();
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        let byte = if byte == b'\\' { *bytes.next()? } else { byte };
        text.try_push(byte).ok()?;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("a test's address"))
    }

    #[test]
    fn well_formed_elements_name_the_client() {
        let elements = [
            "for=203.0.113.7",
            "FOR=203.0.113.7",
            r#"for="203.0.113.7""#,
            r#"for="203.0.113.7:80""#,
            r#"for="203.0.113.7:_port""#,
            r#"for="\2\03.0.\1\1\3\.7""#,
            " \tfor=203.0.113.7\t ",
            ";for=203.0.113.7;",
            ";;;for=203.0.113.7;;proto=https",
            "proto=https;for=203.0.113.7;by=_gateway",
            r#"host="a;for=6.6.6.6,b";for=203.0.113.7"#,
            r#"host="\";for=6.6.6.6;x=\"";for=203.0.113.7"#,
            r#"host="\\";for=203.0.113.7"#,
            r#"host="é";for=203.0.113.7"#,
        ];
        for element in elements {
            assert_eq!(client(element.as_bytes()), ip("203.0.113.7"), "{element}");
        }
        assert_eq!(client(br#"for="[2001:db8::7]:80""#), ip("2001:db8::7"));
    }

    const NAME_NOBODY: [&str; 33] = [
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
        "for =203.0.113.7",
        "for= 203.0.113.7",
        "for=203.0.113.7; proto=https",
        "for=203.0.113.7;proto",
        "for=203.0.113.7;proto=",
        "for=203.0.113.7;for=203.0.113.7",
        "for=203.0.113.7;For=203.0.113.8",
        "for=203.0.113.7;proto=http;PROTO=https",
        "for=203.0.113.7,for=203.0.113.7",
        "f\u{f6}r=203.0.113.7",
        "for=203.0.113.7\u{e9}",
        "x-for=203.0.113.7",
    ];

    #[test]
    fn others_name_nobody() {
        for element in NAME_NOBODY {
            assert_eq!(client(element.as_bytes()), None, "{element}");
        }
    }

    #[test]
    fn parameters_are_bounded() {
        let element = |n: usize| {
            let others: String = (1..n).map(|i| format!("x{i}=1;")).collect();
            format!("{others}for=203.0.113.7")
        };
        let most = element(MAX_PARAMETERS);
        assert_eq!(client(most.as_bytes()), ip("203.0.113.7"));
        assert_eq!(client(element(MAX_PARAMETERS + 1).as_bytes()), None);
    }
}
