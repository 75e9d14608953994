use super::{
    bucket_key::{AlgorithmKey, BucketKey},
    fingerprint::{Fingerprint, LimitSeed},
    mode::Mode,
    on_failure::OnFailure,
    receipt::Receipt,
};
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Tat, Ticks},
    id::IdFormat,
    quota::Quota,
    tiers::Tiers,
    window::Window,
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
    /// Fills the buckets.
    Reset,
}

/// The algorithm of a bucket, with its parameters. [`Limit`](crate::Limit) has constructors for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A token bucket by the Generic Cell Rate Algorithm.
    Gcra(Gcra),
    /// Sliding windows with active and cooldown periods.
    Tiers(Tiers),
    /// A sliding window.
    Window(Window),
    /// A quota for each period of a calendar, or from first use.
    Quota(Quota),
}

impl Algorithm {
    /// The part of bucket keys that stands for the algorithm.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> AlgorithmKey {
        match self {
            Self::Gcra(_) => AlgorithmKey::Gcra,
            Self::Tiers(_) => AlgorithmKey::Tiers,
            Self::Window(_) => AlgorithmKey::Window,
            Self::Quota(_) => AlgorithmKey::Quota,
        }
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
    /// The most unspent units that a process can hold.
    pub(crate) leased: u32,
    /// The part of the limit's burst or quota that leases reserve, for all processes.
    pub(crate) reserved: u32,
    /// The fingerprint of the key within this process.
    pub(crate) fingerprint: Fingerprint,
    /// The charge to refund, if it is known.
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
        let client = LimitSeed::of(key.limit).client(key.id);
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
            leased: 0,
            reserved: 0,
            fingerprint,
            receipt: None,
            saturates: false,
            no_wait: false,
            secret: false,
            ago_us: 0,
        }
    }

    /// Returns the longest wait in the bucket's line, in microseconds. Only a member that votes and is charged can wait.
    #[inline(always)]
    pub(crate) const fn max_wait_us(&self, gcra: &Gcra) -> u64 {
        // Most limits have no line, so this is checked first.
        match gcra.max_wait_us() {
            0 => 0,
            most if self.joins_lines() => most,
            _ => 0,
        }
    }

    #[cold]
    const fn joins_lines(&self) -> bool {
        matches!(self.mode, Mode::CheckAndSpend) && !self.no_wait
    }

    /// Returns the TAT right after the charge that is refunded, if it is known.
    #[inline]
    pub(crate) fn own_tat(&self) -> Option<Tat> {
        self.receipt.and_then(Receipt::tat)
    }

    /// Returns the time that a refund gives back. For a charge that was decided elsewhere, it is nothing.
    #[inline]
    pub(crate) fn refund(&self, gcra: &Gcra) -> Ticks {
        match self.receipt {
            None => gcra.increment(self.cost),
            Some(receipt) if receipt.is_local() => Ticks::default(),
            Some(receipt) => receipt.span(gcra),
        }
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

/// Members that are decided and stored in one atomic step. No two of them share a bucket. The [backend
/// docs](crate::backend#a-custom-backend) have an example.
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

/// The action of a batch on one of its buckets: its operation, in the member's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Finds out whether the cost fits, and charges nothing.
    Probe,
    /// Finds out what a debit would leave, and charges nothing.
    ProbeDebit,
    /// Charges the cost if it fits.
    Spend,
    /// Charges the cost, even into debt.
    Debit,
    /// Gives the cost back.
    Refund,
    /// Leaves the bucket as it is.
    Keep,
    /// Makes the bucket full.
    Reset,
}

impl Action {
    /// Returns whether the action changes the bucket.
    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Spend | Self::Debit | Self::Refund | Self::Reset)
    }
}

impl<'a> Batch<'a> {
    /// Returns the action on the bucket of `member`. A cost of 0 charges nothing in any mode.
    #[inline(always)]
    pub(crate) const fn action(&self, member: &Member<'_>) -> Action {
        match (self.operation, member.mode) {
            (Operation::Spend, Mode::Debit) if member.cost > 0 => Action::Debit,
            (Operation::Spend, Mode::CheckAndSpend | Mode::SpendOnly) if member.cost > 0 => {
                Action::Spend
            }
            (Operation::Check | Operation::Spend, Mode::Debit) => Action::ProbeDebit,
            (Operation::Check | Operation::Spend, _) => Action::Probe,
            (Operation::Refund, mode) if mode.spends() => Action::Refund,
            (Operation::Refund, _) => Action::Keep,
            (Operation::Reset, _) => Action::Reset,
        }
    }

    /// Returns whether the batch is denied if `member` does not pass.
    #[inline(always)]
    pub(crate) const fn votes(&self, member: &Member<'_>) -> bool {
        matches!(self.operation, Operation::Check | Operation::Spend) && member.mode.votes()
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
