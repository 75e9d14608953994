//! Exact rate limiting as a tower layer, for axum, tonic and everything else that speaks `http`.
//!
//! Limits have names; clients have ids; a client's use of a limit is a bucket. Each bucket is
//! decided by the Generic Cell Rate Algorithm in exact rational arithmetic: no request too many, none
//! too few.
//!
//! ```
//! use axum::{Router, routing::get};
//! use tollgate::{ClientIp, Limit, RateLimitLayer};
//!
//! // 10 requests per second per client IP, bursts of 20, in memory.
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(Limit::per_second(10).burst(20), ClientIp::peer()));
//! ```
//!
//! Serve it with `app.into_make_service_with_connect_info::<SocketAddr>()`, so that it sees who is
//! calling. For several limits, files of limits and Redis, see [`RateLimitLayer::with_limiter`]. [`Limiter`] does the same
//! without HTTP.
//!
//! # The flow of a request
//!
//! Each step is a module, and imports point down this list only:
//!
//! ```text
//! testing         what every backend has to keep, as a suite of tests
//! reload          limits and lists that are read again when their files change
//! pace            the client side: follows what servers say about their limits
//! layer           a request comes in, a response goes out: tower
//!   response        what a refused client sees, and how much is left
//!   rule            which limits a request meets
//!     key             who is asking
//!   limiter         the engine: names to members, answers to decisions
//!     limit           what is allowed: names, limits, overrides, files
//!   backend         where buckets are kept, and decided in one atomic step
//!     metrics         what operators count
//!     decision        judges a batch; computes what people are told
//!     transaction     what is asked of a backend
//!       tiers, window, quota, gcra     the arithmetic, pure
//!       check           mistakes that only traffic shows
//!       id              whose bucket it is, and what ids look like
//!       clock           what time it is
//! ```
//!
//! # Features
//!
//! | feature | default | what for |
//! |---|---|---|
//! | `axum` | yes | finds the peer address that axum passes on |
//! | `yaml` | yes | reads limits from YAML files; those in JSON need no feature |
//! | `toml` | | reads limits from TOML files |
//! | `metrics` | | counts, by the facade of the crate `metrics` |
//! | `reload` | | reads files of limits again when they change, on tokio |
//! | `failure-policy` | | decides while another backend does not answer, on tokio |
//! | `pace` | | follows what servers say about their limits: the client side, on tokio |
//! | `redis` | | keeps buckets in Redis or Valkey: single servers, behind sentinels, and clusters |
//! | `testing` | | the conformance suite, for tests of a backend of your own |
//! | `tokio` | by others | lets charges be corrected in tasks, where a backend has to wait |
//! | `tonic` | | finds the peer address that tonic passes on, forwards `NamedService`, writes details of a gRPC status |
//! | `tonic-tls` | | the same on TLS connections |
//!
//! Features only add. Without any, neither axum nor an async runtime comes in.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod backend;
pub mod check;
pub mod clock;
pub mod decision;
pub mod gcra;
pub mod id;
pub mod key;
pub mod layer;
pub mod limit;
pub mod limiter;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics/off.rs"]
mod metrics;
mod outage_log;
#[cfg(feature = "pace")]
pub mod pace;
pub mod quota;
#[cfg(feature = "reload")]
pub mod reload;
pub mod response;
pub mod rule;
mod stats;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tiers;
pub mod transaction;
mod varint;
pub mod window;

#[cfg(feature = "redis")]
pub use self::backend::RedisBackend;
pub use self::{
    backend::MemoryBackend,
    decision::Decision,
    key::ClientIp,
    layer::RateLimitLayer,
    limit::{Limit, Limits},
    limiter::Limiter,
    rule::Rule,
    transaction::Transaction,
};

#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../docs/redis.md")]
struct RunningWithRedis;

#[cfg(doctest)]
#[doc = include_str!("../docs/tiers.md")]
struct Tiers;
