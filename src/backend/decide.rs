//! How a batch is decided, wherever the states of its buckets are.

use super::BackendError;
use crate::{
    algorithm::{
        Algorithm, AnyState, Arithmetic, State, Verb, Wait, concurrency::Permits, gcra::Ticks,
        quota::Usage, tiers::History, window::Units,
    },
    batch::{Batch, Member},
    clock::Timestamp,
    decision::{Answer, Outcome},
    transaction::Operation,
};

/// Where the states of a batch's buckets are, while it is decided.
pub(crate) trait Buckets:
    StateAccess<Ticks>
    + StateAccess<Units>
    + StateAccess<Usage>
    + StateAccess<Permits>
    + StateAccess<History>
{
    /// Makes a bucket full.
    fn reset(&mut self, place: usize, member: &Member<'_>);
}

/// Keeps the states of one kind. A state is taken out and put back, because a history is too large to be copied.
pub(crate) trait StateAccess<S> {
    /// Takes the state of the bucket of the member at this place.
    fn take(&mut self, place: usize, member: &Member<'_>) -> S;

    /// Puts a state back that has not changed.
    fn put_back(&mut self, place: usize, member: &Member<'_>, state: S);

    /// Stores a state that has changed. So many thousandths of the limit are used, until `full_at`.
    fn store(
        &mut self,
        place: usize,
        member: &Member<'_>,
        state: S,
        full_at: u64,
        used: u16,
        now: u64,
    );
}

/// Decides a batch in one step: judges all members, and changes all buckets or none. The answers are written to their places.
#[inline]
pub(crate) fn decide<B: Buckets>(
    batch: &Batch<'_>,
    answers: &mut [Answer],
    buckets: &mut B,
    now: u64,
) -> Result<(), BackendError> {
    if batch.operation == Operation::Reset {
        for (place, member) in batch.members.iter().enumerate() {
            buckets.reset(place, member);
        }
        return Ok(());
    }
    if batch.operation != Operation::Renew {
        return decide_together(batch, batch.members, 0, answers, buckets, now);
    }
    // Renewals are independent of each other, and several can be of one bucket.
    let each = batch
        .members
        .chunks(1)
        .zip(answers.chunks_mut(1))
        .enumerate();
    for (place, (member, answer)) in each {
        decide_together(batch, member, place, answer, buckets, now)?;
    }
    Ok(())
}

#[inline]
fn decide_together<B: Buckets>(
    batch: &Batch<'_>,
    members: &[Member<'_>],
    first: usize,
    answers: &mut [Answer],
    buckets: &mut B,
    now: u64,
) -> Result<(), BackendError> {
    let (Some((last, others)), Some((answer, answers))) =
        (members.split_last(), answers.split_last_mut())
    else {
        return Ok(());
    };
    let mut judgement = Judgement {
        batch,
        now,
        passes: true,
        no_room: None,
    };
    for ((place, member), answer) in (first..).zip(others).zip(&mut *answers) {
        visit_other(&mut judgement, Step::Judge, buckets, place, member, answer);
    }
    let place = first + others.len();
    // With the last member, the verdict on the batch is known.
    visit(&mut judgement, Step::Conclude, buckets, place, last, answer);
    for ((place, member), answer) in (first..).zip(others).zip(answers) {
        visit_other(&mut judgement, Step::Settle, buckets, place, member, answer);
    }
    match judgement.no_room {
        Some(member) => Err(BackendError::NoRoom { member }),
        None => Ok(()),
    }
}

/// What is known of members that are decided together.
struct Judgement<'a> {
    batch: &'a Batch<'a>,
    now: u64,
    passes: bool,
    /// The place of a debit that does not fit into its window. The batch fails for it, if it passes otherwise.
    no_room: Option<usize>,
}

/// What is done with a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is judged, and its bucket stays as it is.
    Judge,
    /// It is judged and settled.
    Conclude,
    /// Its bucket is changed if the batch passes, and its figures are taken.
    Settle,
}

/// Visits a member that is not alone in its batch.
#[inline(never)]
fn visit_other<B: Buckets>(
    judgement: &mut Judgement<'_>,
    step: Step,
    buckets: &mut B,
    place: usize,
    member: &Member<'_>,
    answer: &mut Answer,
) {
    visit(judgement, step, buckets, place, member, answer);
}

#[inline(always)]
fn visit<B: Buckets>(
    judgement: &mut Judgement<'_>,
    step: Step,
    buckets: &mut B,
    place: usize,
    member: &Member<'_>,
    answer: &mut Answer,
) {
    match member.algorithm() {
        Algorithm::Gcra(by) => judgement.visit(step, by, buckets, place, member, answer),
        Algorithm::Window(by) => judgement.visit(step, by, buckets, place, member, answer),
        Algorithm::Quota(by) => judgement.visit(step, by, buckets, place, member, answer),
        Algorithm::Concurrency(by) => judgement.visit(step, by, buckets, place, member, answer),
        Algorithm::Tiers(by) => judgement.visit(step, by, buckets, place, member, answer),
        Algorithm::Block(by) => judgement.visit(step, by, buckets, place, member, answer),
    }
}

impl Judgement<'_> {
    #[inline]
    fn visit<A: Arithmetic<State: Clone>>(
        &mut self,
        step: Step,
        by: &A,
        buckets: &mut impl StateAccess<A::State>,
        place: usize,
        member: &Member<'_>,
        answer: &mut Answer,
    ) {
        let mut state = buckets.take(place, member);
        // Even a denial stores what the limit reads differently. Otherwise, usage of a longer period would count in each of the
        // new periods.
        let decides = matches!(member.ask.verb, Verb::Spend | Verb::Debit);
        let is_adopted = decides && by.adopt(&mut state, self.now);
        if step != Step::Settle {
            answer.passed = by.judge(&member.ask, &state, self.now);
            self.passes &= answer.passed || !self.batch.votes(member);
            if !answer.passed && member.ask.verb == Verb::Debit {
                self.no_room.get_or_insert(place);
            }
        }
        if step == Step::Judge {
            return buckets.put_back(place, member, state);
        }
        if step == Step::Conclude {
            // A batch that is denied anyway needs no room.
            self.no_room = self.no_room.filter(|_| self.passes);
            self.passes &= self.no_room.is_none();
        }
        let ask = &member.ask;
        let applies = self.passes && answer.passed;
        // A member without a vote is not charged if the batch is denied.
        answer.passed &= self.passes || self.batch.votes(member);
        let mut stored = None;
        if applies && ask.cost > 0 {
            // What is not stored is changed in a copy, which is shown.
            stored = (!self.batch.writes(member)).then(|| state.clone());
            answer.charge = by.apply(ask, &mut state, self.now);
        }
        let figures = answer.figures.insert(by.figures(ask, &state, self.now));
        if !applies {
            figures.delay = Wait::ZERO;
        }
        let state = stored.unwrap_or(state);
        if is_adopted || applies && self.batch.writes(member) {
            let full_at = by.full_at(&state);
            let used = by.used(figures);
            buckets.store(place, member, state, full_at, used, self.now);
        } else {
            buckets.put_back(place, member, state);
        }
    }
}

impl Outcome {
    /// Decides a batch at `now`, with the state of each member's bucket in the members' order, and changes these states. The
    /// caller must store them before anyone else reads them. `None` is a bucket that nobody has used. Of a bucket with several
    /// renewals, the state at the first place counts, and the changed one is written to each.
    ///
    /// # Errors
    ///
    /// If `now` is at or beyond [`Timestamp::END`], or if a debit does not fit into its window. Nothing is charged then.
    pub fn decide(
        batch: &Batch<'_>,
        now: Timestamp,
        states: &mut [Option<State>],
    ) -> Result<Self, BackendError> {
        now.validate()?;
        let mut outcome = Self::unanswered(batch);
        let mut shared = States { batch, states };
        decide(batch, &mut outcome.answers, &mut shared, now.as_micros())?;
        shared.copy_to_all_places();
        Ok(outcome)
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
        let key = self.batch.members[place].key();
        let first = members.iter().position(|member| member.key() == key);
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

impl<S: AnyState> StateAccess<S> for States<'_> {
    fn take(&mut self, place: usize, _: &Member<'_>) -> S {
        let place = self.first(place);
        let state = self.states[place].take();
        state.and_then(S::of_state).unwrap_or_default()
    }

    fn put_back(&mut self, place: usize, _: &Member<'_>, state: S) {
        let place = self.first(place);
        self.states[place] = (state != S::default()).then(|| state.into_state());
    }

    fn store(&mut self, place: usize, _: &Member<'_>, state: S, full_at: u64, _: u16, now: u64) {
        let place = self.first(place);
        self.states[place] = (full_at > now).then(|| state.into_state());
    }
}
