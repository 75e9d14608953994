//! A header that holds one address.

use std::net::IpAddr;

use http::{HeaderMap, header::AsHeaderName};

use super::{node, problem::AddressProblem};

/// Holds an address and always a port.
pub(super) const CLOUDFRONT: &str = "cloudfront-viewer-address";

/// Returns the address in the header `name`, which must occur exactly once.
pub(super) fn address(
    headers: &HeaderMap,
    name: impl AsHeaderName,
) -> Result<IpAddr, AddressProblem> {
    node::plain(line(headers, name)?).ok_or(AddressProblem::Invalid)
}

/// Returns the address in the header `name`, which must occur exactly once and have a port.
pub(super) fn address_and_port(headers: &HeaderMap, name: &str) -> Result<IpAddr, AddressProblem> {
    node::with_bare_port(line(headers, name)?).ok_or(AddressProblem::Invalid)
}

/// Returns the value of the header `name`, which must occur exactly once.
fn line(headers: &HeaderMap, name: impl AsHeaderName) -> Result<&[u8], AddressProblem> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(AddressProblem::Absent)?;
    if lines.next().is_some() {
        return Err(AddressProblem::Repeated);
    }
    Ok(line.as_bytes())
}
