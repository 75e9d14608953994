//! What a backend stores and answers, and how a batch is judged.

use smallvec::SmallVec;

use super::{
    Decision, Source,
    stored::{BucketView, Stored},
};
use crate::{
    clock::{InvalidNow, Timestamp},
    gcra::{Gcra, Tat},
    tiers::{Grant, TierSnapshot, Tiers, View},
    transaction::{Action, Algorithm, Batch, Member},
};

/// What a decision knows of one bucket.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The theoretical arrival time of a GCRA bucket.
    Gcra(Tat),
    /// How a bucket with tiers stands, counted from the instant of the decision.
    Tiers(TierSnapshot),
}

impl State {
    /// The state of a bucket of which nothing is stored: full.
    pub const MISSING: Self = Self::Gcra(Tat { us: 0, frac: 0 });

    /// The state that is as far from `to` as this one is from `from`: the same bucket, told by another
    /// clock. A missing bucket is full by all of them.
    #[must_use]
    pub(crate) fn by_clock(self, from: Timestamp, to: Timestamp) -> Self {
        match self {
            Self::Gcra(mut tat) if tat.us > 0 => {
                let later = to.as_micros().saturating_sub(from.as_micros());
                let earlier = from.as_micros().saturating_sub(to.as_micros());
                tat.us = tat.us.saturating_add(later).saturating_sub(earlier);
                Self::Gcra(tat.storable())
            }
            state => state,
        }
    }
}

/// A backend's answer for one member of a batch.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// How the bucket stands afterwards.
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
    source: Source,
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
            source: Source::Store,
        }
    }

    /// The outcome of a batch of one member.
    #[inline(always)]
    pub(crate) fn of_one(now: Timestamp, answer: Answer) -> Self {
        let mut outcome = Self {
            now,
            answers: SmallVec::new(),
            algorithms: None,
            source: Source::Store,
        };
        outcome.answers.push(answer);
        outcome
    }

    /// Says who has decided, if it is not where the buckets are kept.
    #[must_use]
    pub(crate) fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Who has decided.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Says that the members were decided by other algorithms than theirs: one for each, in their order.
    #[cfg(feature = "failure-policy")]
    #[must_use]
    pub(crate) fn decided_by(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = Some(algorithms.into_iter().collect());
        self
    }

    /// Decides a batch at `now` on what is stored for each member, in the members' order, and changes that
    /// accordingly: for the caller to store, before anyone else reads it.
    ///
    /// # Errors
    ///
    /// If `now` is at or beyond [`Timestamp::END`]. Then nothing is changed.
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
        if !passes {
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
        Decision::new(
            batch.action(member),
            member,
            other.unwrap_or(member.algorithm),
            answer,
            Circumstances {
                now: self.now,
                passes,
                source: self.source,
            },
        )
    }

    /// Whether no voting member of `batch` is denied.
    #[must_use]
    #[inline(always)]
    pub(crate) fn passes(&self, batch: &Batch<'_>) -> bool {
        let mut members = batch.members.iter().zip(&self.answers);
        members.all(|(member, answer)| answer.passed || !batch.votes(member))
    }
}

/// What a member's decision needs to know of its batch.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    pub(super) now: Timestamp,
    pub(super) passes: bool,
    pub(super) source: Source,
}

/// What becomes of one member if the batch passes.
#[inline(always)]
fn judge(action: Action, member: &Member<'_>, seen: &BucketView<'_>, now: Timestamp) -> Answer {
    match member.algorithm {
        _ if action == Action::Reset => Answer::new(State::MISSING, true),
        Algorithm::Gcra(gcra) => judge_gcra(action, member, gcra, seen.tat(), now),
        Algorithm::Tiers(tiers) => seen.with_view(tiers, now, |view| {
            judge_tiers(action, member, tiers, view.clone())
        }),
    }
}

#[inline(always)]
pub(crate) fn judge_gcra(
    action: Action,
    member: &Member<'_>,
    gcra: &Gcra,
    tat: Tat,
    now: Timestamp,
) -> Answer {
    let at = now.as_micros();
    let next = match action {
        Action::Probe | Action::Spend => gcra.spend(tat, at, member.cost),
        Action::ProbeDebit | Action::Debit => Some(gcra.debit(tat, at, member.cost)),
        Action::Refund => gcra.refund_span(tat, at, member.refund(gcra)),
        Action::Keep => None,
        Action::Reset => return Answer::new(State::MISSING, true),
    };
    let probes = matches!(action, Action::Probe | Action::ProbeDebit);
    let state = State::Gcra(next.filter(|_| !probes).unwrap_or(tat));
    Answer::new(state, next.is_some())
}

/// The state is that of after the grant, whether it will be written or not: nobody can tell it later.
#[inline]
fn judge_tiers(action: Action, member: &Member<'_>, tiers: &Tiers, view: View<'_>) -> Answer {
    let asks = matches!(action, Action::Probe | Action::Spend);
    let least = member.min_cost.max(1);
    let grant = view.plan(tiers, least, member.cost).filter(|_| asks);
    let view = match grant {
        Some(grant) => view.after(tiers, grant),
        None => view,
    };
    let figures = view.figures(tiers, least, grant.unwrap_or_default());
    Answer::new(State::Tiers(figures), grant.is_some())
}

/// How the bucket of a member stands if nothing is taken from it.
#[inline(never)]
fn untouched(member: &Member<'_>, seen: &BucketView<'_>, now: Timestamp) -> State {
    match member.algorithm {
        Algorithm::Gcra(_) => State::Gcra(seen.tat()),
        Algorithm::Tiers(tiers) => seen.with_view(tiers, now, |view| {
            let least = member.min_cost.max(1);
            State::Tiers(view.figures(tiers, least, Grant::default()))
        }),
    }
}
