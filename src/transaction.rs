//! What is asked of a backend: a [`Batch`] of members, each a bucket key, an algorithm, a cost and
//! a [`Mode`], all decided and stored in one atomic step.
//!
//! Users of a [`Limiter`](crate::Limiter) write [`Transaction`]s, which name a limit and an id; the
//! limiter looks the limit up and turns them into [`Member`]s. Whoever writes a
//! [`Backend`](crate::backend::Backend) meets the members.

use std::{fmt, hash::Hash};

use crate::{
    clock::Timestamp,
    gcra::Gcra,
    id::{Id, IdFormat},
    tiers::Tiers,
};

/// One client's use of one limit, by name and id.
///
/// ```
/// use tollgate::{Transaction, transaction::Mode};
///
/// let one = Transaction::new("NewOrdersPerAccount", "12345678");
/// let five = Transaction::new("NewOrdersPerAccount", "12345678").cost(5);
/// let look = Transaction::new("CertificatesPerDomain", "example.com").mode(Mode::CheckOnly);
/// # assert_eq!((one.cost, five.cost, look.mode), (1, 5, Mode::CheckOnly));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Transaction<'a> {
    /// The limit's name.
    pub limit: &'a str,
    /// Whose bucket it is.
    pub id: &'a str,
    /// How many tokens it takes.
    pub cost: u32,
    /// With how many it makes do, for a limit with tiers.
    pub min_cost: Option<u32>,
    /// How it takes part in a batch.
    pub mode: Mode,
    /// What is decided while the store does not answer, if it is not for the limit to say.
    pub on_failure: Option<OnFailure>,
    /// Whether it is of those who have no id.
    missing: bool,
    /// Whether a cost that cannot pass is denied, rather than an error.
    lenient: bool,
    /// Whether it changes what was told already.
    correction: bool,
    /// By what the cost was charged that a refund gives back, if that is known.
    charged_by: Option<&'a Algorithm>,
}

impl<'a> Transaction<'a> {
    /// A transaction of cost 1 that is checked and spent.
    #[must_use]
    pub const fn new(limit: &'a str, id: &'a str) -> Self {
        Self {
            limit,
            id,
            cost: 1,
            min_cost: None,
            mode: Mode::CheckAndSpend,
            on_failure: None,
            missing: false,
            lenient: false,
            correction: false,
            charged_by: None,
        }
    }

    /// A transaction of the bucket that requests without an id share
    /// ([`OnMissing::Shared`](crate::rule::OnMissing::Shared)), to look at it or reset it.
    #[must_use]
    pub const fn missing(limit: &'a str) -> Self {
        let mut transaction = Self::new(limit, Id::MISSING);
        transaction.missing = true;
        transaction
    }

    pub(crate) const fn is_missing(&self) -> bool {
        self.missing
    }

    /// Denies a cost that cannot pass. Otherwise, it is an error.
    pub(crate) const fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    pub(crate) const fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Makes it a change of what was decided before, of which operators are not told once more.
    pub(crate) const fn correction(mut self) -> Self {
        self.correction = true;
        self
    }

    pub(crate) const fn is_correction(&self) -> bool {
        self.correction
    }

    /// Says by what the cost was charged that a refund gives back.
    pub(crate) const fn charged_by(mut self, algorithm: Option<&'a Algorithm>) -> Self {
        self.charged_by = algorithm;
        self
    }

    /// The algorithm that decides: the one in force, unless a refund would give back more time by it than the charge took,
    /// because its tokens are dearer.
    #[inline]
    pub(crate) fn algorithm(&self, operation: Operation, in_force: &'a Algorithm) -> &'a Algorithm {
        match (operation, self.charged_by, in_force) {
            (Operation::Refund, Some(charged_by @ Algorithm::Gcra(then)), Algorithm::Gcra(now))
                if then.has_cheaper_tokens_than(now) =>
            {
                charged_by
            }
            _ => in_force,
        }
    }

    /// Sets the cost, in tokens. 0 probes: it is denied only on a bucket in debt. A limit with tiers takes no 0.
    #[must_use]
    pub const fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Makes it a group request, for a limit with [tiers](crate::tiers): as much is granted as there is room
    /// for, from `min_cost` up to the cost, or nothing. If not set, it is all of the cost or nothing.
    ///
    /// A group takes all it can get, and may burst into a tier for what it could have done without.
    #[must_use]
    pub const fn min_cost(mut self, min_cost: u32) -> Self {
        self.min_cost = Some(min_cost);
        self
    }

    /// Sets how the transaction takes part in its batch.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what is decided while the store does not answer, whatever the limit's name says. See
    /// [`LimitName::on_failure`](crate::limit::LimitName::on_failure).
    #[must_use]
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }
}

/// How a transaction takes part in its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Votes, and is charged if the whole batch passes.
    #[default]
    CheckAndSpend,
    /// Votes, and is never charged.
    CheckOnly,
    /// Never votes; charged if the batch passes and the cost fits, else skipped whole.
    SpendOnly,
    /// Never votes; charged if the batch passes, even into debt, whatever the cost.
    Debit,
    /// Never votes, and is never charged: says what would have been decided.
    Observe,
}

impl Mode {
    /// Whether a denial of this member denies the batch.
    #[must_use]
    pub const fn votes(self) -> bool {
        matches!(self, Self::CheckAndSpend | Self::CheckOnly)
    }

    /// Whether this member is charged when the batch passes and its cost fits.
    #[must_use]
    pub const fn spends(self) -> bool {
        !matches!(self, Self::CheckOnly | Self::Observe)
    }

    /// The mode in which a member does the same without a vote.
    pub(crate) const fn silent(self) -> Self {
        match self {
            Self::CheckAndSpend => Self::SpendOnly,
            Self::CheckOnly => Self::Observe,
            mode => mode,
        }
    }
}

/// What is decided of a limit while the store that keeps its buckets does not answer.
///
/// A [`FailurePolicy`](crate::backend::FailurePolicy) does so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFailure {
    /// What this process alone can tell, from what it has seen.
    #[default]
    Local,
    /// It is as if the limit were off.
    Allow,
    /// An error: 503, or `UNAVAILABLE` over gRPC.
    Refuse,
}

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

/// What names a limit within a bucket key: its number or, if it has none, its name.
///
/// The two can never be mistaken for each other: a name begins with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKey<'a> {
    /// The number that the application assigned, stable across deploys.
    Number(u32),
    /// The name.
    Name(&'a str),
}

impl fmt::Display for LimitKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// The key of one bucket, written `number:id` (or `name:id`).
///
/// ```
/// use tollgate::transaction::{BucketKey, LimitKey};
///
/// let key = BucketKey::new(LimitKey::Number(6), "12345678");
/// assert_eq!(key.to_string(), "6:12345678");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketKey<'a> {
    /// The limit.
    pub limit: LimitKey<'a>,
    /// The client, in the limit's canonical form.
    pub id: &'a str,
}

impl<'a> BucketKey<'a> {
    /// The key of the bucket that `id` has under `limit`.
    #[must_use]
    pub const fn new(limit: LimitKey<'a>, id: &'a str) -> Self {
        Self { limit, id }
    }
}

impl fmt::Display for BucketKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.limit, self.id)
    }
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
    /// What is decided while the store does not answer, if the limit says so.
    pub on_failure: Option<OnFailure>,
    /// Whether it has lost its vote to shadow mode.
    pub(crate) shadow: bool,
}

impl<'a> Member<'a> {
    /// A member of a batch, with an opaque id.
    #[must_use]
    pub const fn new(key: BucketKey<'a>, algorithm: &'a Algorithm, cost: u32, mode: Mode) -> Self {
        Self {
            key,
            algorithm,
            cost,
            min_cost: cost,
            mode,
            format: IdFormat::Opaque,
            on_failure: None,
            shadow: false,
        }
    }

    /// Takes its vote away. It refuses nothing while the store does not answer either.
    pub(crate) const fn in_shadow(mut self) -> Self {
        self.shadow = true;
        self.mode = self.mode.silent();
        self
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

impl<'a> Batch<'a> {
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
