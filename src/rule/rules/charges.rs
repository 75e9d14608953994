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
            // A charge is large, so it is made where it stays.
            charges.push(Charge::empty());
            let Some((charge, earlier)) = charges.split_last_mut() else {
                continue;
            };
            match self.first_charge(chain, parts, earlier, charge) {
                Ok(true) if !self.may_meet => {}
                Ok(true) => self.join_last(charges),
                Ok(false) => drop(charges.pop()),
                Err(unknown) => {
                    charges.pop();
                    // A limit in shadow mode never refuses a request.
                    if !self.are_shadow(&unknown.targets, limiter) {
                        refused.get_or_insert(unknown.missing);
                    }
                }
            }
        }
        refused
    }

    /// Fills in the charge of the first rule of a chain that finds an id. If none finds an id, the last rule decides. `earlier`
    /// are the charges of the chains before it. Returns whether there is a charge.
    ///
    /// # Errors
    ///
    /// The reason for the refusal, if the request needs an id and has none.
    #[inline(always)]
    fn first_charge(
        &self,
        chain: &Chain,
        parts: &Parts,
        earlier: &[Charge],
        charge: &mut Charge,
    ) -> Result<bool, Unknown> {
        let id = &mut charge.id;
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
                return Ok(false);
            }
            let place = match found {
                Ok(place) => place,
                Err(without) => match rule.without_id(without, id)? {
                    Some(place) => place,
                    None => return Ok(false),
                },
            };
            charge.terms = self.terms(i, place, id, cost);
            return Ok(true);
        }
        Ok(false)
    }

    #[inline(always)]
    fn terms(&self, rule: usize, place: IdPlace, id: &ClientId, cost: u32) -> ChargeTerms {
        let Rule {
            on_failure,
            no_wait,
            ..
        } = self.bound[rule].rule;
        let IdPlace {
            target,
            source,
            hash,
        } = place;
        ChargeTerms {
            rule,
            target,
            source,
            hash: hash.unwrap_or_else(|| IdHash::of(id.canonical())),
            cost,
            on_failure: JointPolicy::of(on_failure),
            no_wait,
        }
    }

    /// Adds the last charge to one of the same bucket, if there is one.
    fn join_last(&self, charges: &mut Charges) {
        let Some((last, others)) = charges.split_last_mut() else {
            return;
        };
        if let Some(other) = others.iter_mut().find(|other| self.meet(other, last)) {
            let on_failure = self.rule(last.terms.rule).on_failure;
            other.terms.join(&last.terms, on_failure);
            charges.pop();
        }
    }

    /// Finds the limit that a rule charges a request to, and the id.
    #[inline(always)]
    fn find(
        &self,
        bound: &BoundRule,
        parts: &Parts,
        earlier: &[Charge],
        id: &mut ClientId,
    ) -> Result<IdPlace, WithoutId> {
        let BoundRule { rule, targets, .. } = bound;
        if let Some(same) = bound.same_id_as
            && let Some(charge) = earlier.iter().find(|charge| charge.terms.rule == same)
        {
            id.clone_from(&charge.id);
            return Ok(IdPlace {
                target: targets.start,
                source: 0,
                hash: Some(charge.terms.hash),
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
                hash: None,
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
    fn meet(&self, a: &Charge, b: &Charge) -> bool {
        let is_same = self.limit(a) == self.limit(b) && a.terms.hash == b.terms.hash;
        is_same && a.id.canonical() == b.id.canonical()
    }

    fn are_shadow(&self, targets: &Range<usize>, limiter: &Limiter) -> bool {
        let mut targets = self.targets[targets.clone()].iter();
        targets.all(|target| limiter.is_shadow(&target.limit))
    }
}
