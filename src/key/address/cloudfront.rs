//! `CloudFront-Viewer-Address`, which holds an address and always a port.

use std::net::IpAddr;

use http::HeaderMap;

use super::{node, problem::AddressProblem, single};

pub(super) const NAME: &str = "cloudfront-viewer-address";

/// Returns the address in the header, which must occur exactly once.
pub(super) fn address(headers: &HeaderMap) -> Result<IpAddr, AddressProblem> {
    node::with_bare_port(single::line(headers, NAME)?).ok_or(AddressProblem::Invalid)
}
