//! The tower layer: [`RateLimitLayer`] and the service that it makes, [`RateLimit`].
//!
//! # Example
//!
//! ```
//! use axum::{Router, routing::get};
//! use tollgate::{ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule};
//!
//! # fn app() -> Result<Router, tollgate::limit::LimitsError> {
//! let limits = Limits::builder().limit("requests", Limit::per_second(10).burst(20)).build()?;
//! let layer = RateLimitLayer::new(Limiter::new(limits, MemoryBackend::new()))
//!     .rule(Rule::new("requests", ClientIp::peer()));
//! # Ok(
//! Router::new().route("/", get(|| async { "hello" })).layer(layer)
//! # ) }
//! # app()?;
//! # Ok::<_, tollgate::limit::LimitsError>(())
//! ```
//!
//! # Where it goes
//!
//! Anywhere in a stack: `Router::layer`, `Router::route_layer` (which leaves out the fallback, so
//! 404s are not limited), tonic's `Server::builder().layer(..)`, or around one tonic service with
//! [`Layer::layer`](tower_layer::Layer::layer). A layer that authenticates goes outside of it, if a
//! rule needs to know the user; a tracing layer too, if it is to see denials.
//!
//! Nested layers are each decided on their own, the outer one first: what it has charged stays
//! charged if the inner one denies. Rules of one layer are decided together, all or nothing.
//!
//! # In handlers
//!
//! A handler finds the [`Assessment`] of its request among the extensions: what was decided, and the
//! limiter, to spend more or give back.

mod assessment;
mod body;
mod future;
mod health;
#[expect(clippy::module_inception, reason = "a layer is where one looks for it")]
mod layer;
mod plan;
mod service;
mod settlement;
mod traffic;

pub use self::{
    assessment::{Assessed, Assessment},
    body::ResponseBody,
    future::ResponseFuture,
    layer::RateLimitLayer,
    service::RateLimit,
};
