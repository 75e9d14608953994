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
/// An IPv6 address counts by its /64, because a subscriber has at least that many addresses, unless
/// told [`exact`](Self::exact): the id is the first address of it (`2001:db8:1:2::`). An IPv4-mapped
/// one (`::ffff:203.0.113.7`) is the IPv4 address, before anything else.
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
    /// It is found where axum leaves it (feature `axum`: `ConnectInfo<SocketAddr>`, of
    /// `into_make_service_with_connect_info`), where tonic does (feature `tonic`: `TcpConnectInfo`),
    /// or as a bare [`SocketAddr`](std::net::SocketAddr) in the request's extensions.
    ///
    /// Behind a proxy that is the proxy's address, one for all clients: use
    /// [`behind`](Self::behind) there.
    #[must_use]
    pub fn peer() -> Self {
        Self {
            address: Address::peer(),
            exact: false,
        }
    }

    /// The address that a function finds, for servers that leave it elsewhere (TLS or unix sockets,
    /// PROXY protocol, serverless platforms).
    ///
    /// A header that any client can set is no such place; for one that proxies set, use
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

    /// Counts each IPv6 address on its own. One subscriber then has 2⁶⁴ buckets or more, so add a
    /// rule by [`Ipv6Range`](super::Ipv6Range).
    ///
    /// It is needed where a translator gives IPv4 clients IPv6 addresses of one /64
    /// (`64:ff9b::/96`): they would share a bucket.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Says of requests whether they come from one of these addresses, in CIDR notation, or as an address for that alone:
    /// for lists of those who are not limited, or not let in. An IPv6 address is compared whole. Of a request whose
    /// address is not known, it says no.
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
    /// If an entry is neither address nor range, has bits set beyond its prefix, or is IPv4-mapped.
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

/// Requests from some addresses: what [`ClientIp::within`] returns.
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
