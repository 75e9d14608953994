//! The apps with a page, in a browser: `simulator`, which shows what the arithmetic says, and `dashboard`.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod browser;
mod controls;
mod dashboard;
#[path = "../../../tests/support/eventually.rs"]
mod eventually;
mod looks;
mod page;
mod plays;
#[path = "../../../tests/programs/mod.rs"]
mod programs;
#[path = "../../../tests/redis_support/mod.rs"]
mod redis_support;
mod server;

/// Where Cargo puts the programs, next to the folder of the tests.
const PROGRAMS: &str = "";
