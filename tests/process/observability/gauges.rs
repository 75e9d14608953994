//! The gauges of waiting requests and of permits.

use std::{panic::AssertUnwindSafe, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::Full;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::runtime::Builder;
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

/// By how much the gauge of waiting requests has changed since the last time.
fn change_of_waiting(snapshotter: &Snapshotter) -> Option<f64> {
    let mut all = snapshotter.snapshot().into_vec().into_iter();
    all.find_map(|(key, _, _, value)| match value {
        DebugValue::Gauge(value) if key.key().name() == metrics::WAITING => Some(value.0),
        _ => None,
    })
}

#[test]
fn gauge_of_waiting_requests_is_back_at_zero_after_each_end_of_a_wait() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
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
    ::metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            assert!(send().catch_unwind().await.is_err());
            let mut sent: Vec<_> = (0..1000).map(|_| send()).collect();
            for request in &mut sent {
                assert!(poll(request.0.as_mut()).is_pending());
            }
            assert_eq!(change_of_waiting(&snapshotter), Some(1000.0));
            limiter.reload(limits().unwrap()).unwrap();
            drop(sent.split_off(400));
            assert_eq!(change_of_waiting(&snapshotter), Some(-600.0));
            for request in sent.drain(..) {
                assert!(request.catch_unwind().await.is_err());
            }
            assert_eq!(change_of_waiting(&snapshotter), Some(-400.0));
        });
    });
}

/// By how much the gauges of permits have changed since the last time, by limit.
fn changes_of_permits(snapshotter: &Snapshotter) -> Vec<(String, f64)> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    let permits = all.filter_map(|(key, _, _, value)| match value {
        DebugValue::Gauge(value) if key.key().name() == metrics::PERMITS => {
            let label = key.key().labels().next().unwrap();
            assert_eq!(label.key(), "policy");
            Some((label.value().to_owned(), value.0))
        }
        _ => None,
    });
    permits.collect()
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

#[test]
fn gauge_of_permits_counts_work_until_it_ends_or_its_permits_are_lost() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let (clock, hold) = (ManualClock::default(), Duration::from_secs(3));
    let limits = Limits::builder().limit("exports", Limit::concurrent(9).hold(hold));
    let change = |expected: f64| {
        let changed = changes_of_permits(&snapshotter);
        assert_eq!(changed, [("exports".to_owned(), expected)]);
    };
    ::metrics::with_local_recorder(&recorder, || {
        let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
        let limiter = limiter.with_clock(clock.clone());
        let exports = limiter.limit("exports").unwrap();
        change(0.0);
        runtime.block_on(async {
            let enter = async |permits| exports.cost(permits).enter("alice").await.unwrap();
            let first = enter(4).await.unwrap();
            let second = enter(3).await.unwrap();
            assert!(enter(3).await.is_err());
            change(7.0);
            drop(first);
            assert!(second.release().await.unwrap());
            change(-7.0);
            let response = export(&limiter).await;
            change(1.0);
            drop(response);
            change(-1.0);
            // The process stands still for the hold.
            let lost = enter(2).await.unwrap();
            change(2.0);
            clock.advance(hold);
            tokio::time::sleep(hold).await;
            assert!(!lost.is_held());
            change(-2.0);
            drop(lost);
            change(0.0);
        });
    });
}
