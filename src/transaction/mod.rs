//! Modes, failure policies and receipts of [`Transaction`](crate::Transaction)s.
//!
//! The limiter turns transactions into the members of a [`Batch`]. Only an author of a
//! [backend](crate::backend::custom) sees these.

pub(crate) mod batch;
pub(crate) mod bucket_key;
mod mode;
mod receipt;

pub(crate) use self::{
    batch::{Batch, Member, Needs, Operation, OwnedMember, Role},
    bucket_key::{BucketKey, LimitKey, LimitSeed},
};
pub use self::{
    mode::{Mode, OnFailure},
    receipt::Receipt,
};
