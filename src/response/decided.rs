use super::policy::InForce;
use crate::{decision::Decision, rule::Charge};

/// The decisions on the charges of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided<'a> {
    pub(crate) in_force: &'a InForce,
    pub(crate) charges: &'a [Charge],
    pub(crate) decisions: &'a [Decision],
}

impl<'a> Decided<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a Charge, &'a Decision)> {
        self.charges.iter().zip(self.decisions)
    }

    /// Returns what clients see.
    #[inline]
    pub(super) fn shown(self) -> impl Iterator<Item = (&'a Charge, &'a Decision)> {
        self.iter()
            .filter(move |(charge, decision)| decision.limited() && !self.in_force.hides(charge))
    }

    #[inline]
    pub(crate) fn is_denied(self) -> bool {
        self.decisions.iter().any(Decision::denies)
    }

    /// Returns the strictest limit that clients see, the first of several that are equal.
    pub(super) fn strictest(self) -> Option<(&'a Charge, &'a Decision)> {
        self.shown().reduce(|first, second| {
            let is_stricter = second.1.strictness() > first.1.strictness();
            if is_stricter { second } else { first }
        })
    }
}
