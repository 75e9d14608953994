//! The `Forwarded` header, to which each proxy appends an element ([RFC 7239]).
//!
//! The left part of the header comes from the client, which may leave a quoted string open. So lines are split from the
//! right: the elements from our proxies are well formed, and nothing to their left can change how they are read.
//!
//! [RFC 7239]: https://www.rfc-editor.org/rfc/rfc7239

use std::net::IpAddr;

use http::{HeaderMap, header::FORWARDED};

use super::element;

/// Returns the addresses in the elements of all lines, the last one first. An element without a valid address
/// keeps its place.
pub(super) fn from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(FORWARDED).iter().rev();
    lines
        .flat_map(|line| Elements(Some(line.as_bytes())))
        .map(element::client)
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
