//! Modes, failure policies and receipts of [`Transaction`](crate::Transaction)s.
//!
//! The limiter turns transactions into the members of a [`Batch`]. Only an author of a
//! [backend](crate::backend::custom) sees these.

pub(crate) mod batch;
pub(crate) mod bucket_key;
mod limit_ref;
mod mode;
pub(crate) mod owned_batch;
mod receipt;

pub(crate) use self::{
    batch::{Batch, Member, Operation},
    bucket_key::{BucketKey, Fingerprint, LimitKey, LimitSeed},
    limit_ref::LimitPlace,
    owned_batch::{OwnedBatch, OwnedMember},
};
pub use self::{
    limit_ref::LimitRef,
    mode::{Mode, OnFailure},
    receipt::Receipt,
};
