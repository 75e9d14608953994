//! The examples, as processes of their own or as routers.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod acme;
#[cfg(feature = "pace")]
mod clients;
#[cfg(feature = "axum")]
mod custom_extractor;
#[cfg(feature = "axum")]
mod database;
#[cfg(feature = "testing")]
mod embedded_store;
#[path = "../support/eventually.rs"]
mod eventually;
mod failures;
#[cfg(all(feature = "axum", feature = "redis"))]
mod fleet;
#[cfg(all(
    feature = "metrics",
    feature = "redis",
    feature = "reload",
    feature = "yaml"
))]
mod production;
#[path = "../programs/mod.rs"]
mod programs;
#[cfg(feature = "axum")]
mod quickstart;
mod recipes;
#[path = "../redis_support/mod.rs"]
mod redis_support;
#[cfg(all(feature = "axum", feature = "redis"))]
mod registry;
mod service;
#[cfg(feature = "axum")]
mod small;
#[path = "../support/mod.rs"]
mod support;

/// Where Cargo puts the examples, next to the folder of the tests.
const PROGRAMS: &str = "examples";
