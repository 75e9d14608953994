use std::net::Ipv6Addr;

use http::{Uri, request::Parts};

use super::{
    extractor::{IdSource, KeyExtractor},
    missing_id::MissingId,
};
use crate::id::Id;

/// The server to which a request is sent, by the authority of its URI: `api.example.com`, or `api.example.com:8443` if the port is
/// not the scheme's default. It is for limits on the requests that a client sends.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, RateLimitLayer, key::Host};
///
/// // At most five requests per second to each host. Further ones wait for up to a minute.
/// let limit = Limit::per_second(5).max_wait(Duration::from_secs(60));
/// let layer = RateLimitLayer::new(limit, Host);
/// # let _ = layer;
/// ```
///
/// Different spellings of a host share a bucket: upper and lower case, a dot at the end, the forms of an IPv6 address. A
/// user name and a password in the URI are ignored. A name and its addresses are different hosts.
///
/// A request whose URI has no authority is refused. This concerns tonic clients without an origin, and requests with a
/// path and a `Host` header (the origin form) that are sent directly on an HTTP/1.1 connection.
///
/// **Not for servers.** There, the client chooses the authority.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl KeyExtractor for Host {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        match host_of(&parts.uri) {
            Some(host) => Ok(Some(host.into())),
            None => Err(MissingId::server(
                "the URI has no authority: send requests with absolute URIs, such as `https://example.com/`",
            )),
        }
    }

    fn source(&self) -> IdSource {
        IdSource::Shared
    }
}

/// Returns the host in its usual spelling, with the port if it is not the scheme's default.
pub(crate) fn host_of(uri: &Uri) -> Option<String> {
    let host = uri.host()?;
    let host = Some(host.strip_suffix('.').unwrap_or(host));
    let host = host.filter(|host| !host.is_empty())?;
    let ip = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let mut host = match ip.and_then(|ip| ip.parse::<Ipv6Addr>().ok()) {
        Some(ip) => format!("[{ip}]"),
        None => host.to_ascii_lowercase(),
    };
    let own = match uri.scheme_str() {
        Some("http" | "ws") => Some(80),
        Some("https" | "wss") => Some(443),
        _ => None,
    };
    if let Some(port) = uri.port_u16().filter(|port| Some(*port) != own) {
        host.push(':');
        host.push_str(itoa::Buffer::new().format(port));
    }
    Some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_authority_are_one_host() {
        for (uri, host) in [
            ("https://Example.COM/a", Some("example.com")),
            ("https://example.com:443/", Some("example.com")),
            ("http://user@example.com:80/", Some("example.com")),
            ("http://user:pass@example.com/", Some("example.com")),
            ("http://user:80@example.com:81/", Some("example.com:81")),
            ("http://a@b@example.com/", Some("example.com")),
            ("http://api.example.com@example.org/", Some("example.org")),
            ("https://example.com./", Some("example.com")),
            ("https://EXAMPLE.com.:8443/", Some("example.com:8443")),
            ("https://example.com:/", Some("example.com")),
            ("https://example.com:0443/", Some("example.com")),
            ("wss://example.com:443/", Some("example.com")),
            ("ftp://example.com:443/", Some("example.com:443")),
            ("http://example.com:443/", Some("example.com:443")),
            ("https://[2001:DB8::1]:8443/", Some("[2001:db8::1]:8443")),
            ("https://[2001:db8:0:0::1]/", Some("[2001:db8::1]")),
            ("http://[::1]:80/", Some("[::1]")),
            ("http://user@[::1]/", Some("[::1]")),
            ("example.com:8080", Some("example.com:8080")),
            ("http://:80/", None),
            ("http://./", None),
            ("/path", None),
            ("*", None),
        ] {
            let Ok(uri) = uri.parse::<Uri>() else {
                assert_eq!(host, None, "{uri} is no URI");
                continue;
            };
            assert_eq!(host_of(&uri).as_deref(), host, "{uri}");
        }
    }

    #[test]
    fn host_header_is_not_the_authority() {
        let (parts, ()) = http::Request::get("/path")
            .header("host", "example.com")
            .body(())
            .unwrap()
            .into_parts();
        assert!(Host.extract(&parts).is_err());
    }
}
