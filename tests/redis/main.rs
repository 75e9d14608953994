//! Redis as a backend, on real servers.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

#[path = "../conformance/mod.rs"]
#[allow(dead_code, reason = "the map is for other tests")]
mod conformance;
mod connection;
mod failover;
mod load;
#[path = "../redis_support/mod.rs"]
mod redis_support;
mod refusals;
mod resharding;
mod secrets;
mod single;
mod spread;
#[path = "../support/mod.rs"]
mod support;
mod tiers;
mod upkeep;

use std::{sync::LazyLock, time::Duration};

use tollgate::{
    RedisBackend,
    backend::{DenyCache, FailurePolicy},
};

use self::{
    conformance::{conformance, figures},
    redis_support::{Cluster, Server},
};

/// A server that the tests share, each with ids of its own. It ends with the process.
static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

/// A cluster that the tests share.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

/// More than the machine may need.
const PATIENCE: Duration = Duration::from_secs(10);

/// A backend with patience.
async fn connect(url: String) -> RedisBackend {
    let backend = RedisBackend::builder(url).timeout(PATIENCE);
    let backend = backend.build().unwrap();
    backend.connected(PATIENCE).await.unwrap();
    backend
}

conformance!(by_tcp, connect(SERVER.url()).await);
conformance!(by_unix_socket, connect(SERVER.unix_url()).await);
conformance!(cluster, connect(CLUSTER.url()).await);
figures!(figures_of_one, connect(SERVER.url()).await);
figures!(figures_of_a_cluster, connect(CLUSTER.url()).await);
conformance!(
    wrapped,
    FailurePolicy::new(DenyCache::new(connect(SERVER.url()).await)).deadline(PATIENCE)
);
