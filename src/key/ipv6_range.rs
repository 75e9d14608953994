use std::net::IpAddr;

use http::request::Parts;

use super::{
    address::{Address, Proxies},
    extracted::Extracted,
    extractor::{IdProperties, KeyExtractor},
};
use crate::id::{IdFormat, network};

/// The range of a client's IPv6 address. By default it is the /48 (`2001:db8:1::/48`), the typical allocation of a
/// subscriber.
///
/// For a client with an IPv4 address, or an IPv4-mapped one, the rule is skipped.
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
    address: Address,
    prefix: u8,
}

impl Ipv6Range {
    /// The range of the address at the other end of the connection, found as
    /// [`ClientIp::peer`](super::ClientIp::peer) finds it.
    #[must_use]
    pub fn peer() -> Self {
        Self::at(Address::peer())
    }

    /// The range of the address that a function returns.
    #[must_use]
    pub fn from_fn(find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::at(Address::from_fn(find))
    }

    /// The range of the address that trusted proxies name in a header.
    #[must_use]
    pub fn behind(proxies: Proxies) -> Self {
        Self::at(Address::Behind(proxies))
    }

    fn at(address: Address) -> Self {
        let prefix = 48;
        Self { address, prefix }
    }

    /// Sets the length of the prefix, in bits. The id format `ipv6RangeCIDR` requires 48. For other lengths, use
    /// opaque ids.
    ///
    /// # Panics
    ///
    /// If `bits` is not between 32 (the size of a provider) and 64 (the size of a subscriber).
    #[must_use]
    #[track_caller]
    pub fn prefix(mut self, bits: u8) -> Self {
        assert!(
            (32..=64).contains(&bits),
            "an IPv6 prefix of /{bits}: use one from /32 to /64"
        );
        self.prefix = bits;
        self
    }
}

impl KeyExtractor for Ipv6Range {
    fn extract(&self, parts: &Parts) -> Extracted {
        match self.address.find(parts) {
            Ok(IpAddr::V6(ip)) => network(ip, self.prefix).into(),
            Ok(IpAddr::V4(_)) => Extracted::Skip,
            Err(missing) => Extracted::Missing(missing),
        }
    }

    fn describe(&self) -> IdProperties {
        let prefix = self.prefix;
        IdProperties::new(self.address.id_source())
            .fits(move |format| match format {
                IdFormat::Ipv6Range => prefix == 48,
                format => format == IdFormat::Opaque,
            })
            .can_find(move |folded| {
                let address = folded.split('/').next().and_then(|ip| ip.parse().ok());
                address.is_some_and(|ip| network(ip, prefix).as_str() == folded)
            })
            .same_if(format!("{self:?}"))
    }
}
