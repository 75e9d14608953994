//! Complete solutions to common problems. The code of each page is compiled.
//!
//! Most recipes have two functions: `limits`, which could also be [files](crate::guide::limits_in_files), and `app`, which takes a
//! limiter. To serve such an application:
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use std::net::SocketAddr;
//!
//! use axum::{Router, routing::get};
//! use tokio::net::TcpListener;
//! use tollgate::{ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, limit::LimitsError};
//!
//! fn limits() -> Result<Limits, LimitsError> {
//!     Limits::builder().limit("requests", Limit::per_second(10).burst(20)).build()
//! }
//!
//! fn app(limiter: Limiter) -> Router {
//!     let rule = Rule::new("requests", ClientIp::peer());
//!     Router::new()
//!         .route("/", get(|| async { "hello" }))
//!         .layer(RateLimitLayer::with_limiter(limiter).rule(rule))
//! }
//!
//! async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//!     // For several servers: `RedisBackend::new("redis://127.0.0.1:6379")?`, with the feature `redis`.
//!     let limiter = Limiter::new(limits()?, MemoryBackend::new());
//!     let listener = TcpListener::bind("127.0.0.1:3000").await?;
//!     let service = app(limiter).into_make_service_with_connect_info::<SocketAddr>();
//!     axum::serve(listener, service).await?;
//!     Ok(())
//! }
//! # let _ = serve; }
//! ```
//!
//! | recipe | problem |
//! |---|---|
//! | [`api_keys`] | limit by API key, or else by address; unknown and duplicate keys |
//! | [`behind_proxies`] | find the client's address behind nginx, Cloudflare, AWS ALB or a Kubernetes ingress, and on localhost |
//! | [`calling_apis`] | with reqwest: keep to an API's documented rate, and follow what its responses say |
//! | [`combined_limits`] | which limits to combine for an API: rate, concurrency, quota |
//! | [`concurrency`] | at most a number of exports, uploads or streams at once per account |
//! | [`database`] | each customer's limit in a column of a database |
//! | [`graphql`] | charge a query by its cost |
//! | [`grpc`] | a budget for each tenant of a tonic server, and costs by method |
//! | [`language_models`] | requests, tokens, calls at once and a monthly quota for each API key of a language model |
//! | [`logins`] | limit failed logins by address and by user, with a JSON body |
//! | [`migrating`] | replace tower_governor, governor, tower's `RateLimit`, express-rate-limit or nginx `limit_req` |
//! | [`plans`] | tenants with plans, contracts of their own, and a limit for each user |
//! | [`routes`] | different limits per route and method |
//! | [`shadow_mode`] | try a limit before you enforce it |
//! | [`testing`] | test your application without sleeping |
//! | [`usage`] | charge uploads by their size, and generated answers by their tokens |
//! | [`webhooks`] | send webhooks at a rate that each receiver can handle |
//! | [`websockets`] | limit connections at once, and the messages of each |

#[doc = include_str!("../../docs/recipes/api-keys.md")]
#[cfg(feature = "axum")]
pub mod api_keys {}

#[doc = include_str!("../../docs/recipes/behind-proxies.md")]
pub mod behind_proxies {}

#[doc = include_str!("../../docs/recipes/calling-apis.md")]
#[cfg(feature = "pace")]
pub mod calling_apis {}

#[doc = include_str!("../../docs/recipes/combined-limits.md")]
#[cfg(feature = "axum")]
pub mod combined_limits {}

#[doc = include_str!("../../docs/recipes/concurrency.md")]
#[cfg(feature = "axum")]
pub mod concurrency {}

#[doc = include_str!("../../docs/recipes/database.md")]
#[cfg(feature = "axum")]
pub mod database {}

#[doc = include_str!("../../docs/recipes/graphql.md")]
#[cfg(feature = "axum")]
pub mod graphql {}

#[doc = include_str!("../../docs/recipes/grpc.md")]
pub mod grpc {}

#[doc = include_str!("../../docs/recipes/language-models.md")]
#[cfg(feature = "axum")]
pub mod language_models {}

#[doc = include_str!("../../docs/recipes/logins.md")]
#[cfg(feature = "axum")]
pub mod logins {}

#[doc = include_str!("../../docs/recipes/migrating.md")]
pub mod migrating {}

#[doc = include_str!("../../docs/recipes/plans.md")]
#[cfg(feature = "axum")]
pub mod plans {}

#[doc = include_str!("../../docs/recipes/routes.md")]
#[cfg(feature = "axum")]
pub mod routes {}

#[doc = include_str!("../../docs/recipes/shadow-mode.md")]
#[cfg(feature = "axum")]
pub mod shadow_mode {}

#[doc = include_str!("../../docs/recipes/testing.md")]
#[cfg(feature = "axum")]
pub mod testing {}

#[doc = include_str!("../../docs/recipes/usage.md")]
#[cfg(feature = "axum")]
pub mod usage {}

#[doc = include_str!("../../docs/recipes/webhooks.md")]
pub mod webhooks {}

#[doc = include_str!("../../docs/recipes/websockets.md")]
#[cfg(feature = "axum")]
pub mod websockets {}
