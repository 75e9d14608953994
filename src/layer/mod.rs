//! The tower layer: [`RateLimitLayer`] and the service that it makes, [`RateLimit`].
//!
//! # Example
//!
//! ```
//! use axum::{Router, routing::get};
//! use tollgate::{ClientIp, Limit, RateLimitLayer};
//!
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(Limit::per_second(10).burst(20), ClientIp::peer()));
//! ```
//!
//! # Where it goes
//!
//! The layer works anywhere in a stack: in `Router::layer`, in `Router::route_layer` (which leaves out the fallback,
//! so 404s are not limited), in tonic's `Server::builder().layer(..)`, or around one tonic service with
//! [`Layer::layer`](tower_layer::Layer::layer). Put it inside the layer that authenticates, if a rule needs the user,
//! and inside the layer that traces, if the traces should contain denials.
//!
//! Nested layers decide separately, the outer one first. What the outer layer has charged stays charged if the inner
//! one denies. Rules of one layer are decided together: all are charged, or none.
//!
//! # In traces
//!
//! The decision is recorded on the current span, if the span has the fields `rate_limiting.policy` (the limit),
//! `rate_limiting.result` (`acquired`, `rejected` and so on) and, for refused requests, `rate_limiting.refusal`
//! (`over_limit`, `no_id`, `unavailable` and so on). With tower-http, create such a span outside of the layer:
//!
//! ```
//! use axum::extract::Request;
//! use tower_http::trace::TraceLayer;
//! use tracing::{field::Empty, info_span};
//!
//! let trace = TraceLayer::new_for_http().make_span_with(|request: &Request| {
//!     let (method, path) = (request.method(), request.uri().path());
//!     info_span!(
//!         "request", %method, path,
//!         rate_limiting.policy = Empty, rate_limiting.result = Empty, rate_limiting.refusal = Empty,
//!     )
//! });
//! let app: axum::Router = axum::Router::new().layer(trace);
//! ```
//!
//! Each decision is also an event with the limit, the id, the result and what remains, at level `DEBUG` for a denial
//! and `TRACE` otherwise. [`LimitsBuilder::redact_ids`](crate::limit::LimitsBuilder::redact_ids) keeps ids out of
//! events.
//!
//! # In handlers
//!
//! A handler finds the [`Assessment`] in the request's extensions. It has the decisions, and can settle or refund
//! them.

mod additions;
mod assessment;
mod body;
mod conclusion;
mod config;
mod deciding;
mod future;
mod health;
#[expect(clippy::module_inception, reason = "a layer is where one looks for it")]
mod layer;
mod one_limit;
mod request_charges;
mod service;
mod settlement;
mod task;
mod traffic;
mod verdicts;
mod waiting;

pub use self::{
    assessment::{Assessed, Assessment},
    body::ResponseBody,
    future::ResponseFuture,
    layer::RateLimitLayer,
    service::RateLimit,
};
