//! The protocol, on real servers.

mod agreement;
mod calendar;
#[path = "../../../../tests/support/eventually.rs"]
mod eventually;
#[path = "../../../../tests/redis_support/mod.rs"]
mod redis_support;
#[path = "../../../../tests/support/scale.rs"]
mod scale;
