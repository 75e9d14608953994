#[cfg(feature = "tokio")]
mod leased;

use std::{collections::HashMap, sync::Arc};

use ahash::RandomState;

use smallvec::SmallVec;

#[cfg(feature = "tokio")]
pub(crate) use self::leased::OtherAnswer;
use super::{
    answer::Answer,
    answers::Answers,
    context::DecisionContext,
    decision::Decision,
    judgement::{AnyClaim, Buckets, Judgement},
    lease_figures::LeaseFigures,
    source::Source,
};
#[cfg(feature = "redis")]
use crate::algorithm::View;
use crate::{
    algorithm::{Algorithm, Stored},
    clock::{InvalidNow, Timestamp},
    few::{Any, Count},
    transaction::{Batch, Claim, Member, Operation},
};

/// A backend's answer to a [`Batch`]. The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The instant at which the batch was decided.
    pub now: Timestamp,
    /// In the order of the members.
    answers: Answers,
    source: Source,
    /// The index of a member whose debit does not fit into its window. Then nothing is decided,
    /// and nothing written.
    no_room: Option<usize>,
    /// What leases add to the answers; empty if no limit of the batch has leases.
    leases: SmallVec<[LeaseFigures; 4]>,
    /// The algorithms and clocks of the decision, unless all members used their own algorithms and one clock. Behind an
    /// `Arc`, because an absent `Arc` is dropped faster than an absent value.
    exceptions: Option<Arc<Exceptions>>,
}

/// For each member, in their order.
#[derive(Clone, Debug, Default)]
struct Exceptions {
    /// The algorithms that decided, if they differ from the members' own.
    algorithms: Option<Box<[Algorithm]>>,
    /// The instant by the clock of each member's server, if there are several.
    clocks: Option<Box<[Timestamp]>>,
}

impl Outcome {
    /// An outcome whose answers are in the order of the batch's members.
    #[must_use]
    pub fn new(now: Timestamp, answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::of(now, answers.into_iter().collect())
    }

    /// Creates the outcome of a batch of one member.
    #[cfg(feature = "tokio")]
    #[inline(always)]
    pub(crate) fn of_one(now: Timestamp, answer: Answer) -> Self {
        Self::of(now, Answers::One(answer))
    }

    #[inline(always)]
    fn of(now: Timestamp, answers: Answers) -> Self {
        Self {
            now,
            answers,
            source: Source::Store,
            no_room: None,
            leases: SmallVec::new(),
            exceptions: None,
        }
    }

    /// Sets the source of the decision, if it is not the store. Wrappers such as
    /// [`FailurePolicy`](crate::guide::failures) conclude from it whether the store has answered. The example
    /// `custom_wrapper` has a cache.
    #[inline(always)]
    #[must_use]
    pub fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Returns the source of the decision.
    #[cfg(feature = "tokio")]
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Sets the time by the clock of each member's server. Answers use the clock of [`now`](Self::now). Decisions use
    /// the clocks of their servers, on which the stored state depends.
    #[cfg(feature = "redis")]
    #[must_use]
    pub(crate) fn by_clocks(mut self, clocks: &[Timestamp]) -> Self {
        self.exceptions_mut().clocks = Some(clocks.into());
        self
    }

    /// Returns the time of the server that has decided the member at this index.
    #[cfg(feature = "failure-policy")]
    #[inline]
    pub(crate) fn time_of(&self, index: usize) -> Timestamp {
        let exceptions = self.exceptions.as_ref();
        let clocks = exceptions.and_then(|exceptions| exceptions.clocks.as_ref());
        let own = clocks.and_then(|clocks| clocks.get(index));
        own.copied().unwrap_or(self.now)
    }

    /// Sets the algorithms of the decision, if they differ from the members': one for each, in order.
    #[cfg(feature = "failure-policy")]
    #[must_use]
    pub(crate) fn decided_by(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let algorithms = algorithms.into_iter().collect();
        self.exceptions_mut().algorithms = Some(algorithms);
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
        if batch.operation == Operation::Renew {
            return Ok(Self::renew(batch, now, stored));
        }
        Ok(Self::of_buckets(batch, now, &mut StoredBuckets(stored)))
    }

    /// Decides a batch, whose buckets are at the places of its members.
    fn of_buckets<'b>(
        batch: &Batch<'b>,
        now: Timestamp,
        buckets: &mut impl Buckets<'b, Claim<'b>>,
    ) -> Self {
        let mut judged = Judgement::<Claim<'_>, Any>::new(batch.operation, batch.members.len());
        judged.claim(batch);
        judged.judge(buckets, now);
        Self::from(&judged)
    }

    /// Renews the members in order. Members of one bucket see what those before them have changed, and all of them have its
    /// last state in the end.
    fn renew(batch: &Batch<'_>, now: Timestamp, stored: &mut [Stored]) -> Self {
        let mut latest = HashMap::<_, usize, RandomState>::default();
        let mut answers = SmallVec::with_capacity(batch.members.len());
        for (place, member) in batch.members.iter().enumerate() {
            if let Some(before) = latest.insert(member.fingerprint, place) {
                stored[place] = stored[before].clone();
            }
            let (ask, algorithm) = (batch.ask(member), member.algorithm);
            let mut answer = Answer::UNKNOWN;
            let seen = stored[place].see(algorithm, now);
            seen.judge(&ask, now, |judged| answer.judge(judged));
            stored[place].keep(algorithm, ask.action, answer.state, now);
            answers.push(answer);
        }
        for (place, member) in batch.members.iter().enumerate() {
            if let Some(last) = latest
                .get(&member.fingerprint)
                .filter(|last| **last > place)
            {
                stored[place] = stored[*last].clone();
            }
        }
        Self::of(now, Answers::Several(answers))
    }

    /// Judges a batch that a store has decided in the same way. `see` returns the state that the store had of a member's
    /// bucket, by its place.
    #[cfg(feature = "redis")]
    pub(crate) fn judged<'v>(
        batch: &Batch<'v>,
        now: Timestamp,
        see: impl Fn(usize, &Claim<'v>) -> View<'v>,
    ) -> Self {
        Self::of_buckets(batch, now, &mut SeenBuckets(see))
    }

    #[cfg(feature = "failure-policy")]
    fn exceptions_mut(&mut self) -> &mut Exceptions {
        Arc::make_mut(self.exceptions.get_or_insert_default())
    }

    /// The answers, in the order of the batch's members.
    #[must_use]
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The answers, to change them.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn answers_mut(&mut self) -> &mut [Answer] {
        &mut self.answers
    }

    /// Returns whether there is an answer for each member.
    #[inline(always)]
    pub(crate) fn answers_all(&self, batch: &Batch<'_>) -> bool {
        self.answers.len() == batch.members.len()
    }

    /// Returns the decision on one member of the batch, by its index, with its figures and waits. Returns `None` if there
    /// is no answer for this member. The example `custom_wrapper` uses it.
    #[must_use]
    pub fn decision_on(&self, batch: &Batch<'_>, index: usize) -> Option<Decision> {
        self.decision_if(batch, index, self.passes(batch))
    }

    /// Returns the decision on one member, if the batch passes or not.
    pub(crate) fn decision_if(
        &self,
        batch: &Batch<'_>,
        index: usize,
        passes: bool,
    ) -> Option<Decision> {
        let mut decision = Decision::NOT_LIMITED;
        let is_answered = self.decide_on(batch, index, passes, &mut decision);
        is_answered.then_some(decision)
    }

    /// Returns the figures of the only member of a batch that charges nothing, as its bucket is. `member` is the same one with
    /// the cost in question.
    #[cold]
    pub(crate) fn peeked(&self, batch: &Batch<'_>, member: &Member<'_>) -> Option<Decision> {
        let mut decision = Decision::NOT_LIMITED;
        let is_answered = self.show(&batch.claim(member), false, 0, &mut decision);
        is_answered.then(|| decision.of_peek())
    }

    /// Writes the decision on the member at this index, if the batch passes or not. Returns whether the answer is one to
    /// this member. Decisions are large, so they are written where they stay.
    #[inline(always)]
    pub(crate) fn decide_on(
        &self,
        batch: &Batch<'_>,
        index: usize,
        passes: bool,
        decision: &mut Decision,
    ) -> bool {
        batch
            .members
            .get(index)
            .is_some_and(|member| self.show(&batch.claim(member), passes, index, decision))
    }

    #[inline(always)]
    fn show(&self, claim: &Claim<'_>, passes: bool, index: usize, decision: &mut Decision) -> bool {
        let context = DecisionContext {
            now: self.now,
            passes,
            source: self.source,
        };
        match self.answers.get(index) {
            Some(answer) if self.is_usual() && answer.known => {
                decision.show(claim.algorithm, claim, answer, context)
            }
            Some(answer) => self.show_unusual(context, claim, index, *answer, decision),
            None => false,
        }
    }

    /// Writes a decision by an algorithm or a clock of its own, or one on a bucket that nobody has looked at.
    #[inline(never)]
    fn show_unusual(
        &self,
        mut context: DecisionContext,
        claim: &Claim<'_>,
        index: usize,
        mut answer: Answer,
        decision: &mut Decision,
    ) -> bool {
        if !answer.known {
            *decision = Decision::NOT_LIMITED;
            return true;
        }
        let mut algorithm = claim.algorithm;
        let exceptions = self.exceptions.as_deref();
        let algorithms = exceptions.and_then(|exceptions| exceptions.algorithms.as_ref());
        if let Some(own) = algorithms.and_then(|all| all.get(index)) {
            algorithm = own;
        }
        let clocks = exceptions.and_then(|exceptions| exceptions.clocks.as_ref());
        if let Some(own) = clocks.and_then(|clocks| clocks.get(index)) {
            answer.state = answer.state.by_clock(self.now, *own);
            context.now = *own;
        }
        match self.leases.get(index) {
            None | Some(&LeaseFigures::NONE) => decision.show(algorithm, claim, &answer, context),
            Some(leased) => decision.show_leased(algorithm, claim, &answer, context, *leased),
        }
    }

    /// Returns whether all members used their own algorithms and one clock, and no limit has leases.
    #[inline(always)]
    fn is_usual(&self) -> bool {
        self.exceptions.is_none() && self.leases.is_empty()
    }

    /// Returns the index of a member whose debit does not fit into its window.
    #[inline(always)]
    pub(crate) fn no_room(&self) -> Option<usize> {
        self.no_room
    }

    /// Returns whether no voting member of `batch` is denied.
    #[must_use]
    pub(crate) fn passes(&self, batch: &Batch<'_>) -> bool {
        if self.no_room.is_some() {
            return false;
        }
        let mut members = batch.members.iter().zip(self.answers());
        members.all(|(member, answer)| answer.passed || !batch.votes(member))
    }
}

/// The states of a batch's buckets.
struct StoredBuckets<'s>(&'s mut [Stored]);

impl<'a> Buckets<'a, Claim<'a>> for StoredBuckets<'_> {
    fn judge(&mut self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        let seen = self.0[place].see(claim.algorithm, now);
        seen.judge(&claim.ask, now, |judged| answer.judge(judged));
    }

    fn take_nothing(&self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        let seen = self.0[place].see(claim.algorithm, now);
        answer.take_nothing(seen.untouched(&claim.ask, now), claim.votes);
    }

    fn write(&mut self, place: usize, claim: &Claim<'a>, answer: &Answer, now: Timestamp) {
        self.0[place].keep(claim.algorithm, claim.ask.action, answer.state, now);
    }
}

/// Buckets that their store has changed already, as they were before. The function returns one, by its place.
#[cfg(feature = "redis")]
struct SeenBuckets<F>(F);

#[cfg(feature = "redis")]
impl<'a, F: Fn(usize, &Claim<'a>) -> View<'a>> Buckets<'a, Claim<'a>> for SeenBuckets<F> {
    fn judge(&mut self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        self.0(place, claim).judge(&claim.ask, now, |judged| answer.judge(judged));
    }

    fn take_nothing(&self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        let state = self.0(place, claim).untouched(&claim.ask, now);
        answer.take_nothing(state, claim.votes);
    }

    fn write(&mut self, _: usize, _: &Claim<'a>, _: &Answer, _: Timestamp) {}
}

impl<'a, K: AnyClaim<'a>, C: Count> From<&Judgement<'a, K, C>> for Outcome {
    #[inline(always)]
    fn from(judged: &Judgement<'a, K, C>) -> Self {
        let answers = match judged.only_answer() {
            Some(answer) => Answers::One(answer),
            None => Answers::Several(judged.answers().collect()),
        };
        Self {
            now: judged.now(),
            answers,
            source: Source::Store,
            no_room: judged.no_room(),
            leases: SmallVec::new(),
            exceptions: None,
        }
    }
}
