//! What a backend stores and answers, and how a batch is judged.

use smallvec::SmallVec;

use super::Decision;
use crate::{
    clock::{InvalidNow, Timestamp},
    gcra::{Gcra, Tat},
    transaction::{Algorithm, Batch, Member, Mode, Operation},
};

/// What is stored for one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The theoretical arrival time of a GCRA bucket.
    Gcra(Tat),
}

impl State {
    /// The state of a bucket of which nothing is stored: full.
    pub const MISSING: Self = Self::Gcra(Tat { us: 0, frac: 0 });

    /// The state that is as far from `to` as this one is from `from`: the same bucket, told by another
    /// clock. A missing bucket is full by all of them.
    #[must_use]
    pub fn by_clock(self, from: Timestamp, to: Timestamp) -> Self {
        let Self::Gcra(mut tat) = self;
        if tat.us > 0 {
            let later = to.as_micros().saturating_sub(from.as_micros());
            let earlier = from.as_micros().saturating_sub(to.as_micros());
            tat.us = tat.us.saturating_add(later).saturating_sub(earlier);
        }
        Self::Gcra(tat)
    }
}

/// A backend's answer for one member of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// What is stored afterwards.
    pub state: State,
    /// Whether the member's own cost fits, if it votes; whether it is charged (for a check: would
    /// be), if it does not; whether anything was given back, for a refund.
    pub passed: bool,
    /// Whether the backend has looked at the bucket. If not, the member is as good as not limited.
    pub known: bool,
}

impl Answer {
    /// The answer for a bucket that was not looked at: it passes, and there are no figures.
    pub const UNKNOWN: Self = Self {
        state: State::MISSING,
        passed: true,
        known: false,
    };

    /// An answer.
    #[must_use]
    pub const fn new(state: State, passed: bool) -> Self {
        Self {
            state,
            passed,
            known: true,
        }
    }
}

/// A backend's answer to a [`Batch`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The instant at which the batch was decided.
    pub now: Timestamp,
    answers: SmallVec<[Answer; 4]>,
    /// The algorithms by which it was decided, if they are not the members'.
    algorithms: Option<Box<[Algorithm]>>,
}

impl Outcome {
    /// An outcome whose answers are in the order of the batch's members.
    #[must_use]
    pub fn new(now: Timestamp, answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            now,
            answers: answers.into_iter().collect(),
            algorithms: None,
        }
    }

    /// Says that the members were decided by other algorithms than theirs: one for each, in their order.
    #[must_use]
    pub fn decided_by(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = Some(algorithms.into_iter().collect());
        self
    }

    /// Judges a batch at `now` from what is stored for each member, in the members' order.
    ///
    /// Writes nothing: whatever [`Answer::state`] differs from what was stored is for the caller
    /// to store, before anyone else reads it.
    ///
    /// # Errors
    ///
    /// If `now` is at or beyond [`Timestamp::END`].
    #[inline(always)]
    pub fn decide(batch: &Batch<'_>, now: Timestamp, stored: &[State]) -> Result<Self, InvalidNow> {
        debug_assert_eq!(batch.members.len(), stored.len());
        now.validate()?;
        let mut answers = SmallVec::<[Answer; 4]>::new();
        let mut passes = true;
        for (member, state) in batch.members.iter().zip(stored) {
            let answer = judge(batch.operation, member, *state, now);
            passes &= answer.passed || !may_deny(batch.operation, member);
            answers.push(answer);
        }
        if !passes {
            for ((member, state), answer) in batch.members.iter().zip(stored).zip(&mut answers) {
                answer.state = *state;
                answer.passed &= member.mode.votes();
            }
        }
        Ok(Self {
            now,
            answers,
            algorithms: None,
        })
    }

    /// The answers, in the order of the batch's members.
    #[must_use]
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The decisions on the batch's members, in their order.
    #[inline]
    pub(crate) fn decisions(&self, batch: &Batch<'_>) -> impl Iterator<Item = Decision> {
        let standing = Standing {
            now: self.now,
            passes: self.passes(batch),
        };
        let members = batch.members.iter().zip(&self.answers).enumerate();
        members.map(move |(i, (member, answer))| {
            let other = self.algorithms.as_ref().and_then(|others| others.get(i));
            let algorithm = other.unwrap_or(member.algorithm);
            let member = Member {
                algorithm,
                ..*member
            };
            Decision::new(batch.operation, &member, *answer, standing)
        })
    }

    /// Whether no voting member of `batch` is denied.
    #[must_use]
    #[inline]
    pub fn passes(&self, batch: &Batch<'_>) -> bool {
        let mut members = batch.members.iter().zip(&self.answers);
        members.all(|(member, answer)| answer.passed || !may_deny(batch.operation, member))
    }
}

/// Whether the batch is denied if this member does not pass.
#[inline(always)]
fn may_deny(operation: Operation, member: &Member<'_>) -> bool {
    matches!(operation, Operation::Check | Operation::Spend) && member.mode.votes()
}

/// What a member's decision needs to know of its batch.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    pub(super) now: Timestamp,
    pub(super) passes: bool,
}

/// What becomes of one member if the batch passes.
#[inline(always)]
fn judge(operation: Operation, member: &Member<'_>, state: State, now: Timestamp) -> Answer {
    let (Algorithm::Gcra(gcra), State::Gcra(tat)) = (member.algorithm, state);
    match operation {
        Operation::Check | Operation::Spend => {
            let next = charged(gcra, tat, now, member);
            let writes = operation == Operation::Spend && member.mode.spends() && member.cost > 0;
            let state = State::Gcra(next.filter(|_| writes).unwrap_or(tat));
            Answer::new(state, next.is_some())
        }
        Operation::Refund if member.mode.spends() => {
            let after = gcra.refund(tat, now.as_micros(), member.cost);
            Answer::new(State::Gcra(after.unwrap_or(tat)), after.is_some())
        }
        Operation::Refund => Answer::new(state, false),
        Operation::Reset => Answer::new(State::MISSING, true),
    }
}

#[inline(always)]
pub(super) fn charged(gcra: &Gcra, tat: Tat, now: Timestamp, member: &Member<'_>) -> Option<Tat> {
    match member.mode {
        Mode::Debit => Some(gcra.debit(tat, now.as_micros(), member.cost)),
        _ => gcra.spend(tat, now.as_micros(), member.cost),
    }
}
