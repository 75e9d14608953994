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
    /// The algorithms of the decision, if they differ from the members'.
    algorithms: Option<Box<[Algorithm]>>,
    /// The instant by the clock of each member's server, if there are several.
    #[cfg(feature = "redis")]
    clocks: Option<Box<[Timestamp]>>,
    source: Source,
    /// The index of a member whose debit does not fit into its window. Then nothing is decided,
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

    /// Creates the outcome of a batch of one member.
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

    /// Creates the outcome of a batch of one member with a window.
    #[inline]
    pub(crate) fn of_window(now: Timestamp, action: Action, answer: Answer) -> Self {
        let mut outcome = Self::of_one(now, answer);
        outcome.no_room = (!has_room(action, &answer)).then_some(0);
        outcome
    }

    /// Sets the source of the decision, if it is not the store.
    #[must_use]
    pub(crate) fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Returns the same outcome with other answers.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub(crate) fn with_answers(mut self, answers: SmallVec<[Answer; 4]>) -> Self {
        self.answers = answers;
        self
    }

    /// Returns the source of the decision.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Sets the time by the clock of each member's server. Answers use the clock of [`now`](Self::now).
    /// Decisions use the clocks of their servers, because the stored state depends on those.
    #[cfg(feature = "redis")]
    #[must_use]
    pub(crate) fn by_clocks(mut self, clocks: &[Timestamp]) -> Self {
        self.clocks = Some(clocks.into());
        self
    }

    /// Returns the instant and the answer of a member, by the clock of its server.
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

    /// Sets the algorithms of the decision, if they differ from the members': one for each, in order.
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

    /// Judges a batch at a valid `now`, by the state of each member's bucket.
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

    /// Returns the decision on the member at this index.
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

    /// Returns the index of a member whose debit does not fit into its window.
    #[inline(always)]
    pub(crate) fn no_room(&self) -> Option<usize> {
        self.no_room
    }

    /// Returns whether no voting member of `batch` is denied.
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

/// Returns whether a debit fits into its window. All other debits pass.
#[inline(always)]
fn has_room(action: Action, answer: &Answer) -> bool {
    answer.passed || !matches!(action, Action::Debit | Action::ProbeDebit)
}
