//! The list in `X-Forwarded-For`, to which each proxy appends the address of its peer.

use std::net::IpAddr;

use http::HeaderMap;

use super::node;

const NAME: &str = "x-forwarded-for";

/// Returns the items of all lines of the header, the last one first. An item that is not an address keeps its place.
pub(super) fn from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(NAME).iter().rev();
    lines
        .flat_map(|line| line.as_bytes().rsplit(is_comma))
        .map(node::plain)
}

/// Returns the same items, the first one first.
pub(super) fn from_the_left(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(NAME).iter();
    lines
        .flat_map(|line| line.as_bytes().split(is_comma))
        .map(node::plain)
}

fn is_comma(byte: &u8) -> bool {
    *byte == b','
}
