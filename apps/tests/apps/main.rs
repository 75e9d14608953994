//! The apps, as processes of their own or as routers.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod denied_clients;
#[path = "../../../tests/support/eventually.rs"]
mod eventually;
mod inspect;
mod llm_gateway;
#[path = "../../../tests/programs/mod.rs"]
mod programs;
#[path = "../../../tests/redis_support/mod.rs"]
mod redis_support;
#[path = "../../../tests/support/mod.rs"]
mod support;

/// Where Cargo puts the programs, next to the folder of the tests.
const PROGRAMS: &str = "";
