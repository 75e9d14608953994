//! What operators see: the example `observability` scraped while known traffic runs, its dashboard, and the events and spans of
//! the library.

#![cfg(all(
    feature = "axum",
    feature = "metrics",
    feature = "redis",
    feature = "reload"
))]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod alerts;
mod dashboard;
mod prometheus;
mod recorder;
mod scrape;
mod spans;
mod stores;
mod story;
mod traces;
mod traffic;
mod volume;
