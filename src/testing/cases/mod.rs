//! The cases of the suite, by topic. Each fails by a panic.

#![allow(missing_docs, reason = "the names of the cases say what they ask for")]
#![allow(missing_debug_implementations, reason = "nobody keeps a world")]
#![allow(clippy::must_use_candidate, reason = "the suite is the only caller")]
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a case panics to fail"
)]

pub mod algorithms;
pub mod batch;
pub mod concurrency;
pub mod concurrency_history;
pub mod debt;
pub mod exceptions;
pub mod history;
pub mod limits;
pub mod quotas;
mod random;
mod side_by_side;
pub mod single;
pub mod tiers;
pub mod tiers_batch;
pub mod tiers_history;
pub mod tiers_single;
pub mod waiting;
pub mod waiting_history;
pub mod windows;
pub mod windows_history;
pub mod world;
