//! Guides and recipes. These modules contain documentation only, and exist only in the documentation.
//!
//! Start with the [crate's front page](crate). Then:
//!
//! | page | for |
//! |---|---|
//! | [`algorithms`] | choosing between a token bucket, a window, a quota, tiers and a concurrency limit |
//! | [`rules`] | choosing which requests a limit applies to, what they cost, and when they are charged |
//! | [`limits_in_files`] | defaults and overrides in YAML, JSON or TOML, and reloading them |
//! | [`tiers`] | bursts with an active and a cooldown period, and penalties |
//! | [`stack`] | the order of this layer and traces, CORS, compression, authentication and timeouts |
//! | [`waiting`] | letting requests wait for their turn instead of refusing them |
//! | [`proxies`] | finding the client's address behind nginx, a load balancer or a CDN |
//! | [`responses`] | refusals, rate limit headers, gRPC and CORS |
//! | [`redis`] | sharing limits between servers: keys, memory, permissions, clusters |
//! | [`failures`] | what an outage of the store costs, as bounds |
//! | [`leases`] | fewer calls to the store for busy clients |
//! | [`operating`] | metrics, alerts, events and spans |
//! | [`why_denied`] | from a client's complaint to the reason of a refusal |
//! | [`command`] | the program `tollgate`: limits that suit your traffic, and what limits would do to it |
//! | [`recipes`] | complete solutions to common problems |
//!
//! # Examples
//!
//! The folder `examples` of the package has complete programs. `cargo run --example quickstart --all-features` runs one.
//!
//! | example | shows |
//! |---|---|
//! | `quickstart` | an axum server with one limit for each address |
//! | `tonic` | a gRPC service with a limit |
//! | `login_failures` | a login where only failures count |
//! | `plans` | an API with a monthly quota for each plan |
//! | `database` | plans in a database, which change while the server runs |
//! | `llm_gateway` | a gateway for language models: requests, tokens, calls at once and a monthly quota for each API key |
//! | `custom_extractor` | the tenant in the path, and the account of an API key that is verified |
//! | `custom_backend` | a backend of your own, and a wrapper around any backend |
//! | `embedded_store` | buckets in a file, which survive a restart |
//! | `fleet` | two servers that share their limits through Redis |
//! | `acme` | the limits of Let's Encrypt, from files that are reloaded |
//! | `registry` | the limits of a container registry, on Redis |
//! | `service` | the limiter as an HTTP service for programs in any language |
//! | `client`, `grpc_client` | clients that keep to the limits of a server |
//! | `inspect` | HTTP routes for administrators to show limits, to look up and reset buckets |
//! | `dashboard` | a live page with decisions, denied clients and the store, for the same administrators |
//! | `observability` | metrics for Prometheus, traces, and a dashboard for Grafana |
//! | `simulator` | a page on which you can watch each algorithm |

/// Makes a module of each page, if its code can be compiled.
macro_rules! pages {
    ($($(#[$cfg:meta])? $module:ident = $file:literal,)+) => {$(
        #[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/", $file))]
        $(#[$cfg])?
        pub mod $module {}
    )+};
}

pages! {
    algorithms = "algorithms.md",
    command = "command.md",
    #[cfg(feature = "redis")] failures = "failures.md",
    #[cfg(feature = "redis")] leases = "leases.md",
    limits_in_files = "limits-in-files.md",
    operating = "operating.md",
    proxies = "proxies.md",
    #[cfg(feature = "redis")] redis = "redis.md",
    responses = "responses.md",
    #[cfg(feature = "axum")] rules = "rules.md",
    #[cfg(feature = "axum")] stack = "stack.md",
    tiers = "tiers.md",
    waiting = "waiting.md",
    why_denied = "why-denied.md",
}

pub mod recipes {
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

    pages! {
        #[cfg(feature = "axum")] api_keys = "recipes/api-keys.md",
        behind_proxies = "recipes/behind-proxies.md",
        #[cfg(feature = "pace")] calling_apis = "recipes/calling-apis.md",
        #[cfg(feature = "axum")] combined_limits = "recipes/combined-limits.md",
        #[cfg(feature = "axum")] concurrency = "recipes/concurrency.md",
        #[cfg(feature = "axum")] database = "recipes/database.md",
        #[cfg(feature = "axum")] graphql = "recipes/graphql.md",
        grpc = "recipes/grpc.md",
        #[cfg(feature = "axum")] language_models = "recipes/language-models.md",
        #[cfg(feature = "axum")] logins = "recipes/logins.md",
        migrating = "recipes/migrating.md",
        #[cfg(feature = "axum")] plans = "recipes/plans.md",
        #[cfg(feature = "axum")] routes = "recipes/routes.md",
        #[cfg(feature = "axum")] shadow_mode = "recipes/shadow-mode.md",
        #[cfg(feature = "axum")] testing = "recipes/testing.md",
        #[cfg(feature = "axum")] usage = "recipes/usage.md",
        webhooks = "recipes/webhooks.md",
        #[cfg(feature = "axum")] websockets = "recipes/websockets.md",
    }
}
