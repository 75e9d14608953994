//! The settings of a backend on Redis.

use std::{sync::Arc, time::Duration};

use super::{
    RedisBackend,
    address::ServerAddress,
    background::Background,
    config::{LinkSettings, PING_TIMEOUT},
    deadline,
    error::RedisError,
    keys::KeyForm,
    lanes::MOST_TOGETHER,
    servers::{RedisServers, Watched},
};
use crate::{
    check::{Checks, Reporter},
    metrics::StoreDurations,
};

/// Builds a [`RedisBackend`]. Created by [`RedisBackend::builder`]; [`KeyForm`] has an example.
#[derive(Clone, Debug)]
pub struct RedisBackendBuilder {
    address: ServerAddress,
    form: KeyForm,
    timeout: Duration,
    connections: usize,
    together: usize,
    ping_timeout: Duration,
    checks: Checks,
}

impl RedisBackendBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            address: ServerAddress::new(url),
            form: KeyForm::default(),
            timeout: Duration::from_millis(250),
            connections: 1,
            together: MOST_TOGETHER,
            ping_timeout: PING_TIMEOUT,
            checks: Checks::new(),
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
    /// A decision also fails if its connection ends, as it does if the server is [silent](Self::ping_timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of connections to a single server, or to one behind sentinels. The default is 1. One
    /// connection serves many thousand decisions per second, because simultaneous decisions travel together.
    ///
    /// On a cluster, there is one connection to each master, and a number other than 1 is an error. So is one above
    /// 1000.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets how many decisions may share a script call. The default is 64. With 1, each decision is sent at once, in a call
    /// of its own: the server then has more work, and is never busy with one call for long.
    #[must_use]
    pub fn grouped(mut self, decisions: usize) -> Self {
        self.together = decisions;
        self
    }

    /// Sets how long a server may take to answer a ping. The default is one second. If the server answers neither of two
    /// pings in a row in time, nor a decision in the meantime, its connection is replaced, and decisions that wait for
    /// it fail. Raise this if your server, or the network to it, stands still for longer now and then, and decisions
    /// have the time to wait for it.
    ///
    /// A failover from a server that has become silent is noticed after twice this time.
    #[must_use]
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.ping_timeout = timeout;
        self
    }

    /// Sets which mistakes to look for, and whether they are errors. See [`check`](crate::check).
    #[must_use]
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Builds the backend.
    ///
    /// # Errors
    ///
    /// If the URL or another setting is not valid: if the number of connections, the number of decisions in a call or a
    /// timeout is zero, if there are more than 1000 connections, if connections or a database are set for a cluster, if
    /// nodes are added to a single server, or if certificates cannot be read or the URL is without TLS.
    pub fn build(self) -> Result<RedisBackend, RedisError> {
        if self.timeout.is_zero() {
            let problem = "the timeout is 0: use, for example, 250 ms";
            return Err(RedisError::config(problem));
        }
        if self.ping_timeout.is_zero() {
            let problem = "the ping timeout is 0: use, for example, 1 s";
            return Err(RedisError::config(problem));
        }
        if self.together == 0 {
            let problem = "`grouped` is 0: use at least 1, the number of decisions in a call";
            return Err(RedisError::config(problem));
        }
        let reporter = Reporter::new(self.checks);
        let servers = self.servers()?;
        let watched = Arc::new(Watched::new(servers, reporter));
        let inspected = Arc::clone(&watched);
        let backend = RedisBackend {
            inspection: Background::new(move || Arc::clone(&inspected).look_once_connected()),
            watched,
            form: self.form,
            timeout: self.timeout,
            durations: StoreDurations::default(),
        };
        // Outside of a runtime, the first decision connects.
        let _begins_later = backend.begin();
        Ok(backend)
    }

    fn servers(&self) -> Result<RedisServers, RedisError> {
        let ping_timeout = self.ping_timeout.min(deadline::LONGEST);
        let settings = LinkSettings {
            together: self.together,
            ping_timeout,
        };
        let config = self.address.config()?;
        RedisServers::new(config, self.connections, settings, self.form.clone())
    }
}
