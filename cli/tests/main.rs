//! The command `tollgate`.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod bucket;
mod check;
mod logs;
#[allow(dead_code, reason = "it uses a part of it")]
#[path = "../../postgres/tests/server.rs"]
mod postgres;
/// What a server of PostgreSQL uses.
mod process {
    pub(crate) use crate::redis_support::{Port, Process, comes_true, new_home};
}
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
