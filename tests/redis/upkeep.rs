//! Connections: kept up whatever happens, and none left behind.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::sleep;
use tollgate::{Limiter, RedisBackend};

use crate::{
    CLUSTER, PATIENCE,
    load::{Load, TIMEOUT, limiter, limits, until_decided, wait_until},
    redis_support::{Proxy, Sentinels, Server},
};

/// How many connections a server has, but for the one that asks.
fn connections(server: &Server) -> usize {
    let list = server.command(&["CLIENT", "LIST", "TYPE", "NORMAL"]);
    list.text().lines().count() - 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_backend_leaves_no_connection() {
    let server = Server::start();
    let backend = RedisBackend::builder(server.url()).connections(3);
    let backend = backend.build().unwrap();
    backend.connected(PATIENCE).await.unwrap();
    assert_eq!(connections(&server), 3);
    drop(backend);
    wait_until("all are closed", async || connections(&server) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backend_that_is_dropped_while_it_connects_leaves_no_connection() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let limiters = join_all((0..30).map(|_| limiter(proxy.url()))).await;
    proxy.close_all().await;
    // One after another, at whatever they are about then.
    for limiter in limiters {
        sleep(Duration::from_millis(7)).await;
        drop(limiter);
    }
    wait_until("all are closed", async || connections(&server) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_backend_of_a_cluster_leaves_no_task() {
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    let limiter = limiter(CLUSTER.url()).await;
    until_decided(&limiter, "one", &["left".to_owned()]).await;
    drop(limiter);
    let metrics = tokio::runtime::Handle::current().metrics();
    wait_until("all have ended", async || {
        metrics.num_alive_tasks() == before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_says_nothing_while_it_is_connected_to_is_tried_again() {
    let server = Server::start();
    server.pause();
    let backend = RedisBackend::builder(server.url()).timeout(TIMEOUT);
    let limiter = Limiter::new(limits(), backend.build().unwrap());
    let load = Load::start(&limiter, "one", 2, |call| vec![call.to_string()]);
    // Longer than a handshake may take.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(800) {
        load.more(10).await;
    }
    server.resume();
    until_decided(&limiter, "one", &["fresh".to_owned()]).await;
    load.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_that_says_nothing_does_not_hide_the_others() {
    let sentinels = Sentinels::start();
    let proxy = Proxy::start(sentinels.sentinels()[0].addr()).await;
    proxy.delay(PATIENCE);
    // The first and the last of those that are asked say nothing.
    let silent = proxy.addr();
    let service = sentinels.url();
    let (_, service) = service.split_once('?').unwrap();
    let url = format!("redis-sentinel://{silent}?node={silent}&{service}");
    let limiter = limiter(url).await;
    until_decided(&limiter, "one", &["fresh".to_owned()]).await;
}
