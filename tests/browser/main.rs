//! The example `simulator`: what its page shows in a browser is what the arithmetic says, and its server bears anything.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod browser;
mod controls;
mod driver;
mod looks;
mod page;
mod plays;
#[path = "../programs/mod.rs"]
mod programs;
mod server;
mod webdriver;
