//! The charges of one request, by the rules of a layer.

use std::ops::Range;

use http::request::Parts;

use super::{Chain, Rules};
use crate::{
    id::shortened,
    key::MissingId,
    limiter::Limiter,
    rule::{
        Rule,
        bound_rule::BoundRule,
        charge::{Charge, ChargeTerms, Charges, JointPolicy},
        choice::Chosen,
        source::{ClientId, IdPlace, NoId, Unknown, WithoutId},
    },
    spelling::did_you_mean,
    transaction::IdHash,
};

impl Rules {
    /// Returns the chain of the only rule, if there are no others.
    #[inline(always)]
    pub(crate) fn only(&self) -> Option<Chain> {
        match &*self.bound {
            [_] => Some(0..1),
            _ => None,
        }
    }

    /// Adds the charges of a request to `charges`. If a rule finds no id, returns the reason of the first such rule. Rules
    /// that meet in one bucket are one charge.
    pub(crate) fn charge(
        &self,
        parts: &Parts,
        limiter: &Limiter,
        charges: &mut Charges,
    ) -> Option<MissingId> {
        let mut refused = None;
        for chain in &self.chains {
            let mut id = ClientId::empty();
            match self.charge_by(chain.clone(), parts, limiter, charges, &mut id) {
                Ok(Some(terms)) => self.add(id, terms, charges),
                Ok(None) => {}
                Err(missing) => {
                    refused.get_or_insert(missing);
                }
            }
        }
        refused
    }

    /// Returns the charge of a request by a chain, if it has one, and puts the client's id into `id`. `earlier` are the
    /// charges of the chains before it.
    ///
    /// # Errors
    ///
    /// The reason for the refusal, if the request needs an id and has none.
    #[inline(always)]
    pub(crate) fn charge_by(
        &self,
        chain: Chain,
        parts: &Parts,
        limiter: &Limiter,
        earlier: &Charges,
        id: &mut ClientId,
    ) -> Result<Option<ChargeTerms>, MissingId> {
        self.first_charge(chain, parts, earlier, id)
            .or_else(|unknown| {
                // A limit in shadow mode never refuses a request.
                match self.are_shadow(&unknown.targets, limiter) {
                    true => Ok(None),
                    false => Err(unknown.missing),
                }
            })
    }

    /// Returns the charge of the first rule of a chain that finds an id. If none finds an id, the last rule decides.
    #[inline(always)]
    fn first_charge(
        &self,
        chain: Chain,
        parts: &Parts,
        earlier: &Charges,
        id: &mut ClientId,
    ) -> Result<Option<ChargeTerms>, Unknown> {
        for i in chain.clone() {
            let bound = &self.bound[i];
            let rule = &bound.rule;
            if rule.skips(parts) {
                continue;
            }
            let found = self.find(bound, parts, earlier, id);
            if let Err(without) = &found
                && i + 1 < chain.end
                && !without.no_id.is_unknown_limit()
            {
                rule.fall_back(&without.no_id);
                continue;
            }
            let cost = rule.cost_of(parts);
            // A computed cost can be 0.
            if cost == 0 && !rule.has_fixed_cost() {
                return Ok(None);
            }
            let place = match found {
                Ok(place) => Some(place),
                Err(without) => rule.without_id(without, id)?,
            };
            let new = (earlier.next_id(), &*id);
            return Ok(place.map(|place| self.terms(i, place, new, cost)));
        }
        Ok(None)
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
        } = place;
        let (id, hash) = same.unwrap_or_else(|| (new, IdHash::of(id.canonical())));
        ChargeTerms {
            id,
            rule,
            target,
            source,
            hash,
            cost,
            on_failure: JointPolicy::of(on_failure),
            no_wait,
        }
    }

    /// Adds a charge, or its cost to the charge of the same bucket.
    #[inline(always)]
    fn add(&self, id: ClientId, terms: ChargeTerms, charges: &mut Charges) {
        if self.may_meet
            && let Some(other) = charges.meeting(&id, &terms, |a, b| self.meet(a, b))
        {
            return other.join(&terms, self.rule(terms.rule).on_failure);
        }
        charges.push(id, terms);
    }

    /// Finds the limit that a rule charges a request to, and the id.
    #[inline(always)]
    fn find(
        &self,
        bound: &BoundRule,
        parts: &Parts,
        earlier: &Charges,
        id: &mut ClientId,
    ) -> Result<IdPlace, WithoutId> {
        let BoundRule { rule, targets, .. } = bound;
        if let Some(same) = bound.same_id_as
            && let Some(charge) = earlier.by_rule(same)
        {
            return Ok(IdPlace {
                target: targets.start,
                source: 0,
                same: Some((charge.id, charge.hash)),
            });
        }
        let target = match rule.chosen(parts) {
            None => targets.start,
            Some(Chosen::Place(place)) if place + 1 < targets.len() => targets.start + 1 + place,
            Some(chosen) => self.chosen(chosen, targets)?,
        };
        let format = self.targets[target].format;
        let missed = |no_id: &NoId| rule.fall_back(no_id);
        match rule.sources.find(parts, format, id, missed) {
            Ok(source) => Ok(IdPlace {
                target,
                source,
                same: None,
            }),
            Err(no_id) => Err(WithoutId {
                no_id,
                targets: target..target + 1,
            }),
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
