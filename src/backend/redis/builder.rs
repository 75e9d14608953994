//! The settings of a backend on Redis.

use std::{fmt, sync::Arc, time::Duration};

use fred::types::config::{Config, Server, ServerConfig};

use super::{
    RedisBackend, address, error::RedisError, keys::KeyForm, servers::Servers, tls::TlsSettings,
};
use crate::metrics::StoreDurations;

/// The longest timeout. Clocks and timers cannot represent every [`Duration`].
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Builds a [`RedisBackend`]. Created by [`RedisBackend::builder`]; [`KeyForm`] has an example.
#[derive(Clone)]
pub struct RedisBackendBuilder {
    url: String,
    /// Further nodes of a cluster, or sentinels.
    nodes: Vec<Server>,
    user: Option<String>,
    password: Option<String>,
    sentinel_password: Option<String>,
    database: Option<u8>,
    tls: TlsSettings,
    form: KeyForm,
    timeout: Duration,
}

impl RedisBackendBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            nodes: Vec::new(),
            user: None,
            password: None,
            sentinel_password: None,
            database: None,
            tls: TlsSettings::default(),
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
        self.user = Some(user.into());
        self
    }

    /// Sets the password, instead of the one in the URL. It is not percent-encoded. [`user`](Self::user) has an example.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets the sentinels' own password, instead of `sentinelPassword` in the URL. It is not percent-encoded. The servers'
    /// [`password`](Self::password) is another one. Without sentinels in the URL, this is an error.
    #[must_use]
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_password = Some(password.into());
        self
    }

    /// Sets the database, instead of the one in the URL. On a cluster, this is an error.
    #[must_use]
    pub fn database(mut self, database: u8) -> Self {
        self.database = Some(database);
        self
    }

    /// Adds a node of the cluster, or a sentinel, to those in the URL. The host is a name or an address, such as `::1`.
    /// For a single server, this is an error. [`user`](Self::user) has an example.
    #[must_use]
    pub fn node(mut self, host: impl Into<String>, port: u16) -> Self {
        self.nodes.push(Server::new(host.into(), port));
        self
    }

    /// Sets the authorities that may have signed a server's certificate, as PEM, instead of those that the system
    /// trusts. Without TLS in the URL, this is an error. [`user`](Self::user) has an example.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.authorities = Some(pem.into());
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
        self.tls.client = Some((certificate.into(), key.into()));
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
        let servers = Arc::new(Servers::new(self.config()?, self.form));
        // Outside of a runtime, the first decision connects.
        let _begins_later = servers.begin();
        Ok(RedisBackend {
            servers,
            timeout: self.timeout,
            durations: StoreDurations::default(),
        })
    }

    /// Returns the configuration of a client of the servers.
    fn config(&self) -> Result<Config, RedisError> {
        let (mut config, has_tls) = address::parse(&self.url)?;
        if has_tls {
            config.tls = Some(self.tls.connector()?);
        }
        let (has_nodes, has_sentinels) = match &mut config.server {
            ServerConfig::Sentinel {
                hosts, password, ..
            } => {
                hosts.extend(self.nodes.iter().cloned());
                *password = self.sentinel_password.clone().or(password.take());
                (true, true)
            }
            ServerConfig::Clustered { hosts, .. } => {
                hosts.extend(self.nodes.iter().cloned());
                (true, false)
            }
            _ => (false, false),
        };
        let mistakes = [
            (
                !has_tls && !self.tls.is_default(),
                "it has certificates, but its URL is without TLS: use `rediss://`, `rediss-cluster://` or \
                 `rediss-sentinel://`",
            ),
            (
                config.server.is_clustered() && self.database.is_some(),
                "a cluster has no databases: leave out `database`",
            ),
            (
                !has_nodes && !self.nodes.is_empty(),
                "a single server has no other nodes: leave out `node`, or use `redis-cluster://` or `redis-sentinel://`",
            ),
            (
                !has_sentinels && self.sentinel_password.is_some(),
                "there are no sentinels: leave out `sentinel_password`, or use `redis-sentinel://`",
            ),
        ];
        if let Some((_, mistake)) = mistakes.iter().find(|(is_made, _)| *is_made) {
            return Err(RedisError::config(mistake));
        }
        config.username = self.user.clone().or(config.username);
        config.password = self.password.clone().or(config.password);
        config.database = self.database.or(config.database);
        // fred would wait for a server that is not there yet.
        config.fail_fast = true;
        Ok(config)
    }
}

impl fmt::Debug for RedisBackendBuilder {
    /// Leaves out the URL, because it can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBackendBuilder")
            .field("nodes", &self.nodes)
            .field("database", &self.database)
            .field("keys", &self.form)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
