//! What is asked of a backend: a [`Batch`] of members, each a bucket key, an algorithm, a cost and
//! a [`Mode`], all decided and stored in one atomic step.
//!
//! Users of a [`Limiter`](crate::Limiter) write [`Transaction`]s, which name a limit and an id; the
//! limiter looks the limit up and turns them into [`Member`]s. Whoever writes a
//! [`Backend`](crate::backend::Backend) meets the members.

mod batch;
mod bucket_key;
mod fingerprint;
mod lease_share;
mod limit_ref;
mod mode;
mod on_failure;
mod owned;
mod receipt;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod transaction;

#[cfg(feature = "tokio")]
pub(crate) use self::owned::OwnedMember;
pub(crate) use self::{
    batch::Action,
    fingerprint::{Fingerprint, LimitSeed},
    limit_ref::LimitPlace,
};
pub use self::{
    batch::{Algorithm, Batch, Member, Operation},
    bucket_key::{BucketKey, LimitKey},
    lease_share::{LeaseShare, LeaseShareError},
    limit_ref::LimitRef,
    mode::Mode,
    on_failure::OnFailure,
    owned::OwnedBatch,
    receipt::Receipt,
    transaction::Transaction,
};
