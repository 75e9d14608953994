use std::{fmt, slice, time::Duration};

use super::decision::Decision;
use crate::few::Count;

/// The decision on a batch: that of its strictest voting member, and those of all members.
/// [`Limiter`](crate::Limiter) has an example.
#[derive(Clone)]
pub struct BatchDecision {
    /// The decisions on up to four members. Decisions are large, so they are written in place.
    few: [Decision; 4],
    /// The number of places that are used.
    used: usize,
    /// The decisions on all members, if there are more.
    many: Vec<Decision>,
}

impl BatchDecision {
    /// The decision on the whole batch: that of its strictest voting member, or [`Decision::NOT_LIMITED`] if no
    /// member with a limit has a vote.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        self.strictest()
            .map_or(const { &Decision::NOT_LIMITED }, |i| &self.members()[i])
    }

    /// Returns whether the request may proceed.
    #[must_use]
    #[inline]
    pub fn allowed(&self) -> bool {
        Decisions::allowed(self)
    }

    /// Returns the time that the request waits before it proceeds: the longest [delay](Decision::delay) of a member,
    /// and zero if the batch is denied.
    #[must_use]
    pub fn delay(&self) -> Duration {
        let delays = self.members().iter().map(Decision::delay);
        delays.max().unwrap_or_default()
    }

    /// Returns whether a refund returned anything to any member.
    #[must_use]
    pub fn refunded(&self) -> bool {
        self.members().iter().any(Decision::refunded)
    }

    /// The index of the strictest voting member that has a limit; the first of several that are equal.
    #[must_use]
    pub fn strictest(&self) -> Option<usize> {
        strictest(self.members())
    }

    /// The decisions on all members, in their order.
    #[must_use]
    #[inline]
    pub fn members(&self) -> &[Decision] {
        match self.many.is_empty() {
            true => &self.few[..self.used],
            false => &self.many,
        }
    }

    /// Applies `change` to each decision.
    pub(crate) fn map(members: &[Decision], change: impl Fn(&Decision) -> Decision) -> Self {
        let mut batch = Self::default();
        for (place, decision) in batch.room(members.len()).iter_mut().zip(members) {
            *place = change(decision);
        }
        batch
    }
}

impl PartialEq for BatchDecision {
    fn eq(&self, other: &Self) -> bool {
        self.members() == other.members()
    }
}

impl Eq for BatchDecision {}

impl fmt::Debug for BatchDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members()).finish()
    }
}

impl Default for BatchDecision {
    #[inline(always)]
    fn default() -> Self {
        const fn none() -> Decision {
            Decision::not_limited()
        }
        Self {
            few: [none(), none(), none(), none()],
            used: 0,
            many: Vec::new(),
        }
    }
}

/// Returns the place of the strictest voting decision on a limit; the first of several that are equal.
pub(crate) fn strictest(decisions: &[Decision]) -> Option<usize> {
    let votes = |place: &usize| decisions[*place].votes && decisions[*place].limited();
    let mut voting = (0..decisions.len()).filter(votes);
    let first = voting.next()?;
    Some(voting.fold(first, |strictest, place| {
        let outdone = decisions[place].strictness(&decisions[strictest]);
        if outdone.is_gt() { place } else { strictest }
    }))
}

/// The decisions on the members of a batch.
pub(crate) trait Decisions {
    /// In the members' order.
    fn members(&self) -> &[Decision];

    /// Returns whether the request may proceed.
    #[inline]
    fn allowed(&self) -> bool {
        let mut members = self.members().iter();
        !members.any(|member| member.votes && member.denied())
    }

    /// Makes room for `len` decisions, each without a limit, and returns it. Each is written once, in place.
    fn room(&mut self, len: usize) -> &mut [Decision];
}

/// The decisions that a limiter returns: one, or those on a batch.
pub(crate) trait Returned: Decisions + Sized {
    /// Whether there can be another number of decisions than one.
    const ARE_SEVERAL: bool;

    /// Returns the decisions before any is made.
    fn nothing() -> Self;
}

impl Returned for BatchDecision {
    const ARE_SEVERAL: bool = true;

    #[inline(always)]
    fn nothing() -> Self {
        Self::default()
    }
}

impl Decisions for BatchDecision {
    #[inline(always)]
    fn members(&self) -> &[Decision] {
        self.members()
    }

    #[inline(always)]
    fn room(&mut self, len: usize) -> &mut [Decision] {
        match len <= self.few.len() {
            true => {
                self.used = len;
                &mut self.few[..len]
            }
            false => {
                self.many.resize(len, Decision::NOT_LIMITED);
                &mut self.many
            }
        }
    }
}

/// The decisions on the members of a batch of this size, on the stack.
pub(crate) struct FewDecisions<C: Count>(C::Of<Decision>);

impl<C: Count> FewDecisions<C> {
    #[inline(always)]
    pub(crate) fn new(len: usize) -> Self {
        Self(C::list(len, |_| Decision::not_limited()))
    }
}

impl<C: Count> Decisions for FewDecisions<C> {
    #[inline(always)]
    fn members(&self) -> &[Decision] {
        self.0.as_ref()
    }

    #[inline(always)]
    fn room(&mut self, _: usize) -> &mut [Decision] {
        self.0.as_mut()
    }
}

/// The decision on a batch of one.
impl Returned for Decision {
    const ARE_SEVERAL: bool = false;

    #[inline(always)]
    fn nothing() -> Self {
        Self::not_limited()
    }
}

impl Decisions for Decision {
    #[inline]
    fn members(&self) -> &[Decision] {
        slice::from_ref(self)
    }

    #[inline(always)]
    fn room(&mut self, _: usize) -> &mut [Decision] {
        slice::from_mut(self)
    }
}
