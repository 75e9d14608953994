//! A server and a cluster decide as the models do when limits change between two batches: period, window, hold, limit and
//! algorithm.

#[cfg(feature = "zones")]
use crate::support::histories::agree_on_zones;
use crate::{
    CLUSTER, SERVER, connect,
    support::{histories::agree, scale::scaled},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_change_are_decided_as_by_the_models() {
    agree(connect(SERVER.url()).await, scaled(4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_change_are_decided_as_by_the_models_on_a_cluster() {
    agree(connect(CLUSTER.url()).await, scaled(2)).await;
}

#[cfg(feature = "zones")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_in_time_zones_are_decided_as_by_the_models() {
    agree_on_zones(connect(SERVER.url()).await, scaled(6)).await;
}
