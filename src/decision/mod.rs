//! Decisions. Their figures are plain numbers that were rounded once: units down, and waits up to whole microseconds.
//!
//! A [backend](crate::backend::custom) makes them.

mod batch_decision;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod decision;
pub(crate) mod outcome;

pub use self::{batch_decision::BatchDecision, decision::Decision, outcome::Source};
pub(crate) use self::{
    batch_decision::strictest,
    decision::ceil_secs,
    outcome::{Answer, Outcome},
};
