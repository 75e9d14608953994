//! Decisions: their figures are plain numbers, rounded once: units down, waits up to a microsecond.
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
