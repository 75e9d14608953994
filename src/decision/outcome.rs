use smallvec::SmallVec;

use crate::{
    algorithm::{Charge, Figures},
    batch::Batch,
};

/// A backend's answer to a [`Batch`]. The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// In the order of the members.
    pub answers: SmallVec<[Answer; 1]>,
    /// The source of the decision.
    pub source: Source,
    /// Whether the store may have charged the batch without the answers showing it.
    pub(crate) may_be_charged: bool,
}

/// A backend's answer for one member of a batch. The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// For a voting member, whether its own cost fits. For a member without a vote, whether it is charged or, for a check, would
    /// be. For a refund or a renewal, whether anything was given back or renewed.
    pub passed: bool,
    /// The figures of the bucket, after the change if there was one. `None` if the bucket was not read. The decision is then that
    /// of a client without a limit, and `passed` only affects the other members of the batch.
    pub(crate) figures: Option<Figures>,
    pub(crate) charge: Charge,
}

impl Answer {
    /// The answer for a member that is left out of its batch. It passes, and its bucket was not read.
    pub(crate) const LEFT_OUT: Self = Self {
        passed: true,
        figures: None,
        charge: Charge {
            at: 0,
            frac: 0,
            units: 0,
        },
    };
}

/// The source of a decision. See [`Decision::source`](crate::Decision::source).
///
/// ```
/// use tollgate::{Limit, Limiter, Limits, MemoryBackend, Transaction, decision::Source};
///
/// let limits = Limits::builder().limit("requests", Limit::per_second(10)).build()?;
/// let limiter = Limiter::new(limits, MemoryBackend::new());
/// let decision = limiter.try_spend(&Transaction::new("requests", "alice")).expect("memory never waits")?;
/// assert_eq!(decision.source(), Source::Store);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store that keeps the bucket.
    #[default]
    Store,
    /// A [`DenyCache`](crate::backend::DenyCache), which remembers the store's denials.
    Cache,
    /// A [`Lease`](crate::backend::Lease): tokens that this process has charged in advance.
    Lease,
    /// This process alone, because the store did not answer
    /// ([`OnFailure::Local`](crate::transaction::OnFailure::Local)).
    Local,
}

impl Outcome {
    /// An outcome of the store, whose answers are in the order of the batch's members.
    #[must_use]
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: answers.into_iter().collect(),
            source: Source::Store,
            may_be_charged: false,
        }
    }

    /// An outcome with an empty answer for each member of a batch.
    pub(crate) fn unanswered(batch: &Batch<'_>) -> Self {
        Self::new(batch.members.iter().map(|_| Answer::default()))
    }

    /// Sets the source of the decision, if it was not the store. Wrappers use it to tell whether the store has answered.
    #[must_use]
    pub const fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }
}
