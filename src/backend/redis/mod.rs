//! Buckets in Redis or Valkey, shared by a fleet: [`RedisBackend`].
//!
//! ```no_run
//! use tollgate::{Limit, Limiter, Limits, RedisBackend};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = Limits::builder().limit("requests", Limit::per_second(10).burst(20)).build()?;
//! let limiter = Limiter::new(limits, RedisBackend::new("redis://127.0.0.1:6379")?);
//! # Ok(()) }
//! ```
//!
//! A batch takes one round trip. A script reads, decides and stores the buckets, all or nothing, by the server's clock and with the
//! same arithmetic as in memory. A denial charges nothing. A full bucket has no key.
//!
//! # Guarantees
//!
//! | servers | a batch is | over-admitted | wrongly denied |
//! |---|---|---|---|
//! | one, or behind sentinels | one step | nothing | nobody |
//! | a cluster, all keys in one slot | one step | nothing | nobody |
//! | a cluster, several slots, or one that is being moved | checked, then spent bucket by bucket | nothing | requests of the same clients while a denied batch is refunded, for one round trip |
//! | after a failover | | charges that the old master had not replicated | nobody, if the servers' clocks agree |
//!
//! A request whose answer is lost stays charged. Commands are not resent, so a lost connection cannot charge twice. Only a command
//! whose answer says that nothing was done is sent again.
//!
//! # Keys
//!
//! A bucket is one string key, by default `tollgate:{<tag>}:<limit>:<id>`; a [`KeyForm`] changes that. Values are described at the
//! head of each algorithm's script. A key expires when its bucket is full. The key of a quota expires a minute later, and the key
//! of a window with more than 64 units up to an eighth of the window later.
//!
//! # Simultaneous decisions
//!
//! Up to 128 decisions that arrive while a command is in flight share the next one. A decision that finds the connection idle is
//! sent at once, together with those of other tasks that are ready. None waits for a timer. Each caller keeps its own answer and
//! deadline. One that leaves before its call is sent is not charged.
//!
//! # A server that fails
//!
//! Each server has a circuit breaker. After five decisions in a row that the server has not answered in time, or has refused, it is
//! only probed, by one decision at a time: first after 50 to 100 ms, and later once a second. Other decisions fail at once until a
//! probe succeeds.
//!
//! # Servers
//!
//! Redis 6.2 or newer, or Valkey. The [guide](crate::guide::redis) lists the permissions that the user needs. Buckets should not
//! be evicted: set `maxmemory-policy noeviction`, or `volatile-ttl` to lose those first that are nearly full.

mod address;
mod builder;
mod connection;
mod error;
mod home;
mod keys;
mod link;
mod multi_slot;
mod protocol;
mod resp;
mod server_set;
mod servers;
#[cfg(feature = "testing")]
pub(crate) mod simulated;
mod tags;
#[cfg(test)]
mod tests;
mod tls;
mod waiting;
mod wire;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::{self, Instant};

pub use self::{builder::RedisBackendBuilder, error::RedisError, keys::KeyForm};
use self::{error::Failure, home::HomeRuntime};
use super::{Backend, BackendError, Stats};
use crate::{batch::Batch, decision::Outcome, metrics::StoreDurations};

/// The most transactions of a batch. For a command with more than 1024 · 1024 arguments, a server closes the connection, which
/// fails all other calls.
const MOST_MEMBERS: usize = 100_000;

/// Keeps buckets in Redis or Valkey: on a single server, behind sentinels, or in a cluster.
///
/// The [module docs](self) state its guarantees. The [guide](crate::guide::redis) covers URLs, sizing, permissions
/// and clusters.
pub struct RedisBackend {
    home: Arc<HomeRuntime>,
    timeout: Duration,
    durations: StoreDurations,
}

impl RedisBackend {
    /// Creates a backend on the servers of a URL.
    ///
    /// | URL | servers |
    /// |---|---|
    /// | `redis://[[user]:password@]host[:port][/database]` | one |
    /// | `redis-cluster://host:port[?node=host:port&…]` | a cluster that these nodes belong to |
    /// | `redis-sentinel://host:port?sentinelServiceName=name[&node=host:port…][&sentinelPassword=…]` | the master that these sentinels name |
    /// | `redis-proxy://host:port` | several, behind a proxy that finds the one for a script by its first key |
    /// | `redis+unix:///path/to.sock` | one, by a unix socket |
    /// | `rediss://`, `rediss-cluster://`, `rediss-sentinel://`, `rediss-proxy://` | the same with TLS |
    ///
    /// For passwords, certificates and nodes that are not part of the URL, use a [builder](Self::builder).
    ///
    /// The backend connects in the background and reconnects whenever a connection is lost. [`connected`](Self::connected) waits
    /// for the connection. The first decisions also wait for it, within their timeout. The backend can be built before there is a
    /// tokio runtime. It uses the runtime in which it is built or, without one, the first runtime that asks it for a decision. When
    /// that runtime has ended or is not running, the backend moves to the next one that uses it.
    ///
    /// # Errors
    ///
    /// If the URL is not valid.
    pub fn new(url: impl Into<String>) -> Result<Self, RedisError> {
        Self::builder(url).build()
    }

    /// Returns a builder, for settings beyond the URL.
    pub fn builder(url: impl Into<String>) -> RedisBackendBuilder {
        RedisBackendBuilder::new(url.into())
    }

    /// Waits until the servers are connected, for at most `timeout`. A process that has to start during an outage logs the error
    /// and goes on.
    ///
    /// # Errors
    ///
    /// If they are not connected in time, with the last reason; or as soon as waiting cannot help, because the password is wrong,
    /// the user may not run scripts, the server is of another kind, or the sentinels do not have the service.
    pub async fn connected(&self, timeout: Duration) -> Result<(), RedisError> {
        let servers = self.home.servers().await?;
        let connected = time::timeout(timeout, servers.connected()).await;
        let problem = || servers.problem().unwrap_or(RedisError::Timeout);
        connected.unwrap_or_else(|_| Err(problem()))
    }

    async fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, Failure> {
        let deadline = Instant::now() + self.timeout;
        let servers = self.home.servers().await?;
        multi_slot::apply(&servers, batch, deadline, self.timeout).await
    }
}

impl fmt::Debug for RedisBackend {
    /// Leaves out the servers, because their configuration can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBackend")
            .field("keys", &self.home.form)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for RedisBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        if let Some(now) = batch.now.filter(|now| !now.is_valid()) {
            return Err(BackendError::InvalidNow(now));
        }
        match batch.members.len() {
            0 => return Ok(Outcome::new([])),
            count if count > MOST_MEMBERS => {
                return Err(BackendError::Undecidable(
                    RedisError::TooLarge(count).into(),
                ));
            }
            _ => {}
        }
        let call = self.durations.call(batch.operation);
        let decided = self.decide(batch).await;
        call.ended(decided.as_ref().map_or_else(Failure::label, |_| "ok"));
        let key = |index: usize| {
            let member = batch.members.get(index);
            member.map_or_else(String::new, |member| self.home.form.shown(member))
        };
        decided.map_err(|failure| failure.error(key))
    }

    fn stats(&self) -> Stats {
        Stats {
            is_open: Some(self.home.known().is_some_and(|servers| servers.is_open())),
            ..Stats::default()
        }
    }
}
