//! The questions to a backend: batches with members, each of which is prepared once.
//!
//! The limiter prepares members from transactions, and a layer prepares them from its rules. All other code reads from the member
//! who is charged, by which limit, and how much. Of users, only authors of a [backend](crate::backend::custom) see these types.

#[expect(clippy::module_inception, reason = "its name says what it holds")]
pub(crate) mod batch;
pub(crate) mod member;

pub(crate) use self::{
    batch::{Batch, OwnedBatch},
    member::{DecisionBasis, Member, MemberRole, OwnedMember},
};
