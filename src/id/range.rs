//! Ranges of addresses in CIDR notation.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::{address::embedded_ipv4, format::shortened};

/// Parses a range, or a single address. The error says what to write instead.
pub(crate) fn range(text: &str) -> Result<IpNet, String> {
    let shown = shortened(text);
    let Some(written) = parse(text) else {
        return Err(format!(
            "`{shown}` is not an address or a range: write it as `10.1.2.3`, `10.0.0.0/8` or `fd00::/8`"
        ));
    };
    let range = embedded(written);
    let whole = range.trunc();
    let right = if text.contains('/') {
        whole.to_string()
    } else {
        whole.addr().to_string()
    };
    if range != written {
        Err(format!(
            "`{shown}` is IPv4 written as IPv6: write `{right}`"
        ))
    } else if whole != written {
        Err(format!(
            "`{shown}` has bits set beyond its prefix: write `{right}`, or a single address"
        ))
    } else {
        Ok(whole)
    }
}

/// The standard library parses the address part, because it rejects `010.0.0.0`.
fn parse(text: &str) -> Option<IpNet> {
    let Some((ip, bits)) = text.split_once('/') else {
        return Some(text.parse::<IpAddr>().ok()?.into());
    };
    let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
    IpNet::new(ip.parse().ok()?, digits.then(|| bits.parse().ok())??).ok()
}

/// Converts a range of IPv6 addresses that stand for IPv4 ones.
fn embedded(range: IpNet) -> IpNet {
    let IpNet::V6(v6) = range else { return range };
    let ip = embedded_ipv4(v6.addr());
    let bits = v6.prefix_len().checked_sub(96);
    match (ip, bits) {
        (Some(ip), Some(bits)) => Ipv4Net::new(ip, bits).map_or(range, IpNet::V4),
        _ => range,
    }
}
