//! What rules need of the limits, when they are added to a layer and on each reload.

use super::{
    Cost, Rule,
    charge::{BoundRule, Rules},
};
use crate::{
    algorithm::{Ask, AskError, Charge, Verb},
    limit::{Limit, Limits, LimitsError, NamedLimit},
};

/// What is wrong with other rules for a list of blocked clients.
pub(super) const LOOKS_ONLY: &str = "it is a list of blocked clients, which a rule only looks at: give it a rule without a cost, \
                                     other limits or a charge by outcome";

impl Rules {
    /// Checks that the limits have what the rules need. `before` are the limits that they would replace.
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
                let had_values = before
                    .and_then(|before| before.get(name)?.limit())
                    .is_some();
                if had_values && named.limit().is_none() && !named.is_off() {
                    return Err(mistaken(format!(
                        "a rule uses it, and it has no values any more: add them again, or write `{name}: {{}}` to turn it off"
                    )));
                }
                if named.is_block() && rule.choice.is_some() {
                    return Err(mistaken(LOOKS_ONLY.into()));
                }
                rule.check_limit(named).map_err(mistaken)?;
                let alike = |chain: &&[BoundRule]| matches!(chain, [one] if one.rule.repeats(rule));
                if self.chains().filter(alike).count() > 1 {
                    return Err(mistaken(
                        "two rules charge it for every request, by the same kind of id: remove one, give one a condition, or \
                         use two limits"
                            .into(),
                    ));
                }
                self.check_costs(rule, named)?;
            }
        }
        Ok(())
    }

    /// Checks what rules of one limit cost a request that meets them all in one bucket.
    fn check_costs(&self, rule: &Rule, named: &NamedLimit) -> Result<(), LimitsError> {
        let is_of_limit =
            |bound: &&BoundRule| bound.rule.limits().any(|name| **name == *named.name());
        let costs = self.chains().filter_map(|chain| {
            let of_limit = chain.iter().filter(is_of_limit);
            of_limit.map(|bound| bound.rule.known_cost()).max()
        });
        let (count, cost) = costs.fold((0, 0_u32), |(count, sum), cost| {
            (count + 1, sum.saturating_add(cost))
        });
        let others = self.iter().filter(is_of_limit);
        if count > 1
            && !others
                .map(|other| &other.rule)
                .all(|other| rule.agrees_with(other))
        {
            return Err(LimitsError::of_limit(
                named.name(),
                "it has several rules, and their charges in one bucket are added up: give them the same `on_failure` and \
                 `no_wait`, no charge by outcome and no `limit_from`, or use two limits",
            ));
        }
        let mut costly = named
            .all()
            .filter_map(|(id, limit)| Some((id, limit.max_cost().filter(|most| *most < cost)?)));
        let Some((id, most)) = costly.next() else {
            return Ok(());
        };
        let by = match count {
            1 => "a request of a rule costs",
            _ => "the rules of this limit cost a request",
        };
        let message = format!(
            "{by} {cost}, and at most {most} can ever pass: lower the cost, or raise the limit"
        );
        Err(LimitsError::of_limit(named.name(), message).of_id(id))
    }
}

impl Rule {
    /// Says what a rule needs that a limit does not have.
    fn check_limit(&self, named: &NamedLimit) -> Result<(), String> {
        let format = named.format();
        if !self.extractor.fits(format) {
            return Err(format!(
                "it has ids in the format {format}, which the extractor of a rule cannot produce: use another extractor, or \
                 give the limit another format"
            ));
        }
        let mut reasons = named.all().filter_map(|(_, limit)| self.refuses(limit));
        reasons.next().map_or(Ok(()), Err)
    }

    /// Says why a limit cannot be charged by the rule, or corrected after the request. A cost above its burst is not meant.
    pub(super) fn refuses(&self, limit: &Limit) -> Option<String> {
        let algorithm = limit.algorithm()?;
        if let Err(reason @ AskError::Minimum(_)) =
            algorithm.accepts(&Ask::new(Verb::Spend, self.known_cost()))
        {
            return Some(format!("{reason}: change `cost`"));
        }
        if self.charging.is_open() && algorithm.hold().is_some() {
            return Some(AskError::Correction(self.charging.setter()).to_string());
        }
        if !self.charging.corrects() {
            return None;
        }
        let charge = Charge::default();
        let refund = Ask::new(Verb::Refund, 1).of(Some(&charge));
        let reason = algorithm.accepts(&refund).err()?;
        let setter = self.charging.setter();
        Some(format!("{reason}: remove `{setter}` from its rule"))
    }

    /// Returns the cost that is known at startup.
    fn known_cost(&self) -> u32 {
        match self.cost {
            Cost::Fixed(cost) => cost,
            Cost::By(_) => 1,
        }
    }

    /// Returns whether both charge every request to one limit in the same way.
    fn repeats(&self, other: &Self) -> bool {
        let is_plain = |rule: &Self| rule.skips.is_empty() && rule.choice.is_none();
        self.limit == other.limit
            && self.extracts == other.extracts
            && is_plain(self)
            && is_plain(other)
    }

    /// Returns whether the charges of both can be one.
    fn agrees_with(&self, other: &Self) -> bool {
        let settings = |rule: &Self| (rule.on_failure, rule.no_wait);
        let is_plain = |rule: &Self| rule.values.is_none() && !rule.charging.is_open();
        settings(self) == settings(other) && is_plain(self) && is_plain(other)
    }
}
