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

/// Runs a program that must end with exit code 2, print nothing, and name these texts in its error.
#[allow(dead_code, reason = "the examples that need features use it")]
#[track_caller]
fn expect_refusal(program: &str, args: &[&str], texts: &[&str]) {
    let output = programs::run(program, args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}: {:?}", output.stdout);
    for text in texts {
        assert!(message.contains(text), "{args:?}: {message}");
    }
}
