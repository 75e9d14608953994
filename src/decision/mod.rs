//! Decisions: their figures are plain numbers, rounded once: units down, waits up to a microsecond.
//!
//! Batches are judged in one place for all [backends](crate::backend::custom).

mod batch_decision;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod decision;
mod judge;
pub(crate) mod outcome;
mod result_label;
pub(crate) mod stats;

pub use self::{batch_decision::BatchDecision, decision::Decision, outcome::Source};
pub(crate) use self::{
    batch_decision::strictest,
    judge::{Buckets, Keep, NoRoom, decide},
    outcome::{Answer, DecideError, Outcome},
    result_label::ResultLabel,
};
