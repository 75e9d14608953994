//! Servers, and the login to them.

use std::{fmt, net::IpAddr, path::Path, slice, sync::Arc};

/// The servers of a URL.
#[derive(Clone)]
pub(super) enum ServerSet {
    One(ServerAddress),
    /// A proxy, which finds the server of a script by its first key.
    Proxy(ServerAddress),
    Cluster(Vec<ServerAddress>),
    Sentinels {
        sentinels: Vec<ServerAddress>,
        service: String,
        login: Login,
    },
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ServerAddress {
    Tcp { host: Arc<str>, port: u16 },
    Unix(Arc<Path>),
}

/// The user, if it is not the default one, and the password. Without a password, there is no login. Not `Debug`, because it holds a
/// secret.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

impl ServerSet {
    /// Returns the servers of the URL.
    pub(super) fn all(&self) -> &[ServerAddress] {
        match self {
            Self::One(server) | Self::Proxy(server) => slice::from_ref(server),
            Self::Cluster(servers) => servers,
            Self::Sentinels { sentinels, .. } => sentinels,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Returns whether a script can only use the keys of one slot.
    pub(super) fn has_slots(&self) -> bool {
        matches!(self, Self::Cluster(_) | Self::Proxy(_))
    }
}

impl ServerAddress {
    pub(super) fn is_ip(&self) -> bool {
        matches!(self, Self::Tcp { host, .. } if host.parse::<IpAddr>().is_ok())
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}
