//! From what a backend has stored to what people are told: the one place where batches are judged
//! and figures are computed, for every backend.
//!
//! A backend loads what is [`Stored`] for each member, lets [`Outcome::decide`] judge the batch, stores what
//! that changed and returns the [`Outcome`]. A [`Decision`] keeps how its bucket stands and computes its figures
//! when asked, rounding once: [`remaining`](Decision::remaining) down, waits up to microseconds.

mod answer;
mod batch_decision;
mod bucket;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod decision;
mod judge;
mod outcome;
mod result_label;
mod source;
mod stored;

pub use self::{
    answer::{Answer, State},
    batch_decision::BatchDecision,
    decision::Decision,
    outcome::Outcome,
    source::Source,
    stored::{Stored, StoredError},
};
pub(crate) use self::{
    batch_decision::{Decisions, OneDecision},
    bucket::Quota,
    judge::{judge_gcra, judge_quota, judge_window},
    result_label::ResultLabel,
    stored::BucketView,
};
