//! The protocol, on real servers.

mod agreement;
#[path = "../../../../tests/redis_support/mod.rs"]
mod redis_support;
