//! The examples that are recipes, over HTTP: what they promise holds for clients that hurry, err or go away.

#![cfg(all(feature = "axum", feature = "yaml"))]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod clients;
mod login_failures;
mod plans;
