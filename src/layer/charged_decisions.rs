use std::time::Duration;

use crate::{
    decision::{Decision, Decisions, strictest},
    rule::Charge,
};

/// The charges of a request, their decisions, and the one that denies it.
#[derive(Clone, Copy)]
pub(super) struct ChargedDecisions<'a> {
    pub(super) charges: &'a [Charge],
    pub(super) decisions: &'a [Decision],
    /// The index of the strictest decision, if it denies the request.
    pub(super) denied: Option<usize>,
}

impl<'a> ChargedDecisions<'a> {
    #[inline(always)]
    pub(super) fn of(charges: &'a [Charge], decisions: &'a impl Decisions) -> Self {
        let allowed = decisions.allowed();
        let decisions = decisions.members();
        Self {
            charges,
            decisions,
            denied: match allowed {
                true => None,
                false => strictest(decisions),
            },
        }
    }

    /// Returns the wait in line, if there is one.
    #[inline(always)]
    pub(super) fn delay(&self) -> Option<Duration> {
        match self.denied.is_none() && self.decisions.iter().any(Decision::may_wait) {
            true => self.longest_delay(),
            false => None,
        }
    }

    #[cold]
    fn longest_delay(&self) -> Option<Duration> {
        let longest = self.decisions.iter().map(Decision::delay).max();
        longest.filter(|delay| !delay.is_zero())
    }

    #[inline(always)]
    pub(super) fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a Charge, &'a Decision)> + Clone + use<'a> {
        self.charges.iter().zip(self.decisions)
    }
}
