//! Guides and recipes. These modules contain documentation only, and exist only in the documentation.
//!
//! Start with the [crate's front page](crate). Then:
//!
//! | page | for |
//! |---|---|
//! | [`algorithms`] | choosing between a token bucket, a window, a quota and tiers |
//! | [`rules`] | choosing which requests a limit applies to, what they cost, and when they are charged |
//! | [`limits_in_files`] | defaults and overrides in YAML, JSON or TOML, and reloading them |
//! | [`tiers`] | bursts with an active and a cooldown period, and penalties |
//! | [`waiting`] | letting requests wait for their turn instead of refusing them |
//! | [`proxies`] | finding the client's address behind nginx, a load balancer or a CDN |
//! | [`responses`] | refusals, rate limit headers, gRPC and CORS |
//! | [`redis`] | sharing limits between servers: keys, memory, permissions, clusters |
//! | [`failures`] | what an outage of the store costs, as bounds |
//! | [`operating`] | metrics, alerts, events and spans |
//! | [`recipes`] | complete solutions to common problems |

#[doc = include_str!("../docs/algorithms.md")]
pub mod algorithms {}

#[doc = include_str!("../docs/failures.md")]
#[cfg(feature = "redis")]
pub mod failures {}

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

#[doc = include_str!("../docs/tiers.md")]
pub mod tiers {}

#[doc = include_str!("../docs/waiting.md")]
pub mod waiting {}

pub mod recipes;
