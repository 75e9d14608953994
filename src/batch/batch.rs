use super::member::Member;
use crate::{clock::Timestamp, transaction::Operation};

/// Members that are decided and stored in one atomic step. No two of them share a bucket, except those of renewals, which are
/// decided in order. The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Batch<'a> {
    /// The operation on the buckets.
    pub operation: Operation,
    /// The time of the decision, or `None` for the backend's clock.
    pub now: Option<Timestamp>,
    /// The buckets.
    pub members: &'a [Member<'a>],
}

impl<'a> Batch<'a> {
    /// Creates a batch that is decided by the backend's clock.
    #[must_use]
    pub const fn new(operation: Operation, members: &'a [Member<'a>]) -> Self {
        Self {
            operation,
            now: None,
            members,
        }
    }

    /// Sets the time of the decision, instead of the backend's clock.
    #[must_use]
    pub const fn at(self, now: Option<Timestamp>) -> Self {
        Self { now, ..self }
    }

    /// Returns whether the batch is denied if `member` does not pass.
    #[inline]
    #[must_use]
    pub const fn votes(&self, member: &Member<'_>) -> bool {
        matches!(self.operation, Operation::Check | Operation::Spend) && member.role.mode.votes()
    }

    /// Returns whether the bucket of `member` is changed if it passes, and the batch with it.
    #[inline]
    #[must_use]
    pub const fn writes(&self, member: &Member<'_>) -> bool {
        member.writes(self.operation)
    }
}
