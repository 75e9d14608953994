use std::sync::Arc;

use super::{answer::Answer, circumstances::Circumstances, decision::Decision, source::Source};
use crate::{
    algorithm::{Action, Algorithm, Ask, State, Stored, View},
    clock::{InvalidNow, Timestamp},
    one_or_many::OneOrMany,
    transaction::{Batch, Member},
};

/// A backend's answer to a [`Batch`]. The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The instant at which the batch was decided.
    pub now: Timestamp,
    /// In the order of the members.
    answers: OneOrMany<Answer>,
    source: Source,
    /// The index of a member whose debit does not fit into its window. Then nothing is decided,
    /// and nothing written.
    no_room: Option<usize>,
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
    #[inline(always)]
    pub(crate) fn of_one(now: Timestamp, answer: Answer) -> Self {
        Self::of(now, OneOrMany::One(answer))
    }

    #[inline(always)]
    fn of(now: Timestamp, answers: OneOrMany<Answer>) -> Self {
        Self {
            now,
            answers,
            source: Source::Store,
            no_room: None,
            exceptions: None,
        }
    }

    /// Creates the outcome of a batch of one member whose debit may not have room.
    #[inline]
    pub(crate) fn of_action(now: Timestamp, action: Action, answer: Answer) -> Self {
        let mut outcome = Self::of_one(now, answer);
        outcome.no_room = (!has_room(action, &answer)).then_some(0);
        outcome
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

    /// Returns the same outcome with other answers.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub(crate) fn with_answers(mut self, answers: smallvec::SmallVec<[Answer; 4]>) -> Self {
        self.answers = answers.into_iter().collect();
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
        let outcome = Self::judge(batch, now, |place, member| {
            stored[place].see(member.algorithm, now)
        });
        let members = batch.members.iter().zip(outcome.answers());
        for ((member, answer), stored) in members.zip(stored) {
            stored.keep(member.algorithm, batch.action(member), answer.state, now);
        }
        Ok(outcome)
    }

    /// Judges a batch at a valid `now`. `see` returns what is stored for a member, by its place. It is asked again for the
    /// figures of a denied batch.
    #[inline(always)]
    pub(crate) fn judge<'v>(
        batch: &Batch<'v>,
        now: Timestamp,
        mut see: impl FnMut(usize, &Member<'v>) -> View<'v>,
    ) -> Self {
        // The answers are written where they stay.
        let mut outcome = Self::of(now, OneOrMany::for_items(batch.members.len()));
        let (mut passes, mut no_room) = (true, None);
        for (place, member) in batch.members.iter().enumerate() {
            let ask = batch.ask(member);
            let answer = Answer::judged(see(place, member).judge(&ask, now));
            passes &= answer.passed || !batch.votes(member);
            if !has_room(ask.action, &answer) {
                no_room.get_or_insert(place);
            }
            outcome.answers.push(answer);
        }
        outcome.no_room = no_room.filter(|_| passes);
        if !passes || no_room.is_some() {
            outcome.take_nothing(batch, |place, member, ask| {
                see(place, member).untouched(ask, now)
            });
        }
        outcome
    }

    /// Shows the buckets of a denied batch as they are.
    #[cold]
    fn take_nothing<'v>(
        &mut self,
        batch: &Batch<'v>,
        mut untouched: impl FnMut(usize, &Member<'v>, &Ask<'v>) -> State,
    ) {
        let answers = batch.members.iter().zip(self.answers.iter_mut());
        for (place, (member, answer)) in answers.enumerate() {
            answer.state = untouched(place, member, &batch.ask(member));
            answer.taken = None;
            answer.passed &= member.mode.votes();
        }
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

    /// The answers, to add to them.
    #[cfg(feature = "tokio")]
    pub(crate) fn answers_mut(&mut self) -> &mut [Answer] {
        &mut self.answers
    }

    /// Returns whether there is an answer for each member.
    #[inline(always)]
    pub(crate) fn answers_all(&self, batch: &Batch<'_>) -> bool {
        match (&self.answers, batch.members) {
            (OneOrMany::One(_), [_]) => true,
            (_, members) => self.answers().len() == members.len(),
        }
    }

    /// Returns the decision on one member of the batch, by its index, with its figures and waits. Returns `None` if there
    /// is no answer for this member. The example `custom_wrapper` uses it.
    #[must_use]
    pub fn decision_on(&self, batch: &Batch<'_>, index: usize) -> Option<Decision> {
        self.decision(batch, index, self.passes(batch))
    }

    /// Returns the decision on the member at this index, or `None` if the answer is not one to this member.
    #[inline(never)]
    pub(crate) fn decision(
        &self,
        batch: &Batch<'_>,
        index: usize,
        passes: bool,
    ) -> Option<Decision> {
        let (member, answer) = (batch.members.get(index)?, self.answers.get(index)?);
        if !answer.known {
            return Some(Decision::NOT_LIMITED);
        }
        let (mut algorithm, mut answer, mut member) = (member.algorithm, *answer, member);
        let other: Member<'_>;
        let mut circumstances = self.circumstances(batch, member, passes);
        if let Some(exceptions) = &self.exceptions {
            let algorithms = exceptions.algorithms.as_ref();
            if let Some(own) = algorithms.and_then(|all| all.get(index)) {
                // Leases reserve nothing of a share of the limit.
                other = Member {
                    reserved: 0,
                    ..*member
                };
                (algorithm, member) = (own, &other);
            }
            let clocks = exceptions.clocks.as_ref();
            if let Some(own) = clocks.and_then(|clocks| clocks.get(index)) {
                answer.state = answer.state.by_clock(self.now, *own);
                circumstances.now = *own;
            }
        }
        Decision::new(algorithm, member, &answer, circumstances)
    }

    #[inline(always)]
    fn circumstances(&self, batch: &Batch<'_>, member: &Member<'_>, passes: bool) -> Circumstances {
        Circumstances {
            action: batch.action(member),
            now: self.now,
            passes,
            source: self.source,
        }
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

/// Returns whether a debit fits into its window. All other debits pass.
#[inline(always)]
fn has_room(action: Action, answer: &Answer) -> bool {
    answer.passed || !matches!(action, Action::Debit | Action::ProbeDebit)
}
