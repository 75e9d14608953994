use std::net::IpAddr;

use http::{HeaderMap, request::Parts};

use super::{
    peer::Peer,
    proxy_header::{ItemChoice, MAX_ITEMS, ProxyHeader, address, from_the_left},
    ranges::{ProxiesError, Ranges},
};
use crate::key::extracted::MissingId;

/// The proxies between clients and the server, and how far they are trusted to name the client.
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
pub struct Proxies {
    trust: Trust,
    unix_socket: bool,
}

#[derive(Clone, Debug)]
enum Trust {
    /// Proxies in these ranges are trusted.
    Ranges(Ranges, ProxyHeader),
    /// This number of hops is trusted, whatever their addresses.
    Hops(usize, ProxyHeader),
    /// Every peer is trusted, as in the container registry.
    Registry,
}

impl Proxies {
    /// Trusts proxies in these ranges, given in CIDR notation or as single addresses.
    ///
    /// For a peer in none of the ranges, the peer is the client, whatever headers it sends. For a peer in one of
    /// them, the client is the first address in the header, from the right, that is in none of the ranges. At most 64
    /// items are read. The request has no id if the header is missing, if the client's place holds something other
    /// than an address, or if all addresses are trusted.
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
    /// If the list is empty; if an entry is not an address or a range, has bits set beyond its prefix, is
    /// IPv4-mapped, or contains every address; or if the header is a [`ProxyHeader::Single`] whose name has its own
    /// variant.
    pub fn trusted<T: AsRef<str>>(
        ranges: impl IntoIterator<Item = T>,
        header: ProxyHeader,
    ) -> Result<Self, ProxiesError> {
        let ranges = Ranges::of_proxies(ranges)?;
        if let Some(misread) = header.misread() {
            return Err(misread);
        }
        Ok(Self::new(Trust::Ranges(ranges, header)))
    }

    /// Trusts the last `hops` proxies, whatever their addresses. The client is at this position in the header,
    /// counted from the right. (A header that holds a single address is used as it is.)
    ///
    /// Each of these proxies must append exactly one item, and no request may bypass them: a client that does can
    /// choose its address. The request has no id if the header is missing or has fewer items, or if the item at this
    /// position is not an address.
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
        Self::new(Trust::Hops(hops, header))
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
        Self::new(Trust::Registry)
    }

    /// Returns whether the header of any peer is trusted.
    pub(super) fn trust_anyone(&self) -> bool {
        matches!(self.trust, Trust::Registry)
    }

    /// Treats a request whose peer has no address, or the unspecified one (`0.0.0.0`, `::`), as one from a trusted
    /// proxy on a unix socket.
    ///
    /// Use it with [`trusted`](Self::trusted), and only for servers that listen on nothing else, or that do report
    /// the addresses of their other peers. Any other server would trust every client.
    #[must_use]
    pub fn trust_unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Returns the client's address. An IPv4-mapped one is converted to IPv4.
    pub(super) fn find(&self, parts: &Parts) -> Result<IpAddr, MissingId> {
        let headers = &parts.headers;
        match &self.trust {
            Trust::Ranges(ranges, header) => match Peer::Known.find(parts) {
                Ok(peer) if !ranges.contains(peer) => Ok(peer),
                Err(missing) if !self.unix_socket => Err(missing),
                Ok(_) | Err(_) => header.client(headers, ItemChoice::Untrusted(ranges)),
            },
            Trust::Hops(hops, header) => header.client(headers, ItemChoice::Nth(*hops)),
            Trust::Registry => {
                second_or_real_ip(headers).map_or_else(|| Peer::Known.find(parts), Ok)
            }
        }
    }

    fn new(trust: Trust) -> Self {
        Self {
            trust,
            unix_socket: false,
        }
    }
}

/// Returns the second address in `X-Forwarded-For`, else the one in `X-Real-IP`.
fn second_or_real_ip(headers: &HeaderMap) -> Option<IpAddr> {
    let second = from_the_left(headers).nth(1).flatten();
    second.or_else(|| address(headers, "x-real-ip").ok())
}
