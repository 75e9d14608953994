//! The layer on memory: requests, responses, and the stacks that it is put into.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod assessments;
#[path = "../support/eventually.rs"]
mod eventually;
#[cfg(feature = "failure-policy")]
mod failures;
mod fields;
mod grpc;
mod grpc_web;
mod guide;
mod ids;
#[cfg(feature = "axum")]
mod limit_from;
mod own_denials;
mod own_limits;
mod pace;
mod permits;
mod recipes;
mod refusals;
mod rules;
mod secrets;
#[cfg(feature = "axum")]
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod waiting;
mod x_fields;
