//! What operators see: the example `observability` scraped while known traffic runs, its dashboard, and the events and spans of
//! the library.

#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

#[cfg(all(feature = "axum", feature = "redis", feature = "reload"))]
mod alerts;
#[cfg(all(feature = "axum", feature = "redis", feature = "reload"))]
mod dashboard;
#[cfg(all(feature = "failure-policy", feature = "reload"))]
mod gauges;
#[cfg(all(feature = "failure-policy", feature = "reload"))]
mod recorder;
#[cfg(all(feature = "axum", feature = "redis", feature = "reload"))]
mod scrape;
#[cfg(all(feature = "axum", feature = "redis", feature = "reload"))]
mod stores;
#[cfg(all(feature = "axum", feature = "redis", feature = "reload"))]
mod story;
#[cfg(all(feature = "failure-policy", feature = "reload"))]
mod traces;
