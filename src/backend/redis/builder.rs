//! The settings of a backend on Redis.

use std::{sync::Arc, time::Duration};

use fred::interfaces::ClientLike;

use super::{
    RedisBackend,
    background::Background,
    config::{self, ConnectionSource, LinkSettings, PING_TIMEOUT},
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
    source: ConnectionSource,
    form: KeyForm,
    timeout: Duration,
    connections: usize,
    together: usize,
    ping_timeout: Option<Duration>,
    checks: Checks,
}

impl RedisBackendBuilder {
    pub(super) fn new(source: ConnectionSource) -> Self {
        Self {
            source,
            form: KeyForm::default(),
            timeout: Duration::from_millis(250),
            connections: 1,
            together: MOST_TOGETHER,
            ping_timeout: None,
            checks: Checks::new(),
        }
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
    /// On a cluster, there is one connection to each master. Your own client or pool has its own connections. For both, a
    /// number other than 1 is an error, and so is one above 1000.
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
    ///
    /// Your own client or pool has a setting of its own, `unresponsive`. For both, this is an error, unless they are for
    /// a cluster.
    #[must_use]
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.ping_timeout = Some(timeout);
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
    /// As [`RedisBackend::new`], and if the number of connections, the number of decisions in a call or a timeout is
    /// zero, if there are more than 1000 connections, if connections are set for a cluster or for your own client, if a
    /// ping timeout is set for your own client, or if the checks are strict and find a mistake.
    pub fn build(self) -> Result<RedisBackend, RedisError> {
        if self.timeout.is_zero() {
            let problem =
                "a timeout of 0 leaves no time to decide: use some milliseconds, as `250ms`";
            return Err(RedisError::config(problem));
        }
        if self.ping_timeout.is_some_and(|timeout| timeout.is_zero()) {
            let problem =
                "no server answers a ping within 0 seconds: use some hundred milliseconds or more";
            return Err(RedisError::config(problem));
        }
        if self.together == 0 {
            let problem = "a call of 0 decisions decides nothing: use at least 1";
            return Err(RedisError::config(problem));
        }
        let reporter = Reporter::new(self.checks);
        let servers = self.servers(&reporter)?;
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

    fn servers(&self, reporter: &Reporter) -> Result<RedisServers, RedisError> {
        let ping_timeout = self.ping_timeout.unwrap_or(PING_TIMEOUT);
        let settings = LinkSettings {
            together: self.together,
            ping_timeout: ping_timeout.min(deadline::LONGEST),
        };
        let clients = match &self.source {
            ConnectionSource::Url(url) => {
                return RedisServers::new(config::parse(url)?, self.connections, settings);
            }
            ConnectionSource::Config(config) => {
                return RedisServers::new((**config).clone(), self.connections, settings);
            }
            ConnectionSource::Client(client) => vec![client.clone()],
            ConnectionSource::Pool(pool) => pool.clients().to_vec(),
        };
        if self.connections != 1 {
            return Err(RedisError::config(
                "your own client or pool has the connections: leave out `connections`, or use a pool of as many clients",
            ));
        }
        // The client of a cluster only lends its configuration.
        let lends_connections = !clients.iter().any(|client| client.is_clustered());
        if lends_connections && self.ping_timeout.is_some() {
            return Err(RedisError::config(
                "your own client or pool decides when its server is silent: leave out `ping_timeout`, or set \
                 `unresponsive` there",
            ));
        }
        RedisServers::borrow(clients, settings, reporter)
    }
}
