use std::net::IpAddr;

use http::request::Parts;

use super::{
    Predicate,
    address::{Address, Proxies, RangeError, Ranges},
    extracted::Extracted,
    extractor::{Description, KeyExtractor},
};
use crate::id::{Id, IdFormat, masked};

/// The bits of an IPv6 address that one subscriber cannot choose.
const SUBSCRIBER: u8 = 64;

/// The client's IP address.
///
/// An IPv6 address is counted by its /64, because each subscriber has at least that many addresses. The id is the
/// first address of the /64 (`2001:db8:1:2::`). [`exact`](Self::exact) counts single addresses. An IPv4-mapped
/// address (`::ffff:203.0.113.7`) is converted to IPv4 first.
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
    exact: bool,
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
        Self {
            address: Address::peer(),
            exact: false,
        }
    }

    /// The address that a function returns, for servers that provide it elsewhere (TLS or unix sockets, the PROXY
    /// protocol, serverless platforms).
    ///
    /// Do not read it from a header that clients can set. For a header that proxies set, use
    /// [`behind`](Self::behind).
    #[must_use]
    pub fn from_fn(find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self {
            address: Address::from_fn(find),
            exact: false,
        }
    }

    /// The address that trusted proxies name in a header.
    #[must_use]
    pub fn behind(proxies: Proxies) -> Self {
        Self {
            address: Address::Behind(proxies),
            exact: false,
        }
    }

    /// Counts each IPv6 address separately. A subscriber then has 2⁶⁴ buckets or more, so add a rule with
    /// [`Ipv6Range`](super::Ipv6Range).
    ///
    /// You need this if a translator gives IPv4 clients IPv6 addresses in one /64 (`64:ff9b::/96`), because they
    /// would share a bucket.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
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
    /// # Ok::<_, tollgate::key::RangeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an entry is not an address or a range, has bits set beyond its prefix, or is IPv4-mapped.
    pub fn within<T: AsRef<str>>(
        &self,
        ranges: impl IntoIterator<Item = T>,
    ) -> Result<Within, RangeError> {
        Ok(Within {
            ranges: Ranges::parse(ranges)?,
            address: self.address.clone(),
        })
    }
}

/// A condition for requests from some addresses. Created by [`ClientIp::within`].
#[derive(Clone, Debug)]
pub struct Within {
    address: Address,
    ranges: Ranges,
}

impl Predicate for Within {
    fn holds(&self, parts: &Parts) -> bool {
        let ip = self.address.find(parts);
        ip.is_ok_and(|ip| self.ranges.contains(ip))
    }
}

impl KeyExtractor for ClientIp {
    fn extract(&self, parts: &Parts) -> Extracted {
        match self.address.find(parts) {
            Ok(IpAddr::V6(ip)) if !self.exact => Id::from(masked(ip, SUBSCRIBER)).into(),
            Ok(ip) => Id::from(ip).into(),
            Err(missing) => Extracted::Missing(missing),
        }
    }

    fn describe(&self) -> Description {
        let exact = self.exact;
        Description::new(self.address.id_source())
            .fits(|format| matches!(format, IdFormat::Opaque | IdFormat::IpAddress))
            .can_find(move |folded| is_client(folded, exact))
    }
}

/// Whether an id is the address of a client, as it is counted.
fn is_client(folded: &str, exact: bool) -> bool {
    match folded.parse().map(|ip: IpAddr| ip.to_canonical()) {
        Ok(IpAddr::V6(ip)) if !exact => Id::from(masked(ip, SUBSCRIBER)).as_str() == folded,
        Ok(ip) => Id::from(ip).as_str() == folded,
        Err(_) => false,
    }
}
