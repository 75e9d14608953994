//! Decisions: batches are judged in one place for all backends, and their figures are plain numbers.
//!
//! A backend loads the [`State`] of each member's bucket, lets [`Outcome::decide`] judge the batch, stores the changed
//! states and returns the [`Outcome`]. A [`Decision`] tells its figures, rounded once: units down, waits up to a microsecond.

mod batch_decision;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod decision;
mod judge;
mod outcome;
mod result_label;
pub(crate) mod stats;

pub use self::{
    batch_decision::BatchDecision,
    decision::Decision,
    outcome::{Answer, DecideError, Outcome, Source},
};
pub(crate) use self::{
    batch_decision::strictest,
    judge::{Buckets, Keep, NoRoom, decide},
    result_label::ResultLabel,
};
pub use crate::algorithm::{Figures, State, Wait};
