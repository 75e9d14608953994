//! Decisions: batches are judged, and figures are computed, in one place for all backends.
//!
//! A backend loads the [`Stored`] state of each member, lets [`Outcome::decide`] judge the batch, stores the changed
//! state and returns the [`Outcome`]. A [`Decision`] computes its figures on request, and rounds them once:
//! [`remaining`](Decision::remaining) down, waits up to a microsecond.

mod answer;
mod answers;
mod batch_decision;
mod ceil_secs;
mod context;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod decision;
mod figures;
mod judgement;
mod lease_figures;
mod outcome;
mod result_label;
mod row_decision;
mod source;
mod verdict;
mod without_bucket;

pub use self::{
    answer::Answer, batch_decision::BatchDecision, decision::Decision, outcome::Outcome,
    source::Source,
};
pub(crate) use self::{
    batch_decision::{Decisions, FewDecisions, Returned, strictest},
    ceil_secs::ceil_secs,
    judgement::{AnyClaim, Buckets, Judgement},
    result_label::ResultLabel,
    row_decision::RowAnswer,
    without_bucket::WithoutBucket,
};
#[cfg(feature = "tokio")]
pub(crate) use self::{lease_figures::LeaseFigures, outcome::OtherAnswer};
pub(crate) use crate::algorithm::{ClientFigures, ClientTerms, State};
pub use crate::algorithm::{Stored, StoredError};
