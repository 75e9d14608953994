use http::{Uri, request::Parts};

use super::{
    extracted::{Extracted, Missing},
    extractor::{Description, IdSource, KeyExtractor},
};
use crate::id::IdFormat;

/// The server that a request is sent to, by the authority of its URI: `api.example.com`, or `api.example.com:8443` if
/// the port is not the scheme's default. It is for limits on the requests that a client sends.
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
/// A request whose URI has no authority, such as one of a tonic client without an origin, is refused.
///
/// **Not for servers.** There, the client chooses the authority.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl KeyExtractor for Host {
    fn extract(&self, parts: &Parts) -> Extracted {
        match host_of(&parts.uri) {
            Some(host) => host.into(),
            None => Extracted::Missing(Missing::server(
                "the URI has no authority: send requests with absolute URIs, such as `https://example.com/`",
            )),
        }
    }

    fn describe(&self) -> Description {
        Description::new(IdSource::OneForAll).fits(|format| format == IdFormat::Opaque)
    }
}

/// Returns the host in lower case, with the port if it is not the scheme's default.
pub(crate) fn host_of(uri: &Uri) -> Option<String> {
    let mut host = uri.host()?.to_ascii_lowercase();
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
            ("http://example.com:443/", Some("example.com:443")),
            ("https://[2001:DB8::1]:8443/", Some("[2001:db8::1]:8443")),
            ("example.com:8080", Some("example.com:8080")),
            ("/path", None),
            ("*", None),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(host_of(&uri).as_deref(), host, "{uri}");
        }
    }
}
