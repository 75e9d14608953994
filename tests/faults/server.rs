//! Faults of one server.

use std::time::Instant;

use crate::{
    eventually::{PATIENCE, eventually, eventually_async},
    failover::replicated,
    load::scenario,
    redis_support::{Proxy, Server},
    report::{away, failed_over, lost},
    stack::Stack,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_empty_server_costs_one_burst() {
    let server = Server::start();
    let stack = Stack::with_deadline(server.url(), PATIENCE).await;
    let report = scenario(stack, lost, async |load| {
        let killed = Instant::now();
        server.kill();
        load.more_without_the_store(1000).await;
        server.restart();
        killed
    })
    .await;
    report.stack.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_server_is_replaced_by_local_decisions() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let stack = Stack::connect(proxy.url()).await;
    let report = scenario(stack, away, async |load| {
        let paused = Instant::now();
        server.pause();
        load.more_without_the_store(1000).await;
        let enough = proxy.connections_made() + 3;
        eventually_async("connections are given up, and new ones tried", async || {
            proxy.connections_made() >= enough
        })
        .await;
        load.more(100).await;
        server.resume();
        paused
    })
    .await;
    report.assert_charged_once(&server);
    report.stack.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_server_is_replaced_until_it_has_memory() {
    let server = Server::start_with(&["--maxmemory-policy", "noeviction"]);
    let stack = Stack::connect(server.url()).await;
    let report = scenario(stack, away, async |load| {
        let full = Instant::now();
        server.configure("maxmemory", "1");
        load.more_without_the_store(1000).await;
        server.configure("maxmemory", "0");
        full
    })
    .await;
    report.assert_charged_once(&server);
    report.stack.end([&server]);
}

/// Makes `replica` follow `master`, and waits until it has all its data.
fn follow(replica: &Server, master: &Server) {
    replica.exec(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("the replica is linked", || replica.follows(master));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demoted_master_is_replaced_until_it_is_one_again() {
    let (server, other) = (Server::start(), Server::start());
    follow(&other, &server);
    let stack = Stack::with_deadline(server.url(), PATIENCE).await;
    let report = scenario(stack, failed_over, async |load| {
        let known = replicated(&server);
        other.exec(&["REPLICAOF", "NO", "ONE"]);
        follow(&server, &other);
        load.more(500).await;
        server.exec(&["REPLICAOF", "NO", "ONE"]);
        known
    })
    .await;
    report.stack.assert_announced_only_for(&[
        "there is no connection to Redis",
        "Redis refused: READONLY",
        "Redis has failed several times in a row",
    ]);
    assert!(report.without() > 0, "it is seen that there is no master");
    report.stack.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_starts_late_is_found() {
    let server = Server::start();
    server.kill();
    let begun = Instant::now();
    let stack = Stack::unconnected(server.url());
    let report = scenario(stack, away, async |load| {
        assert_eq!((load.stack.opened(), load.stack.closed()), (1, 0));
        server.restart();
        begun
    })
    .await;
    report.assert_charged_once(&server);
    report.stack.end([&server]);
}
