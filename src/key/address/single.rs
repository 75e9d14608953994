//! A header that holds one address.

use std::net::IpAddr;

use http::{HeaderMap, header::AsHeaderName};

use super::{node, problem::Problem};

/// The address in the header `name`, which must be there once.
pub(super) fn address(headers: &HeaderMap, name: impl AsHeaderName) -> Result<IpAddr, Problem> {
    node::plain(line(headers, name)?).ok_or(Problem::Invalid)
}

/// The value of the header `name`, which must be there once.
pub(super) fn line(headers: &HeaderMap, name: impl AsHeaderName) -> Result<&[u8], Problem> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(Problem::Absent)?;
    if lines.next().is_some() {
        return Err(Problem::Repeated);
    }
    Ok(line.as_bytes())
}
