//! How much is logged while a store is away for a minute, at 100 requests a second or more.

use std::time::{Duration, Instant};

use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule, Transaction,
    backend::{Backend, FailurePolicy},
    limit::LimitName,
    transaction::OnFailure,
};

use crate::support::{
    Log,
    scale::scaled,
    send,
    store::{Fate, Store},
};

const MINUTE: Duration = Duration::from_secs(60);

fn limiter(on_failure: OnFailure, backend: impl Backend) -> Limiter {
    let name = LimitName::from("requests").on_failure(on_failure);
    let limits = Limits::builder().limit(name, Limit::per_second(1));
    Limiter::new(limits.build().unwrap(), backend)
}

/// A minute of requests to a limiter.
async fn minute(limiter: &Limiter, mut before_each: impl FnMut()) {
    let requests = scaled(6000);
    for _ in 0..requests {
        // What comes of it is not the question.
        before_each();
        let _ = limiter.spend(&Transaction::new("requests", "alice")).await;
        tokio::time::advance(MINUTE / requests).await;
    }
}

/// A minute of requests to a layer. It says how often the layer may have told of it, once in ten seconds of this machine.
async fn minute_of_requests(limiter: Limiter) -> usize {
    let begun = Instant::now();
    let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", ClientIp::peer()));
    let requests = scaled(6000);
    for _ in 0..requests {
        send(&layer, "203.0.113.7").await;
        tokio::time::advance(MINUTE / requests).await;
    }
    1 + usize::try_from(begun.elapsed().as_secs() / 10).unwrap()
}

#[tokio::test(start_paused = true)]
async fn policy_tells_once() {
    for on_failure in [OnFailure::Local, OnFailure::Allow, OnFailure::Refuse] {
        let (log, _guard) = Log::capture();
        let policy = FailurePolicy::new(Store::new(Fate::Away));
        minute(&limiter(on_failure, policy), || {}).await;
        assert_eq!(log.count("\n"), 1, "{on_failure:?}");
        assert_eq!(log.count("does not answer: deciding without it"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn policy_and_layer_tell_once_each() {
    let (log, _guard) = Log::capture();
    let policy = FailurePolicy::new(Store::new(Fate::Away));
    let most = minute_of_requests(limiter(OnFailure::Refuse, policy)).await;
    assert_eq!(log.count("does not answer: deciding without it"), 1);
    let by_layer = log.count("\n") - 1;
    assert!((1..=most).contains(&by_layer), "{by_layer} of {most}");
}

#[tokio::test(start_paused = true)]
async fn layer_directly_on_a_store_tells_once() {
    let (log, _guard) = Log::capture();
    let most = minute_of_requests(limiter(OnFailure::Local, Store::new(Fate::Away))).await;
    let by_layer = log.count("\n");
    assert!((1..=most).contains(&by_layer), "{by_layer} of {most}");
}
