//! The gauges of waiting requests and of permits.

use std::{panic::AssertUnwindSafe, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::Full;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock, metrics,
};
use tower::{Layer, ServiceExt};

use crate::support::patience::poll;

/// A service that panics for each request.
async fn panics(
    _request: http::Request<Full<Bytes>>,
) -> Result<http::Response<Full<Bytes>>, std::convert::Infallible> {
    std::future::ready(()).await;
    panic!("the service panics");
}

/// The gauges of a name, each with its labels and the change since the last time.
fn changes(snapshotter: &Snapshotter, name: &str) -> Vec<(String, f64)> {
    let mut changes = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        if let DebugValue::Gauge(change) = value
            && key.key().name() == name
        {
            let labels = key.key().labels();
            let labels = labels.map(|label| format!("{}={}", label.key(), label.value()));
            changes.push((labels.collect(), change.0));
        }
    }
    changes
}

#[tokio::test(start_paused = true)]
async fn gauge_of_waiting_requests_is_back_at_zero_after_each_end_of_a_wait() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = ::metrics::set_default_local_recorder(&recorder);
    let line = Limit::per_second(1).max_wait(Duration::from_secs(36_000));
    let limits = || Limits::builder().limit("requests", line.clone()).build();
    let limiter = Limiter::new(limits().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let rule = Rule::new("requests", tollgate::key::Everyone);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let send = || {
        let request = http::Request::new(Full::<Bytes>::default());
        let service = layer.layer(tower::service_fn(panics));
        AssertUnwindSafe(Box::pin(service.oneshot(request)))
    };
    let expect = |change: f64| {
        let changed = changes(&snapshotter, metrics::WAITING);
        assert_eq!(changed, [(String::new(), change)]);
    };
    assert!(send().catch_unwind().await.is_err());
    let mut sent: Vec<_> = (0..1000).map(|_| send()).collect();
    for request in &mut sent {
        assert!(poll(request.0.as_mut()).is_pending());
    }
    expect(1000.0);
    limiter.reload(limits().unwrap()).unwrap();
    drop(sent.split_off(400));
    expect(-600.0);
    for request in sent {
        assert!(request.catch_unwind().await.is_err());
    }
    expect(-400.0);
}

async fn reports(
    _request: http::Request<Full<Bytes>>,
) -> Result<http::Response<Full<Bytes>>, std::convert::Infallible> {
    let body = Full::new(Bytes::from_static(b"a report"));
    Ok(http::Response::new(body))
}

/// The response to a request under the limit `exports`, whose body has not been read.
async fn export(limiter: &Limiter) -> http::Response<impl http_body::Body> {
    let rule = Rule::new("exports", tollgate::key::Everyone);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let request = http::Request::new(Full::<Bytes>::default());
    let response = layer
        .layer(tower::service_fn(reports))
        .oneshot(request)
        .await;
    response.unwrap_or_else(|never| match never {})
}

#[tokio::test(start_paused = true)]
async fn gauge_of_permits_counts_work_until_it_ends_or_its_permits_are_lost() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = ::metrics::set_default_local_recorder(&recorder);
    let (clock, hold) = (ManualClock::default(), Duration::from_secs(3));
    let limits = Limits::builder().limit("exports", Limit::concurrent(9).hold(hold));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(clock.clone());
    let exports = limiter.limit("exports").unwrap();
    let expect = |change: f64| {
        let changed = changes(&snapshotter, metrics::PERMITS);
        assert_eq!(changed, [("policy=exports".to_owned(), change)]);
    };
    expect(0.0);
    let enter = async |permits| exports.cost(permits).enter("alice").await.unwrap();
    let first = enter(4).await.unwrap();
    let second = enter(3).await.unwrap();
    assert!(enter(3).await.is_err());
    expect(7.0);
    drop(first);
    assert!(second.release().await.unwrap());
    expect(-7.0);
    let response = export(&limiter).await;
    expect(1.0);
    drop(response);
    expect(-1.0);
    // The process stands still for the hold.
    let lost = enter(2).await.unwrap();
    expect(2.0);
    clock.advance(hold);
    tokio::time::sleep(hold).await;
    assert!(!lost.is_held());
    expect(-2.0);
    drop(lost);
    expect(0.0);
}
