//! What a backend is asked. A [`Batch`] has members, each with a bucket key, an algorithm, a cost and a [`Mode`], which are
//! decided and stored in one atomic step.
//!
//! Users of a [`Limiter`](crate::Limiter) write [`Transaction`](crate::Transaction)s, with a limit and an id. The limiter turns
//! them into [`Member`]s. Only an author of a [`Backend`](crate::backend::Backend) sees members.

mod batch;
mod bucket_key;
mod limit_ref;
mod mode;
mod owned_batch;
mod receipt;

pub use self::{
    batch::{Batch, Member, Operation},
    bucket_key::{BucketKey, LimitKey},
    limit_ref::LimitRef,
    mode::{Mode, OnFailure},
    owned_batch::OwnedBatch,
    receipt::Receipt,
};
pub(crate) use self::{
    bucket_key::{Fingerprint, LimitSeed},
    limit_ref::LimitPlace,
    owned_batch::OwnedMember,
};
pub use crate::algorithm::{Algorithm, AlgorithmKey, Ask, Verb};
