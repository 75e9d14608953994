//! The settings of a backend on Redis.

use std::{sync::Arc, time::Duration};

use super::{
    RedisBackend, Servers, address::ServerAddress, cluster::Cluster, error::RedisError,
    keys::KeyForm, link::Link,
};
use crate::metrics::StoreDurations;

/// The longest timeout. Clocks and timers cannot represent every [`Duration`].
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Builds a [`RedisBackend`]. Created by [`RedisBackend::builder`]; [`KeyForm`] has an example.
#[derive(Clone, Debug)]
pub struct RedisBackendBuilder {
    address: ServerAddress,
    form: KeyForm,
    timeout: Duration,
}

impl RedisBackendBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            address: ServerAddress::new(url),
            form: KeyForm::default(),
            timeout: Duration::from_millis(250),
        }
    }

    /// Sets the user, instead of the one in the URL. It is not percent-encoded.
    ///
    /// ```no_run
    /// use tollgate::RedisBackend;
    ///
    /// # fn example(password: String, authorities: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
    /// let redis = RedisBackend::builder("rediss-cluster://buckets-1:6379")
    ///     .node("buckets-2", 6379)
    ///     .user("tollgate")
    ///     .password(password)
    ///     .root_certificates(authorities)
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.address.user = Some(user.into());
        self
    }

    /// Sets the password, instead of the one in the URL. It is not percent-encoded. [`user`](Self::user) has an example.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.address.password = Some(password.into());
        self
    }

    /// Sets the sentinels' own password, instead of `sentinelPassword` in the URL. It is not percent-encoded. The servers'
    /// [`password`](Self::password) is another one. Without sentinels in the URL, this is an error.
    #[must_use]
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.address.sentinel_password = Some(password.into());
        self
    }

    /// Sets the database, instead of the one in the URL. On a cluster, this is an error.
    #[must_use]
    pub fn database(mut self, database: u8) -> Self {
        self.address.database = Some(database);
        self
    }

    /// Adds a node of the cluster, or a sentinel, to those in the URL. The host is a name or an address, such as `::1`.
    /// For a single server, this is an error. [`user`](Self::user) has an example.
    #[must_use]
    pub fn node(mut self, host: impl Into<String>, port: u16) -> Self {
        self.address.nodes.push((host.into(), port));
        self
    }

    /// Sets the authorities that may have signed a server's certificate, as PEM, instead of those that the system
    /// trusts. Without TLS in the URL, this is an error. [`user`](Self::user) has an example.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.address.tls.authorities = Some(pem.into());
        self
    }

    /// Sets the certificate and the private key, as PEM, that a server with `tls-auth-clients` asks for. The
    /// certificate is followed by those between it and its authority, if there are any. Without TLS in the URL, this
    /// is an error.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.address.tls.client = Some((certificate.into(), key.into()));
        self
    }

    /// Sets the form of bucket keys.
    #[must_use]
    pub fn keys(mut self, form: KeyForm) -> Self {
        self.form = form;
        self
    }

    /// Sets how long a decision may take, with all its round trips. The default is 250 ms. A decision without an
    /// answer by then is an error, and may have been charged. Durations above a year count as a year.
    ///
    /// A decision also fails if its connection ends, as it does if a call has timed out and the server has answered nothing for
    /// two seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(LONGEST);
        self
    }

    /// Builds the backend.
    ///
    /// # Errors
    ///
    /// If the URL or another setting is not valid: if the timeout is zero, if a database is set for a cluster, if nodes are
    /// added to a single server, or if certificates cannot be read or the URL is without TLS.
    pub fn build(self) -> Result<RedisBackend, RedisError> {
        if self.timeout.is_zero() {
            return Err(RedisError::config(
                "the timeout is 0: use, for example, 250 ms",
            ));
        }
        let (config, inspection) = (self.address.config()?, Arc::default());
        let servers = match config.server.is_clustered() {
            true => Servers::Cluster(Arc::new(Cluster::new(config, inspection))),
            false => Servers::Single(Link::new(config, inspection)),
        };
        // Outside of a runtime, the first decision connects.
        let _begins_later = match &servers {
            Servers::Single(link) => link.begin(),
            Servers::Cluster(cluster) => cluster.begin(),
        };
        Ok(RedisBackend {
            servers,
            form: self.form,
            timeout: self.timeout,
            durations: StoreDurations::default(),
        })
    }
}
