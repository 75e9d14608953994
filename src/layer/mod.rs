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
//! # Waiting in line
//!
//! On a limit with [`max_wait`](crate::Limit::max_wait), a request that does not fit yet waits for its turn instead of
//! being refused (without a tokio runtime, it is refused). Requests start in
//! the order in which they came. A request that waits for several limits waits for the longest.
//! [`Rule::no_wait`](crate::Rule::no_wait) turns this off for a rule.
//!
//! While a request waits, its body is not read. The request holds its head, its connection and the service that was polled ready.
//! Put layers that take a permit to become ready, such as tower's `ConcurrencyLimit`, outside of this one. At most 10,000 requests
//! of a layer wait; beyond that, requests that would have to wait are refused.
//!
//! If a client disconnects, its request leaves the line, and all charges of this layer are refunded, except grants of tiers. Outer
//! layers settle their own charges. While others wait behind a request, [`Rule::refund_if`](crate::Rule::refund_if) and
//! [`Rule::settle_by`](crate::Rule::settle_by) refund nothing. The turns of the others are fixed already, so the whole charge
//! stays.
//!
//! # In traces
//!
//! The decision is recorded on the current span, if the span has the fields `rate_limiting.policy` (the limit),
//! `rate_limiting.result` (`acquired`, `rejected` and so on) and, for refused requests, `rate_limiting.refusal`
//! (`over_limit`, `no_id`, `unavailable` and so on) and `rate_limiting.refusal_id`, the reference. With tower-http, create such
//! a span outside of the layer:
//!
//! ```
//! use axum::extract::Request;
//! use tower_http::trace::TraceLayer;
//! use tracing::{field::Empty, info_span};
//!
//! let trace = TraceLayer::new_for_http().make_span_with(|request: &Request| {
//!     let method = request.method();
//!     let path = request.uri().path();
//!     info_span!(
//!         "request", %method, path,
//!         rate_limiting.policy = Empty, rate_limiting.result = Empty, rate_limiting.refusal = Empty,
//!         rate_limiting.refusal_id = Empty,
//!     )
//! });
//! let app: axum::Router = axum::Router::new().layer(trace);
//! ```
//!
//! Each decision is also an event with the limit, the id, the result and what remains, at level `DEBUG` for a denial
//! and `TRACE` otherwise. Events contain hashes of [secret ids](crate::key#secret-ids).
//! [`LimitsBuilder::redact_ids`](crate::limit::LimitsBuilder::redact_ids) keeps all ids out of events.
//!
//! # In handlers
//!
//! With [`extensions(true)`](RateLimitLayer::extensions), a handler finds the [`Assessment`] in the request's extensions. It has
//! the decisions, and can settle or refund their charges. It costs a third of the layer's time, so it is off by default.

mod assessment;
mod body;
mod charges;
mod checks;
mod conclusion;
mod config;
mod decide;
#[cfg(feature = "axum")]
mod extractor;
mod future;
#[expect(clippy::module_inception, reason = "a layer is where one looks for it")]
mod layer;
mod service;
mod unsettled;
mod waiting;

pub use self::{
    assessment::{Assessment, LimitAssessment},
    body::ResponseBody,
    future::ResponseFuture,
    layer::RateLimitLayer,
    service::RateLimit,
};
