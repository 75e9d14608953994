//! Decides batches, for any backend that can give the states of the buckets and store them.

use std::time::Duration;

use smallvec::SmallVec;

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

/// Gives access to the states of a batch's buckets while it is decided.
pub(crate) trait Buckets:
    StateAccess<Ticks>
    + StateAccess<Units>
    + StateAccess<Usage>
    + StateAccess<Permits>
    + StateAccess<History>
{
    /// Makes a bucket full.
    fn reset(&mut self, index: usize, member: &Member<'_>);
}

/// Gives access to the states of one kind of algorithm. A state is taken out and put back, because histories are too large to be
/// copied.
pub(crate) trait StateAccess<S> {
    /// Takes the state of the bucket of the member at this index.
    fn take(&mut self, index: usize, member: &Member<'_>) -> S;

    /// Puts an unchanged state back.
    fn put_back(&mut self, index: usize, member: &Member<'_>, state: S);

    /// Stores a changed state. `used` is the used part of the limit, in thousandths, and `full_at` is the instant from which the
    /// bucket is full.
    fn store(
        &mut self,
        index: usize,
        member: &Member<'_>,
        state: S,
        full_at: u64,
        used: u16,
        now: u64,
    );
}

/// Decides a batch in one step: judges all members, and changes all buckets or none. Each answer is written at the index of its member.
#[inline]
pub(crate) fn decide<B: Buckets>(
    batch: &Batch<'_>,
    answers: &mut [Answer],
    buckets: &mut B,
    now: u64,
) -> Result<(), BackendError> {
    if batch.operation == Operation::Reset {
        for (index, member) in batch.members.iter().enumerate() {
            buckets.reset(index, member);
        }
        return Ok(());
    }
    if batch.operation != Operation::Renew {
        return decide_together(batch, batch.members, 0, answers, buckets, now);
    }
    // Renewals are independent of each other, and several of them can be about one bucket.
    let each = batch
        .members
        .chunks(1)
        .zip(answers.chunks_mut(1))
        .enumerate();
    for (index, (member, answer)) in each {
        decide_together(batch, member, index, answer, buckets, now)?;
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
    for ((index, member), answer) in (first..).zip(others).zip(&mut *answers) {
        visit_other(&mut judgement, Step::Judge, buckets, index, member, answer);
    }
    let index = first + others.len();
    // The last member completes the verdict on the batch, so it is judged and settled in one visit.
    visit(&mut judgement, Step::Conclude, buckets, index, last, answer);
    for ((index, member), answer) in (first..).zip(others).zip(answers) {
        visit_other(&mut judgement, Step::Settle, buckets, index, member, answer);
    }
    match judgement.no_room {
        Some(member) => Err(BackendError::NoRoom { member }),
        None => Ok(()),
    }
}

/// The verdict on members that are decided together, as far as it is known.
struct Judgement<'a> {
    batch: &'a Batch<'a>,
    now: u64,
    passes: bool,
    /// The index of the first debit that does not fit into its window. It makes the batch an error if the other members pass.
    no_room: Option<usize>,
}

/// What a visit does with a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It judges the member, and leaves the bucket as it is.
    Judge,
    /// It judges and settles the member.
    Conclude,
    /// It changes the bucket if the batch passes, and takes the figures.
    Settle,
}

/// Visits a member of a larger batch. It is not inlined, so that batches of one member stay fast.
#[inline(never)]
fn visit_other<B: Buckets>(
    judgement: &mut Judgement<'_>,
    step: Step,
    buckets: &mut B,
    index: usize,
    member: &Member<'_>,
    answer: &mut Answer,
) {
    visit(judgement, step, buckets, index, member, answer);
}

#[inline(always)]
fn visit<B: Buckets>(
    judgement: &mut Judgement<'_>,
    step: Step,
    buckets: &mut B,
    index: usize,
    member: &Member<'_>,
    answer: &mut Answer,
) {
    match member.algorithm() {
        Algorithm::Gcra(by) => judgement.visit(step, by, buckets, index, member, answer),
        Algorithm::Window(by) => judgement.visit(step, by, buckets, index, member, answer),
        Algorithm::Quota(by) => judgement.visit(step, by, buckets, index, member, answer),
        Algorithm::Concurrency(by) => judgement.visit(step, by, buckets, index, member, answer),
        Algorithm::Tiers(by) => judgement.visit(step, by, buckets, index, member, answer),
        Algorithm::Block(by) => judgement.visit(step, by, buckets, index, member, answer),
    }
}

impl Judgement<'_> {
    #[inline]
    fn visit<A: Arithmetic<State: Clone>>(
        &mut self,
        step: Step,
        by: &A,
        buckets: &mut impl StateAccess<A::State>,
        index: usize,
        member: &Member<'_>,
        answer: &mut Answer,
    ) {
        let mut state = buckets.take(index, member);
        // An adapted state is stored even if the request is denied. Otherwise, usage of an earlier, longer period would count again
        // in each of the new periods.
        let decides = matches!(member.ask.verb, Verb::Spend | Verb::Debit);
        let is_adopted = decides && by.adopt(&mut state, self.now);
        if step != Step::Settle {
            answer.passed = by.judge(&member.ask, &state, self.now);
            self.passes &= answer.passed || !self.batch.votes(member);
            if !answer.passed && member.ask.verb == Verb::Debit {
                self.no_room.get_or_insert(index);
            }
        }
        if step == Step::Judge {
            return buckets.put_back(index, member, state);
        }
        if step == Step::Conclude {
            // Missing room is no error in a batch that is denied anyway.
            self.no_room = self.no_room.filter(|_| self.passes);
            self.passes &= self.no_room.is_none();
        }
        let ask = &member.ask;
        let applies = self.passes && answer.passed;
        // A member without a vote is not charged if the batch is denied.
        answer.passed &= self.passes || self.batch.votes(member);
        let mut stored = None;
        if applies && ask.cost > 0 {
            // A check changes a copy of the state, from which the figures are taken. The stored state stays.
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
            buckets.store(index, member, state, full_at, used, self.now);
        } else {
            buckets.put_back(index, member, state);
        }
    }
}

impl Batch<'_> {
    /// Decides the batch at an instant, by the states of its buckets in the order of [`keys`](Self::keys). `None`, or a missing
    /// state, is a full bucket. Returns the outcome, and the changes that the store must make before these buckets are read again.
    ///
    /// The outcome is an error if `now` is at or beyond [`Timestamp::END`], or if a debit does not fit into its window. Nothing is
    /// charged then, but a bucket whose limit has changed may have to be stored in its new form.
    pub fn decide(
        &self,
        now: Timestamp,
        states: impl IntoIterator<Item = Option<State>>,
    ) -> (Result<Outcome, BackendError>, Vec<BucketChange>) {
        if !now.is_valid() {
            return (Err(BackendError::InvalidNow(now)), Vec::new());
        }
        let mut states = states.into_iter();
        let mut loaded = LoadedBuckets {
            batch: self,
            buckets: self
                .members
                .iter()
                .map(|_| LoadedBucket::new(states.next().flatten()))
                .collect(),
        };
        let mut outcome = Outcome::unanswered(self);
        let decided = decide(self, &mut outcome.answers, &mut loaded, now.as_micros());
        (decided.map(|()| outcome), loaded.changes())
    }
}

/// A change of a bucket, which a store makes for a batch that it has [decided](Batch::decide).
/// The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketChange {
    /// The index of the bucket among the batch's [keys](Batch::keys). Each bucket changes once. If a key occurs several times, this
    /// is the first index.
    pub index: usize,
    /// The state to store, or `None` to remove the bucket, which is full.
    pub state: Option<State>,
    /// The time until the bucket is full, from the instant of the decision; `None` if that never comes. The store can remove the
    /// bucket after this time by its own clock, even if the batch was decided by another clock.
    pub full_after: Option<Duration>,
}

/// The buckets of a batch, in the order of its members.
struct LoadedBuckets<'a> {
    batch: &'a Batch<'a>,
    buckets: SmallVec<[LoadedBucket; 4]>,
}

struct LoadedBucket {
    state: Option<State>,
    is_stored: bool,
    /// The time until the bucket is full, if it has changed.
    change: Option<Wait>,
}

impl LoadedBucket {
    fn new(state: Option<State>) -> Self {
        Self {
            is_stored: state.is_some(),
            state,
            change: None,
        }
    }
}

impl LoadedBuckets<'_> {
    /// Returns the bucket of the member at an index. Renewals of one bucket share the element of the first of them.
    fn bucket(&mut self, index: usize) -> &mut LoadedBucket {
        let members = self.batch.members;
        let mut first = index;
        if self.batch.operation == Operation::Renew {
            let key = members[index].key();
            let same = members.iter().position(|member| member.key() == key);
            first = same.unwrap_or(index);
        }
        &mut self.buckets[first]
    }

    fn changes(self) -> Vec<BucketChange> {
        let buckets = self.buckets.into_iter().enumerate();
        buckets
            .filter_map(|(index, bucket)| {
                let full_after = bucket.change?;
                // There is no stored bucket to remove.
                let is_change = bucket.is_stored || bucket.state.is_some();
                is_change.then_some(BucketChange {
                    index,
                    state: bucket.state,
                    full_after: full_after.duration(),
                })
            })
            .collect()
    }
}

impl Buckets for LoadedBuckets<'_> {
    fn reset(&mut self, index: usize, _: &Member<'_>) {
        let bucket = self.bucket(index);
        bucket.state = None;
        bucket.change = Some(Wait::ZERO);
    }
}

impl<S: AnyState> StateAccess<S> for LoadedBuckets<'_> {
    fn take(&mut self, index: usize, _: &Member<'_>) -> S {
        let state = self.bucket(index).state.clone();
        state.and_then(S::of_state).unwrap_or_default()
    }

    /// The state was taken as a copy, so there is nothing to put back.
    fn put_back(&mut self, _: usize, _: &Member<'_>, _: S) {}

    fn store(&mut self, index: usize, _: &Member<'_>, state: S, full_at: u64, _: u16, now: u64) {
        let bucket = self.bucket(index);
        bucket.state = (full_at > now).then(|| state.into_state());
        bucket.change = Some(Wait::until(full_at, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algorithm::Ask,
        batch::MemberRole,
        id::client_hash,
        limit::{Limit, Limits},
    };

    const SECOND: Duration = Duration::from_secs(1);
    const T: u64 = 1_767_225_600_000_000;

    /// Asks two buckets at an instant, and returns their changes.
    fn decide_both(
        operation: Operation,
        now: u64,
        costs: [u32; 2],
        states: &[Option<State>],
    ) -> Vec<BucketChange> {
        let limits = Limits::builder().limit("a", Limit::per_second(1).burst(2));
        let limits = limits.limit("b", Limit::per_second(1)).build().unwrap();
        let members = ["a", "b"].into_iter().zip(costs).map(|(name, cost)| {
            let ask = Ask::new(Verb::Peek, cost);
            let id = ("x", client_hash("x"));
            Member::prepared(
                operation,
                limits.get(name).unwrap(),
                id,
                None,
                ask,
                MemberRole::default(),
            )
        });
        let members: Vec<_> = members.collect();
        let batch = Batch::new(operation, &members);
        let (outcome, changes) = batch.decide(Timestamp::from_micros(now), states.iter().cloned());
        outcome.unwrap();
        changes
    }

    #[test]
    fn changes_are_those_of_buckets_that_are_written() {
        let changes = decide_both(Operation::Spend, T, [2, 1], &[]);
        let after: Vec<_> = changes.iter().map(|c| (c.index, c.full_after)).collect();
        assert_eq!(after, [(0, Some(2 * SECOND)), (1, Some(SECOND))]);
        let states: Vec<_> = changes.into_iter().map(|change| change.state).collect();

        for (operation, now, costs, first, expected) in [
            // The second bucket denies the batch.
            (Operation::Spend, T + 500_000, [1, 1], &states[0], &[][..]),
            (Operation::Check, T + 3_000_000, [1, 1], &states[0], &[]),
            // A refund of nothing changes nothing, and the other bucket is full.
            (Operation::Refund, T, [2, 0], &states[0], &[0]),
            (Operation::Reset, T, [1, 1], &states[0], &[0, 1]),
            // There is nothing to remove.
            (Operation::Reset, T, [1, 1], &None, &[1]),
        ] {
            let stored = [first.clone(), states[1].clone()];
            let changes = decide_both(operation, now, costs, &stored);
            let removed: Vec<_> = changes.iter().map(|change| change.index).collect();
            assert_eq!(removed, expected, "{operation:?}");
            assert!(changes.iter().all(|change| change.state.is_none()));
        }
    }
}
