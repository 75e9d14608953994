//! The command `tollgate`.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod bucket;
mod check;
mod formats;
mod hostile;
mod pages;
mod program;
#[path = "../redis_support/mod.rs"]
mod redis_support;
mod replay;
mod rules;
mod server;
mod suggest;
#[path = "../support/mod.rs"]
mod support;
mod traffic;
