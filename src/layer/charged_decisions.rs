use std::time::Duration;

use crate::{
    decision::{Decision, Decisions, strictest},
    rule::{Charge, ChargeList, ChargeTerms},
};

/// The charges of a request, their decisions, and the one that denies it.
#[derive(Clone, Copy)]
pub(super) struct ChargedDecisions<'a> {
    pub(super) charges: ChargeList<'a>,
    pub(super) decisions: &'a [Decision],
    /// The index of the strictest decision, if it denies the request.
    pub(super) denied: Option<usize>,
}

impl<'a> ChargedDecisions<'a> {
    #[inline(always)]
    pub(super) fn of(charges: ChargeList<'a>, decisions: &'a impl Decisions) -> Self {
        Self {
            charges,
            denied: denied(decisions),
            decisions: decisions.members(),
        }
    }

    /// Returns the charge at a place, and its decision.
    pub(super) fn at(&self, place: usize) -> (Charge<'a>, &'a Decision) {
        (self.charges.at(place), &self.decisions[place])
    }

    /// Returns the terms of each charge, and its decision.
    #[inline(always)]
    pub(super) fn terms(&self) -> impl Iterator<Item = (&'a ChargeTerms, &'a Decision)> + use<'a> {
        self.charges.terms().iter().zip(self.decisions)
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (Charge<'a>, &'a Decision)> + use<'a> {
        self.charges.iter().zip(self.decisions)
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
}

/// Returns the place of the strictest decision, if it denies the request.
#[inline(always)]
pub(super) fn denied(decisions: &impl Decisions) -> Option<usize> {
    match decisions.allowed() {
        true => None,
        false => strictest(decisions.members()),
    }
}
