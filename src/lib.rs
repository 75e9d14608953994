//! Exact rate limiting as a [tower](https://docs.rs/tower) layer, for axum, tonic and any other service over `http`.
//!
//! ```
//! use axum::{Router, routing::get};
//! use tollgate::{ClientIp, Limit, RateLimitLayer};
//!
//! // 10 requests per second for each client address, with bursts of 20, in memory.
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(Limit::per_second(10).burst(20), ClientIp::peer()));
//! ```
//!
//! Serve it with `app.into_make_service_with_connect_info::<SocketAddr>()`, which gives the layer the client's address.
//!
//! **One layer with limits in code** needs [`RateLimitLayer::new`] alone, and [`limit`](RateLimitLayer::limit) for further limits;
//! [`shared`](RateLimitLayer::shared) keeps its buckets in a store for several servers. **Limits from files, several layers, or
//! decisions in handlers** share a [`Limiter`]: build [`Limits`], then `Limiter::new(limits, backend)`, then
//! [`RateLimitLayer::with_limiter`] with a [`Rule`] for each limit.
//!
//! # Terms
//!
//! A **limit** has a name, a burst (the most that passes at once) and a rate. A **key extractor** finds the client's **id** in a
//! request, such as its address or its account. A **bucket** records a client's use of a limit. A **rule** says which limit applies
//! to a request, whose bucket is charged, how much, and when. A **backend** keeps the buckets and decides.
//!
//! Limits are exact. The default algorithm is GCRA, a token bucket, in exact rational arithmetic: a limit of seven per second does
//! not drift, even over years. Between two instants W apart, a bucket admits at most burst + W × rate.
//!
//! # What it does
//!
//! | to | use |
//! |---|---|
//! | identify clients | [`ClientIp`] (IPv6 by /64) and [`Ipv6Range`](key::Ipv6Range), directly or [behind proxies](key::Proxies); [`HeaderId`](key::HeaderId), [`ExtensionId`](key::ExtensionId), [`PathParam`](key::PathParam), [`MatchedPath`](key::MatchedPath), [`Everyone`](key::Everyone), tuples of these, [`or_else`](key::KeyExtractor::or_else), or a closure |
//! | see where the layer stands among others | the [guide to stacks](guide::stack) |
//! | set limits | [`Limit`]: a token bucket, a sliding window, a [quota] per day or month, a number at once, or [burst tiers](guide::tiers) ([which one?](guide::algorithms)); in code or in [files](guide::limits_in_files) of defaults and overrides |
//! | delay requests instead of refusing them | [`Limit::max_wait`] ([guide](guide::waiting)) |
//! | choose requests, costs and plans | [`Rule`]s, several per [`RateLimitLayer`], charged together or not at all ([guide](guide::rules)); limits [from your own data](guide::recipes::database) |
//! | charge by outcome | [`refund_if`](Rule::refund_if), [`charge_if`](Rule::charge_if), [`settle_by`](Rule::settle_by), or a handler with its [`Assessment`](layer::Assessment) |
//! | shape refusals and headers | [response formats](response), for HTTP and gRPC ([guide](guide::responses)) |
//! | share limits between servers | [`RedisBackend`] ([guide](guide::redis)) with a [`FailurePolicy`](backend::FailurePolicy) and a [`DenyCache`](backend::DenyCache) |
//! | limit anything else | [`Limiter`], the engine without HTTP: check, spend, refund, reset, renew and peek, for one bucket or a batch; [`LimitHandle`](limiter::LimitHandle), for one limit |
//! | respect the limits of other servers | `pace::PaceLayer`, for clients (feature `pace`) |
//! | operate it | metrics, events, spans, alerts and checks of the configuration ([guide](guide::operating)); the [reason](guide::why_denied) of each refusal |
//! | test it | [`ManualClock`](clock::ManualClock), or [`TokioClock`](clock::TokioClock) for waits: no test has to sleep ([recipe](guide::recipes::testing)) |
//!
//! The [recipes](guide::recipes) solve common problems, such as API keys, logins, plans and uploads.
//!
//! # The flow of a request
//!
//! Each step is a module:
//!
//! ```text
//! testing         the conformance suite for backends
//! pace            tower for clients: follows what servers say
//! reload          limits and lists that are read again when their files change
//! layer           tower: a request comes in, a response goes out
//!   response        refusals and headers
//!   rule            which limits a request meets
//!   limiter         the engine: from names and ids to decisions
//!     key             who is calling
//!   backend         keeps buckets, and decides batches in one atomic step
//!     decision        the answers: allowed or denied, with figures
//!     batch           what a backend is asked: members, each prepared once
//!   limit           what is allowed: names, limits, overrides, files
//!     metrics         counters and histograms
//!     transaction     modes, receipts, keys of buckets
//!   algorithm       how a limit counts: a folder for each algorithm, pure
//!   id, clock       ids and their formats; time
//! ```
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `axum` | yes | the peer address from axum's `ConnectInfo`, [`PathParam`](key::PathParam) and [`MatchedPath`](key::MatchedPath) |
//! | `yaml` | yes | limits from YAML files (JSON needs no feature) |
//! | `toml` | | limits from TOML files |
//! | `reload` | | reloading of limit files when they change |
//! | `redis` | | [`RedisBackend`]: Redis or Valkey, on single servers, behind sentinels, or as a cluster |
//! | `failure-policy` | | [`FailurePolicy`](backend::FailurePolicy), for backends that can fail; part of `redis` |
//! | `zones` | | quotas in [time zones](quota::Per::in_zone), by the system's database or one that is compiled in (about 200 KB) |
//! | `domains` | | [id formats](id) of registered domains, with the public suffix list (about 700 KB) |
//! | `metrics` | | counters and histograms, through the `metrics` facade |
//! | `pace` | | [`PaceLayer`](pace::PaceLayer) for clients: it follows what servers say about their limits |
//! | `tonic` | | the peer address from tonic, `NamedService`, and details in gRPC statuses |
//! | `tonic-tls` | | the same on TLS connections |
//! | `testing` | | the conformance suite, for tests of your own backend |
//!
//! Features only add. The crate always depends on tokio's tasks, timers and locks, and uses them where it has to wait.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Much of the code is used by some features only.
#![cfg_attr(
    not(all(feature = "redis", feature = "reload")),
    allow(dead_code, unused_imports)
)]

mod algorithm;
pub mod backend;
mod batch;
pub mod clock;
pub mod decision;
#[cfg(any(doc, doctest))]
#[cfg_attr(docsrs, doc(auto_cfg = false))]
pub mod guide;
pub mod id;
pub mod key;
pub mod layer;
pub mod limit;
pub mod limiter;
mod message;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics/off.rs"]
mod metrics;
mod outage_log;
#[cfg(feature = "pace")]
pub mod pace;
mod random;
#[cfg(feature = "reload")]
pub mod reload;
pub mod response;
pub mod rule;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transaction;

#[cfg(feature = "redis")]
pub use self::backend::RedisBackend;
pub use self::{
    algorithm::{quota, tiers},
    backend::MemoryBackend,
    decision::Decision,
    key::ClientIp,
    layer::RateLimitLayer,
    limit::{Limit, Limits},
    limiter::{Limiter, Transaction},
    rule::Rule,
};

#[cfg(all(doctest, feature = "axum", feature = "redis", feature = "yaml"))]
#[doc = include_str!("../README.md")]
struct Readme;
