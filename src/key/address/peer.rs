//! The address of a request's peer, as servers provide it.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use http::request::Parts;
#[cfg(feature = "tonic")]
use tonic::transport::server::TcpConnectInfo;
#[cfg(feature = "tonic-tls")]
use tonic::transport::server::TlsConnectInfo;

use crate::key::extracted::MissingId;

/// A way to find the peer's address.
#[derive(Clone)]
pub(in crate::key) enum Peer {
    /// The extensions of known servers.
    Known,
    /// A user's function.
    Custom(Arc<Find>),
}

type Find = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;

impl Peer {
    pub(super) fn custom(find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::Custom(Arc::new(find))
    }

    /// The peer's address, with IPv4-mapped addresses converted to IPv4. The unspecified address counts as none.
    #[inline(always)]
    pub(super) fn find(&self, parts: &Parts) -> Result<IpAddr, MissingId> {
        let found = match self {
            Self::Known => known(parts),
            Self::Custom(find) => find(parts),
        };
        match found.map(|ip| ip.to_canonical()) {
            Some(ip) if !ip.is_unspecified() => Ok(ip),
            unusable => Err(self.missing(unusable)),
        }
    }

    #[cold]
    fn missing(&self, unusable: Option<IpAddr>) -> MissingId {
        MissingId::server(match (self, unusable) {
            (_, Some(_)) => UNSPECIFIED,
            (Self::Known, None) => UNKNOWN,
            (Self::Custom(_), None) => NOT_FOUND,
        })
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known => f.write_str("Known"),
            Self::Custom(find) => write!(f, "Custom({:p})", Arc::as_ptr(find)),
        }
    }
}

const UNKNOWN: &str = "the server does not pass on the peer's address: serve axum with \
    `app.into_make_service_with_connect_info::<SocketAddr>()` and tollgate's feature `axum`, tonic \
    with feature `tonic` (and `tonic-tls`), or put a `SocketAddr` into the request's extensions; \
    behind a proxy on a unix socket, use `Proxies::trust_unix_socket`";

const NOT_FOUND: &str = "the function given to find the peer's address returned none";

const UNSPECIFIED: &str = "the peer's address is `0.0.0.0` or `::`, which is nobody's: have the server pass on the \
    address that connected to it; behind a proxy on a unix socket, use `Proxies::trust_unix_socket`";

#[inline(always)]
fn known(parts: &Parts) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(info) = parts
        .extensions
        .get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(info.0.ip());
    }
    less_usual(parts)
}

#[inline(never)]
fn less_usual(parts: &Parts) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(mock) = parts
        .extensions
        .get::<axum::extract::connect_info::MockConnectInfo<SocketAddr>>()
    {
        return Some(mock.0.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = parts.extensions.get::<TcpConnectInfo>() {
        return Some(info.remote_addr()?.ip());
    }
    #[cfg(feature = "tonic-tls")]
    if let Some(info) = parts.extensions.get::<TlsConnectInfo<TcpConnectInfo>>() {
        return Some(info.get_ref().remote_addr()?.ip());
    }
    parts.extensions.get::<SocketAddr>().map(SocketAddr::ip)
}
