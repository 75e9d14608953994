//! Checks rules against the limits, when they are added to a layer and on each reload.

use super::{
    Rule,
    charge::{LayerRule, Rules},
};
use crate::{
    algorithm::{Algorithm, Ask, AskError, Charge, Verb},
    id::{IdFormat, range},
    key::IdSource,
    limit::{Limit, Limits, LimitsError, NamedLimit},
    transaction::Mode,
};

impl Rules {
    /// Checks that the limits fit the rules. `before` are the limits that would be replaced.
    pub(crate) fn check(
        &self,
        before: Option<&Limits>,
        limits: &Limits,
    ) -> Result<(), LimitsError> {
        for rule in self.iter().map(|bound| &bound.rule) {
            for name in rule.limits() {
                let mistaken = |message: String| LimitsError::of_limit(name, message);
                let Some(named) = limits.get(name) else {
                    return Err(mistaken(format!(
                        "a rule uses it: {}",
                        limits.unknown(name)
                    )));
                };
                let before = before.and_then(|before| before.get(name));
                let had_values = before.and_then(NamedLimit::limit).is_some();
                if had_values && named.limit().is_none() && !named.is_off() {
                    return Err(mistaken(format!(
                        "a rule uses it, and it has no values any more: add them again, or write `{name}: {{}}` to turn it off"
                    )));
                }
                if named.is_block() && !rule.only_looks() {
                    return Err(mistaken(
                        "it is a list of blocked clients, which a rule only looks at: give it a rule without a cost, other \
                         limits or a charge by outcome"
                            .into(),
                    ));
                }
                let format = named.format();
                if !rule.extractor.fits(format) {
                    return Err(mistaken(format!(
                        "it has ids in the format {format}, which the extractor of a rule cannot produce: use another \
                         extractor, or give the limit another format"
                    )));
                }
                let alike = |chain: &&[LayerRule]| matches!(chain, [one] if one.rule.repeats(rule));
                if self.chains().filter(alike).count() > 1 {
                    return Err(mistaken(
                        "two rules charge it for every request, by the same kind of id: remove one, give one a condition, or \
                         use two limits"
                            .into(),
                    ));
                }
                self.check_values(rule, named, before)?;
            }
        }
        if before.is_some() {
            // After a reload that combines a line with permits, the requests that meet both are refused.
            return Ok(());
        }
        self.check_lines(limits)
    }

    /// Checks that no request would hold permits while it waits in line.
    fn check_lines(&self, limits: &Limits) -> Result<(), LimitsError> {
        let find = |bound: &LayerRule, is: fn(&Limit) -> bool| {
            let mut named = bound.rule.limits().filter_map(|name| limits.get(name));
            named.find(|named| named.unchecked(None).any(|(_, limit)| is(limit)))
        };
        let has_permits = |limit: &Limit| limit.algorithm().and_then(Algorithm::hold).is_some();
        let mut waiting = self.iter().filter(|bound| bound.waits());
        let line = waiting.find_map(|bound| find(bound, |limit| limit.line().is_some()));
        let permits = self.iter().find_map(|bound| find(bound, has_permits));
        let Some((line, permits)) = line.zip(permits) else {
            return Ok(());
        };
        let message = format!(
            "requests would keep its permits while they wait in line for limit `{}`: put the permits into a layer inside of the \
             one with the line, where they are taken when it is the request's turn",
            line.name()
        );
        Err(LimitsError::of_limit(permits.name(), message))
    }

    /// Checks new values of limits against each rule, and against the sum of the costs of all rules that a request can meet in one
    /// bucket.
    fn check_values<'a>(
        &'a self,
        rule: &Rule,
        named: &NamedLimit,
        before: Option<&NamedLimit>,
    ) -> Result<(), LimitsError> {
        let is_of_limit = |rule: &&Rule| rule.limits().any(|name| **name == *named.name());
        let of_limit = |chain: &'a [LayerRule]| -> Vec<&'a Rule> {
            let rules = chain.iter().map(|bound| &bound.rule);
            rules.filter(is_of_limit).collect()
        };
        let chains: Vec<_> = self.chains().map(of_limit).collect();
        let costs = chains
            .iter()
            .filter_map(|rules| rules.iter().map(|rule| rule.cost).max());
        let (count, cost) = costs.fold((0, 0_u32), |(count, sum), cost| {
            (count + 1, sum.saturating_add(cost))
        });
        if count > 1 && !chains.iter().flatten().all(|other| rule.agrees_with(other)) {
            return Err(LimitsError::of_limit(
                named.name(),
                "it has several rules, and their charges in one bucket are added up: if they are for different \
                 requests, make them one rule with `cost_by`, or give them the same `on_failure` and `no_wait`, no charge by \
                 outcome and no `limit_from`",
            ));
        }
        let counts_addresses = named.format() == IdFormat::Opaque && rule.finds_addresses();
        for (id, limit) in named.unchecked(before) {
            if counts_addresses && id.is_some_and(is_range) {
                return Err(LimitsError::of_limit(
                    named.name(),
                    "the override is for a range, but ids of the limit are texts, which match exactly: write `id: ipAddress` \
                     for the limit or, in code, declare it with `LimitName::unnumbered(name, IdFormat::IpAddress)`",
                )
                .of_id(id));
            }
            let costly = limit.max_cost().filter(|most| *most < cost);
            let costly = costly.map(|most| {
                format!("a request that meets its rules costs {cost}, and at most {most} can ever pass: lower the cost, or raise the limit")
            });
            if let Some(message) = rule.refuses(limit).or(costly) {
                return Err(LimitsError::of_limit(named.name(), message).of_id(id));
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Returns the reason why the rule cannot charge a limit, or correct its charge after the request. It does not check whether
    /// the cost is above the burst.
    pub(super) fn refuses(&self, limit: &Limit) -> Option<String> {
        let algorithm = limit.algorithm()?;
        if let Err(reason @ AskError::Minimum(_)) =
            algorithm.accepts(&Ask::new(Verb::Spend, self.cost))
        {
            return Some(format!("{reason}: change `cost`"));
        }
        let outcome = self.by_outcome.as_ref()?;
        if algorithm.hold().is_some() {
            return Some(AskError::Correction(outcome.setter).to_string());
        }
        if outcome.mode == Mode::CheckOnly {
            // These rules refund nothing.
            return None;
        }
        let refund = Ask::new(Verb::Refund, 1).of(Some(Charge::default()));
        let reason = algorithm.accepts(&refund).err()?;
        Some(format!(
            "{reason}: remove `{}` from its rule",
            outcome.setter
        ))
    }

    /// Returns whether all its ids are addresses.
    fn finds_addresses(&self) -> bool {
        let sources = [IdSource::Address, IdSource::Peer, IdSource::AnyHeader];
        sources.contains(&self.extractor.source()) && self.extractor.fits(IdFormat::IpAddress)
    }

    /// Returns whether the rule only reads, as that of a list of blocked clients does.
    fn only_looks(&self) -> bool {
        let is_plain = self.choice.is_none() && self.values.is_none() && self.by_outcome.is_none();
        is_plain && self.cost == 0 && self.cost_by.is_none()
    }

    /// Returns whether both rules charge every request to the same limit in the same way.
    fn repeats(&self, other: &Self) -> bool {
        let is_plain = |rule: &Self| rule.skips.is_empty() && rule.choice.is_none();
        self.limit == other.limit
            && self.extracts == other.extracts
            && is_plain(self)
            && is_plain(other)
    }

    /// Returns whether one member can have the charges of both rules.
    fn agrees_with(&self, other: &Self) -> bool {
        let settings = |rule: &Self| (rule.on_failure, rule.no_wait);
        let is_plain = |rule: &Self| rule.values.is_none() && rule.by_outcome.is_none();
        settings(self) == settings(other) && is_plain(self) && is_plain(other)
    }
}

/// Returns whether an id is a range of addresses.
fn is_range(id: &str) -> bool {
    id.contains('/') && range(id).is_ok()
}
