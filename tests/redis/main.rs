//! Redis as a backend, on real servers.

#![cfg(all(feature = "domains", feature = "redis"))]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod agreement;
mod broken_keys;
mod configuration;
mod connection;
mod credentials;
mod docs;
#[path = "../support/eventually.rs"]
mod eventually;
mod failover;
mod grouping;
mod load;
mod operation;
mod proxies;
#[path = "../redis_support/mod.rs"]
mod redis_support;
mod refusals;
mod resharding;
mod runtimes;
mod secrets;
mod servers;
mod single;
mod spread;
mod stored;
#[path = "../support/mod.rs"]
mod support;

use std::{sync::LazyLock, time::Duration};

use tollgate::{
    RedisBackend,
    backend::{DenyCache, FailurePolicy, redis::RedisBackendBuilder},
    testing::conformance,
};

use self::{
    eventually::PATIENCE,
    redis_support::{Cluster, Server},
};

/// A server that the tests share, each with ids of its own. It ends with the process.
static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

/// A cluster that the tests share.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

/// The timeout of decisions in tests in which none is to time out. A batch of thousands over a cluster takes long on a busy
/// machine.
const TIMEOUT: Duration = PATIENCE;

/// A backend with patience.
async fn connect(url: impl Into<String>) -> RedisBackend {
    connect_as(RedisBackend::builder(url)).await
}

/// A backend with patience, and with settings of its own.
async fn connect_as(builder: RedisBackendBuilder) -> RedisBackend {
    let backend = builder.timeout(TIMEOUT).build().unwrap();
    backend.connected(PATIENCE).await.unwrap();
    backend
}

conformance!(by_tcp, connect(SERVER.url()).await);
conformance!(cluster, connect(CLUSTER.url()).await);
conformance!(
    wrapped,
    FailurePolicy::new(DenyCache::new(connect(SERVER.url()).await)).deadline(TIMEOUT),
);
