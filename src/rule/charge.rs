//! The charges of one request.

use std::slice;

use smallvec::SmallVec;

use super::source::ClientId;
use crate::{
    id::Id,
    transaction::{IdHash, OnFailure, Transaction},
};

/// The charges of one request, at most one for each bucket.
#[derive(Debug)]
pub(crate) struct Charges {
    /// The ids of the charges. Rules that find the same one share it, because ids are large.
    ids: SmallVec<[ClientId; 1]>,
    terms: SmallVec<[ChargeTerms; 4]>,
}

impl Charges {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            ids: SmallVec::new(),
            terms: SmallVec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    #[inline(always)]
    pub(crate) fn list(&self) -> ChargeList<'_> {
        let (ids, terms) = (&self.ids, &self.terms);
        ChargeList { ids, terms }
    }

    /// Returns the place of the next new id.
    #[inline(always)]
    pub(super) fn next_id(&self) -> usize {
        self.ids.len()
    }

    /// Returns the charge of a rule, if it is the first one for its bucket.
    #[inline(always)]
    pub(super) fn by_rule(&self, rule: usize) -> Option<&ChargeTerms> {
        self.terms.iter().find(|terms| terms.rule == rule)
    }

    /// Adds a charge. `id` is its id, if that is a new one.
    #[inline(always)]
    pub(crate) fn push(&mut self, id: ClientId, terms: ChargeTerms) {
        if terms.id == self.next_id() {
            self.ids.push(id);
        }
        self.terms.push(terms);
    }

    /// Returns the first charge that meets one in its bucket. `id` is the id of the other, if that is a new one.
    pub(super) fn meeting(
        &mut self,
        id: &ClientId,
        terms: &ChargeTerms,
        meet: impl Fn(Charge<'_>, Charge<'_>) -> bool,
    ) -> Option<&mut ChargeTerms> {
        let id = self.ids.get(terms.id).unwrap_or(id);
        let other = Charge { id, terms };
        let place = self.list().iter().position(|charge| meet(charge, other))?;
        self.terms.get_mut(place)
    }
}

/// The charges of one request, wherever they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeList<'a> {
    ids: &'a [ClientId],
    terms: &'a [ChargeTerms],
}

impl<'a> ChargeList<'a> {
    /// Returns the list of the only charge.
    #[inline(always)]
    pub(crate) fn of(id: &'a ClientId, terms: &'a ChargeTerms) -> Self {
        let (ids, terms) = (slice::from_ref(id), slice::from_ref(terms));
        Self { ids, terms }
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.terms.len()
    }

    #[inline(always)]
    pub(crate) fn terms(self) -> &'a [ChargeTerms] {
        self.terms
    }

    /// Returns the charge at a place.
    #[inline(always)]
    pub(crate) fn at(self, place: usize) -> Charge<'a> {
        self.with_id(&self.terms[place])
    }

    #[inline(always)]
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = Charge<'a>> + Clone {
        self.terms.iter().map(move |terms| self.with_id(terms))
    }

    #[inline(always)]
    fn with_id(self, terms: &'a ChargeTerms) -> Charge<'a> {
        let id = &self.ids[terms.id];
        Charge { id, terms }
    }
}

/// The charge of one request to one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge<'a> {
    pub(crate) id: &'a ClientId,
    pub(crate) terms: &'a ChargeTerms,
}

/// A charge without the client's id, which is large. The compiler keeps these in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeTerms {
    /// The place of the id among those of the request.
    pub(super) id: usize,
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
