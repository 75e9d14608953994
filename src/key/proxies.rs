use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

#[cfg(feature = "axum")]
use axum::extract::{ConnectInfo, connect_info::MockConnectInfo};
use http::{HeaderMap, HeaderName, header::AsHeaderName, request::Parts};
#[cfg(feature = "tonic")]
use tonic::transport::server::TcpConnectInfo;
#[cfg(feature = "tonic-tls")]
use tonic::transport::server::TlsConnectInfo;

use super::{
    extractor::IdSource,
    items,
    missing_id::MissingId,
    ranges::{ProxiesError, Ranges},
    value::header_name,
};
use crate::id::canonical_ip;

/// The most items of a list that are read.
const MAX_ITEMS: usize = 64;

/// The proxies between clients and the server, and which of them are trusted to name the client.
///
/// ```
/// use tollgate::{ClientIp, Rule, key::{Proxies, ProxiesError, ProxyHeader}};
///
/// fn rule() -> Result<Rule, ProxiesError> {
///     let proxies = Proxies::trusted(["10.0.0.0/24", "fd00:0:0:1::/64"], ProxyHeader::XForwardedFor)?;
///     Ok(Rule::new("requests", ClientIp::behind(proxies)))
/// }
/// ```
///
/// The [guide](crate::guide::proxies) says which constructor fits nginx, Cloudflare, AWS, Google Cloud and Kubernetes.
#[derive(Clone, Debug)]
pub struct Proxies(pub(super) Address);

impl Proxies {
    /// Trusts proxies in these ranges, given in CIDR notation or as single addresses.
    ///
    /// For a peer in none of the ranges, the peer is the client, whatever headers it sends. For a peer in one of
    /// them, the client is the first address in the header, from the right, that is in none of the ranges, or the last one if all
    /// are. At most 64 items are read. The request has no id if the header is missing, or if the item of the client is something
    /// other than an address.
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule, key::{Proxies, ProxyHeader}};
    ///
    /// let proxies = Proxies::trusted(["10.0.0.0/8", "fd00::/8"], ProxyHeader::XForwardedFor)?;
    /// let rule = Rule::new("requests", ClientIp::behind(proxies));
    /// # let _ = rule;
    /// # Ok::<_, tollgate::key::ProxiesError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the list is empty; if an entry is not an address or a range, has bits set beyond its prefix, stands for IPv4
    /// addresses, or contains every address; or if the header is a [`ProxyHeader::Single`] whose name has its own variant.
    pub fn trusted<T: AsRef<str>>(
        ranges: impl IntoIterator<Item = T>,
        header: ProxyHeader,
    ) -> Result<Self, ProxiesError> {
        let ranges = Ranges::of_proxies(ranges)?;
        match header.misread() {
            Some(misread) => Err(misread.into()),
            None => Ok(Self(Address::Trusted(ranges, header, false))),
        }
    }

    /// Trusts the last `hops` proxies, whatever their addresses. The client is at this position in the header, counted from the
    /// right. A header that holds a single address is used as it is.
    ///
    /// Each of these proxies must append exactly one item, and no request may bypass them. A client that bypasses them can choose
    /// its address. The request has no id if the header is missing or has fewer items, or if the item at this position is not an
    /// address.
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule, key::{Proxies, ProxyHeader}};
    ///
    /// let proxies = Proxies::hops(2, ProxyHeader::XForwardedFor);
    /// let rule = Rule::new("requests", ClientIp::behind(proxies));
    /// # let _ = rule;
    /// ```
    ///
    /// # Panics
    ///
    /// If `hops` is 0 or above 64, or if the header is a [`ProxyHeader::Single`] whose name has its own variant.
    #[must_use]
    #[track_caller]
    pub fn hops(hops: usize, header: ProxyHeader) -> Self {
        assert!(
            hops > 0,
            "0 hops: use `ClientIp::peer()` where there is no proxy, or count those that append to \
             the header"
        );
        assert!(hops <= MAX_ITEMS, "{hops} hops: use at most {MAX_ITEMS}");
        if let Some(misread) = header.misread() {
            panic!("{misread}");
        }
        Self(Address::Hops(hops, header))
    }

    /// Trusts every peer, by the rule of GitLab's container registry: the client is the second entry of
    /// `X-Forwarded-For`, else the address in `X-Real-IP`, else the peer.
    ///
    /// # A client can choose its address
    ///
    /// A client that reaches the server directly, or through a proxy that appends to the header, can send two entries
    /// of its own. It then has as many buckets as it likes, or can exhaust the bucket of another client. The same
    /// holds for `X-Real-IP` if the proxy forwards it unchanged. The rule is only safe if no request bypasses the
    /// proxy, and if the proxy discards *both* headers and then writes either the client as the second entry, or at
    /// most one entry and the client as `X-Real-IP`.
    ///
    /// Use it to count exactly as an existing registry does. Everywhere else, use [`trusted`](Self::trusted), or
    /// [`hops`](Self::hops), which counts from the end that clients cannot write.
    #[must_use]
    pub fn registry() -> Self {
        Self(Address::Registry)
    }

    /// Treats a request whose peer has no address, or the unspecified one (`0.0.0.0`, `::`), as one from a trusted
    /// proxy on a unix socket.
    ///
    /// Use it with [`trusted`](Self::trusted), and only for servers that listen on nothing but the socket, or that report the
    /// addresses of all other peers. Any other server would trust every client.
    #[must_use]
    pub fn trust_unix_socket(mut self) -> Self {
        if let Address::Trusted(.., unix_socket) = &mut self.0 {
            *unix_socket = true;
        }
        self
    }
}

/// The header in which proxies name the client. No other header is read. [`Proxies`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyHeader {
    /// `X-Forwarded-For`: a list, to which each proxy appends the address of its peer.
    XForwardedFor,
    /// `Forwarded` ([RFC 7239](https://www.rfc-editor.org/rfc/rfc7239)): a list, to which each proxy appends an
    /// element with its peer's address in `for`.
    Forwarded,
    /// `CloudFront-Viewer-Address`, which CloudFront sets to the address and port of its peer. IPv6 addresses have no
    /// brackets: `198.51.100.10:46532`, `2001:db8::7:46532`.
    ///
    /// CloudFront adds it if an origin request policy names it. No other address format is accepted in it.
    ///
    /// Source: Amazon CloudFront Developer Guide, "Add CloudFront request headers".
    CloudFrontViewerAddress,
    /// A header that holds a single address, such as `CF-Connecting-IP` or `X-Real-IP`. The proxy must replace the
    /// value that a client sends.
    ///
    /// [`Proxies`] rejects it for headers that have their own variant.
    Single(HeaderName),
}

impl ProxyHeader {
    /// The header `name`, which holds a single address.
    ///
    /// # Panics
    ///
    /// If `name` is not a valid header name.
    #[must_use]
    #[track_caller]
    pub fn single(name: &str) -> Self {
        Self::Single(header_name(name))
    }

    /// Returns the mistake if this reads a header with its own variant as a single address.
    pub(super) fn misread(&self) -> Option<String> {
        let Self::Single(name) = self else {
            return None;
        };
        let others = [
            Self::XForwardedFor,
            Self::Forwarded,
            Self::CloudFrontViewerAddress,
        ];
        let own = others.into_iter().find(|other| other.name() == name)?;
        Some(format!(
            "`{name}` does not hold a single address: use `ProxyHeader::{own:?}`"
        ))
    }

    fn name(&self) -> &str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::CloudFrontViewerAddress => "cloudfront-viewer-address",
            Self::Single(name) => name.as_str(),
        }
    }

    /// Returns the client's address behind proxies in these ranges: the first one from the right that is in none of them, or the
    /// leftmost if all are. An item that is not an address is never skipped.
    pub(super) fn first_untrusted(
        &self,
        headers: &HeaderMap,
        ranges: &Ranges,
    ) -> Result<IpAddr, MissingId> {
        self.client(headers, |items| {
            let mut farthest = Err(ABSENT);
            for item in items.take(MAX_ITEMS) {
                let ip = item.ok_or(INVALID)?;
                if !ranges.contains(ip) {
                    return Ok(ip);
                }
                farthest = Ok(ip);
            }
            items.next().map_or(farthest, |_| Err(TOO_LONG))
        })
    }

    /// Returns the client's address. From a list, `choose` selects it among the items, the last one first. A header with a single
    /// address has only this one.
    fn client(
        &self,
        headers: &HeaderMap,
        choose: impl FnOnce(&mut dyn Iterator<Item = Option<IpAddr>>) -> Result<IpAddr, HeaderFault>,
    ) -> Result<IpAddr, MissingId> {
        let found = match self {
            Self::XForwardedFor => choose(&mut items::x_forwarded_for(headers)),
            Self::Forwarded => choose(&mut items::forwarded(headers)),
            Self::CloudFrontViewerAddress => {
                single(headers, self.name(), items::address_with_bare_port)
            }
            Self::Single(name) => single(headers, name, items::address),
        };
        found.map_err(|problem| MissingId::server(format!("`{}` {problem}", self.name())))
    }
}

/// Returns the address in the header `name`, which must occur exactly once.
fn single(
    headers: &HeaderMap,
    name: impl AsHeaderName,
    read: fn(&[u8]) -> Option<IpAddr>,
) -> Result<IpAddr, HeaderFault> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(ABSENT)?;
    match lines.next() {
        Some(_) => Err(REPEATED),
        None => read(line.as_bytes()).ok_or(INVALID),
    }
}

/// The reason why a header does not name the client, with the remedy.
type HeaderFault = &'static str;

const ABSENT: HeaderFault = "is missing in a request from a trusted proxy: configure the proxy to write the address of its peer into it, \
    or name the header that the proxy sends; if the request has not passed the proxy (a health check, or a call from the proxy's own \
    machine), send it through the proxy, or put its route outside of the layer";

const REPEATED: HeaderFault = "appears more than once: configure the proxy to replace the one that clients send, or use a header that the \
    proxy appends to";

const INVALID: HeaderFault = "has no valid IP address where the client's should be: configure the proxy to write the address of its peer \
    into it";

const TOO_LONG: HeaderFault = "contains only trusted proxies (at most 64 of its items are read): narrow the trusted ranges to the proxies, \
    so that no client is in them";

const TOO_FEW: HeaderFault = "is missing or has fewer items than hops: prevent requests that bypass the proxies, and count only proxies \
    that append to the header";

/// A way to find a client's address.
#[derive(Clone, Debug)]
pub(super) enum Address {
    /// The address at the other end of the connection.
    Peer,
    /// The address that a user's function returns.
    Custom(Custom),
    /// The address in a header, if the peer is a proxy in these ranges, or on a unix socket if that is trusted.
    Trusted(Ranges, ProxyHeader, bool),
    /// The address in a header, behind this number of hops.
    Hops(usize, ProxyHeader),
    /// The address in the headers of any peer, as in the container registry.
    Registry,
}

#[derive(Clone)]
pub(super) struct Custom(pub(super) Arc<FindAddress>);

type FindAddress = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;

impl Address {
    #[inline]
    pub(super) fn find(&self, parts: &Parts) -> Result<IpAddr, MissingId> {
        match self {
            Self::Peer => peer(parts),
            _ => self.find_behind_proxies(parts),
        }
    }

    /// Does the same for all other cases than the peer's address.
    #[inline(never)]
    fn find_behind_proxies(&self, parts: &Parts) -> Result<IpAddr, MissingId> {
        let headers = &parts.headers;
        match self {
            Self::Peer => peer(parts),
            Self::Custom(Custom(find)) => known(find(parts), NOT_FOUND),
            Self::Trusted(ranges, header, unix_socket) => match peer(parts) {
                Ok(peer) if !ranges.contains(peer) => Ok(peer),
                Err(missing) if !unix_socket => Err(missing),
                Ok(_) | Err(_) => header.first_untrusted(headers, ranges),
            },
            Self::Hops(hops, header) => header.client(headers, |items| {
                items.nth(hops - 1).ok_or(TOO_FEW)?.ok_or(INVALID)
            }),
            Self::Registry => items::second_x_forwarded_for(headers)
                .or_else(|| single(headers, "x-real-ip", items::address).ok())
                .map_or_else(|| peer(parts), Ok),
        }
    }

    pub(super) fn source(&self) -> IdSource {
        match self {
            Self::Peer => IdSource::Peer,
            Self::Custom(_) | Self::Trusted(..) | Self::Hops(..) => IdSource::Address,
            Self::Registry => IdSource::AnyHeader,
        }
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function")
    }
}

const UNKNOWN: &str = "the server does not pass on the peer's address: serve axum with \
    `app.into_make_service_with_connect_info::<SocketAddr>()` and tollgate's feature `axum`, tonic \
    with feature `tonic` (and `tonic-tls`), or put a `SocketAddr` into the request's extensions; \
    behind a proxy on a unix socket, use `Proxies::trust_unix_socket`";

const NOT_FOUND: &str = "the function given to find the peer's address returned none";

const UNSPECIFIED: &str = "the peer's address is `0.0.0.0` or `::`, which is nobody's: have the server pass on the \
    address that connected to it; behind a proxy on a unix socket, use `Proxies::trust_unix_socket`";

#[inline]
fn peer(parts: &Parts) -> Result<IpAddr, MissingId> {
    known(peer_ip(parts), UNKNOWN)
}

#[inline]
fn peer_ip(parts: &Parts) -> Option<IpAddr> {
    let extensions = &parts.extensions;
    #[cfg(feature = "axum")]
    if let Some(info) = extensions.get::<ConnectInfo<SocketAddr>>() {
        return Some(info.0.ip());
    }
    #[cfg(feature = "axum")]
    if let Some(mock) = extensions.get::<MockConnectInfo<SocketAddr>>() {
        return Some(mock.0.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<TcpConnectInfo>() {
        return Some(info.remote_addr()?.ip());
    }
    #[cfg(feature = "tonic-tls")]
    if let Some(info) = extensions.get::<TlsConnectInfo<TcpConnectInfo>>() {
        return Some(info.get_ref().remote_addr()?.ip());
    }
    extensions.get::<SocketAddr>().map(SocketAddr::ip)
}

/// Converts an address that stands for an IPv4 address. The unspecified address counts as missing.
#[inline]
fn known(ip: Option<IpAddr>, unknown: &'static str) -> Result<IpAddr, MissingId> {
    match ip.map(canonical_ip) {
        Some(ip) if !ip.is_unspecified() => Ok(ip),
        Some(_) => Err(MissingId::server(UNSPECIFIED)),
        None => Err(MissingId::server(unknown)),
    }
}
