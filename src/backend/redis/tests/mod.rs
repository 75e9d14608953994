//! The protocol, on real servers.

mod agreement;
mod calendar;
#[path = "../../../../tests/redis_support/mod.rs"]
mod redis_support;
#[path = "../../../../tests/support/scale.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod scale;
