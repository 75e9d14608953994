use smallvec::SmallVec;

use super::{
    answer::Answer,
    decision::{Circumstances, Decision},
    judge::{judge, untouched},
    source::Source,
    stored::{BucketView, Stored},
};
use crate::{
    clock::{InvalidNow, Timestamp},
    transaction::{Action, Algorithm, Batch},
};

/// A backend's answer to a [`Batch`]. The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The instant at which the batch was decided.
    pub now: Timestamp,
    answers: SmallVec<[Answer; 4]>,
    /// The algorithms by which it was decided, if they are not the members'.
    algorithms: Option<Box<[Algorithm]>>,
    /// The instant by the clock of each member's own server, if there are several.
    #[cfg(feature = "redis")]
    clocks: Option<Box<[Timestamp]>>,
    source: Source,
    /// The member, by its place in the batch, whose debit its window has no room to remember. Then nothing is decided,
    /// and nothing written.
    no_room: Option<usize>,
}

impl Outcome {
    /// An outcome whose answers are in the order of the batch's members.
    #[doc(hidden)]
    #[must_use]
    pub fn new(now: Timestamp, answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            now,
            answers: answers.into_iter().collect(),
            algorithms: None,
            #[cfg(feature = "redis")]
            clocks: None,
            source: Source::Store,
            no_room: None,
        }
    }

    /// The outcome of a batch of one member.
    #[inline(always)]
    pub(crate) fn of_one(now: Timestamp, answer: Answer) -> Self {
        let mut outcome = Self {
            now,
            answers: SmallVec::new(),
            algorithms: None,
            #[cfg(feature = "redis")]
            clocks: None,
            source: Source::Store,
            no_room: None,
        };
        outcome.answers.push(answer);
        outcome
    }

    /// The outcome of a batch of one member with a window.
    #[inline]
    pub(crate) fn of_window(now: Timestamp, action: Action, answer: Answer) -> Self {
        let mut outcome = Self::of_one(now, answer);
        outcome.no_room = (!has_room(action, &answer)).then_some(0);
        outcome
    }

    /// Says who has decided, if it is not where the buckets are kept.
    #[must_use]
    pub(crate) fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// The same with other answers.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub(crate) fn with_answers(mut self, answers: SmallVec<[Answer; 4]>) -> Self {
        self.answers = answers;
        self
    }

    /// Who has decided.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Says what time it was by the clock of each member's own server. Answers are as the clock of [`now`](Self::now)
    /// shows them. Decisions are as their own servers show them, because these know the bucket by that.
    #[cfg(feature = "redis")]
    #[must_use]
    pub(crate) fn by_clocks(mut self, clocks: &[Timestamp]) -> Self {
        self.clocks = Some(clocks.into());
        self
    }

    /// The instant and the answer of a member, by the clock of its own server.
    #[inline(always)]
    fn by_own_clock(&self, index: usize, answer: &Answer) -> (Timestamp, Answer) {
        #[cfg(feature = "redis")]
        if let Some(own) = self.clocks.as_ref().and_then(|clocks| clocks.get(index)) {
            let state = answer.state.by_clock(self.now, *own);
            return (*own, Answer { state, ..*answer });
        }
        let _ = index;
        (self.now, *answer)
    }

    /// Says that the members were decided by other algorithms than theirs: one for each, in their order.
    #[cfg(feature = "failure-policy")]
    #[must_use]
    pub(crate) fn decided_by(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = Some(algorithms.into_iter().collect());
        self
    }

    /// Decides a batch at `now`, with the stored state of each member in the members' order, and updates that state.
    /// The caller must store it before anyone else reads it.
    ///
    /// # Errors
    ///
    /// If `now` is at or beyond [`Timestamp::END`]. The state is then unchanged.
    pub fn decide(
        batch: &Batch<'_>,
        now: Timestamp,
        stored: &mut [Stored],
    ) -> Result<Self, InvalidNow> {
        now.validate()?;
        let outcome = {
            let members = batch.members.iter().zip(&*stored);
            let seen: SmallVec<[BucketView<'_>; 4]> = members
                .map(|(member, stored)| stored.see(member.algorithm, now))
                .collect();
            Self::judge(batch, now, &seen)
        };
        let members = batch.members.iter().zip(outcome.answers());
        for ((member, answer), stored) in members.zip(stored) {
            stored.update(batch.action(member), member, answer, now);
        }
        Ok(outcome)
    }

    /// Judges a batch at `now`, which is valid, by what is seen of each member's bucket.
    #[inline(always)]
    pub(crate) fn judge(batch: &Batch<'_>, now: Timestamp, seen: &[BucketView<'_>]) -> Self {
        debug_assert_eq!(batch.members.len(), seen.len());
        let mut outcome = Self::new(now, []);
        let mut passes = true;
        for (member, seen) in batch.members.iter().zip(seen) {
            let answer = judge(batch.action(member), member, seen, now);
            passes &= answer.passed || !batch.votes(member);
            outcome.answers.push(answer);
        }
        if passes {
            let mut members = batch.members.iter().zip(&outcome.answers);
            outcome.no_room = members.position(|(member, answer)| {
                matches!(member.algorithm, Algorithm::Window(_))
                    && !has_room(batch.action(member), answer)
            });
        }
        if !passes || outcome.no_room.is_some() {
            let members = batch.members.iter().zip(seen);
            for ((member, seen), answer) in members.zip(&mut outcome.answers) {
                answer.state = untouched(member, seen, now);
                answer.passed &= member.mode.votes();
            }
        }
        outcome
    }

    /// The answers, in the order of the batch's members.
    #[doc(hidden)]
    #[must_use]
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The decision on the member at this index.
    #[inline(always)]
    pub(crate) fn decision(&self, batch: &Batch<'_>, index: usize, passes: bool) -> Decision {
        let (Some(member), Some(answer)) = (batch.members.get(index), self.answers.get(index))
        else {
            return Decision::NOT_LIMITED;
        };
        let other = self.algorithms.as_ref().and_then(|all| all.get(index));
        let (now, answer) = self.by_own_clock(index, answer);
        Decision::new(
            batch.action(member),
            member,
            other.unwrap_or(member.algorithm),
            &answer,
            Circumstances {
                now,
                passes,
                source: self.source,
            },
        )
    }

    /// The member, by its place in the batch, whose debit its window has no room to remember.
    #[inline(always)]
    pub(crate) fn no_room(&self) -> Option<usize> {
        self.no_room
    }

    /// Whether no voting member of `batch` is denied.
    #[must_use]
    #[inline(always)]
    pub(crate) fn passes(&self, batch: &Batch<'_>) -> bool {
        if self.no_room.is_some() {
            return false;
        }
        let mut members = batch.members.iter().zip(&self.answers);
        members.all(|(member, answer)| answer.passed || !batch.votes(member))
    }
}

/// Whether what is added to a window can be remembered: every other debit passes.
#[inline(always)]
fn has_room(action: Action, answer: &Answer) -> bool {
    answer.passed || !matches!(action, Action::Debit | Action::ProbeDebit)
}
