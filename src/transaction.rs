//! Transactions, and the batches that a backend decides. A [`Batch`] has members, each with a bucket key, an
//! algorithm, a cost and a [`Mode`], which are decided and stored in one atomic step.
//!
//! Users of a [`Limiter`](crate::Limiter) write [`Transaction`]s, with a limit and an id. The limiter turns them into
//! [`Member`]s. Only an author of a [`Backend`](crate::backend::Backend) sees members.

mod batch;
mod bucket_key;
mod claim;
mod fingerprint;
mod limit_ref;
mod mode;
mod on_failure;
mod owned;
mod receipt;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod transaction;

#[cfg(feature = "tokio")]
pub(crate) use self::owned::OwnedMember;
pub use self::{
    batch::{Batch, Member, Operation},
    bucket_key::{BucketKey, LimitKey},
    limit_ref::LimitRef,
    mode::Mode,
    on_failure::OnFailure,
    owned::OwnedBatch,
    receipt::Receipt,
    transaction::Transaction,
};
pub(crate) use self::{
    claim::{Claim, RowCharge},
    fingerprint::{ClientFingerprint, Fingerprint, IdHash, LimitSeed},
    limit_ref::LimitPlace,
};
pub use crate::algorithm::{Algorithm, AlgorithmKey};
