//! The evaluation of a rule for one request: whether it applies, the cost, and the bucket.

use std::sync::{Arc, atomic::Ordering};

use http::request::Parts;

use super::{
    Cost, OnMissing, Rule,
    choice::Chosen,
    rule_error::RuleError,
    source::{ClientId, IdPlace, NoId, Unknown, WithoutId},
};
use crate::{id::Id, key::MissingId, limit::Limits, limiter::RuleUse, transaction::Mode};

impl Rule {
    /// Returns the limits that the rule can charge, its own first.
    pub(super) fn limits(&self) -> impl Iterator<Item = &Arc<str>> {
        let others = self.choice.iter().flat_map(|choice| choice.others.iter());
        std::iter::once(&self.limit).chain(others)
    }

    #[inline]
    pub(super) fn chosen<'a>(&self, parts: &'a Parts) -> Option<Chosen<'a>> {
        self.choice.as_ref().and_then(|choice| choice.of(parts))
    }

    #[inline]
    pub(super) fn skips(&self, parts: &Parts) -> bool {
        self.skips.any(parts)
    }

    #[inline]
    pub(super) fn cost_of(&self, parts: &Parts) -> u32 {
        match &self.cost {
            Cost::Fixed(cost) => *cost,
            Cost::By(cost) => cost(parts),
        }
    }

    pub(super) fn has_fixed_cost(&self) -> bool {
        matches!(self.cost, Cost::Fixed(_))
    }

    /// Makes a rule of a list of blocked clients look at it without charging. Returns whether it is such a rule.
    pub(super) fn look_only(&mut self, limits: &Limits) -> Result<bool, RuleError> {
        let is_block =
            |limit: &&Arc<str>| limits.get(limit).is_some_and(|named| named.name.is_block());
        let Some(limit) = self.limits().find(is_block) else {
            return Ok(false);
        };
        let is_plain = matches!(self.cost, Cost::Fixed(1)) && self.mode == Mode::default();
        if !is_plain || !self.charging.is_before() || self.choice.is_some() {
            let limit = limit.to_string();
            return Err(RuleError::Block { limit });
        }
        (self.cost, self.mode) = (Cost::Fixed(0), Mode::CheckOnly);
        Ok(true)
    }

    /// Returns the cost that is known at startup.
    pub(super) fn fixed_cost(&self) -> u32 {
        match self.cost {
            Cost::Fixed(cost) => cost,
            Cost::By(_) => 1,
        }
    }

    pub(super) fn claim(&self, limit: &Arc<str>, cost: u32) -> RuleUse {
        let sources = self.sources.clone();
        let meets = move |folded: &str| folded == Id::MISSING || sources.can_find(folded);
        let claim = RuleUse::new(Arc::clone(limit), cost, self.mode, Box::new(meets));
        let claim = claim.with_secrets_if(self.sources.have_secrets());
        match self.charging.corrects() {
            true => claim.with_corrections(),
            false => claim,
        }
    }

    /// Logs a mistake of the server before the next extractor or rule is tried. A missing id is not a mistake.
    pub(super) fn fall_back(&self, no_id: &NoId) {
        if let NoId::Wrong(missing) = no_id {
            self.log_once(missing, "fall back to the next extractor");
        }
    }

    /// Handles a request for which neither this rule nor another finds an id: the request shares a bucket, is not
    /// limited, or is refused, for the reason `unknown`.
    #[cold]
    pub(super) fn without_id(
        &self,
        without: WithoutId,
        id: &mut ClientId,
        unknown: &mut Option<Unknown>,
    ) -> Option<IdPlace> {
        let WithoutId { no_id, targets } = without;
        let (NoId::Absent(missing) | NoId::Wrong(missing)) = no_id else {
            return None;
        };
        if missing.is_unknown_limit() {
            self.log_unknown_limit(&missing);
            *unknown = Some(Unknown { missing, targets });
            return None;
        }
        let consequence = match self.on_missing {
            OnMissing::Refuse => "are refused",
            OnMissing::Skip => "are not limited",
            OnMissing::Shared => "share one bucket",
        };
        self.log_once(&missing, consequence);
        match self.on_missing {
            OnMissing::Refuse => *unknown = Some(Unknown { missing, targets }),
            OnMissing::Skip => {}
            OnMissing::Shared => {
                *id = ClientId::missing();
                return Some(IdPlace {
                    is_missing: true,
                    ..IdPlace::new(targets.start, 0)
                });
            }
        }
        None
    }

    fn log_unknown_limit(&self, missing: &MissingId) {
        if !self.logged.swap(true, Ordering::Relaxed) {
            let (limit, reason) = (&*self.limit, missing.reason());
            tracing::error!(
                limit,
                "requests are refused, because they have no limit: {reason}"
            );
        }
    }

    fn log_once(&self, missing: &MissingId, consequence: &str) {
        if missing.is_servers_fault() && !self.logged.swap(true, Ordering::Relaxed) {
            let (limit, reason) = (&*self.limit, missing.reason());
            tracing::error!(
                limit,
                "requests {consequence}, because they have no valid id: {reason}"
            );
        }
    }
}
