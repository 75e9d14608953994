use super::{
    bucket_key::{BucketKey, Fingerprint, LimitSeed},
    mode::{Mode, OnFailure},
};
use crate::{
    algorithm::{Algorithm, Ask, LeaseShare, Verb},
    clock::Timestamp,
    id::IdFormat,
};

/// The operation of a [`Batch`]. A backend passes it on to [`Outcome::decide`](crate::backend::custom::Outcome::decide); the
/// page for [authors](crate::backend::custom) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Returns what [`Spend`](Self::Spend) would return, without charging.
    Check,
    /// Charges all members that spend, or none if a voting member is denied.
    Spend,
    /// Refunds the members' costs, each by itself. No bucket gets more than full.
    Refund,
    /// Moves the charges of the members' receipts to now, one after the other. Several can be of one bucket.
    Renew,
    /// Returns the figures of the buckets as they are.
    Peek,
    /// Makes the buckets as new.
    Reset,
}

impl Operation {
    /// Returns what a member of this mode asks of its bucket.
    #[inline]
    pub(crate) const fn verb(self, mode: Mode) -> Verb {
        match (self, mode) {
            (Self::Check | Self::Spend, Mode::Debit) => Verb::Debit,
            (Self::Check | Self::Spend, _) => Verb::Spend,
            (Self::Refund, mode) if mode.spends() => Verb::Refund,
            (Self::Renew, mode) if mode.spends() => Verb::Renew,
            _ => Verb::Peek,
        }
    }

    #[inline]
    pub(crate) const fn writes(self, member: &Member<'_>) -> bool {
        match self {
            Self::Spend | Self::Refund | Self::Renew => member.mode.spends() && member.ask.cost > 0,
            Self::Reset => true,
            Self::Check | Self::Peek => false,
        }
    }
}

/// One bucket's part in a [`Batch`]. The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Member<'a> {
    /// The bucket.
    pub key: BucketKey<'a>,
    /// The algorithm.
    pub algorithm: &'a Algorithm,
    /// What is asked of the bucket.
    pub ask: Ask,
    /// The role in the batch.
    pub mode: Mode,
    /// The format of the bucket's id. A store with many nodes uses it to keep the buckets of one client together.
    pub format: IdFormat,
    /// The policy while the store does not answer, if the limit has one. For a limit in shadow mode, it never refuses.
    pub on_failure: Option<OnFailure>,
    /// Whether the limit is in shadow mode, so that the member has lost its vote.
    pub(crate) shadow: bool,
    /// Whether the id may not be shown in logs and errors.
    pub(crate) secret: bool,
    /// The part of the limit that a process can charge ahead, if it is leased.
    pub(crate) lease: Option<LeaseShare>,
    /// Whether a refund or a renewal is about what this process has decided alone. Other backends than the one that did give
    /// nothing back.
    pub(crate) is_local: bool,
    /// The place of its transaction. Some are without a bucket.
    pub(crate) place: usize,
    pub(crate) print: Fingerprint,
}

impl<'a> Member<'a> {
    /// Creates a member of a batch that spends, with an opaque id. Its bucket is the one of this algorithm.
    #[must_use]
    pub fn new(key: BucketKey<'a>, algorithm: &'a Algorithm, cost: u32, mode: Mode) -> Self {
        let key = key.of(algorithm.key());
        let ask = Ask::new(Operation::Spend.verb(mode), cost);
        Self {
            key,
            algorithm,
            ask: Ask {
                waits: matches!(mode, Mode::CheckAndSpend),
                charge: algorithm.new_permits(cost),
                ..ask
            },
            mode,
            format: IdFormat::Opaque,
            on_failure: None,
            shadow: false,
            secret: false,
            lease: None,
            is_local: false,
            place: 0,
            print: LimitSeed::of(key.limit).fingerprint(key.algorithm, key.id),
        }
    }
}

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
        matches!(self.operation, Operation::Check | Operation::Spend) && member.mode.votes()
    }

    /// Returns whether the bucket of `member` is changed if it passes, and the batch with it.
    #[inline]
    #[must_use]
    pub const fn writes(&self, member: &Member<'_>) -> bool {
        self.operation.writes(member)
    }
}
