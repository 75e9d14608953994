//! The charges of one request, by the rules of a layer.

use std::ops::Range;

use http::request::Parts;

use super::{Chain, Rules};
use crate::{
    key::MissingId,
    limiter::Limiter,
    rule::{
        Rule,
        bound_rule::BoundRule,
        charge::{Charge, ChargeTerms, Charges, JointPolicy},
        source::{ClientId, IdPlace, NoId, Unknown, WithoutId},
    },
    spelling::did_you_mean,
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

    /// Finds the charges of a request. If a rule finds no id, `refused` gets the reason of the first such rule. Rules
    /// that meet in one bucket are one charge.
    pub(crate) fn charge(
        &self,
        parts: &Parts,
        limiter: &Limiter,
        refused: &mut Option<MissingId>,
    ) -> Charges {
        let mut charges = Charges::new();
        for chain in &self.chains {
            let mut id = ClientId::empty();
            match self.charge_by(chain.clone(), parts, limiter, &mut id) {
                Ok(Some(terms)) => self.add(Charge { id, terms }, &mut charges),
                Ok(None) => {}
                Err(missing) => {
                    refused.get_or_insert(missing);
                }
            }
        }
        charges
    }

    /// Returns the charge of a request by a chain, if it has one, and puts the client's id into `id`.
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
        id: &mut ClientId,
    ) -> Result<Option<ChargeTerms>, MissingId> {
        self.first_charge(chain, parts, id).or_else(|unknown| {
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
        id: &mut ClientId,
    ) -> Result<Option<ChargeTerms>, Unknown> {
        for i in chain.clone() {
            let bound = &self.bound[i];
            let rule = &bound.rule;
            if rule.skips(parts) {
                continue;
            }
            let found = self.find(bound, parts, id);
            if let Err(without) = &found
                && i + 1 < chain.end
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
            return Ok(place.map(|place| self.terms(i, place, id, cost)));
        }
        Ok(None)
    }

    #[inline(always)]
    fn terms(&self, rule: usize, place: IdPlace, id: &ClientId, cost: u32) -> ChargeTerms {
        let Rule {
            on_failure,
            no_wait,
            ..
        } = self.bound[rule].rule;
        let IdPlace { target, source } = place;
        ChargeTerms {
            rule,
            target,
            source,
            fingerprint: self.targets[target].seed.client(id.canonical()),
            cost,
            on_failure: JointPolicy::of(on_failure),
            no_wait,
        }
    }

    /// Adds a charge, or its cost to the charge of the same bucket.
    fn add(&self, charge: Charge, charges: &mut Charges) {
        if self.may_meet
            && let Some(other) = charges.iter_mut().find(|other| self.meet(other, &charge))
        {
            other
                .terms
                .join(&charge.terms, self.rule(charge.terms.rule).on_failure);
            return;
        }
        charges.push(charge);
    }

    /// Finds the limit that a rule charges a request to, and the id.
    #[inline(always)]
    fn find(
        &self,
        bound: &BoundRule,
        parts: &Parts,
        id: &mut ClientId,
    ) -> Result<IdPlace, WithoutId> {
        let BoundRule { rule, targets, .. } = bound;
        let target = match rule.chosen(parts) {
            None => targets.start,
            Some(chosen) => self.chosen(chosen, targets)?,
        };
        let format = self.targets[target].format;
        let missed = |no_id: &NoId| rule.fall_back(no_id);
        match rule.sources.find(parts, format, id, missed) {
            Ok(source) => Ok(IdPlace { target, source }),
            Err(no_id) => Err(WithoutId {
                no_id,
                targets: target..target + 1,
            }),
        }
    }

    /// Finds the limit that a rule has chosen for a request.
    fn chosen(&self, chosen: &str, targets: &Range<usize>) -> Result<usize, WithoutId> {
        let limits = &self.targets[targets.clone()];
        if let Some(i) = limits.iter().position(|target| *target.limit == *chosen) {
            return Ok(targets.start + i);
        }
        let known: Vec<&str> = limits.iter().map(|target| &*target.limit).collect();
        let missing = MissingId::server(format!(
            "the rule has chosen the limit `{chosen}`, which `limit_by` does not name: {}",
            did_you_mean(chosen, &known)
        ));
        Err(WithoutId {
            no_id: NoId::Wrong(missing),
            targets: targets.clone(),
        })
    }

    /// Returns whether both are charged to one bucket.
    fn meet(&self, a: &Charge, b: &Charge) -> bool {
        let is_same = self.limit(a) == self.limit(b) && a.terms.fingerprint == b.terms.fingerprint;
        is_same && a.id.canonical() == b.id.canonical()
    }

    fn are_shadow(&self, targets: &Range<usize>, limiter: &Limiter) -> bool {
        let mut targets = self.targets[targets.clone()].iter();
        targets.all(|target| limiter.is_shadow(&target.limit))
    }
}
