use std::net::IpAddr;

use http::request::Parts;

use super::{
    choice::{Choice, MAX_ITEMS},
    peer::Peer,
    proxy_header::{Misread, ProxyHeader},
    ranges::{ProxiesError, Ranges},
    registry,
};
use crate::key::extracted::Missing;

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
    peer: Peer,
    unix_socket: bool,
}

#[derive(Clone, Debug)]
enum Trust {
    /// Proxies in these ranges are believed.
    Ranges(Ranges, ProxyHeader),
    /// The last so many hops are believed, whoever they are.
    Hops(usize, ProxyHeader),
    /// Everyone is believed, as the container registry does.
    Registry,
}

impl Proxies {
    /// Believes proxies in these ranges, in CIDR notation; an address alone is that one address.
    ///
    /// A peer that is in none of them is the client, whatever it sends. For one that is, the client
    /// is the first address in the header, from the right, that is in none. At most 64 items are
    /// looked at. A request whose header is missing, or holds something other than an address where
    /// the client's should be, or trusted addresses only, has no id.
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
    /// If the list is empty, or an entry is neither address nor range, has bits set beyond its
    /// prefix, is IPv4-mapped, or holds every address; or if the header is a [`ProxyHeader::Single`] of a name that has
    /// a variant of its own.
    pub fn trusted<T: AsRef<str>>(
        ranges: impl IntoIterator<Item = T>,
        header: ProxyHeader,
    ) -> Result<Self, ProxiesError> {
        let ranges = Ranges::of_proxies(ranges)?;
        if let Some(Misread { name, variant }) = header.misread() {
            return Err(ProxiesError::NotSingle { name, variant });
        }
        Ok(Self::new(Trust::Ranges(ranges, header)))
    }

    /// Believes the last `hops` proxies, whatever their addresses: the client is at this place in the
    /// header, counted from the right. (A header that holds one address is believed as it is.)
    ///
    /// Each of these proxies must append exactly one item, and no request may come past them: one
    /// that does chooses its client's address. A request whose header is missing, has fewer items,
    /// or holds something other than an address at this place has no id.
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
    /// If `hops` is 0 or above 64, or if the header is a [`ProxyHeader::Single`] of a name that has a variant of its
    /// own.
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

    /// Believes everyone, by the rule of GitLab's container registry: the client is the second entry
    /// of `X-Forwarded-For`; else, if that is not there or no address, the one in `X-Real-IP`; else
    /// the peer.
    ///
    /// # A client can choose its address
    ///
    /// Whoever reaches the server directly, or through a proxy that appends to what it is sent, sends
    /// two entries of its own and so has as many buckets as it likes, or empties another's. One
    /// `X-Real-IP` does the same where the proxy leaves that header alone. The rule is right only if no
    /// request comes past the proxy, and the proxy throws away what it is sent under *both* names
    /// and then writes either the client as the second entry, or one entry at most and the client as
    /// `X-Real-IP`.
    ///
    /// Use it to count as a registry does that is already set up in this way. Everywhere else use
    /// [`trusted`](Self::trusted), or [`hops`](Self::hops), which counts from the end that clients cannot
    /// write.
    #[must_use]
    pub fn registry() -> Self {
        Self::new(Trust::Registry)
    }

    /// Whether whoever sends a header is believed.
    pub(super) fn trust_anyone(&self) -> bool {
        matches!(self.trust, Trust::Registry)
    }

    /// Finds the peer's address by a function, as
    /// [`ClientIp::from_fn`](crate::ClientIp::from_fn) does. [`hops`](Self::hops) need no peer.
    #[must_use]
    pub fn peer_from_fn(
        mut self,
        find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.peer = Peer::custom(find);
        self
    }

    /// Takes a request whose peer has no address, or the unspecified one (`0.0.0.0`, `::`), as one from a trusted proxy,
    /// over a unix socket.
    ///
    /// It is for [`trusted`](Self::trusted), and only for servers that listen on nothing else, or that are
    /// known to pass on the addresses of their other peers: a server that does not would believe every
    /// client.
    #[must_use]
    pub fn trust_unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// The client's address, an IPv4-mapped one unmapped.
    pub(super) fn find(&self, parts: &Parts) -> Result<IpAddr, Missing> {
        let headers = &parts.headers;
        match &self.trust {
            Trust::Ranges(ranges, header) => match self.peer.find(parts) {
                Ok(peer) if !ranges.contains(peer) => Ok(peer),
                Err(missing) if !self.unix_socket => Err(missing),
                Ok(_) | Err(_) => header.client(headers, Choice::Untrusted(ranges)),
            },
            Trust::Hops(hops, header) => header.client(headers, Choice::Nth(*hops)),
            Trust::Registry => registry::client(headers).map_or_else(|| self.peer.find(parts), Ok),
        }
    }

    fn new(trust: Trust) -> Self {
        Self {
            trust,
            peer: Peer::Known,
            unix_socket: false,
        }
    }
}
