//! The answers to a batch while it is judged.

use super::answer::Answer;
use crate::{
    algorithm::{Action, Ask, Judged, State},
    clock::Timestamp,
    few::Count,
    transaction::{Member, Operation},
};

/// The answers to a batch, each at the place of its member.
pub(crate) struct Judgement<C: Count> {
    pub(super) now: Timestamp,
    operation: Operation,
    answers: C::Of<Answer>,
    passes: bool,
    /// The place of a member whose debit has no room.
    no_room: Option<usize>,
}

impl<C: Count> Judgement<C> {
    /// Begins with a batch of so many members.
    #[inline(always)]
    pub(crate) fn new(operation: Operation, len: usize) -> Self {
        Self {
            now: Timestamp::default(),
            operation,
            answers: C::fill(len, || Answer::UNKNOWN),
            passes: true,
            no_room: None,
        }
    }

    /// Sets the time of the decision.
    #[inline(always)]
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Judges the member at a place.
    #[inline(always)]
    pub(crate) fn judge<'m>(
        &mut self,
        place: usize,
        member: &Member<'m>,
        judge: impl FnOnce(Ask<'m>) -> Judged<State>,
    ) {
        let ask = self.operation.ask(member);
        let answer = &mut self.answers.as_mut()[place];
        answer.judge(judge(ask));
        self.passes &= answer.passed || !(self.operation.asks_for_votes() && member.mode.votes());
        if !answer.passed && matches!(ask.action, Action::Debit | Action::ProbeDebit) {
            self.no_room.get_or_insert(place);
        }
    }

    /// Shows the bucket of the member at a place as it is, because the batch is denied.
    #[inline(always)]
    pub(crate) fn take_nothing<'m>(
        &mut self,
        place: usize,
        member: &Member<'m>,
        untouched: impl FnOnce(Ask<'m>) -> State,
    ) {
        let ask = self.operation.ask(member);
        let answer = &mut self.answers.as_mut()[place];
        answer.state = untouched(ask);
        answer.taken = None;
        answer.passed &= member.mode.votes();
    }

    /// Returns whether the batch passes.
    #[inline(always)]
    pub(crate) fn passes(&self) -> bool {
        self.passes && self.no_room.is_none()
    }

    /// Returns the place of a member whose debit does not fit into its window, in a batch that would pass otherwise.
    #[inline(always)]
    pub(crate) fn no_room(&self) -> Option<usize> {
        self.no_room.filter(|_| self.passes)
    }

    #[inline(always)]
    pub(crate) fn answers(&self) -> &[Answer] {
        self.answers.as_ref()
    }

    #[inline(always)]
    pub(crate) fn answer(&self, place: usize) -> &Answer {
        &self.answers.as_ref()[place]
    }

    /// Returns whether the batch gives something back.
    #[cfg(feature = "tokio")]
    #[inline(always)]
    pub(crate) fn gives_back(&self) -> bool {
        matches!(self.operation, Operation::Refund | Operation::Reset)
    }

    /// Returns the action on the bucket of a member.
    #[inline(always)]
    pub(crate) fn action(&self, member: &Member<'_>) -> Action {
        self.operation.action(member)
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }
}
