use std::{net::IpAddr, sync::Arc};

use http::request::Parts;

#[cfg(feature = "reload")]
use super::ip_list::IpList;
use super::{
    extractor::{IdSource, KeyExtractor},
    missing_id::MissingId,
    proxies::{Address, Custom, Proxies},
    ranges::{ProxiesError, Ranges},
};
use crate::id::{Id, IdFormat, canonical_ip, masked, network};

/// The leading bits of an IPv6 address that a subscriber cannot choose.
const SUBSCRIBER: u8 = 64;

/// The client's IP address.
///
/// An IPv6 address is counted by its /64, because each subscriber has at least that many addresses. The id is the
/// first address of the /64 (`2001:db8:1:2::`). [`exact`](Self::exact) counts single addresses. An IPv4-mapped
/// address (`::ffff:203.0.113.7`) and one of a NAT64 translator (`64:ff9b::203.0.113.7`) are converted to IPv4 first.
///
/// ```
/// use tollgate::{ClientIp, Rule};
///
/// let rule = Rule::new("requests", ClientIp::peer());
/// # let _ = rule;
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    address: Address,
    is_exact: bool,
}

impl ClientIp {
    /// The address at the other end of the connection.
    ///
    /// It is read from axum's `ConnectInfo<SocketAddr>` (feature `axum`; serve with
    /// `into_make_service_with_connect_info`), from tonic's `TcpConnectInfo` (feature `tonic`), or from a plain
    /// [`SocketAddr`](std::net::SocketAddr) in the request's extensions.
    ///
    /// Behind a proxy, this is the proxy's address for all clients. Use [`behind`](Self::behind) there.
    #[must_use]
    pub fn peer() -> Self {
        Self::of(Address::Peer)
    }

    /// The address that a function returns, for servers that provide it elsewhere (TLS or unix sockets, the PROXY
    /// protocol, serverless platforms).
    ///
    /// Do not read it from a header that clients can set. For a header that proxies set, use
    /// [`behind`](Self::behind).
    #[must_use]
    pub fn from_fn(find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::of(Address::Custom(Custom(Arc::new(find))))
    }

    /// The address that trusted proxies name in a header.
    #[must_use]
    pub fn behind(proxies: Proxies) -> Self {
        Self::of(proxies.0)
    }

    /// Counts each IPv6 address separately. A subscriber then has 2⁶⁴ buckets or more, so add a rule with
    /// [`Ipv6Range`].
    ///
    /// You need this if a translator gives IPv4 clients IPv6 addresses in one /64 other than `64:ff9b::/96`, because they
    /// would share a bucket.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.is_exact = true;
        self
    }

    /// The id of an address, for code without requests: that of an IPv6 address is the first one of its /64.
    ///
    /// ```
    /// use tollgate::ClientIp;
    ///
    /// let id = ClientIp::id("2001:db8:1:2:3:4:5:6".parse()?);
    /// assert_eq!(id.as_str(), "2001:db8:1:2::");
    /// # Ok::<_, std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn id(address: IpAddr) -> Id {
        match canonical_ip(address) {
            IpAddr::V6(ip) => masked(ip, SUBSCRIBER).into(),
            ip => ip.into(),
        }
    }

    fn of(address: Address) -> Self {
        let is_exact = false;
        Self { address, is_exact }
    }

    /// A condition that holds for requests from these addresses, given in CIDR notation or as single addresses, for
    /// lists of exempt or denied clients. IPv6 addresses are compared as a whole. For a request without a known
    /// address, it is false.
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule};
    ///
    /// let monitoring = ClientIp::peer().within(["192.0.2.0/24", "2001:db8:77::/48"])?;
    /// let rule = Rule::new("requests", ClientIp::peer()).skip_if(monitoring);
    /// # let _ = rule;
    /// # Ok::<_, tollgate::key::ProxiesError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an entry is not an address or a range, has bits set beyond its prefix, or stands for an IPv4 address.
    pub fn within<I>(
        &self,
        ranges: I,
    ) -> Result<impl Fn(&Parts) -> bool + Clone + Send + Sync + 'static + use<I>, ProxiesError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let address = self.address.clone();
        let ranges = Ranges::parse(ranges)?;
        Ok(move |parts: &Parts| address.find(parts).is_ok_and(|ip| ranges.contains(ip)))
    }

    /// A condition that holds for requests from the addresses on a list, which can change while requests run. Otherwise it
    /// is like [`within`](Self::within).
    ///
    /// ```no_run
    /// use tollgate::{ClientIp, Limit, RateLimitLayer, key::IpList};
    ///
    /// // One address or range per line.
    /// let abusers = IpList::from_file("abusers.txt")?;
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer())
    ///     .deny_if("abusers", ClientIp::peer().listed_in(&abusers));
    /// # let _ = layer;
    /// # Ok::<_, tollgate::limit::LimitsError>(())
    /// ```
    #[cfg(feature = "reload")]
    pub fn listed_in(
        &self,
        list: &IpList,
    ) -> impl Fn(&Parts) -> bool + Clone + Send + Sync + 'static + use<> {
        let address = self.address.clone();
        let list = list.clone();
        move |parts: &Parts| address.find(parts).is_ok_and(|ip| list.contains(ip))
    }
}

impl KeyExtractor for ClientIp {
    #[inline]
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        Ok(Some(match self.address.find(parts)? {
            IpAddr::V6(ip) if !self.is_exact => masked(ip, SUBSCRIBER).into(),
            ip => ip.into(),
        }))
    }

    fn extract_as(&self, parts: &Parts, _: IdFormat) -> Result<Option<Id>, MissingId> {
        // The address is canonical in all formats that fit.
        self.extract(parts)
    }

    fn fits(&self, format: IdFormat) -> bool {
        matches!(format, IdFormat::Opaque | IdFormat::IpAddress)
    }

    fn source(&self) -> IdSource {
        self.address.source()
    }
}

/// The range of a client's IPv6 address. By default it is the /48 (`2001:db8:1::/48`), the typical allocation of a
/// subscriber.
///
/// For a client with an IPv4 address, the rule is skipped.
///
/// ```
/// use tollgate::{ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, key::Ipv6Range};
///
/// let limits = Limits::builder()
///     .limit("PerAddress", Limit::per_minute(10))
///     .limit("PerRange", Limit::per_minute(500))
///     .build()?;
/// let limiter = Limiter::new(limits, MemoryBackend::new());
/// let layer = RateLimitLayer::with_limiter(limiter)
///     .rule(Rule::new("PerAddress", ClientIp::peer().exact()))
///     .rule(Rule::new("PerRange", Ipv6Range::peer()));
/// # Ok::<_, tollgate::limit::LimitsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ipv6Range {
    ip: ClientIp,
    bits: u8,
}

impl Ipv6Range {
    /// The range of the address that [`ClientIp::peer`] finds.
    #[must_use]
    pub fn peer() -> Self {
        Self::of(ClientIp::peer())
    }

    /// The range of the address that a function returns.
    #[must_use]
    pub fn from_fn(find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::of(ClientIp::from_fn(find))
    }

    /// The range of the address that trusted proxies name in a header.
    #[must_use]
    pub fn behind(proxies: Proxies) -> Self {
        Self::of(ClientIp::behind(proxies))
    }

    /// Sets the length of the range's prefix. The id format `ipv6RangeCIDR` requires 48. For other lengths, use opaque ids.
    ///
    /// # Panics
    ///
    /// If `bits` is not between 32 (the size of a provider) and 64 (the size of a subscriber).
    #[must_use]
    #[track_caller]
    pub fn bits(mut self, bits: u8) -> Self {
        assert!(
            (32..=64).contains(&bits),
            "an IPv6 prefix of /{bits}: use one from /32 to /64"
        );
        self.bits = bits;
        self
    }

    fn of(ip: ClientIp) -> Self {
        Self { ip, bits: 48 }
    }
}

impl KeyExtractor for Ipv6Range {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        Ok(match self.ip.address.find(parts)? {
            IpAddr::V6(ip) => Some(network(ip, self.bits)),
            IpAddr::V4(_) => None,
        })
    }

    fn fits(&self, format: IdFormat) -> bool {
        format == IdFormat::Opaque || format == IdFormat::Ipv6Range && self.bits == 48
    }

    fn source(&self) -> IdSource {
        self.ip.source()
    }
}
