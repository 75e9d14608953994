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
//! A batch is one round trip: a script reads, decides and stores, all or nothing, by the server's clock, in
//! the same arithmetic as memory. A denial stores nothing, and a bucket that has filled up is gone.
//!
//! # Guarantees
//!
//! | servers | a batch is | over-admitted | wrongly denied |
//! |---|---|---|---|
//! | one, or behind sentinels | one step | nothing | nobody |
//! | a cluster, all keys in one slot | one step | nothing | nobody |
//! | a cluster, several slots, or one that is being moved | checked, then spent slot by slot | nothing | whoever comes while a batch of the same clients is being given back, for one round trip |
//! | after a failover | | what the old master had taken and not yet replicated | nobody, if the servers' clocks agree |
//!
//! A request of which the answer is lost stays charged: every decision is sent once, since one that is sent
//! again after a connection broke would be charged twice. The only exceptions are answers that say that nothing was
//! done.
//!
//! # Keys
//!
//! A bucket is one string key, `tollgate:{<tag>}:<limit>:<id>` unless a [`KeyForm`] says otherwise. Its value is the
//! theoretical arrival time in microseconds, `us` or `us:frac`, and it expires when that is past. That of a bucket with
//! tiers is binary, and expires when nothing depends on it any more.
//!
//! # Servers
//!
//! Redis 5 or newer, or Valkey. The user needs `EVAL`, `EVALSHA`, `SCRIPT LOAD`, `GET`, `SET`, `SETRANGE`, `DEL`, `PEXPIRE`,
//! `PERSIST` and `TIME`, and on a cluster `CLUSTER SLOTS` and `ASKING`. Buckets should not be evicted: set `maxmemory-policy noeviction`, or
//! `volatile-ttl` to lose those first that are nearly full.

mod cluster;
mod config;
mod error;
mod found;
mod inspection;
mod keys;
mod link;
mod script;
mod spread;
mod upkeep;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

pub use fred;
use fred::{clients::Client, interfaces::ClientLike, types::config::Config};
use tokio::{runtime::Handle, time};

use self::{
    cluster::Cluster,
    config::RECONNECT_DELAY,
    error::Failure,
    link::{Deadline, Link},
    script::Call,
    upkeep::Task,
};
pub use self::{
    config::Source,
    error::RedisError,
    keys::{KeyForm, KeyFormError},
};
use super::{Backend, BackendError, async_trait};
use crate::{
    check::{Check, Checks, Finding, Reporter},
    decision::Outcome,
    metrics,
    transaction::Batch,
};

/// Keeps buckets in Redis or Valkey: a single server, one behind sentinels, or a cluster.
///
/// See the [module's documentation](self) for what it guarantees.
#[derive(Debug)]
pub struct RedisBackend {
    servers: Arc<Servers>,
    form: KeyForm,
    timeout: Duration,
    checks: Checks,
    _inspection: Option<Task>,
}

#[derive(Debug)]
enum Servers {
    Single(Links),
    Cluster(Arc<Cluster>),
}

impl RedisBackend {
    /// A backend on the servers that a URL names, or on those of a [`fred`] client or pool.
    ///
    /// | URL | servers |
    /// |---|---|
    /// | `redis://[[user]:password@]host[:port][/database]` | one |
    /// | `redis-cluster://host:port[?node=host:port&…]` | a cluster that these nodes belong to |
    /// | `redis-sentinel://host:port?sentinelServiceName=name[&node=host:port…]` | the master that these sentinels name |
    /// | `redis+unix:///path/to.sock` | one, by a unix socket |
    /// | `rediss://`, `rediss-cluster://`, `rediss-sentinel://` | the same with TLS |
    ///
    /// From a URL it connects in the background, and again whenever a connection is lost, for as long as it
    /// lives; [`connected`](Self::connected) waits for it. A client or a pool is connected by its
    /// owner; what it does worse than one of ours is logged. Of a client of a cluster only the configuration is used: the
    /// backend makes connections of its own to the masters.
    ///
    /// # Errors
    ///
    /// If the URL is not one of these, or if there is no tokio runtime to connect on.
    pub fn new(source: impl Into<Source>) -> Result<Self, RedisError> {
        Self::builder(source).build()
    }

    /// Sets more than the servers.
    pub fn builder(source: impl Into<Source>) -> RedisBackendBuilder {
        RedisBackendBuilder {
            source: source.into(),
            form: KeyForm::default(),
            timeout: Duration::from_millis(250),
            connections: 1,
            checks: Checks::new(),
        }
    }

    /// Waits until the servers are connected, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If they are not there in time, with the last reason why, or as soon as waiting will not help: if the
    /// password is wrong, or the server is of another kind.
    pub async fn connected(&self, timeout: Duration) -> Result<(), RedisError> {
        let connected = async {
            self.servers.connected().await?;
            let checks = self.checks;
            let found = match checks.is_strict() {
                true => self.servers.inspect(checks).await,
                false => Vec::new(),
            };
            found
                .into_iter()
                .next()
                .map_or(Ok(()), |finding| Err(finding.into()))
        };
        let Ok(connected) = time::timeout(timeout, connected).await else {
            return Err(self.problem().unwrap_or(RedisError::Timeout));
        };
        connected
    }

    /// Why there is no connection, as far as that is known.
    fn problem(&self) -> Option<RedisError> {
        match &*self.servers {
            Servers::Single(links) => links.links.iter().find_map(Link::problem),
            Servers::Cluster(cluster) => cluster.problem(),
        }
    }

    async fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, Failure> {
        if let Some(now) = batch.now {
            now.validate()?;
        }
        match &*self.servers {
            Servers::Single(links) => {
                let deadline = Deadline::after(self.timeout);
                let call = Call::new(batch.operation, batch.now, batch.members.iter(), &self.form);
                links.next().run(&call, false, deadline).await?.judge(batch)
            }
            Servers::Cluster(cluster) => {
                spread::apply(cluster, batch, &self.form, self.timeout).await
            }
        }
    }
}

#[async_trait]
impl Backend for RedisBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let call = metrics::Call::start(batch.operation);
        let decided = self.decide(batch).await.map_err(BackendError::from);
        let result = match &decided {
            Ok(_) | Err(BackendError::InvalidNow(_)) => "ok",
            Err(BackendError::Moving(_)) => "moving",
            Err(BackendError::Unavailable(error)) => match error.downcast_ref() {
                Some(RedisError::Timeout) => "timeout",
                _ => "error",
            },
        };
        call.ended(result);
        decided
    }
}

/// Links to one server that take turns.
#[derive(Debug)]
struct Links {
    links: Vec<Link>,
    turn: AtomicUsize,
}

impl Links {
    fn new(links: impl IntoIterator<Item = Link>) -> Self {
        Self {
            links: links.into_iter().collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// The next link that is connected, or the next, if none is.
    fn next(&self) -> &Link {
        let turn = match self.links.len() {
            1 => 0,
            links => self.turn.fetch_add(1, Ordering::Relaxed) % links,
        };
        let (before, from) = self.links.split_at(turn);
        let mut inline = from.iter().chain(before);
        inline
            .find(|link| link.is_connected())
            .unwrap_or(&self.links[turn])
    }

    async fn connected(&self) -> Result<(), RedisError> {
        for link in &self.links {
            link.connected().await?;
        }
        Ok(())
    }
}

/// Builds a [`RedisBackend`].
#[derive(Clone, Debug)]
pub struct RedisBackendBuilder {
    source: Source,
    form: KeyForm,
    timeout: Duration,
    connections: usize,
    checks: Checks,
}

impl RedisBackendBuilder {
    /// Sets how the keys of buckets are formed.
    #[must_use]
    pub fn keys(mut self, form: KeyForm) -> Self {
        self.form = form;
        self
    }

    /// Sets how long a decision may take, with all its round trips; 250 ms if not set. What has not been
    /// answered by then is an error, and may have been charged.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many connections are made to a single server, or to one behind sentinels; one if not set. One
    /// serves many thousand decisions a second, since none waits for another's answer.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets what mistakes are looked for, and what is made of them. See [`check`](crate::check).
    #[must_use]
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Builds the backend.
    ///
    /// # Errors
    ///
    /// As [`RedisBackend::new`], or if there shall be no connections, or the checks are strict and find something.
    pub fn build(self) -> Result<RedisBackend, RedisError> {
        let reporter = Reporter::new(self.checks);
        let servers = match self.source {
            Source::Url(url) => Servers::connect(config::parse(&url)?, self.connections)?,
            Source::Config(config) => Servers::connect(*config, self.connections)?,
            Source::Client(client) => Servers::borrow(vec![client], &reporter)?,
            Source::Pool(pool) => Servers::borrow(pool.clients().to_vec(), &reporter)?,
        };
        let servers = Arc::new(servers);
        let runtime = Handle::try_current().ok();
        let inspection =
            runtime.map(|runtime| Task::spawn(&runtime, Arc::clone(&servers).report(reporter)));
        Ok(RedisBackend {
            servers,
            form: self.form,
            timeout: self.timeout,
            checks: self.checks,
            _inspection: inspection,
        })
    }
}

impl Servers {
    fn connect(config: Config, connections: usize) -> Result<Self, RedisError> {
        let problem = |text: &str| RedisError::Config(text.to_owned());
        let runtime = Handle::try_current()
            .map_err(|_| problem("there is no tokio runtime to connect on: build it within one"))?;
        if connections == 0 {
            return Err(problem("0 connections decide nothing: use at least 1"));
        }
        if config.server.is_clustered() {
            return Ok(Self::Cluster(Arc::new(Cluster::connect(config, &runtime))));
        }
        let links = (0..connections).map(|_| Link::connect(config.clone(), &runtime));
        Ok(Self::Single(Links::new(links)))
    }

    async fn connected(&self) -> Result<(), RedisError> {
        match self {
            Self::Single(links) => links.connected().await,
            Self::Cluster(cluster) => cluster.connected().await,
        }
    }

    /// Looks at the servers once they are connected, and tells what is to be said of them.
    async fn report(self: Arc<Self>, reporter: Reporter) {
        while self.connected().await.is_err() {
            time::sleep(RECONNECT_DELAY).await;
        }
        for finding in self.inspect(reporter.checks()).await {
            reporter.tell(&finding);
        }
    }

    async fn inspect(&self, checks: Checks) -> Vec<Finding> {
        let clients: Vec<_> = match self {
            Self::Single(links) => vec![links.next().client()],
            Self::Cluster(cluster) => {
                let masters = cluster.masters();
                masters.iter().map(|link| link.client()).collect()
            }
        };
        let mut findings = Vec::new();
        for client in clients {
            findings.extend(inspection::inspect(&client, checks).await);
        }
        findings
    }

    fn borrow(clients: Vec<Client>, reporter: &Reporter) -> Result<Self, RedisError> {
        const CHECK: Check = Check::ClientReplays;
        let checks = reporter.checks();
        if let Some(attempts) = clients.iter().find_map(config::replays)
            && checks.has(CHECK)
        {
            let seen = format!("the Redis client makes up to {attempts} attempts at a command");
            let finding = Finding::new(CHECK, seen);
            if checks.is_strict() {
                return Err(finding.into());
            }
            reporter.tell(&finding);
        }
        if let Some(client) = clients.iter().find(|client| client.is_clustered()) {
            return Self::connect(client.client_config(), 1);
        }
        if let Some(client) = clients.first() {
            let differences = config::differences(client);
            if !differences.is_empty() {
                tracing::warn!(
                    client = client.id(),
                    differences = differences.join("; "),
                    "this Redis client lets decisions wait for longer than one of tollgate's own"
                );
            }
        }
        Ok(Self::Single(Links::new(
            clients.into_iter().map(Link::borrow),
        )))
    }
}
