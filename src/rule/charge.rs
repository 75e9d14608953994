//! The charges of one request.

use std::mem;

use smallvec::SmallVec;

use super::source::ClientId;
use crate::{
    few::{Count, List},
    id::Id,
    transaction::{IdHash, OnFailure, Transaction},
};

/// The charges of one request, at most one for each bucket, and at most as many as there are chains of rules.
pub(crate) struct Charges<C: Count> {
    /// The ids of the charges, and room for others. Rules that find the same one share it, because ids are large.
    ids: C::Of<ClientId>,
    /// The number of ids that have a charge.
    found: usize,
    terms: C::UpTo<ChargeTerms>,
}

impl<C: Count> Charges<C> {
    /// Creates room for `room` charges.
    #[inline(always)]
    pub(crate) fn new(room: usize) -> Self {
        Self {
            // More than four ids are rare. They get their room when they are found.
            ids: C::list(room.min(4), |_| ClientId::empty()),
            found: 0,
            terms: C::UpTo::default(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    #[inline(always)]
    pub(crate) fn list(&self) -> ChargeList<'_> {
        let ids = &self.ids.as_ref()[..self.found];
        let terms = &self.terms;
        ChargeList { ids, terms }
    }

    /// Returns the charges until now, and the room for the id of the next one. Ids are large, so they are written where they
    /// stay.
    #[inline(always)]
    pub(super) fn next(&mut self) -> (ChargeList<'_>, &mut ClientId) {
        if self.ids.as_ref().len() == self.found {
            C::grow(&mut self.ids, ClientId::empty());
        }
        let (ids, room) = self.ids.as_mut().split_at_mut(self.found);
        let terms = &self.terms;
        (ChargeList { ids, terms }, &mut room[0])
    }

    /// Adds a charge. Its id is in the room for it, unless an earlier charge has the same.
    #[inline(always)]
    pub(super) fn push(&mut self, terms: ChargeTerms) {
        self.found += usize::from(terms.id.index() == self.found);
        self.terms.add(terms);
    }

    /// Lets the last charge join an earlier one that it meets in its bucket.
    pub(super) fn join(
        &mut self,
        meet: impl Fn(Charge<'_>, Charge<'_>) -> bool,
        join: impl FnOnce(&mut ChargeTerms, &ChargeTerms),
    ) {
        let list = self.list();
        let Some((added, earlier)) = list.terms.split_last() else {
            return;
        };
        let charge = list.with_id(added);
        let meets = |place: &usize| meet(list.at(*place), charge);
        let Some(place) = (0..earlier.len()).find(meets) else {
            return;
        };
        let (added, has_own_id) = (*added, earlier.iter().all(|terms| terms.id != added.id));
        join(&mut self.terms[place], &added);
        self.terms.remove_last();
        if has_own_id {
            self.found -= 1;
            self.next().1.clear();
        }
    }

    /// Moves the charges to where they are kept. They are large, so they are written where they stay.
    #[inline(always)]
    pub(crate) fn keep(&mut self, kept: &mut KeptCharges) {
        for id in &mut self.ids.as_mut()[..self.found] {
            kept.ids.push(mem::replace(id, ClientId::empty()));
        }
        kept.terms.extend_from_slice(&self.terms);
    }
}

/// The charges of one request, for later.
#[derive(Default)]
pub(crate) struct KeptCharges {
    ids: SmallVec<[ClientId; 1]>,
    terms: SmallVec<[ChargeTerms; 4]>,
}

impl KeptCharges {
    #[inline(always)]
    pub(crate) fn list(&self) -> ChargeList<'_> {
        let (ids, terms) = (&self.ids, &self.terms);
        ChargeList { ids, terms }
    }
}

/// The charges of one request, wherever they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeList<'a> {
    ids: &'a [ClientId],
    terms: &'a [ChargeTerms],
}

impl<'a> ChargeList<'a> {
    /// The list without charges.
    pub(crate) const NONE: Self = Self {
        ids: &[],
        terms: &[],
    };

    /// Returns the place of the next new id.
    #[inline(always)]
    pub(super) fn next_id(self) -> usize {
        self.ids.len()
    }

    /// Returns the charge of a rule, if it is the first one for its bucket.
    #[inline(always)]
    pub(super) fn by_rule(self, rule: usize) -> Option<&'a ChargeTerms> {
        self.terms.iter().find(|terms| terms.rule.index() == rule)
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
        let id = &self.ids[terms.id.index()];
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
    pub(super) id: SmallIndex,
    /// The first rule for this bucket.
    pub(crate) rule: SmallIndex,
    /// The limit, among those of all rules.
    pub(crate) target: SmallIndex,
    /// The extractor of the rule that has found the id.
    pub(super) source: SmallIndex,
    /// The hash of the id.
    pub(crate) hash: IdHash,
    pub(crate) cost: u32,
    pub(super) on_failure: JointPolicy,
    /// Whether a rule for this bucket declines to wait in line.
    pub(super) no_wait: bool,
    /// Whether the id is that of requests without one.
    pub(super) is_missing: bool,
}

impl ChargeTerms {
    /// Adds the charge of another rule for the same bucket, which has this failure policy.
    pub(super) fn join(&mut self, other: &Self, on_failure: Option<OnFailure>) {
        self.cost = self.cost.saturating_add(other.cost);
        self.on_failure = self.on_failure.with(on_failure);
        self.no_wait |= other.no_wait;
    }
}

/// An index in a list of rules, limits, extractors or ids, in half the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SmallIndex(u32);

impl SmallIndex {
    #[inline(always)]
    pub(super) fn of(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok(), "a layer has few rules");
        #[expect(clippy::cast_possible_truncation, reason = "a layer has few rules")]
        Self(index as u32)
    }

    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
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
