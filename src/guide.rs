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

#[doc = include_str!("../docs/algorithms.md")]
pub mod algorithms {}

#[doc = include_str!("../docs/command.md")]
pub mod command {}

#[doc = include_str!("../docs/failures.md")]
#[cfg(feature = "redis")]
pub mod failures {}

#[doc = include_str!("../docs/leases.md")]
#[cfg(feature = "redis")]
pub mod leases {}

#[doc = include_str!("../docs/limits-in-files.md")]
pub mod limits_in_files {}

#[doc = include_str!("../docs/operating.md")]
pub mod operating {}

#[doc = include_str!("../docs/proxies.md")]
pub mod proxies {}

#[doc = include_str!("../docs/redis.md")]
#[cfg(feature = "redis")]
pub mod redis {}

#[doc = include_str!("../docs/responses.md")]
pub mod responses {}

#[doc = include_str!("../docs/rules.md")]
#[cfg(feature = "axum")]
pub mod rules {}

#[doc = include_str!("../docs/stack.md")]
#[cfg(feature = "axum")]
pub mod stack {}

#[doc = include_str!("../docs/tiers.md")]
pub mod tiers {}

#[doc = include_str!("../docs/waiting.md")]
pub mod waiting {}

#[doc = include_str!("../docs/why-denied.md")]
pub mod why_denied {}

pub mod recipes;
