//! The rules of a layer.

mod charges;

use std::{ops::Range, sync::Arc};

use http::request::Parts;
use smallvec::SmallVec;

use super::{
    RequestEnd, Rule,
    bound_rule::{BoundLimit, BoundRule},
    charge::{Charge, ChargeList, ChargeTerms, JointPolicy},
    rule_error::RuleError,
    source::ClientId,
};
use crate::{
    decision::Decision,
    id::IdFormat,
    key::IdSource,
    limit::{Limits, NamedLimit},
    limiter::Limiter,
    transaction::{LimitKey, LimitRef, LimitSeed, Mode, OnFailure, Transaction},
};

/// The places of rules that are joined by [`Rule::or_else`]. At most one rule of a chain applies.
pub(crate) type Chain = Range<usize>;

/// The rules of a layer. Reloads that would break their assumptions are rejected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    bound: Vec<BoundRule>,
    /// All rules belong to chains. Most chains have one rule.
    chains: Vec<Chain>,
    targets: Vec<BoundLimit>,
    /// Whether several chains charge one limit, so that their rules can meet in one bucket.
    may_meet: bool,
}

impl Rules {
    pub(crate) fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// Returns the limit of each target and the mode of its charges before the request proceeds, or `None` for lists of blocked
    /// clients, which have no figures for clients. A limit with several rules is the target of each.
    pub(crate) fn shown_limits(&self) -> impl Iterator<Item = Option<(&str, Mode)>> {
        self.bound.iter().flat_map(|bound| {
            let targets = self.targets[bound.targets.clone()].iter();
            targets.map(|target| (!bound.is_block).then_some((&*target.limit, bound.mode)))
        })
    }

    /// Marks the rules whose predicates accept a request, each at its place.
    #[cold]
    pub(crate) fn mark_met(&self, request: &Parts, met: &mut Vec<bool>) {
        met.resize(self.bound.len(), false);
        for (bound, met) in self.bound.iter().zip(met) {
            *met = *met || !bound.rule.skips(request);
        }
    }

    /// Returns the limit of the first rule that is not marked.
    #[cold]
    pub(crate) fn limit_unmet(&self, met: &[bool]) -> Option<&str> {
        let mut unmet = self.bound.iter().zip(met).filter(|(_, met)| !**met);
        unmet.next().map(|(bound, _)| &*bound.rule.limit)
    }

    /// Returns whether any rule charges by outcome.
    pub(crate) fn wait_for_endings(&self) -> bool {
        let mut bound = self.bound.iter();
        bound.any(|bound| !bound.rule.charging.is_before())
    }

    pub(crate) fn push(&mut self, mut rule: Rule, limiter: &Limiter) -> Result<(), RuleError> {
        let first = self.bound.len();
        let others = std::mem::take(&mut rule.others);
        for mut rule in std::iter::once(rule).chain(others) {
            let is_block = rule.look_only(&limiter.limits())?;
            let targets = self.targets.len();
            for limit in rule.limits() {
                let target = self.target(&rule, limit, limiter)?;
                self.targets.push(target);
            }
            let targets = targets..self.targets.len();
            self.bound.push(BoundRule {
                same_id_as: self.same_id_as(&rule, &targets),
                mode: rule.charging.mode(rule.mode),
                is_block,
                is_silent: rule.charging.is_after() && rule.mode == Mode::Debit,
                rule,
                targets,
            });
        }
        let chain = first..self.bound.len();
        let mut limits = self.bound[chain.clone()]
            .iter()
            .flat_map(|bound| bound.rule.limits());
        self.may_meet |=
            limits.any(|limit| self.others(limit).any(|mut other| other.next().is_some()));
        self.chains.push(chain);
        Ok(())
    }

    /// Returns an earlier rule that finds the same id in each request, in the same format.
    fn same_id_as(&self, rule: &Rule, targets: &Range<usize>) -> Option<usize> {
        let format = |targets: &Range<usize>| match &self.targets[targets.clone()] {
            [only] => Some(only.format),
            _ => None,
        };
        let ours = format(targets)?;
        self.bound.iter().position(|other| {
            format(&other.targets) == Some(ours) && other.rule.sources.are_same(&rule.sources)
        })
    }

    /// Returns the earlier rules of other chains that charge a limit. Rules of the same chain never meet.
    fn others<'a>(
        &'a self,
        limit: &'a str,
    ) -> impl Iterator<Item = impl Iterator<Item = &'a Rule>> {
        let chains = self.chains.iter();
        chains.map(move |chain| {
            let rules = self.bound[chain.clone()].iter().map(|bound| &bound.rule);
            rules.filter(move |rule| rule.limits().any(|other| **other == *limit))
        })
    }

    fn target(
        &self,
        rule: &Rule,
        limit: &Arc<str>,
        limiter: &Limiter,
    ) -> Result<BoundLimit, RuleError> {
        let limits = limiter.limits();
        let fits = limiter.check_claim(&rule.claim(limit, rule.fixed_cost()));
        fits.map_err(RuleError::Limiter)?;
        let named = limits.get(limit);
        let format = named.map_or_else(IdFormat::default, |named| named.name.format());
        let name = || limit.to_string();
        if !rule.sources.fit(format) {
            let limit = name();
            return Err(RuleError::Format { limit, format });
        }
        let waits = |rule: &Rule| !rule.charging.is_before();
        for other in self.others(limit).flatten() {
            if waits(rule) || waits(other) {
                return Err(RuleError::MixedCharging { limit: name() });
            }
            if other.mode != rule.mode {
                let (limit, modes) = (name(), [other.mode, rule.mode]);
                return Err(RuleError::MixedModes { limit, modes });
            }
        }
        // At most one rule of each chain can meet the others in one bucket.
        let most = self
            .others(limit)
            .filter_map(|others| others.map(Rule::fixed_cost).max());
        let sum = most.fold(rule.fixed_cost(), u32::saturating_add);
        let claim = limiter.claim(rule.claim(limit, sum));
        let key = named.map_or(LimitKey::Name(limit), |named| named.name.key());
        Ok(BoundLimit {
            limit: Arc::clone(limit),
            format,
            seed: LimitSeed::of(key),
            place: Arc::default(),
            _claim: claim.map_err(RuleError::Sum)?,
        })
    }

    /// Returns the name of the charged limit.
    pub(crate) fn limit(&self, charge: Charge<'_>) -> &Arc<str> {
        &self.targets[charge.terms.target.index()].limit
    }

    /// Returns the limit of a charge among these limits.
    pub(crate) fn named<'a>(
        &self,
        charge: Charge<'_>,
        limits: &'a Limits,
    ) -> Option<&'a NamedLimit> {
        let target = &self.targets[charge.terms.target.index()];
        limits.find(LimitRef::remembered(&target.limit, &target.place))
    }

    /// Returns the source of a charge's id.
    pub(crate) fn id_source(&self, charge: Charge<'_>) -> IdSource {
        self.rule(charge.terms.rule.index())
            .sources
            .id_source(charge.terms.source.index())
    }

    /// Returns the limits whose rules trust an address from any peer.
    pub(crate) fn gullible(&self) -> impl Iterator<Item = &Arc<str>> {
        let bound = self.bound.iter().map(|bound| &bound.rule);
        let gullible = bound.filter(|rule| rule.sources.trust_anyone());
        gullible.map(|rule| &rule.limit)
    }

    /// Returns the mode of the charge before the request proceeds.
    pub(crate) fn mode(&self, charge: Charge<'_>) -> Mode {
        self.bound[charge.terms.rule.index()].mode
    }

    /// Returns whether a charge may have to wait in line.
    pub(crate) fn may_wait(&self, charge: Charge<'_>, limits: &Limits) -> bool {
        let has_line = |named: &NamedLimit| named.has_line() && !limits.is_shadow(named);
        !charge.terms.no_wait
            && self.mode(charge) == Mode::CheckAndSpend
            && self.named(charge, limits).is_some_and(has_line)
    }

    /// Returns the transaction of a charge. It declines to wait in line if its rule does or if the request cannot.
    #[inline(always)]
    pub(crate) fn transaction<'a>(
        &'a self,
        id: &'a ClientId,
        terms: &ChargeTerms,
        can_wait: bool,
    ) -> Transaction<'a> {
        let bound = &self.bound[terms.rule.index()];
        let mode = bound.mode;
        let cost = if bound.is_silent { 0 } else { terms.cost };
        let target = &self.targets[terms.target.index()];
        let limit = LimitRef::remembered(&target.limit, &target.place);
        let transaction = Transaction::new(limit, id.canonical())
            .canonical(target.seed.client(terms.hash))
            .cost(cost)
            .mode(mode)
            .no_wait_if(terms.no_wait || !can_wait)
            .secret_if(id.is_secret());
        let transaction = match mode.votes() {
            true => transaction,
            false => transaction.lenient(),
        };
        match terms.on_failure {
            JointPolicy::OfRules(on_failure) => transaction.on_failure(on_failure),
            JointPolicy::OfLimit { floor } => transaction.on_failure_at_least(floor),
        }
    }

    /// Returns the transactions of a request's charges.
    pub(crate) fn transactions<'a>(
        &'a self,
        charges: ChargeList<'a>,
        can_wait: bool,
    ) -> SmallVec<[Transaction<'a>; 4]> {
        let charges = charges.iter();
        let transaction = |charge: Charge<'a>| self.transaction(charge.id, charge.terms, can_wait);
        charges.map(transaction).collect()
    }

    /// Returns whether the charge of an admitted request depends on its outcome.
    pub(crate) fn waits_for_ending(&self, charge: Charge<'_>, decision: &Decision) -> bool {
        let BoundRule {
            rule, is_silent, ..
        } = &self.bound[charge.terms.rule.index()];
        let passes = decision.allowed() && !decision.would_be_denied();
        decision.limited() && (passes || *is_silent) && !rule.charging.is_before()
    }

    /// Returns whether a charge never refuses a request, even if it cannot be decided.
    pub(crate) fn is_harmless(&self, charge: Charge<'_>, limits: &Limits) -> bool {
        let named = self.named(charge, limits);
        let shadow = named.is_some_and(|named| limits.is_shadow(named));
        let failure = named.and_then(|named| named.name.failure());
        let refuses = charge.terms.on_failure.known(failure) == Some(OnFailure::Refuse);
        shadow || !self.mode(charge).votes() && !refuses
    }

    /// Returns whether a rule charges after the end of the response's body, not after its head.
    pub(crate) fn is_by_end(&self, rule: usize) -> bool {
        self.rule(rule).charging.is_by_end()
    }

    /// Returns the final cost of a rule, if it differs from the initial one.
    pub(crate) fn due(&self, rule: usize, cost: u32, ending: &RequestEnd<'_>) -> Option<u32> {
        self.rule(rule).charging.due(cost, ending)
    }

    fn rule(&self, i: usize) -> &Rule {
        &self.bound[i].rule
    }
}
