//! The examples with a page, in a browser: `simulator`, which shows what the arithmetic says, and `dashboard`.

#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod browser;
mod controls;
#[cfg(all(feature = "metrics", feature = "redis"))]
mod dashboard;
mod looks;
mod page;
mod plays;
#[path = "../programs/mod.rs"]
mod programs;
#[path = "../redis_support/mod.rs"]
mod redis_support;
mod server;
mod webdriver;
