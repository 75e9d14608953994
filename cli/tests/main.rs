//! The command `tollgate`.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod bucket;
mod check;
mod logs;
mod program;
#[path = "../../tests/redis_support/mod.rs"]
mod redis_support;
mod replay;
#[allow(dead_code, reason = "it uses a part of it")]
#[path = "../../tests/support/scale.rs"]
mod scale;
mod suggest;
mod traffic;
mod unreadable;
