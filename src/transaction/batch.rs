use super::{
    bucket_key::BucketKey,
    fingerprint::{Fingerprint, LimitSeed},
    mode::Mode,
    on_failure::OnFailure,
    receipt::Receipt,
};
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Ticks},
    id::IdFormat,
    tiers::Tiers,
};

/// What a batch does with its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Answers what [`Spend`](Self::Spend) would, and writes nothing.
    Check,
    /// Charges every member that spends, or nobody if a voting member is denied.
    Spend,
    /// Gives the members' costs back, never beyond full.
    Refund,
    /// Makes the buckets full.
    Reset,
}

/// How a bucket is decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A token bucket by the Generic Cell Rate Algorithm.
    Gcra(Gcra),
    /// Sliding windows with active and cooldown periods.
    Tiers(Tiers),
}

/// One bucket's part in a [`Batch`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Member<'a> {
    /// The bucket.
    pub key: BucketKey<'a>,
    /// How it is decided.
    pub algorithm: &'a Algorithm,
    /// How many tokens it takes, at most the burst unless the mode is [`Mode::Debit`].
    pub cost: u32,
    /// With how many it makes do, if the algorithm is by tiers; from 1 up to the cost.
    pub min_cost: u32,
    /// How it takes part.
    pub mode: Mode,
    /// The format of the bucket's id. It says which buckets are of one client, for a store with many
    /// nodes.
    pub format: IdFormat,
    /// What is decided while the store does not answer, if the limit says so. See
    /// [`on_failure_or`](Self::on_failure_or).
    pub on_failure: Option<OnFailure>,
    /// What is decided then at least, if the limit does not say.
    pub(crate) floor: Option<OnFailure>,
    /// Whether it has lost its vote to shadow mode.
    pub(crate) shadow: bool,
    /// How many unspent units a process may hold of it.
    pub(crate) leased: u32,
    /// What stands for the key within this process.
    pub(crate) fingerprint: Fingerprint,
    /// Which charge is refunded, if that is known.
    pub(crate) receipt: Option<&'a Receipt>,
}

impl<'a> Member<'a> {
    /// A member of a batch, with an opaque id.
    #[must_use]
    pub fn new(key: BucketKey<'a>, algorithm: &'a Algorithm, cost: u32, mode: Mode) -> Self {
        let fingerprint = LimitSeed::of(key.limit).bucket(key.id);
        Self::known(key, fingerprint, algorithm, cost, mode)
    }

    /// A member of which the fingerprint is known.
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
            fingerprint,
            receipt: None,
        }
    }

    /// The time that a refund gives back. A charge that was decided elsewhere gives nothing back here.
    #[inline]
    pub(crate) fn refund(&self, gcra: &Gcra) -> Ticks {
        match self.receipt {
            None => gcra.increment(self.cost),
            Some(receipt) if receipt.is_local() => Ticks::default(),
            Some(receipt) => receipt.span(gcra),
        }
    }

    /// Sets with how many tokens it makes do.
    #[must_use]
    pub const fn min_cost(mut self, min_cost: u32) -> Self {
        self.min_cost = min_cost;
        self
    }

    /// Sets the format of the bucket's id.
    #[must_use]
    pub const fn format(mut self, format: IdFormat) -> Self {
        self.format = format;
        self
    }

    /// Sets what is decided while the store does not answer.
    #[must_use]
    pub const fn on_failure(mut self, on_failure: Option<OnFailure>) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// What is decided while the store does not answer, by a backend that does `default` for limits that do not say. If
    /// rules share the bucket, it is what the strictest of them says.
    #[must_use]
    pub const fn on_failure_or(&self, default: OnFailure) -> OnFailure {
        match (self.on_failure, self.floor) {
            (Some(on_failure), _) => on_failure,
            (None, Some(floor)) => floor.stricter(default),
            (None, None) => default,
        }
    }
}

/// Everything that is decided and stored in one step. No two members share a bucket.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Batch<'a> {
    /// What is done with the buckets.
    pub operation: Operation,
    /// The instant to decide at, or `None` for the backend's own clock.
    pub now: Option<Timestamp>,
    /// The buckets.
    pub members: &'a [Member<'a>],
}

/// What a batch does to one of its buckets: its operation, in the member's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Answers whether the cost fits, and charges nothing.
    Probe,
    /// Answers what a debit would leave, and charges nothing.
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

impl<'a> Batch<'a> {
    /// What is done to the bucket of `member`. A cost of 0 charges nothing in any mode.
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

    /// Whether the batch is denied if `member` does not pass.
    #[inline(always)]
    pub(crate) const fn votes(&self, member: &Member<'_>) -> bool {
        matches!(self.operation, Operation::Check | Operation::Spend) && member.mode.votes()
    }

    /// A batch that is decided by the backend's clock.
    #[must_use]
    pub const fn new(operation: Operation, members: &'a [Member<'a>]) -> Self {
        Self {
            operation,
            now: None,
            members,
        }
    }

    /// Sets the instant at which the batch is decided, instead of the backend's clock.
    #[must_use]
    pub const fn at(mut self, now: Option<Timestamp>) -> Self {
        self.now = now;
        self
    }
}
