//! The layer on memory: requests, responses, proxies, and the stacks that it is put into.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod alternatives;
mod axum;
mod blocks;
mod grpc;
mod keys;
mod layer;
mod leases;
mod limit_names;
mod own_limits;
mod pace;
#[cfg(feature = "axum")]
mod path_params;
mod permits;
mod permits_served;
mod proxies;
mod quiet;
mod recipes;
mod refusals;
mod responses;
mod rule_choices;
mod rules;
mod seats;
mod secrets;
mod settling;
mod shadow_layer;
mod shutdown;
#[path = "../support/mod.rs"]
mod support;
mod waiting;
mod waiting_figures;
mod windows;
