//! What a backend is asked: members of a batch, each of which is prepared once.
//!
//! The limiter prepares them from transactions, and a layer from its rules. Whoever needs to know who is charged, by which limit
//! and how much reads the member. Only an author of a [backend](crate::backend::custom) sees these.

#[expect(clippy::module_inception, reason = "its name says what it holds")]
pub(crate) mod batch;
pub(crate) mod member;

pub(crate) use self::{
    batch::{Batch, OwnedBatch},
    member::{DecisionBasis, Member, MemberRole, OwnedMember},
};
