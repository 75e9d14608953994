//! The rule of GitLab's container registry. It trusts a position in the header, whatever the peer.

use std::net::IpAddr;

use http::HeaderMap;

use super::{single, x_forwarded_for};

const REAL_IP: &str = "x-real-ip";

/// The second address in `X-Forwarded-For`, else the one in `X-Real-IP`.
pub(super) fn client(headers: &HeaderMap) -> Option<IpAddr> {
    let second = x_forwarded_for::from_the_left(headers).nth(1).flatten();
    second.or_else(|| single::address(headers, REAL_IP).ok())
}
