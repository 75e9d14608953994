//! The rules of a layer, and what they make of a request.

use std::{ops::Range, sync::Arc};

use http::request::Parts;
use smallvec::SmallVec;
use thiserror::Error;

use super::{
    Ending, Rule,
    charge::{Charge, Charges, Meanwhile},
    source::{ClientId, NoId},
};
use crate::{
    check::Finding,
    decision::Decision,
    id::IdFormat,
    key::{IdSource, Missing},
    limit::{Limits, did_you_mean},
    limiter::{Limiter, LimiterError, RuleRequirement},
    transaction::{LimitKey, LimitPlace, LimitRef, LimitSeed, Mode, OnFailure, Transaction},
};

/// Why a rule does not fit the limits, or the rules before it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The limit is not known, or the cost is above its burst.
    #[error(transparent)]
    Limiter(LimiterError),
    /// What the extractor finds is not in the format of the limit's ids.
    #[error(
        "limit `{limit}` has ids in the format {format}, which the rule's extractor does not find: use \
         another extractor, or give the limit another format"
    )]
    Format {
        /// The limit.
        limit: String,
        /// The format of its ids.
        format: IdFormat,
    },
    /// The costs of all rules of one limit are above its burst together.
    #[error("rules of one limit may meet in one bucket, where their costs are added up: {0}")]
    Sum(LimiterError),
    /// A [check](crate::check) has found something, and they are strict.
    #[error(transparent)]
    Check(Finding),
    /// Two rules of one limit are charged by how requests end, or one is.
    #[error(
        "limit `{limit}` has several rules, of which one is charged by how a request ends, so that they cannot be \
         added up: give it one rule, or two limits"
    )]
    MixedCharging {
        /// The limit.
        limit: String,
    },
    /// Two rules of one limit have different modes, so that their charges could not be added up.
    #[error("two rules of limit `{limit}` have the modes {modes:?}: give them one, or two limits")]
    MixedModes {
        /// The limit.
        limit: String,
        /// The modes.
        modes: [Mode; 2],
    },
}

/// The rules of a layer. The limits are held to what they take for granted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    held: Vec<BoundRule>,
    /// The rules of which one applies at most, by [`Rule::or_else`]. Most are alone.
    chains: Vec<Range<usize>>,
    targets: Vec<Target>,
    /// Whether a limit is charged by several chains, whose rules may meet in one bucket.
    may_meet: bool,
}

/// A rule, and where its limits are among the targets.
#[derive(Clone, Debug)]
struct BoundRule {
    rule: Rule,
    targets: Range<usize>,
}

/// A limit that a rule may charge.
#[derive(Clone, Debug)]
struct Target {
    limit: Arc<str>,
    /// How ids of its limit look, which no reload changes.
    format: IdFormat,
    /// The part of fingerprints that its buckets share, which no reload changes either.
    seed: LimitSeed,
    /// Where the limits in force have it.
    place: Arc<LimitPlace>,
    _claim: Arc<RuleRequirement>,
}

impl Rules {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many limits the rules may charge, one that has several rules each time.
    pub(crate) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Whether any rule is charged by how a request ends.
    pub(crate) fn wait_for_endings(&self) -> bool {
        let mut held = self.held.iter();
        held.any(|held| !held.rule.charging.is_before())
    }

    pub(crate) fn push(&mut self, mut rule: Rule, limiter: &Limiter) -> Result<(), RuleError> {
        let first = self.held.len();
        let others = std::mem::take(&mut rule.others);
        for rule in std::iter::once(rule).chain(others) {
            let targets = self.targets.len();
            for limit in rule.limits() {
                let target = self.target(&rule, limit, limiter)?;
                self.targets.push(target);
            }
            let targets = targets..self.targets.len();
            self.held.push(BoundRule { rule, targets });
        }
        let chain = first..self.held.len();
        let mut limits = self.held[chain.clone()]
            .iter()
            .flat_map(|held| held.rule.limits());
        self.may_meet |=
            limits.any(|limit| self.others(limit).any(|mut other| other.next().is_some()));
        self.chains.push(chain);
        Ok(())
    }

    /// The rules before this one that charge a limit, by their chains. Those of its own chain never meet it.
    fn others<'a>(
        &'a self,
        limit: &'a str,
    ) -> impl Iterator<Item = impl Iterator<Item = &'a Rule>> {
        let chains = self.chains.iter();
        chains.map(move |chain| {
            let rules = self.held[chain.clone()].iter().map(|held| &held.rule);
            rules.filter(move |rule| rule.limits().any(|other| **other == *limit))
        })
    }

    fn target(
        &self,
        rule: &Rule,
        limit: &Arc<str>,
        limiter: &Limiter,
    ) -> Result<Target, RuleError> {
        let limits = limiter.limits();
        let fits = rule.claim(limit, rule.fixed_cost()).check(&limits);
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
        // One of each chain may meet the others in one bucket.
        let most = self
            .others(limit)
            .filter_map(|others| others.map(Rule::fixed_cost).max());
        let sum = most.fold(rule.fixed_cost(), u32::saturating_add);
        let claim = limiter.claim(rule.claim(limit, sum));
        let key = named.map_or(LimitKey::Name(limit), |named| named.name.key());
        Ok(Target {
            limit: Arc::clone(limit),
            format,
            seed: LimitSeed::of(key),
            place: Arc::default(),
            _claim: claim.map_err(RuleError::Sum)?,
        })
    }

    /// Finds what a request is to be charged, and why it is refused if a rule finds no id: the first one that does not.
    /// Rules that meet in one bucket are one charge.
    pub(crate) fn charge(
        &self,
        parts: &Parts,
        limiter: &Limiter,
        charges: &mut Charges,
    ) -> Option<Missing> {
        let mut refused = None;
        for chain in &self.chains {
            match self.charge_of(chain.clone(), parts) {
                Ok(Some(charge)) => self.add(charge, charges),
                Ok(None) => {}
                // A limit in shadow mode refuses nobody, for whatever reason.
                Err(unknown) if self.are_shadow(&unknown.targets, limiter) => {}
                Err(unknown) => {
                    refused.get_or_insert(unknown.missing);
                }
            }
        }
        refused
    }

    #[inline(always)]
    fn add(&self, charge: Charge, charges: &mut Charges) {
        if !self.may_meet {
            charges.push(charge);
            return;
        }
        let meets = |other: &&mut Charge| self.meet(other, &charge);
        match charges.iter_mut().find(meets) {
            Some(other) => {
                other.cost = other.cost.saturating_add(charge.cost);
                other.on_failure = other.on_failure.with(self.rule(charge.rule).on_failure);
            }
            None => charges.push(charge),
        }
    }

    /// What a request is charged by the first rule of a chain that finds an id or, if none does, by the last one.
    #[inline(always)]
    fn charge_of(&self, chain: Range<usize>, parts: &Parts) -> Result<Option<Charge>, Unknown> {
        for i in chain.clone() {
            let rule = self.rule(i);
            if rule.skips(parts) {
                continue;
            }
            let found = match self.find(i, parts) {
                Err((no_id, _)) if i + 1 < chain.end => {
                    rule.fall_back(&no_id);
                    continue;
                }
                found => found,
            };
            let cost = rule.cost_of(parts);
            // A rule whose cost is found per request may find that there is none.
            if cost == 0 && !rule.has_fixed_cost() {
                break;
            }
            let found = found.map_or_else(
                |(no_id, of)| self.without_id(i, no_id, of),
                |found| Ok(Some(found)),
            )?;
            return Ok(found.map(|ChargedBucket { target, source, id }| Charge {
                rule: i,
                target,
                source,
                fingerprint: self.targets[target].seed.bucket(id.canonical()),
                id,
                cost,
                on_failure: Meanwhile::of(rule.on_failure),
            }));
        }
        Ok(None)
    }

    /// The limit that a rule charges a request to, and the bucket; or why there is none, and of which limits.
    #[inline(always)]
    fn find(&self, i: usize, parts: &Parts) -> Result<ChargedBucket, (NoId, Range<usize>)> {
        let BoundRule { rule, targets } = &self.held[i];
        let mut target = targets.start;
        if let Some(chosen) = rule.chosen(parts) {
            let limits = &self.targets[targets.clone()];
            let Some(i) = limits.iter().position(|target| *target.limit == *chosen) else {
                let known: Vec<&str> = limits.iter().map(|target| &*target.limit).collect();
                let missing = Missing::server(format!(
                    "the rule has chosen the limit `{chosen}`, which `limit_by` does not name: {}",
                    did_you_mean(chosen, &known)
                ));
                return Err((NoId::Wrong(missing), targets.clone()));
            };
            target += i;
        }
        match rule.find(parts, self.targets[target].format) {
            Ok((source, id)) => Ok(ChargedBucket { target, source, id }),
            Err(no_id) => Err((no_id, target..target + 1)),
        }
    }

    /// The bucket that requests without an id share, if the rule says so.
    #[cold]
    fn without_id(
        &self,
        i: usize,
        no_id: NoId,
        of: Range<usize>,
    ) -> Result<Option<ChargedBucket>, Unknown> {
        let target = of.start;
        match self.rule(i).without_id(no_id) {
            Ok(id) => Ok(id.map(|id| ChargedBucket {
                target,
                source: 0,
                id,
            })),
            Err(missing) => Err(Unknown {
                missing,
                targets: of,
            }),
        }
    }

    /// Whether both are charged to one bucket.
    fn meet(&self, a: &Charge, b: &Charge) -> bool {
        let is_same = self.targets[a.target].limit == self.targets[b.target].limit;
        is_same && a.fingerprint == b.fingerprint && a.id.canonical() == b.id.canonical()
    }

    fn are_shadow(&self, targets: &Range<usize>, limiter: &Limiter) -> bool {
        let mut targets = self.targets[targets.clone()].iter();
        targets.all(|target| limiter.is_shadow(&target.limit))
    }

    /// The name of the limit that is charged.
    pub(crate) fn limit(&self, charge: &Charge) -> &Arc<str> {
        &self.targets[charge.target].limit
    }

    /// What the extractor of a charge goes by.
    pub(crate) fn id_source(&self, charge: &Charge) -> IdSource {
        self.rule(charge.rule).sources.id_source(charge.source)
    }

    /// The limits whose rules believe anyone about who is asking.
    pub(crate) fn gullible(&self) -> impl Iterator<Item = &Arc<str>> {
        let held = self.held.iter().map(|held| &held.rule);
        let gullible = held.filter(|rule| rule.sources.trust_anyone());
        gullible.map(|rule| &rule.limit)
    }

    /// How it is charged before the request goes on.
    pub(crate) fn mode(&self, charge: &Charge) -> Mode {
        let Rule { charging, mode, .. } = self.rule(charge.rule);
        charging.mode(*mode)
    }

    /// The transaction of a charge.
    pub(crate) fn transaction<'a>(&'a self, charge: &'a Charge) -> Transaction<'a> {
        let Rule { charging, mode, .. } = self.rule(charge.rule);
        // A debit is never denied, so before it there is nothing to ask for.
        let asks = !(charging.is_after() && *mode == Mode::Debit);
        let cost = if asks { charge.cost } else { 0 };
        let mode = charging.mode(*mode);
        let target = &self.targets[charge.target];
        let limit = LimitRef::remembered(&target.limit, &target.place);
        let transaction = Transaction::new(limit, charge.id.canonical())
            .canonical(charge.fingerprint)
            .cost(cost)
            .mode(mode);
        let transaction = match mode.votes() {
            true => transaction,
            false => transaction.lenient(),
        };
        match charge.on_failure {
            Meanwhile::Said(on_failure) => transaction.on_failure(on_failure),
            Meanwhile::Limits { floor } => transaction.on_failure_at_least(floor),
        }
    }

    /// The transactions of a request's charges.
    pub(crate) fn transactions<'a>(
        &'a self,
        charges: &'a [Charge],
    ) -> SmallVec<[Transaction<'a>; 4]> {
        let charges = charges.iter();
        charges.map(|charge| self.transaction(charge)).collect()
    }

    /// Whether a charge depends on how the request ends, which has passed.
    pub(crate) fn waits_for_ending(&self, charge: &Charge, decision: &Decision) -> bool {
        let Rule { charging, mode, .. } = self.rule(charge.rule);
        let passes = decision.allowed() && !decision.would_be_denied();
        let is_debit = charging.is_after() && *mode == Mode::Debit;
        decision.limited() && (passes || is_debit) && !charging.is_before()
    }

    /// Whether a charge refuses nobody, not even if it cannot be decided.
    pub(crate) fn is_harmless(&self, charge: &Charge, limits: &Limits) -> bool {
        let named = limits.get(self.limit(charge));
        let shadow = named.is_some_and(|named| limits.is_shadow(named));
        let failure = named.and_then(|named| named.name.failure());
        let refuses = charge.on_failure.known(failure) == Some(OnFailure::Refuse);
        shadow || !self.mode(charge).votes() && !refuses
    }

    /// Whether a rule charges by the end of the response's body, not by its head.
    pub(crate) fn is_by_end(&self, rule: usize) -> bool {
        self.rule(rule).charging.is_by_end()
    }

    /// What a rule charges in the end for what cost this before, if that is to change.
    pub(crate) fn due(&self, rule: usize, cost: u32, ending: &Ending<'_>) -> Option<u32> {
        self.rule(rule).charging.due(cost, ending)
    }

    fn rule(&self, i: usize) -> &Rule {
        &self.held[i].rule
    }
}

/// Why it is not known whose bucket of which limits a request meets.
struct Unknown {
    missing: Missing,
    targets: Range<usize>,
}

/// Whose bucket a request meets.
struct ChargedBucket {
    target: usize,
    source: usize,
    id: ClientId,
}
