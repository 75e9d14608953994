use super::{
    bucket_key::BucketKey,
    fingerprint::{Fingerprint, IdHash, LimitSeed},
    mode::Mode,
    on_failure::OnFailure,
    receipt::Receipt,
};
use crate::{
    algorithm::{Action, Algorithm, Ask, Refund},
    clock::Timestamp,
    id::IdFormat,
};

/// The operation of a [`Batch`]. A backend passes it on to [`Outcome::decide`](crate::decision::Outcome::decide); the
/// [module docs](crate::backend) have an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Returns what [`Spend`](Self::Spend) would return, without charging.
    Check,
    /// Charges all members that spend, or none if a voting member is denied.
    Spend,
    /// Refunds the members' costs. No bucket gets more than full.
    Refund,
    /// Moves the charges of the members' receipts to now, one after the other. Several can be of one bucket.
    Renew,
    /// Fills the buckets.
    Reset,
}

impl Operation {
    /// Returns what the operation asks of the bucket of `member`.
    #[inline(always)]
    pub(crate) fn ask<'m>(self, member: &Member<'m>) -> Ask<'m> {
        Ask {
            action: self.action(member.mode, member.cost),
            cost: member.cost,
            min_cost: member.min_cost,
            joins_line: member.joins_line(),
            saturates: member.saturates,
            ago_us: member.ago_us,
            refund: member.refund(),
            is_shown: true,
        }
    }

    /// Returns the action on a bucket. A cost of 0 charges nothing in any mode.
    #[inline(always)]
    pub(crate) const fn action(self, mode: Mode, cost: u32) -> Action {
        match (self, mode) {
            (Self::Spend, Mode::Debit) if cost > 0 => Action::Debit,
            (Self::Spend, Mode::CheckAndSpend | Mode::SpendOnly) if cost > 0 => Action::Spend,
            (Self::Check | Self::Spend, Mode::Debit) => Action::ProbeDebit,
            (Self::Check | Self::Spend, _) => Action::Probe,
            (Self::Refund, mode) if mode.spends() => Action::Refund,
            (Self::Renew, mode) if mode.spends() => Action::Renew,
            (Self::Refund | Self::Renew, _) => Action::Keep,
            (Self::Reset, _) => Action::Reset,
        }
    }

    /// Returns whether a member with a vote can deny the batch.
    #[inline(always)]
    pub(crate) const fn asks_for_votes(self) -> bool {
        matches!(self, Self::Check | Self::Spend)
    }
}

/// One bucket's part in a [`Batch`]. The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Member<'a> {
    /// The bucket.
    pub key: BucketKey<'a>,
    /// The algorithm.
    pub algorithm: &'a Algorithm,
    /// The cost in tokens, at most the burst unless the mode is [`Mode::Debit`].
    pub cost: u32,
    /// The smallest acceptable grant, for tiers; from 1 up to the cost.
    pub min_cost: u32,
    /// The mode.
    pub mode: Mode,
    /// The format of the bucket's id. A store with many nodes uses it to keep the buckets of one client together.
    pub format: IdFormat,
    /// The policy while the store does not answer, if the limit has one. See
    /// [`on_failure_or`](Self::on_failure_or).
    pub on_failure: Option<OnFailure>,
    /// The least strict policy, if the limit has none.
    pub(crate) floor: Option<OnFailure>,
    /// Whether it has lost its vote to shadow mode.
    pub(crate) shadow: bool,
    /// The fingerprint of the key within this process.
    pub(crate) fingerprint: Fingerprint,
    /// The charge to refund or to renew, if it is known.
    pub(crate) receipt: Option<&'a Receipt>,
    /// Whether a debit is charged partially if the window has no room for all of it. Otherwise, such a debit is an
    /// error.
    pub(crate) saturates: bool,
    /// Whether the member is denied if it would have to wait in line.
    pub(crate) no_wait: bool,
    /// Whether the id may not be shown in logs and errors.
    pub(crate) secret: bool,
    /// How long ago, in microseconds, the units of a window's debit were taken. As many are charged as there is room
    /// for.
    pub(crate) ago_us: u64,
}

impl<'a> Member<'a> {
    /// Creates a member with an opaque id. Its bucket is the one of this algorithm.
    #[must_use]
    pub fn new(key: BucketKey<'a>, algorithm: &'a Algorithm, cost: u32, mode: Mode) -> Self {
        let key = key.of(algorithm.key());
        let client = LimitSeed::of(key.limit).client(IdHash::of(key.id));
        let fingerprint = client.bucket(key.algorithm);
        Self::known(key, fingerprint, algorithm, cost, mode)
    }

    /// Creates a member whose key and fingerprint are those of its algorithm.
    #[inline(always)]
    pub(crate) const fn known(
        key: BucketKey<'a>,
        fingerprint: Fingerprint,
        algorithm: &'a Algorithm,
        cost: u32,
        mode: Mode,
    ) -> Self {
        Self {
            key,
            algorithm,
            cost,
            min_cost: cost,
            mode,
            format: IdFormat::Opaque,
            on_failure: None,
            floor: None,
            shadow: false,
            fingerprint,
            receipt: None,
            saturates: false,
            no_wait: false,
            secret: false,
            ago_us: 0,
        }
    }

    /// Returns whether the member can wait in line, on a limit with [`max_wait`](crate::Limit::max_wait). Only one that
    /// votes and is charged can. One that cannot may be denied where another passes.
    #[inline(always)]
    #[must_use]
    pub const fn joins_line(&self) -> bool {
        matches!(self.mode, Mode::CheckAndSpend) && !self.no_wait
    }

    /// Returns what a refund gives back.
    #[inline(always)]
    pub(crate) fn refund(&self) -> Refund<'a> {
        Receipt::refund(self.receipt)
    }

    /// Sets the smallest acceptable grant.
    #[must_use]
    pub const fn min_cost(mut self, min_cost: u32) -> Self {
        self.min_cost = min_cost;
        self
    }

    /// Denies the member if it would have to wait in line.
    #[must_use]
    pub const fn no_wait(mut self) -> Self {
        self.no_wait = true;
        self
    }

    /// Sets the format of the bucket's id.
    #[must_use]
    pub const fn format(mut self, format: IdFormat) -> Self {
        self.format = format;
        self
    }

    /// Sets what happens while the store does not answer.
    #[must_use]
    pub const fn on_failure(mut self, on_failure: Option<OnFailure>) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Returns the policy while the store does not answer, with `default` for limits without their own. If
    /// several rules share the bucket, the strictest policy applies.
    #[must_use]
    pub const fn on_failure_or(&self, default: OnFailure) -> OnFailure {
        match (self.on_failure, self.floor) {
            (Some(on_failure), _) => on_failure,
            (None, Some(floor)) => floor.stricter(default),
            (None, None) => default,
        }
    }
}

/// Members that are decided and stored in one atomic step. No two of them share a bucket, except those of renewals, which are
/// decided in order. The [backend docs](crate::backend#a-custom-backend) have an example.
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
    /// Returns what the batch asks of the bucket of `member`.
    #[inline(always)]
    pub(crate) fn ask<'m>(&self, member: &Member<'m>) -> Ask<'m> {
        self.operation.ask(member)
    }

    /// Returns the action on the bucket of `member`.
    #[inline(always)]
    pub(crate) const fn action(&self, member: &Member<'_>) -> Action {
        self.operation.action(member.mode, member.cost)
    }

    /// Returns whether the batch is denied if `member` does not pass.
    #[inline(always)]
    pub(crate) const fn votes(&self, member: &Member<'_>) -> bool {
        self.operation.asks_for_votes() && member.mode.votes()
    }

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
    pub const fn at(mut self, now: Option<Timestamp>) -> Self {
        self.now = now;
        self
    }
}
