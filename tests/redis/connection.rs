//! One server, and what may be wrong with the connection to it.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::{JoinSet, yield_now};
use tollgate::{
    Limiter, RedisBackend, Transaction,
    backend::{FailurePolicy, redis::RedisError},
    decision::Source,
};

use crate::{
    CLUSTER, SERVER,
    eventually::{PATIENCE, eventually_async},
    load::{BURST, TIMEOUT, Tally, limiter, limits, load, patient_limiter, reason, until_decided},
    redis_support::{Proxy, Server, mixed},
};

fn one(id: &str) -> Transaction<'_> {
    Transaction::new("one", id)
}

/// Returns the units that are taken from a bucket, according to its server.
fn taken(server: &Server, id: &str) -> u32 {
    const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;
    let Some(key) = server.key_of(&format!("1:{id}")) else {
        return 0;
    };
    let value: String = server.query(&["GET", &key]);
    let full: u64 = value.split(':').next().unwrap().parse().unwrap();
    let cost = DAY_US / u64::from(BURST);
    u32::try_from((full - server.time()).div_ceil(cost)).unwrap()
}

/// A server, a proxy before it, and a limiter that has been through both.
async fn behind_proxy() -> (Server, Proxy, Limiter) {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let limiter = patient_limiter(proxy.url()).await;
    (server, proxy, limiter)
}

/// Waits until there is a connection again.
async fn reconnected(limiter: &Limiter) {
    let probe = one("probe").cost(0);
    eventually_async("the connection is back", async || {
        limiter.check(&probe).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spend_whose_reply_is_lost_is_an_error_and_charged_once() {
    let (server, proxy, limiter) = behind_proxy().await;
    let (mut charged, mut cut) = (0, 0);
    // Some of the replies may be of something else.
    while charged < 5 {
        cut += 1;
        let id = format!("cut{cut}");
        proxy.cut_next_reply();
        let error = reason(&limiter.spend(&one(&id)).await.unwrap_err());
        assert!(matches!(error, RedisError::Disconnected(_)), "{error}");
        reconnected(&limiter).await;
        let taken = taken(&server, &id);
        assert!(taken <= 1, "{id}: {taken}");
        charged += taken;
    }
    assert_eq!(proxy.replies_cut(), cut);
}

#[tokio::test]
async fn call_that_is_sent_just_as_its_connection_ends_does_not_wait_for_its_deadline() {
    let server = Server::start();
    let limiter = patient_limiter(server.url()).await;
    limiter.spend(&one("before")).await.unwrap();
    server.kill();
    // In a runtime of one thread, one call is sent in each turn until long after the end was noticed.
    let calls = (0..300).map(|turns| {
        let limiter = limiter.clone();
        async move {
            for _ in 0..turns {
                yield_now().await;
            }
            limiter.spend(&one("id")).await
        }
    });
    for answer in join_all(calls).await {
        let error = reason(&answer.unwrap_err());
        assert!(!matches!(error, RedisError::Timeout), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refund_whose_reply_is_lost_gives_back_once() {
    let (server, proxy, limiter) = behind_proxy().await;
    limiter.spend(&one("id").cost(3)).await.unwrap();
    let mut taken_before = 3;
    while taken_before > 0 {
        proxy.cut_next_reply();
        assert!(limiter.refund(&one("id")).await.is_err());
        reconnected(&limiter).await;
        let taken = taken(&server, "id");
        assert!(
            taken <= taken_before && taken + 1 >= taken_before,
            "{taken}"
        );
        taken_before = taken;
    }
    assert_eq!(taken(&server, "id"), 0);
}

/// Its name may stand for another server by now, which only a new connection reaches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_to_a_master_that_became_a_replica_is_replaced() {
    let (server, proxy, limiter) = behind_proxy().await;
    limiter.spend(&one("id")).await.unwrap();
    let made = proxy.connections_made();
    server.exec(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = reason(&limiter.spend(&one("id")).await.unwrap_err());
    assert!(error.is_read_only(), "{error}");
    eventually_async("there is a new connection", async || {
        proxy.connections_made() > made
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_server_is_a_timeout_and_right_again_when_it_is_fast() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let limiter = limiter(proxy.url()).await;
    proxy.delay(PATIENCE);
    let begun = Instant::now();
    let error = reason(&limiter.spend(&one("id")).await.unwrap_err());
    assert!(matches!(error, RedisError::Timeout), "{error}");
    assert!(begun.elapsed() >= TIMEOUT);
    proxy.delay(Duration::ZERO);
    reconnected(&limiter).await;
    // A busy machine may give a call up before it is sent.
    let taken = taken(&server, "id");
    assert!(taken <= 1, "{taken}");
    eventually_async("it decides", async || {
        let decision = limiter.check(&one("id").cost(0)).await;
        decision.is_ok_and(|decision| decision.remaining() == Some(BURST - taken))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_whose_answers_are_always_late_opens_the_breaker() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let limiter = limiter(proxy.url()).await;
    proxy.delay(2 * TIMEOUT);
    eventually_async("it is open", async || {
        let answer = limiter.spend(&one("id")).await;
        answer.is_err() && limiter.stats().is_open == Some(true)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_no_error() {
    let server = Server::start();
    let limiter = patient_limiter(server.url()).await;
    let batch = |call| vec![mixed(call, 6).to_string(), "other".to_owned()];
    let single = |call| vec![format!("single{}", mixed(call, 6))];
    let loads = [
        load(&limiter, "one", 3, single),
        load(&limiter, "one", 3, batch),
    ];
    for _ in 0..50 {
        server.exec(&["SCRIPT", "FLUSH"]);
        loads[0].more(5).await;
        loads[1].more(5).await;
    }
    for load in loads {
        let tally = Tally::of(load).await;
        tally.assert_no_errors();
        assert_eq!(tally.most(), BURST);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_calls_at_once_are_refused_and_those_after_them_are_not() {
    let server = Server::start();
    // The connection stays while the server is paused.
    let limiter = patient_limiter(server.url()).await;
    server.pause();
    let mut calls = JoinSet::new();
    for number in 0..20_000 {
        let limiter = limiter.clone();
        calls.spawn(async move { limiter.spend(&one(&number.to_string())).await });
    }
    let first = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(matches!(reason(&first), RedisError::Busy), "{first}");
    drop(calls);
    server.resume();
    for number in 0..50 {
        until_decided(&limiter, "one", &[format!("later{number}")]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn breaker_is_open_while_the_server_is_down() {
    let server = Server::start();
    let limiter = patient_limiter(server.url()).await;
    assert_eq!(limiter.stats().is_open, Some(false));
    server.kill();
    eventually_async("it is open", async || {
        let answer = limiter.spend(&one("id")).await;
        answer.is_err() && limiter.stats().is_open == Some(true)
    })
    .await;
    server.restart();
    reconnected(&limiter).await;
    assert_eq!(limiter.stats().is_open, Some(false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_timeout_can_be_set() {
    for url in [SERVER.url(), CLUSTER.url()] {
        let build = |timeout| RedisBackend::builder(url.clone()).timeout(timeout).build();
        for timeout in [Duration::MAX, Duration::from_secs(u64::MAX)] {
            let backend = build(timeout).unwrap();
            backend.connected(timeout).await.unwrap();
            let limiter = Limiter::new(limits(), FailurePolicy::new(backend).deadline(timeout));
            let id = format!("{timeout:?}");
            let decision = limiter.spend(&one(&id)).await.unwrap();
            assert_eq!(decision.source(), Source::Store);
        }
    }
}
