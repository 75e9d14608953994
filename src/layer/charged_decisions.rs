use std::time::Duration;

use smallvec::SmallVec;

use crate::{
    decision::{Decision, Decisions, strictest},
    rule::{Charge, ChargeTerms, Charges},
};

/// The charges of a request, their decisions, and the one that denies it. They are large, so they are written where they stay.
pub(super) struct ChargedDecisions {
    pub(super) charges: Charges,
    pub(super) decisions: RequestDecisions,
    /// The index of the strictest decision, if it denies the request.
    pub(super) denied: Option<usize>,
}

/// The decisions on the charges of a request.
#[derive(Default)]
pub(super) struct RequestDecisions(SmallVec<[Decision; 1]>);

impl ChargedDecisions {
    #[inline(always)]
    pub(super) fn nothing() -> Self {
        Self {
            charges: Charges::new(),
            decisions: RequestDecisions(SmallVec::new()),
            denied: None,
        }
    }

    /// Finds the decision that denies the request, once all are made.
    #[inline(always)]
    pub(super) fn judge(&mut self) {
        self.denied = match self.decisions.allowed() {
            true => None,
            false => strictest(self.decisions()),
        };
    }

    #[inline(always)]
    pub(super) fn decisions(&self) -> &[Decision] {
        &self.decisions.0
    }

    /// Returns the charge at a place, and its decision.
    pub(super) fn at(&self, place: usize) -> (Charge<'_>, &Decision) {
        (self.charges.at(place), &self.decisions.0[place])
    }

    /// Returns the terms of each charge, and its decision.
    #[inline(always)]
    pub(super) fn terms(&self) -> impl Iterator<Item = (&ChargeTerms, &Decision)> {
        self.charges.terms().iter().zip(self.decisions())
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (Charge<'_>, &Decision)> + Clone {
        self.charges.iter().zip(self.decisions())
    }

    /// Returns the wait in line, if there is one.
    #[inline(always)]
    pub(super) fn delay(&self) -> Option<Duration> {
        match self.denied.is_none() && self.decisions().iter().any(Decision::may_wait) {
            true => self.longest_delay(),
            false => None,
        }
    }

    #[cold]
    fn longest_delay(&self) -> Option<Duration> {
        let longest = self.decisions().iter().map(Decision::delay).max();
        longest.filter(|delay| !delay.is_zero())
    }

    /// Returns the same with the figures of a later instant, if there were no other requests.
    pub(super) fn later(&self, by: Duration) -> Self {
        let decisions = self.decisions().iter();
        Self {
            charges: self.charges.clone(),
            decisions: decisions.map(|decision| decision.later(by)).collect(),
            denied: self.denied,
        }
    }
}

impl RequestDecisions {
    /// Makes room for so many decisions.
    #[inline(always)]
    pub(super) fn reserve(&mut self, len: usize) {
        self.0.reserve_exact(len);
    }
}

impl Decisions for RequestDecisions {
    #[inline(always)]
    fn members(&self) -> &[Decision] {
        &self.0
    }

    #[inline(always)]
    fn nothing() -> Self {
        Self::default()
    }

    #[inline(always)]
    fn next(&mut self) -> &mut Decision {
        self.0.push(Decision::not_limited());
        self.0.last_mut().expect("it was just added")
    }
}

impl FromIterator<Decision> for RequestDecisions {
    fn from_iter<I: IntoIterator<Item = Decision>>(decisions: I) -> Self {
        Self(decisions.into_iter().collect())
    }
}
