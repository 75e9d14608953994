//! The examples, as processes of their own or as routers.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod acme;
#[cfg(feature = "pace")]
mod clients;
#[cfg(feature = "axum")]
mod custom_extractor;
mod dashboard;
#[cfg(feature = "axum")]
mod database;
#[cfg(feature = "testing")]
mod embedded_store;
mod failures;
#[cfg(all(feature = "axum", feature = "redis"))]
mod fleet;
mod inspect;
#[cfg(all(
    feature = "axum",
    feature = "redis",
    feature = "reload",
    feature = "yaml"
))]
mod llm_gateway;
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
#[path = "../support/mod.rs"]
mod support;
