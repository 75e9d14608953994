//! The charges of one request, by the rules of a layer.

use std::ops::Range;

use http::request::Parts;

use super::{Chain, Rules};
use crate::{
    few::Count,
    id::shortened,
    key::MissingId,
    limiter::Limiter,
    rule::{
        Rule,
        bound_rule::BoundRule,
        charge::{Charge, ChargeList, ChargeTerms, Charges, JointPolicy, SmallIndex},
        choice::Chosen,
        source::{ClientId, IdPlace, NoId, Unknown, WithoutId},
    },
    spelling::did_you_mean,
    transaction::IdHash,
};

impl Rules {
    /// Returns the most charges that a request can have.
    #[inline(always)]
    pub(crate) fn most(&self) -> usize {
        self.chains.len()
    }

    /// Adds the charges of a request to `charges`. Rules that meet in one bucket are one charge. If rules find no id,
    /// `missing` is the reason of the first one.
    #[inline(always)]
    pub(crate) fn charge<C: Count>(
        &self,
        parts: &Parts,
        limiter: &Limiter,
        charges: &mut Charges<C>,
        missing: &mut Option<Box<MissingId>>,
    ) {
        let mut unknown = None;
        for place in 0..C::len(self.most()) {
            let (earlier, id) = charges.next();
            let chain = self.chains[place].clone();
            if let Some(terms) = self.first_charge(chain, parts, earlier, id, &mut unknown) {
                self.add(terms, charges);
                continue;
            }
            id.clear();
            // A limit in shadow mode never refuses a request.
            if let Some(unknown) = unknown.take()
                && !self.are_shadow(&unknown.targets, limiter)
            {
                missing.get_or_insert_with(|| Box::new(unknown.missing));
            }
        }
    }

    /// Returns the charge of the first rule of a chain that finds an id. If none finds an id, the last rule decides: without
    /// a charge, `unknown` is the reason if that refuses the request.
    #[inline(always)]
    fn first_charge(
        &self,
        chain: Chain,
        parts: &Parts,
        earlier: ChargeList<'_>,
        id: &mut ClientId,
        unknown: &mut Option<Unknown>,
    ) -> Option<ChargeTerms> {
        for i in chain.clone() {
            let bound = &self.bound[i];
            let rule = &bound.rule;
            if rule.skips(parts) {
                continue;
            }
            let mut without = None;
            let found = self.find(bound, parts, earlier, id, &mut without);
            if let Some(without) = &without
                && i + 1 < chain.end
                && !without.no_id.is_unknown_limit()
            {
                rule.fall_back(&without.no_id);
                continue;
            }
            let cost = rule.cost_of(parts);
            // A computed cost can be 0.
            if cost == 0 && !rule.has_fixed_cost() {
                return None;
            }
            let place = match found {
                Some(place) => place,
                None => rule.without_id(without?, id, unknown)?,
            };
            return Some(self.terms(i, place, (earlier.next_id(), &*id), cost));
        }
        None
    }

    /// Returns the terms of a charge, whose id is a new one unless an earlier charge has it.
    #[inline(always)]
    fn terms(
        &self,
        rule: usize,
        place: IdPlace,
        (new, id): (usize, &ClientId),
        cost: u32,
    ) -> ChargeTerms {
        let Rule {
            on_failure,
            no_wait,
            ..
        } = self.bound[rule].rule;
        let IdPlace {
            target,
            source,
            same,
            is_missing,
        } = place;
        let (id, hash) = same.unwrap_or_else(|| (new, IdHash::of(id.canonical())));
        ChargeTerms {
            id: SmallIndex::of(id),
            rule: SmallIndex::of(rule),
            target: SmallIndex::of(target),
            source: SmallIndex::of(source),
            hash,
            cost,
            on_failure: JointPolicy::of(on_failure),
            no_wait,
            is_missing,
        }
    }

    /// Adds a charge, or its cost to the charge of the same bucket.
    #[inline(always)]
    fn add<C: Count>(&self, terms: ChargeTerms, charges: &mut Charges<C>) {
        charges.push(terms);
        if self.may_meet {
            let meet = |a: Charge<'_>, b: Charge<'_>| self.meet(a, b);
            charges.join(meet, |earlier, added| {
                earlier.join(added, self.rule(added.rule.index()).on_failure);
            });
        }
    }

    /// Finds the limit that a rule charges a request to, and the id. If there is none, `without` is the reason. Reasons are
    /// large, so they are written where they stay.
    #[inline(always)]
    fn find(
        &self,
        bound: &BoundRule,
        parts: &Parts,
        earlier: ChargeList<'_>,
        id: &mut ClientId,
        without: &mut Option<WithoutId>,
    ) -> Option<IdPlace> {
        let BoundRule { rule, targets, .. } = bound;
        if let Some(same) = bound.same_id_as
            && let Some(charge) = earlier.by_rule(same)
            // Each rule decides for itself what to do without an id.
            && !charge.is_missing
        {
            let same = Some((charge.id.index(), charge.hash));
            return Some(IdPlace {
                same,
                ..IdPlace::new(targets.start, 0)
            });
        }
        let target = match rule.chosen(parts) {
            None => targets.start,
            Some(Chosen::Place(place)) if place + 1 < targets.len() => targets.start + 1 + place,
            Some(chosen) => match self.chosen(chosen, targets) {
                Ok(target) => target,
                Err(wrong) => {
                    *without = Some(wrong);
                    return None;
                }
            },
        };
        let format = self.targets[target].format;
        let missed = |no_id: &NoId| rule.fall_back(no_id);
        match rule.sources.find(parts, format, id, missed) {
            Ok(source) => Some(IdPlace::new(target, source)),
            Err(no_id) => {
                let targets = target..target + 1;
                *without = Some(WithoutId { no_id, targets });
                None
            }
        }
    }

    /// Finds the limit that a rule has chosen for a request by its name.
    fn chosen(&self, chosen: Chosen<'_>, targets: &Range<usize>) -> Result<usize, WithoutId> {
        let limits = &self.targets[targets.clone()];
        let known = || limits.iter().map(|target| &*target.limit);
        let reason = match chosen {
            Chosen::Name(name) => match known().position(|known| known == name) {
                Some(i) => return Ok(targets.start + i),
                None => format!(
                    "the rule has chosen the limit `{}`, which `limit_by` does not name: {}",
                    shortened(name),
                    did_you_mean(name, &known().collect::<Vec<_>>())
                ),
            },
            Chosen::Place(place) => format!(
                "the rule has chosen number {place} of the limits in `limit_by_index`, which has {}: return one below that",
                limits.len() - 1
            ),
        };
        Err(WithoutId {
            no_id: NoId::Wrong(MissingId::unknown_limit(reason)),
            targets: targets.clone(),
        })
    }

    /// Returns whether both are charged to one bucket.
    fn meet(&self, a: Charge<'_>, b: Charge<'_>) -> bool {
        let is_same = self.limit(a) == self.limit(b) && a.terms.hash == b.terms.hash;
        is_same && a.id.canonical() == b.id.canonical()
    }

    fn are_shadow(&self, targets: &Range<usize>, limiter: &Limiter) -> bool {
        let mut targets = self.targets[targets.clone()].iter();
        targets.all(|target| limiter.is_shadow(&target.limit))
    }
}
