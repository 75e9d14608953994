//! The charges of one request.

use smallvec::SmallVec;

use super::source::ClientId;
use crate::{
    id::Id,
    transaction::{IdHash, OnFailure, Transaction},
};

/// The charges of one request, at most one for each bucket.
pub(crate) type Charges = SmallVec<[Charge; 4]>;

/// The charge of one request to one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) id: ClientId,
    pub(crate) terms: ChargeTerms,
}

/// A charge without the client's id, which is large. The compiler keeps these in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeTerms {
    /// The first rule for this bucket.
    pub(crate) rule: usize,
    /// The limit, among those of all rules.
    pub(crate) target: usize,
    /// The extractor of the rule that has found the id.
    pub(super) source: usize,
    /// The hash of the id.
    pub(crate) hash: IdHash,
    pub(crate) cost: u32,
    pub(super) on_failure: JointPolicy,
    /// Whether a rule for this bucket declines to wait in line.
    pub(super) no_wait: bool,
}

impl ChargeTerms {
    /// Adds the charge of another rule for the same bucket, which has this failure policy.
    pub(super) fn join(&mut self, other: &Self, on_failure: Option<OnFailure>) {
        self.cost = self.cost.saturating_add(other.cost);
        self.on_failure = self.on_failure.with(on_failure);
        self.no_wait |= other.no_wait;
    }
}

/// The failure policy of the rules for one bucket.
#[derive(Clone, Copy, Debug)]
pub(super) enum JointPolicy {
    /// Each rule has a policy, and this is the strictest.
    OfRules(OnFailure),
    /// A rule has no policy, so that of the limit or, without one, of the backend applies. The other rules' policies
    /// are the minimum.
    OfLimit { floor: Option<OnFailure> },
}

impl JointPolicy {
    pub(super) fn of(on_failure: Option<OnFailure>) -> Self {
        on_failure.map_or(Self::OfLimit { floor: None }, Self::OfRules)
    }

    /// Adds the policy of another rule, if it has one.
    pub(super) fn with(self, other: Option<OnFailure>) -> Self {
        let (Self::OfRules(said) | Self::OfLimit { floor: Some(said) }) = self else {
            return Self::OfLimit { floor: other };
        };
        let strictest = other.map_or(said, |other| said.stricter(other));
        match (self, other) {
            (Self::OfRules(_), Some(_)) => Self::OfRules(strictest),
            _ => Self::OfLimit {
                floor: Some(strictest),
            },
        }
    }

    /// Returns the resulting policy, if it does not depend on the backend.
    pub(super) fn known(self, of_limit: Option<OnFailure>) -> Option<OnFailure> {
        match (self, of_limit) {
            (Self::OfRules(said), _) => Some(said),
            (Self::OfLimit { floor: Some(floor) }, Some(own)) => Some(floor.stricter(own)),
            // No policy is stricter.
            (
                Self::OfLimit {
                    floor: Some(OnFailure::Refuse),
                },
                None,
            ) => Some(OnFailure::Refuse),
            (Self::OfLimit { floor: _ }, own) => own,
        }
    }
}

/// Creates the transaction for an id that a rule has found.
pub(crate) fn charged<'a>(limit: &'a str, id: &'a Id) -> Transaction<'a> {
    match id.as_str() {
        Id::MISSING => Transaction::missing(limit),
        text => Transaction::new(limit, text).secret_if(id.is_secret()),
    }
}
