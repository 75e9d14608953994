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
//! A batch takes one round trip: a script reads, decides and stores, all or nothing, by the server's clock and with
//! the same arithmetic as in memory. A denial stores nothing, and a full bucket does not exist.
//!
//! # Guarantees
//!
//! | servers | a batch is | over-admitted | wrongly denied |
//! |---|---|---|---|
//! | one, or behind sentinels | one step | nothing | nobody |
//! | a cluster, all keys in one slot | one step | nothing | nobody |
//! | a cluster, several slots, or one that is being moved | checked, then spent slot by slot | nothing | requests of the same clients while a denied batch is refunded, for one round trip |
//! | after a failover | | charges that the old master had not replicated | nobody, if the servers' clocks agree |
//!
//! A request whose answer is lost stays charged. Commands are never resent, so a lost connection cannot charge twice.
//! The only exception is a command whose answer says that nothing was done.
//!
//! # Keys
//!
//! A bucket is one string key, by default `tollgate:{<tag>}:<limit>:<id>`; a [`KeyForm`] changes that. Its value is the
//! theoretical arrival time in microseconds, `us` or `us:frac`, and expires at that time. The value of a bucket with
//! tiers is binary, and expires when nothing depends on it any more. The value of a window is `W` and the instants of
//! its units. Expired units can come first. The value expires with the newest unit. The value of a quota is
//! `Q<start>:<used>`; it expires when the period ends. The value of a concurrency limit is that of a window: the instants at
//! which its permits were taken or renewed last.
//!
//! # Simultaneous decisions
//!
//! Decisions that arrive while a call is in flight share the next one, up to 64 of them. A decision that finds the
//! connection idle is sent at once; none waits for a timer. Each caller keeps its own answer and deadline. One that
//! leaves before its call is sent is not charged.
//!
//! # Servers
//!
//! Redis 5 or newer, or Valkey. The user needs `EVAL`, `EVALSHA`, `SCRIPT LOAD`, `GET`, `SET`, `GETRANGE`, `SETRANGE`,
//! `STRLEN`, `DEL`, `PEXPIRE`, `PERSIST` and `TIME`, and on a cluster `CLUSTER SLOTS` and `ASKING`. Buckets should not be
//! evicted: set `maxmemory-policy noeviction`, or `volatile-ttl` to lose those first that are nearly full.

mod address;
mod answer;
mod arguments;
mod background;
mod builder;
mod call;
mod cluster;
mod config;
mod connection;
mod deadline;
mod error;
mod group;
mod inspection;
mod keys;
mod lanes;
mod link;
mod multi_slot;
mod script;
mod server_health;
mod servers;
mod slot_refund;
mod tls;
mod upkeep;

use std::{fmt, sync::Arc, time::Duration};

use tokio::time;

use self::{
    background::Background,
    call::ScriptCall,
    deadline::Deadline,
    error::Failure,
    servers::{RedisServers, Watched},
};
pub use self::{
    builder::RedisBackendBuilder,
    error::{BrokenValue, DisconnectReason, RedisError},
    keys::{KeyForm, KeyFormError},
};
use super::{Backend, BackendError, MaybeReady, async_trait};
use crate::{backend, decision::Outcome, metrics, transaction::Batch};

/// The lane of all calls to a single server.
const ONE_LANE: u16 = 0;

/// Keeps buckets in Redis or Valkey: on a single server, behind sentinels, or in a cluster.
///
/// The [module docs](self) state its guarantees. The [guide](crate::guide::redis) covers URLs, sizing, permissions
/// and clusters.
pub struct RedisBackend {
    watched: Arc<Watched>,
    form: KeyForm,
    timeout: Duration,
    inspection: Background,
    durations: metrics::StoreDurations,
}

impl RedisBackend {
    /// Creates a backend on the servers of a URL.
    ///
    /// | URL | servers |
    /// |---|---|
    /// | `redis://[[user]:password@]host[:port][/database]` | one |
    /// | `redis-cluster://host:port[?node=host:port&…]` | a cluster that these nodes belong to |
    /// | `redis-sentinel://host:port?sentinelServiceName=name[&node=host:port…]` | the master that these sentinels name |
    /// | `redis+unix:///path/to.sock` | one, by a unix socket |
    /// | `rediss://`, `rediss-cluster://`, `rediss-sentinel://` | the same with TLS |
    ///
    /// For passwords, certificates and nodes that are not part of the URL, use a [builder](Self::builder).
    ///
    /// The backend connects in the background and reconnects whenever a connection is lost.
    /// [`connected`](Self::connected) waits for the connection. The first decisions also wait for it, within their
    /// timeout. The backend can be built before there is a tokio runtime. It uses the runtime in which it is built or,
    /// without one, the first runtime that asks it for a decision. When that runtime has ended, the backend moves to
    /// the next one that uses it.
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

    /// Waits until the servers are connected, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If they are not connected in time, with the last reason; or as soon as waiting is pointless, because the
    /// password is wrong, the user may not run scripts, or the server is of another kind.
    pub async fn connected(&self, timeout: Duration) -> Result<(), RedisError> {
        self.begin()?;
        let connected = async {
            self.watched.servers.connected().await?;
            self.watched.servers.may_run_scripts().await?;
            let refusal = self.watched.refusal().await;
            refusal.map_or(Ok(()), |finding| Err(finding.clone().into()))
        };
        let Ok(connected) = time::timeout(timeout, connected).await else {
            return Err(self
                .watched
                .servers
                .problem()
                .unwrap_or(RedisError::Timeout));
        };
        connected
    }

    /// Starts to connect and to inspect the servers, unless that has started.
    fn begin(&self) -> Result<(), RedisError> {
        self.watched.servers.begin()?;
        match self.watched.is_done() {
            true => Ok(()),
            false => self.inspection.ensure(),
        }
    }

    /// Decides a batch, and measures that. A caller that gives up earlier than the backend itself has a `deadline`.
    async fn timed(
        &self,
        batch: &Batch<'_>,
        deadline: Option<Duration>,
    ) -> Result<Outcome, BackendError> {
        let call = metrics::StoreCall::start(&self.durations, batch.operation);
        let gives_up = deadline.filter(|deadline| *deadline < self.timeout);
        let decided = self.decide(batch, gives_up).await;
        let decided = decided.map_err(|failure| self.error(failure, batch));
        let result = match &decided {
            Ok(_) | Err(BackendError::InvalidNow(_)) => "ok",
            Err(BackendError::Moving(_)) => "moving",
            Err(BackendError::Undecidable(_)) => "error",
            Err(BackendError::Unavailable(error) | BackendError::NotDone(error)) => {
                match error.downcast_ref() {
                    Some(RedisError::Timeout) if gives_up.is_some() => "dropped",
                    Some(RedisError::Timeout) => "timeout",
                    _ => "error",
                }
            }
        };
        call.ended(result);
        decided
    }

    /// Returns the error of a batch. It names the key of a value that is not a bucket.
    fn error(&self, failure: Failure, batch: &Batch<'_>) -> BackendError {
        let Failure::NotABucket(place, found) = failure else {
            return failure.into();
        };
        let key = batch.members.get(place);
        let key = key.map_or_else(String::new, |member| self.form.shown(member));
        BackendError::Undecidable(RedisError::NotABucket { key, found }.into())
    }

    async fn decide(
        &self,
        batch: &Batch<'_>,
        gives_up: Option<Duration>,
    ) -> Result<Outcome, Failure> {
        if let Some(now) = batch.now {
            now.validate()?;
        }
        self.begin()?;
        let deadline = Deadline::after(gives_up.unwrap_or(self.timeout));
        match &self.watched.servers {
            RedisServers::Single(links) => {
                let call =
                    ScriptCall::new(batch.operation, batch.now, batch.members.iter(), &self.form);
                let answer = links.next().run(ONE_LANE, call, deadline).await?;
                answer.judge(batch)
            }
            RedisServers::Cluster(cluster) => {
                // Boxed, to keep the future of a single server small.
                let decided = multi_slot::apply(cluster, batch, self.timeout);
                let decided = Box::pin(decided);
                match gives_up {
                    // Refunds can take longer than the deadline, and end without this caller.
                    Some(_) => deadline.limit(decided).await?,
                    None => decided.await,
                }
            }
        }
    }
}

impl fmt::Debug for RedisBackend {
    /// Names the servers, and never a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBackend")
            .field("servers", &self.watched.servers)
            .field("keys", &self.form)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for RedisBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.timed(batch, None).await
    }

    fn ask<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        deadline: Option<Duration>,
    ) -> MaybeReady<impl Future<Output = Result<Outcome, BackendError>> + Send + 'a> {
        MaybeReady::Waits(self.timed(batch, deadline))
    }

    fn servers(&self) -> Option<&dyn backend::Servers> {
        match &self.watched.servers {
            RedisServers::Cluster(cluster) => Some(&**cluster),
            RedisServers::Single(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Limit,
        backend::{DenyCache, FailurePolicy, Lease},
        transaction::{BucketKey, LimitKey, Member, Mode, Operation},
    };

    fn size<F>(begun: &MaybeReady<F>) -> usize {
        match begun {
            MaybeReady::Waits(future) => size_of_val(future),
            MaybeReady::Ready(_) => 0,
        }
    }

    /// Allocators have a fast path up to about a kilobyte, and a future is copied when it is boxed.
    #[test]
    fn future_of_a_decision_is_small() {
        let redis = || RedisBackend::new("redis://127.0.0.1:1").unwrap();
        let limit = Limit::per_second(1);
        let key = BucketKey::new(LimitKey::Number(1), "id");
        let members = [Member::new(
            key,
            limit.algorithm().unwrap(),
            1,
            Mode::CheckAndSpend,
        )];
        let batch = Batch::new(Operation::Spend, &members);
        let (bare, cache) = (redis(), DenyCache::new(redis()));
        let bare = size(&bare.ask(&batch, None));
        let cached = size(&cache.ask(&batch, None));
        let policy = FailurePolicy::new(DenyCache::new(redis()));
        let policy = size(&policy.ask(&batch, None));
        let lease = Lease::new(DenyCache::new(redis()), 4);
        let lease = size(&lease.ask(&batch, None));
        let all = FailurePolicy::new(Lease::new(DenyCache::new(redis()), 4));
        let all = size(&all.ask(&batch, None));
        let sizes = [bare, cached, policy, lease, all];
        assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
    }
}
