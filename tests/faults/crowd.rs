//! Many simultaneous requests of one client, and a store that answers.

use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{DenyCache, FailurePolicy},
    decision::Source,
};

use crate::{
    redis_support::Server,
    stack::{LONG, PATIENCE},
};

const REQUESTS: usize = 10_000;

/// Requests of one client that were admitted by the store, admitted locally, and denied.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    by_store: u32,
    locally: u32,
    denied: u32,
}

/// Sends all requests at once.
async fn crowd(limiter: &Limiter, id: &'static str) -> Sum {
    let requests = (0..REQUESTS).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.spend(&Transaction::new("requests", id)).await })
    });
    let mut sum = Sum::default();
    for request in requests.collect::<Vec<_>>() {
        let decided = request.await.unwrap().unwrap();
        match decided.source() {
            _ if !decided.allowed() => sum.denied += 1,
            Source::Local => sum.locally += 1,
            _ => sum.by_store += 1,
        }
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_simultaneous_requests_of_one_client_get_its_burst_from_the_store() {
    let server = Server::start();
    for burst in [5, 1000, 20_000] {
        let backend = RedisBackend::builder(server.url()).timeout(LONG);
        let backend = backend.build().unwrap();
        backend.connected(PATIENCE).await.unwrap();
        let policy = FailurePolicy::new(DenyCache::new(backend)).deadline(LONG);
        let limits = Limits::builder().limit("requests", Limit::per_day(1).burst(burst));
        let limiter = Limiter::new(limits.build().unwrap(), policy);
        let sum = crowd(&limiter, "client").await;
        let by_store = burst.min(u32::try_from(REQUESTS).unwrap());
        println!("{REQUESTS} requests, a burst of {burst}: {sum:?}");
        assert_eq!((sum.by_store, sum.locally), (by_store, 0), "{sum:?}");
        server.command(&["FLUSHALL"]).expect_success();
    }
}
