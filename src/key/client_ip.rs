use std::net::{IpAddr, Ipv4Addr};

use http::request::Parts;

use super::{
    Predicate,
    address::{Address, Proxies, RangeError, Ranges},
    extracted::Extracted,
    extractor::{IdProperties, KeyExtractor},
    ip_list::IpList,
};
use crate::id::{Id, IdFormat, masked};

/// The bits of an IPv6 address that one subscriber cannot choose.
const SUBSCRIBER: u8 = 64;

/// The bits of an IPv4 address.
const V4_BITS: u8 = 32;

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
    counted: Counted,
}

/// The part of an address that identifies a client.
#[derive(Clone, Copy, Debug)]
struct Counted {
    v4_mask: Ipv4Addr,
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
        Self::at(Address::peer())
    }

    /// The address that a function returns, for servers that provide it elsewhere (TLS or unix sockets, the PROXY
    /// protocol, serverless platforms).
    ///
    /// Do not read it from a header that clients can set. For a header that proxies set, use
    /// [`behind`](Self::behind).
    #[must_use]
    pub fn from_fn(find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::at(Address::from_fn(find))
    }

    /// The address that trusted proxies name in a header.
    #[must_use]
    pub fn behind(proxies: Proxies) -> Self {
        Self::at(Address::Behind(proxies))
    }

    fn at(address: Address) -> Self {
        let (v4_mask, exact) = (Ipv4Addr::BROADCAST, false);
        let counted = Counted { v4_mask, exact };
        Self { address, counted }
    }

    /// Counts each IPv6 address separately. A subscriber then has 2⁶⁴ buckets or more, so add a rule with
    /// [`Ipv6Range`](super::Ipv6Range).
    ///
    /// You need this if a translator gives IPv4 clients IPv6 addresses in one /64 (`64:ff9b::/96`), because they
    /// would share a bucket.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.counted.exact = true;
        self
    }

    /// Counts IPv4 addresses by their first `bits` bits: with 24, all addresses from `203.0.113.0` to `203.0.113.255`
    /// are one client, whose id is the first of them. This stops clients that change their address within a network,
    /// but makes neighbours share a limit.
    ///
    /// # Panics
    ///
    /// If `bits` is above 32, or 0, which would count all clients as one (use [`Everyone`](super::Everyone) for that).
    #[must_use]
    #[track_caller]
    pub fn v4_prefix(mut self, bits: u8) -> Self {
        assert!(
            (1..=V4_BITS).contains(&bits),
            "an IPv4 prefix of {bits} bits: use 1 to 32, or `Everyone` if all clients share a limit"
        );
        self.counted.v4_mask = Ipv4Addr::from_bits(u32::MAX << (V4_BITS - bits));
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
            ranges: RangeSource::Fixed(Ranges::parse(ranges)?),
            address: self.address.clone(),
        })
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
    /// # Ok::<_, tollgate::key::IpListError>(())
    /// ```
    #[must_use]
    pub fn listed_in(&self, list: &IpList) -> Within {
        Within {
            ranges: RangeSource::List(list.clone()),
            address: self.address.clone(),
        }
    }
}

/// A condition for requests from some addresses. Created by [`ClientIp::within`] and
/// [`ClientIp::listed_in`].
#[derive(Clone, Debug)]
pub struct Within {
    address: Address,
    ranges: RangeSource,
}

/// The source of the ranges.
#[derive(Clone, Debug)]
enum RangeSource {
    Fixed(Ranges),
    List(IpList),
}

impl Predicate for Within {
    fn holds(&self, parts: &Parts) -> bool {
        let ip = self.address.find(parts);
        ip.is_ok_and(|ip| match &self.ranges {
            RangeSource::Fixed(ranges) => ranges.contains(ip),
            RangeSource::List(list) => list.contains(ip),
        })
    }
}

impl KeyExtractor for ClientIp {
    fn extract(&self, parts: &Parts) -> Extracted {
        match self.address.find(parts) {
            Ok(ip) => self.counted.id(ip).into(),
            Err(missing) => Extracted::Missing(missing),
        }
    }

    fn describe(&self) -> IdProperties {
        let counted = self.counted;
        IdProperties::new(self.address.id_source())
            .fits(|format| matches!(format, IdFormat::Opaque | IdFormat::IpAddress))
            .can_find(move |folded| counted.may_find(folded))
            .same_if(format!("{self:?}"))
    }
}

impl Counted {
    /// Returns the id of the client with an address.
    #[inline]
    fn id(self, ip: IpAddr) -> Id {
        match ip {
            IpAddr::V4(ip) => (ip & self.v4_mask).into(),
            IpAddr::V6(ip) if self.exact => ip.into(),
            IpAddr::V6(ip) => masked(ip, SUBSCRIBER).into(),
        }
    }

    /// Returns whether a client can have this id.
    fn may_find(self, folded: &str) -> bool {
        let ip = folded.parse::<IpAddr>();
        ip.is_ok_and(|ip| self.id(ip.to_canonical()).as_str() == folded)
    }
}
