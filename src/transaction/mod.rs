//! Modes, failure policies and receipts of [`Transaction`](crate::Transaction)s, and the names of their results.

pub(crate) mod bucket_key;
mod mode;
pub(crate) mod operation;
mod receipt;
mod result_label;
pub(crate) mod stats;

pub(crate) use self::{
    bucket_key::{BucketKey, Fingerprint, LimitKey, LimitSeed},
    operation::Operation,
    result_label::ResultLabel,
};
pub use self::{
    mode::{Mode, OnFailure},
    receipt::Receipt,
};
