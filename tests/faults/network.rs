//! Faults between the stack and its server.

use std::time::{Duration, Instant};

use crate::{
    eventually::{PATIENCE, eventually_async},
    load::scenario,
    redis_support::{Proxy, Server},
    report::away,
    stack::Stack,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_lost_are_charged_once() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let stack = Stack::connect(proxy.url()).await;
    let report = scenario(stack, away, async |load| {
        let first = Instant::now();
        // Until one of them was not of `local`, whose calls do not show it.
        for cut in 1.. {
            proxy.cut_next_reply();
            eventually_async("a reply is cut", async || proxy.replies_cut() >= cut).await;
            load.more(50).await;
            if cut >= 15 && load.any_without() {
                break;
            }
        }
        first
    })
    .await;
    report.assert_charged_once(&server);
    report.stack.end([&server]);
}

/// Delays the answers of a server beyond the deadline for a number of calls, and then no longer. Returns how often the breaker has
/// closed meanwhile.
async fn late_by(delay: Duration, calls: usize) -> usize {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let stack = Stack::connect(proxy.url()).await;
    let mut closed = 0;
    let report = scenario(stack, away, async |load| {
        let late = Instant::now();
        proxy.delay(delay);
        load.more_without_the_store(500).await;
        let before = load.stack.closed();
        load.more(calls).await;
        closed = load.stack.closed() - before;
        proxy.delay(Duration::ZERO);
        late
    })
    .await;
    report.assert_charged_once(&server);
    report.stack.end([&server]);
    closed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_server_is_replaced_by_local_decisions() {
    // A machine that is late by 10 ms itself finds these replies in time.
    late_by(Duration::from_millis(60), 1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_slow_server_stays_replaced() {
    assert_eq!(late_by(PATIENCE, 4000).await, 0);
}
