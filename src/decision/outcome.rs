use smallvec::SmallVec;
use thiserror::Error;

use super::judge::{Buckets, Keep, NoRoom, decide};
use crate::{
    algorithm::{Charge, Figures, Kept, State},
    clock::{InvalidNow, Timestamp},
    transaction::{Batch, Member, Operation},
};

/// A backend's answer to a [`Batch`]. The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// In the order of the members.
    pub answers: SmallVec<[Answer; 4]>,
    /// Who has decided.
    pub source: Source,
}

/// A backend's answer for one member of a batch. The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// For a voting member, whether its own cost fits. For another member, whether it is charged (or would be, for a
    /// check). For a refund or a renewal, whether it did anything.
    pub passed: bool,
    /// The figures of the bucket, after the change if there was one; `None` if nobody has looked at it. Then the member is
    /// decided as one without a limit. Whether it counts as passing is only for the batch.
    pub figures: Option<Figures>,
    pub(crate) charge: Charge,
}

impl Answer {
    /// The answer for a member that is left out of its batch: it passes, and nobody has looked at its bucket.
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
        }
    }

    /// An outcome without an answer yet, for each member of a batch.
    pub(crate) fn unanswered(batch: &Batch<'_>) -> Self {
        Self::new(batch.members.iter().map(|_| Answer::default()))
    }

    /// Sets who has decided, if it was not the store. Wrappers conclude from it whether the store has answered.
    #[must_use]
    pub const fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Decides a batch at `now`, with the state of each member's bucket in the members' order, and changes these states. The
    /// caller must store them before anyone else reads them. `None` is a bucket that nobody has used. Of a bucket with several
    /// renewals, the state at the first place counts, and the changed one is written to each.
    ///
    /// # Errors
    ///
    /// If `now` is at or beyond [`Timestamp::END`], or if a debit does not fit into its window. The states are then unchanged.
    pub fn decide(
        batch: &Batch<'_>,
        now: Timestamp,
        states: &mut [Option<State>],
    ) -> Result<Self, DecideError> {
        now.validate()?;
        let mut answers = SmallVec::from_elem(Answer::default(), batch.members.len());
        let mut shared = States { batch, states };
        decide(batch, &mut answers, &mut shared, now.as_micros())?;
        shared.copy_to_all_places();
        Ok(Self {
            answers,
            source: Source::Store,
        })
    }
}

/// The error for a batch that has no decision, whoever decides. A [`BackendError`](crate::backend::BackendError) can be made from
/// it. Returned by [`Outcome::decide`]. The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The time of the decision is out of range.
    #[error(transparent)]
    InvalidNow(#[from] InvalidNow),
    /// A debit does not fit into its window.
    #[error("the debit of member {member} has no room in its window")]
    NoRoom {
        /// The index of the member.
        member: usize,
    },
}

impl From<NoRoom> for DecideError {
    fn from(NoRoom(member): NoRoom) -> Self {
        Self::NoRoom { member }
    }
}

/// The states of the members' buckets, at their places in the batch.
struct States<'a> {
    batch: &'a Batch<'a>,
    states: &'a mut [Option<State>],
}

impl States<'_> {
    /// Returns the first place of a member's bucket. Only renewals can be of one bucket.
    fn first(&self, place: usize) -> usize {
        let members = match self.batch.operation {
            Operation::Renew => &self.batch.members[..place],
            _ => &[],
        };
        let key = self.batch.members[place].key;
        let first = members.iter().position(|member| member.key == key);
        first.unwrap_or(place)
    }

    fn copy_to_all_places(&mut self) {
        if self.batch.operation != Operation::Renew {
            return;
        }
        for place in 0..self.batch.members.len() {
            let first = self.first(place);
            if first < place {
                self.states[place] = self.states[first].clone();
            }
        }
    }
}

impl Buckets for States<'_> {
    fn reset(&mut self, place: usize, _: &Member<'_>) {
        self.states[place] = None;
    }
}

impl<S: Kept> Keep<S> for States<'_> {
    fn take(&mut self, place: usize, _: &Member<'_>) -> S {
        let place = self.first(place);
        let state = self.states[place].take();
        state.and_then(S::of_state).unwrap_or_default()
    }

    fn put_back(&mut self, place: usize, _: &Member<'_>, state: S) {
        let place = self.first(place);
        self.states[place] = (state != S::default()).then(|| state.into_state());
    }

    fn store(
        &mut self,
        place: usize,
        _: &Member<'_>,
        state: S,
        full_at: u64,
        _: &Figures,
        now: u64,
    ) {
        let place = self.first(place);
        self.states[place] = (full_at > now).then(|| state.into_state());
    }
}
