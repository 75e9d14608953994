//! The IP address of a request's client: its peer's, or what trusted proxies say.

mod choice;
mod cloudfront;
mod element;
mod forwarded;
mod node;
mod peer;
mod problem;
mod proxies;
mod proxy_header;
mod ranges;
mod registry;
mod single;
mod x_forwarded_for;

use std::net::IpAddr;

use http::request::Parts;

use self::peer::Peer;
pub(super) use self::ranges::{Ranges, range};
pub use self::{
    proxies::Proxies,
    proxy_header::ProxyHeader,
    ranges::{ProxiesError, RangeError},
};
use super::{extracted::Missing, extractor::IdSource};

/// A way to find a client's address.
#[derive(Clone, Debug)]
pub(super) enum Address {
    /// The peer's.
    Peer(Peer),
    /// What proxies say.
    Behind(Proxies),
}

impl Address {
    /// The address at the other end of the connection.
    pub(super) fn peer() -> Self {
        Self::Peer(Peer::Known)
    }

    /// The address that a user's function finds.
    pub(super) fn from_fn(find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::Peer(Peer::custom(find))
    }

    /// What it goes by.
    pub(super) fn id_source(&self) -> IdSource {
        match self {
            Self::Peer(Peer::Known) => IdSource::Peer,
            Self::Peer(Peer::Custom(_)) => IdSource::Unknown,
            Self::Behind(proxies) if proxies.trust_anyone() => IdSource::Anyone,
            Self::Behind(_) => IdSource::Proxies,
        }
    }

    /// The client's address, an IPv4-mapped one unmapped.
    #[inline]
    pub(super) fn find(&self, parts: &Parts) -> Result<IpAddr, Missing> {
        match self {
            Self::Peer(peer) => peer.find(parts),
            Self::Behind(proxies) => proxies.find(parts),
        }
    }
}
