//! Blocks for the whole fleet, in the round trip of the request's other limits.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule,
    backend::{Backend, BackendError, FailurePolicy},
    decision::Outcome,
    id::IdFormat,
    key::HeaderId,
    limit::LimitName,
    transaction::Batch,
};
use tower::{Layer, ServiceExt};

use crate::{
    CLUSTER, SERVER, TIMEOUT, connect,
    support::{Hello, text},
};

/// Counts the calls to a store.
#[derive(Debug)]
struct Counting<B> {
    store: B,
    calls: &'static AtomicUsize,
}

#[async_trait]
impl<B: Backend> Backend for Counting<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.store.apply(batch).await
    }
}

/// A process of the fleet.
async fn process(url: String, calls: &'static AtomicUsize) -> (Limiter, RateLimitLayer) {
    let accounts = |name: &str, number| LimitName::new(name, number, IdFormat::RegId);
    let limits = Limits::builder()
        .limit(accounts("orders", 8301), Limit::per_hour(100))
        .block(accounts("unpaid", 8302), "pay first")
        .block(accounts("abuse", 8303), "stop that");
    let store = Counting {
        store: connect(url).await,
        calls,
    };
    let backend = FailurePolicy::new(store).deadline(TIMEOUT);
    let limiter = Limiter::new(limits.build().unwrap(), backend);
    let account = || HeaderId::new("x-account").shown();
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("unpaid", account()))
        .rule(Rule::new("abuse", account()))
        .rule(Rule::new("orders", account()));
    (limiter, layer)
}

async fn send(layer: &RateLimitLayer, account: &str) -> (StatusCode, String) {
    let request = Request::builder().header("x-account", account);
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    (response.status(), text(response).await)
}

async fn blocks_reach_the_fleet(url: String, calls: &'static AtomicUsize) {
    const DAY: Duration = Duration::from_secs(86_400);
    let (ours, our_layer) = process(url.clone(), calls).await;
    let (theirs, their_layer) = process(url, calls).await;
    assert_eq!(send(&their_layer, "7").await.0, StatusCode::OK);
    ours.block("unpaid", "7", DAY).await.unwrap();
    for layer in [&our_layer, &their_layer] {
        let before = calls.load(Ordering::Relaxed);
        let (status, body) = send(layer, "7").await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert!(body.contains("pay first, retry in "), "{body}");
        assert_eq!(send(layer, "8").await.0, StatusCode::OK);
        let sent = calls.load(Ordering::Relaxed) - before;
        assert_eq!(sent, 2, "one round trip for each request");
    }
    let left = theirs.blocked_for("unpaid", "7").await.unwrap().unwrap();
    assert!(left <= DAY && left > DAY / 2, "{left:?}");
    assert_eq!(theirs.blocked_for("abuse", "7").await.unwrap(), None);
    // Nothing but the first request was charged.
    let orders = ours.limit("orders").unwrap();
    assert_eq!(orders.peek("7").await.unwrap().remaining(), Some(99));
    theirs.unblock("unpaid", "7").await.unwrap();
    assert_eq!(send(&our_layer, "7").await.0, StatusCode::OK);
    for limit in ["orders", "unpaid"] {
        for id in ["7", "8"] {
            let bucket = tollgate::Transaction::new(limit, id);
            ours.reset(&[bucket]).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn block_is_seen_by_all_processes_on_one_server() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    blocks_reach_the_fleet(SERVER.url(), &CALLS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn block_is_seen_by_all_processes_on_a_cluster() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    blocks_reach_the_fleet(CLUSTER.url(), &CALLS).await;
}
