//! Linearizability: some order of the calls of a short history explains all its answers.
//!
//! Clients call a limiter at the same time. Some leave before they are answered, and some answers are lost. The record of
//! their calls is checked against a model that computes without rounding. A call takes effect at one instant between its
//! beginning and its end. One whose outcome is unknown takes effect at any time after its beginning, or never.
//!
//! Time is part of each call, and moves while a history goes on: tokens come back, units expire and periods end.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod calls;
pub(crate) mod checker;
pub(crate) mod clients;
pub(crate) mod faults;
mod model;
pub(crate) mod random;
mod record;
pub(crate) mod stack;
