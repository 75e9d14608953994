//! The limits that a layer has of its own.

use crate::{
    backend::Backend,
    key::KeyExtractor,
    limit::{Limit, LimitName, Limits},
    limiter::Limiter,
    rule::{Rule, RuleError},
};

/// The default name of the first limit.
const NAME: &str = "requests";

/// The limits that a layer has of its own, and its rules.
#[derive(Clone, Debug)]
pub(super) struct OwnLimits {
    limits: Vec<(LimitName, Limit)>,
    /// The rules of these limits, then the rules added by [`RateLimitLayer::rule`](super::RateLimitLayer::rule).
    pub(super) rules: Vec<Rule>,
}

impl OwnLimits {
    /// The first limit, with its default name.
    pub(super) fn first(limit: Limit, extractor: impl KeyExtractor) -> Self {
        Self {
            limits: vec![(NAME.into(), limit)],
            rules: vec![Rule::new(NAME, extractor)],
        }
    }

    /// Returns whether there are no other rules than those of the limits.
    pub(super) fn has_only_own_rules(&self) -> bool {
        self.rules.len() == self.limits.len()
    }

    pub(super) fn add(
        &mut self,
        name: LimitName,
        limit: Limit,
        extractor: impl KeyExtractor,
        options: impl FnOnce(Rule) -> Rule,
    ) {
        let rule = options(Rule::new(name.as_str(), extractor));
        self.rules.insert(self.limits.len(), rule);
        self.limits.push((name, limit));
    }

    /// Renames the first limit.
    pub(super) fn named(mut self, name: LimitName) -> Self {
        if let (Some(rule), Some((first, _))) = (self.rules.first_mut(), self.limits.first_mut()) {
            *rule = rule.clone().of_limit(name.as_str());
            *first = name;
        }
        self
    }

    #[track_caller]
    pub(super) fn limiter(&self, backend: impl Backend) -> Result<Limiter, RuleError> {
        let mut limits = Limits::builder();
        for (name, limit) in &self.limits {
            limits = limits.limit(name.clone(), limit.clone());
        }
        let limits = limits.build().map_err(RuleError::Limits)?;
        Ok(Limiter::new(limits, backend))
    }
}
