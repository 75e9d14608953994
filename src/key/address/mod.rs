//! The IP address of a request's client: the peer's, or one that trusted proxies name.

mod forwarded;
mod node;
mod peer;
mod problem;
mod proxies;
mod proxy_header;
mod ranges;

use std::net::IpAddr;

use http::request::Parts;

use self::peer::Peer;
pub(super) use self::ranges::{Ranges, range};
pub use self::{
    proxies::Proxies,
    proxy_header::ProxyHeader,
    ranges::{ProxiesError, RangeError},
};
use super::{extracted::MissingId, extractor::IdSource};

/// A way to find a client's address.
#[derive(Clone, Debug)]
pub(super) enum Address {
    /// Uses the peer's address.
    Peer(Peer),
    /// Uses the address that proxies name.
    Behind(Proxies),
}

impl Address {
    /// The address at the other end of the connection.
    pub(super) fn peer() -> Self {
        Self::Peer(Peer::Known)
    }

    /// An address found by a user's function.
    pub(super) fn from_fn(find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::Peer(Peer::custom(find))
    }

    /// Returns the source of the address.
    pub(super) fn id_source(&self) -> IdSource {
        match self {
            Self::Peer(Peer::Known) => IdSource::Peer,
            Self::Peer(Peer::Custom(_)) => IdSource::Unknown,
            Self::Behind(proxies) if proxies.trust_anyone() => IdSource::Anyone,
            Self::Behind(_) => IdSource::Proxies,
        }
    }

    /// Returns the client's address. An IPv4-mapped one is converted to IPv4.
    #[inline(always)]
    pub(super) fn find(&self, parts: &Parts) -> Result<IpAddr, MissingId> {
        match self {
            Self::Peer(peer) => peer.find(parts),
            Self::Behind(proxies) => proxies.find(parts),
        }
    }
}
