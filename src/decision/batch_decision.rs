use std::time::Duration;

use smallvec::SmallVec;

use super::decision::Decision;

/// The decision on a batch: the decision on its strictest voting member, and those on all members. [`Limiter`](crate::Limiter) has
/// an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchDecision(SmallVec<[Decision; 4]>);

impl BatchDecision {
    pub(crate) fn new(members: SmallVec<[Decision; 4]>) -> Self {
        Self(members)
    }

    /// Returns whether the request may proceed: no member with a vote was denied.
    #[must_use]
    pub fn allowed(&self) -> bool {
        !self.0.iter().any(Decision::denies)
    }

    /// Returns the time that the request waits before it proceeds: the longest [delay](Decision::delay) of a member,
    /// and zero if the batch is denied.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.0.iter().map(Decision::delay).max().unwrap_or_default()
    }

    /// Returns the time after which a denied batch would be admitted, which is that of its [strictest member](Self::decision). Zero
    /// if the batch is allowed; `None` if the time is not known or the batch is never admitted.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.decision().retry_after()
    }

    /// Returns whether a refund returned anything, for any member.
    #[must_use]
    pub fn refunded(&self) -> bool {
        self.0.iter().any(Decision::refunded)
    }

    /// The decision on the whole batch, which is that on its strictest voting member. A denied member is stricter than an allowed
    /// one, then the one with the longer wait, then the one with fewer tokens. If no voting member has a limit, the batch is not
    /// limited.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        self.strictest()
            .map_or(const { &Decision::NOT_LIMITED }, |index| &self.0[index])
    }

    /// The index of the [strictest member](Self::decision), the first of several that are equal.
    #[must_use]
    pub fn strictest(&self) -> Option<usize> {
        strictest(&self.0)
    }

    /// The decisions on the members, in the order of the transactions.
    #[must_use]
    pub fn members(&self) -> &[Decision] {
        &self.0
    }
}

/// Returns the index of the strictest decision with a vote, the first of several that are equal.
pub(crate) fn strictest(decisions: &[Decision]) -> Option<usize> {
    let voting = decisions.iter().enumerate().rev();
    let voting = voting.filter(|(_, decision)| decision.votes() && decision.limited());
    voting
        .max_by_key(|(_, decision)| decision.strictness())
        .map(|(index, _)| index)
}
