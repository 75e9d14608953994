//! Decisions: batches are judged, and figures are computed, in one place for all backends.
//!
//! A backend loads the [`Stored`] state of each member, lets [`Outcome::decide`] judge the batch, stores the changed
//! state and returns the [`Outcome`]. A [`Decision`] computes its figures on request, and rounds them once:
//! [`remaining`](Decision::remaining) down, waits up to a microsecond.

mod answer;
mod batch_decision;
mod bucket;
mod circumstances;
mod client_figures;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod decision;
mod judge;
mod outcome;
mod plain;
mod result_label;
mod source;
mod stored;
mod verdict;

pub use self::{
    answer::{Answer, State},
    batch_decision::BatchDecision,
    decision::Decision,
    outcome::Outcome,
    source::Source,
    stored::{Stored, StoredError},
};
pub(crate) use self::{
    batch_decision::Decisions,
    client_figures::ClientFigures,
    judge::{judge_gcra, judge_quota, judge_tiers, judge_window},
    result_label::ResultLabel,
    stored::BucketView,
};
