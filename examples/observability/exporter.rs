//! Metrics as Prometheus reads them.

use std::{convert::Infallible, time::Duration};

use axum::{Router, response::IntoResponse, routing::get};
use http::header::CONTENT_TYPE;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time;
use tollgate::{Limiter, metrics};

/// Installs the recorder. Counters end in `_total`, and durations in `_seconds`.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let buckets = |name: &str| Matcher::Full(name.to_owned());
    let handle = PrometheusBuilder::new()
        .with_recommended_naming(true)
        .set_buckets_for_metric(
            buckets(metrics::DECISION_DURATION),
            metrics::DURATION_BUCKETS,
        )?
        .set_buckets_for_metric(buckets(metrics::STORE_DURATION), metrics::DURATION_BUCKETS)?
        .set_buckets_for_metric(
            buckets(metrics::OVERRIDE_UTILIZATION),
            metrics::UTILIZATION_BUCKETS,
        )?
        .install_recorder()?;
    metrics::describe();
    Ok(handle)
}

/// Sorts samples into buckets regularly, so that they do not accumulate between scrapes.
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
