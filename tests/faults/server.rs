//! Faults of one server.

use std::time::Instant;

use tollgate::Transaction;

use crate::{
    failover::replicated,
    load::{Load, until},
    redis_support::{Proxy, Server, wait_for},
    report::{away, failed_over, lost},
    stack::{BURST, LONG, Stack},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_empty_server_costs_one_burst() {
    let server = Server::start();
    let load = Load::start(Stack::with_deadline(server.url(), LONG).await);
    load.more(1000).await;
    let killed = Instant::now();
    server.kill();
    load.more_without_the_store(1000).await;
    server.restart();
    let back = load.returns_after(Instant::now()).await;
    load.more(1000).await;
    let report = load.stop().await;
    report.print(&format!("killed and restarted, {back:?}"));
    report.assert_admitted(killed, lost);
    report.assert_none_denied_wrongly();
    report.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_server_is_replaced_by_local_decisions() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let load = Load::start(Stack::connect(proxy.url()).await);
    load.more(1000).await;
    let paused = Instant::now();
    server.pause();
    load.more_without_the_store(1000).await;
    let enough = proxy.connections_made() + 3;
    until("connections are given up, and new ones tried", || {
        proxy.connections_made() >= enough
    })
    .await;
    load.more(100).await;
    server.resume();
    let back = load.returns_after(Instant::now()).await;
    load.more(1000).await;
    let report = load.stop().await;
    report.print(&format!("paused, {back:?}"));
    report.assert_admitted(paused, away);
    report.assert_none_denied_wrongly();
    report.assert_charged_once(&server);
    report.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_server_is_replaced_until_it_has_memory() {
    let server = Server::start_with(&["--maxmemory-policy", "noeviction"]);
    let memory = |bytes| {
        let set = ["CONFIG", "SET", "maxmemory", bytes];
        server.command(&set).expect_success();
    };
    let load = Load::start(Stack::connect(server.url()).await);
    load.more(1000).await;
    let full = Instant::now();
    memory("1");
    load.more_without_the_store(1000).await;
    memory("0");
    let back = load.returns_after(Instant::now()).await;
    load.more(500).await;
    let report = load.stop().await;
    report.print(&format!("out of memory, {back:?}"));
    report.assert_admitted(full, away);
    report.assert_none_denied_wrongly();
    report.assert_charged_once(&server);
    report.end([&server]);
}

/// Makes `replica` follow `master`, and waits until it has all its data.
fn follow(replica: &Server, master: &Server) {
    let follow = ["REPLICAOF", "127.0.0.1", &master.port().to_string()];
    replica.command(&follow).expect_success();
    wait_for("the replica is linked", || replica.follows(master));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demoted_master_is_replaced_until_it_is_one_again() {
    let (server, other) = (Server::start(), Server::start());
    follow(&other, &server);
    let load = Load::start(Stack::with_deadline(server.url(), LONG).await);
    load.more(1000).await;
    let known = replicated(&server);
    other.command(&["REPLICAOF", "NO", "ONE"]).expect_success();
    follow(&server, &other);
    load.more(500).await;
    server.command(&["REPLICAOF", "NO", "ONE"]).expect_success();
    let back = load.returns_after(Instant::now()).await;
    load.more(500).await;
    let report = load.stop().await;
    report.print(&format!("a replica meanwhile, {back:?}"));
    report.assert_announced_only_for(&[
        "there is no connection to Redis",
        "Redis refused: READONLY",
        "Redis has failed several times in a row",
    ]);
    assert!(report.without() > 0, "it is seen that there is no master");
    report.assert_admitted(known, failed_over);
    report.assert_none_denied_wrongly();
    report.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_starts_late_is_found() {
    let server = Server::start();
    server.kill();
    let load = Load::start(Stack::unconnected(server.url()));
    let begun = Instant::now();
    load.more(1000).await;
    assert_eq!((load.stack().opened(), load.stack().closed()), (1, 0));
    server.restart();
    let back = load.returns_after(Instant::now()).await;
    load.more(500).await;
    let report = load.stop().await;
    report.print(&format!("not there at first, {back:?}"));
    report.assert_admitted(begun, away);
    report.assert_none_denied_wrongly();
    report.assert_charged_once(&server);
    report.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_over_a_dead_server_follows_the_failure_modes_of_its_limits() {
    let server = Server::start();
    let stack = Stack::connect(server.url()).await;
    let [local, allow, refuse] =
        ["local", "allow", "refuse"].map(|limit| Transaction::new(limit, "a"));
    server.kill();
    for round in 0..50 {
        let refused = stack.limiter.spend_batch(&[allow, local, refuse]).await;
        assert!(refused.is_err(), "one that refuses makes it an error");
        let both = stack.limiter.spend_batch(&[allow, local]).await.unwrap();
        assert_eq!(
            both.allowed(),
            round < BURST,
            "the one that is local decides"
        );
        assert!(!both.members()[0].limited() && both.members()[1].limited());
        assert!(stack.limiter.spend(&allow).await.unwrap().allowed());
    }
    server.restart();
    stack.end([&server]);
}
