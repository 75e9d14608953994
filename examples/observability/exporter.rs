//! Metrics as Prometheus reads them.

use std::{convert::Infallible, time::Duration};

use axum::{Router, response::IntoResponse, routing::get};
use http::header::CONTENT_TYPE;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time;
use tollgate::{Limiter, metrics};

/// In seconds. Memory takes about a microsecond, Redis a fraction of a millisecond, and no decision more than the deadline.
const DECISIONS: [f64; 15] = [
    0.000_001, 0.000_002, 0.000_005, 0.000_02, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005,
    0.01, 0.025, 0.05, 0.25, 1.0,
];

/// In seconds, up to the deadline and beyond.
const STORE: [f64; 11] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.25, 1.0,
];

const UTILIZATION: [f64; 7] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0];

/// Installs the recorder. Counters end in `_total`, and durations in `_seconds`.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let buckets = |name: &str| Matcher::Full(name.to_owned());
    let handle = PrometheusBuilder::new()
        .with_recommended_naming(true)
        .set_buckets_for_metric(buckets(metrics::DECISION_DURATION), &DECISIONS)?
        .set_buckets_for_metric(buckets(metrics::STORE_DURATION), &STORE)?
        .set_buckets_for_metric(buckets(metrics::OVERRIDE_UTILIZATION), &UTILIZATION)?
        .install_recorder()?;
    metrics::describe();
    Ok(handle)
}

/// Sorts samples into buckets, lest they pile up while nobody scrapes.
pub(crate) async fn upkeep(handle: PrometheusHandle) -> Infallible {
    let mut interval = time::interval(Duration::from_secs(5));
    loop {
        interval.tick().await;
        handle.run_upkeep();
    }
}

/// `GET /metrics`.
pub(crate) fn router(handle: PrometheusHandle, limiter: Limiter) -> Router {
    let scrape = async move || {
        metrics::publish(&limiter.stats());
        let text = "text/plain; version=0.0.4; charset=utf-8";
        ([(CONTENT_TYPE, text)], handle.render()).into_response()
    };
    Router::new().route("/metrics", get(scrape))
}
