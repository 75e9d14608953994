//! The command `tollgate`.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod bucket;
mod check;
#[path = "../../tests/support/eventually.rs"]
mod eventually;
mod logs;
#[allow(dead_code, reason = "it uses a part of it")]
#[path = "../../postgres/tests/server.rs"]
mod postgres;
/// The items that the module `postgres` imports.
mod process {
    pub(crate) use crate::redis_support::{Port, Process, new_home};
}
mod program;
#[path = "../../tests/redis_support/mod.rs"]
mod redis_support;
mod replay;
mod suggest;
mod traffic;
mod unreadable;
