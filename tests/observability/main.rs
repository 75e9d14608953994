//! What operators see: the example `observability` scraped while known traffic runs, its dashboard, and the events and spans of
//! the library.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod alerts;
mod dashboard;
#[path = "../programs/mod.rs"]
mod programs;
mod prometheus;
mod recorder;
#[path = "../redis_support/mod.rs"]
mod redis_support;
mod scrape;
mod spans;
mod stores;
mod story;
#[path = "../support/mod.rs"]
mod support;
mod traces;
mod traffic;
mod volume;
