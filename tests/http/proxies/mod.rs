//! The client's address behind proxies: who is believed, and what hostile headers come to.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod allocations;
mod configuration;
mod headers;
mod hops;
mod hostile;
mod registry;
mod single;
mod trusted;

use std::net::{IpAddr, SocketAddr};

use http::{HeaderName, HeaderValue, Request, request::Parts};
use tollgate::{
    ClientIp,
    key::{Extracted, KeyExtractor, Proxies, ProxyHeader},
};

const XFF: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";

/// Where the proxies of these tests stand.
const TRUSTED: [&str; 2] = ["10.0.0.0/8", "fd00::/8"];

fn trusted(header: ProxyHeader) -> Proxies {
    Proxies::trusted(TRUSTED, header).unwrap()
}

/// A request whose peer's address is not known.
fn from_nowhere(headers: &[(&str, &[u8])]) -> Parts {
    let mut request = Request::new(());
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(name, value);
    }
    request.into_parts().0
}

fn from(peer: &str, headers: &[(&str, &[u8])]) -> Parts {
    let mut parts = from_nowhere(headers);
    let peer: IpAddr = peer.parse().unwrap();
    parts.extensions.insert(SocketAddr::new(peer, 49_152));
    parts
}

/// A request of these lines of one header.
fn lines<'a>(peer: &str, name: &'a str, lines: &[&'a str]) -> Parts {
    let headers: Vec<_> = lines.iter().map(|line| (name, line.as_bytes())).collect();
    from(peer, &headers)
}

/// The client's address, or why there is none.
fn client(proxies: &Proxies, parts: &Parts) -> Result<String, String> {
    match ClientIp::behind(proxies.clone()).exact().extract(parts) {
        Extracted::Id(id) => Ok(id.to_string()),
        Extracted::Missing(missing) if missing.is_servers_fault() => {
            Err(missing.reason().to_owned())
        }
        other => Err(format!("{other:?}")),
    }
}

/// Checks lines of a header, sent by a trusted proxy, against the client's address; without one, the
/// request has no id, for this reason.
#[track_caller]
fn assert_clients(proxies: &Proxies, name: &str, cases: &[(&[&str], Result<&str, &str>)]) {
    for (values, expected) in cases {
        let found = client(proxies, &lines("10.0.0.1", name, values));
        match (&found, expected) {
            (Ok(ip), Ok(expected)) => assert_eq!(ip, expected, "{values:?}"),
            (Err(reason), Err(expected)) => {
                assert!(reason.contains(expected), "{values:?}: {reason}");
            }
            _ => panic!("{values:?}: {found:?}, not {expected:?}"),
        }
    }
}
