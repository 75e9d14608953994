//! The limits of each plan, which the file of limits names, and the layer that applies them.

use std::{collections::BTreeSet, sync::Arc};

use http::request::Parts;
use thiserror::Error;
use tollgate::{
    Limiter, Limits, RateLimitLayer, Rule,
    id::Id,
    key::ExtensionId,
    limit::{LimitsError, NamedLimit},
    response::Headers,
    rule::RequestEnd,
};

use super::{call::Call, refusal};

/// What a limit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Requests,
    Tokens,
    Calls,
    Month,
}

/// The names of all limits, as they were at startup. A new name needs a restart, new values do not.
#[derive(Debug)]
pub(crate) struct PlanLimits(BTreeSet<Arc<str>>);

/// The limits of one call, by measure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen([Option<Arc<str>>; 4]);

/// The error for a limit that no call would meet.
#[derive(Debug, Error)]
#[error(
    "no call has the limit `{0}`: write <plan>.<measure> or <plan>.<measure>.<class>, with requests, tokens, calls or month"
)]
pub(crate) struct NameError(String);

impl Measure {
    const ALL: [Self; 4] = [Self::Requests, Self::Tokens, Self::Calls, Self::Month];

    /// The measure of a limit, by the limit's name.
    pub(crate) fn of(limit: &str) -> Option<Self> {
        let measure = limit.split('.').nth(1)?;
        Self::ALL.into_iter().find(|each| each.as_str() == measure)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Calls => "calls",
            Self::Month => "month",
        }
    }
}

impl PlanLimits {
    pub(crate) fn of(limits: &Limits) -> Result<Self, NameError> {
        let names = limits.iter().map(NamedLimit::name).map(|name| {
            let is_known = Measure::of(name).is_some() && name.split('.').count() <= 3;
            is_known
                .then(|| name.into())
                .ok_or_else(|| NameError(name.to_owned()))
        });
        names.collect::<Result<_, _>>().map(Self)
    }

    /// The limits for a plan and a class of models: those with the class, and else those without.
    pub(crate) fn choose(&self, plan: &str, class: Option<&str>) -> Chosen {
        Chosen(Measure::ALL.map(|measure| {
            let general = format!("{plan}.{}", measure.as_str());
            let special = class.and_then(|class| self.0.get(&*format!("{general}.{class}")));
            special.or_else(|| self.0.get(&*general)).cloned()
        }))
    }

    pub(crate) fn has_plan(&self, plan: &str) -> bool {
        let mut names = self.0.iter().map(|name| name.split('.'));
        names.any(|mut parts| parts.next() == Some(plan))
    }

    pub(crate) fn has_class(&self, class: &str) -> bool {
        let mut names = self.0.iter().map(|name| name.split('.'));
        names.any(|mut parts| parts.nth(2) == Some(class))
    }

    /// The layers, the outer one first. A call is charged by all rules of the outer layer or by none, and may wait there. After
    /// that, the inner layer counts it among the calls at once.
    pub(crate) fn layers(&self, limiter: &Limiter) -> Result<[RateLimitLayer; 2], LimitsError> {
        let outer = [Measure::Requests, Measure::Tokens, Measure::Month];
        Ok([
            self.layer(limiter, &outer)?,
            self.layer(limiter, &[Measure::Calls])?,
        ])
    }

    fn layer(
        &self,
        limiter: &Limiter,
        measures: &[Measure],
    ) -> Result<RateLimitLayer, LimitsError> {
        let layer = RateLimitLayer::with_limiter(limiter.clone())
            .headers(Headers::None)
            .extensions(true)
            .respond_with(refusal::denied(limiter));
        // Plans need no limit for each measure.
        let mut rules = measures.iter().filter_map(|measure| self.rule(*measure));
        rules.try_fold(layer, RateLimitLayer::try_rule)
    }

    fn rule(&self, measure: Measure) -> Option<Rule> {
        let mut names = self.0.iter();
        let mut names = names
            .by_ref()
            .filter(|name| Measure::of(name) == Some(measure));
        let first = Arc::clone(names.next()?);
        let key = ExtensionId::new(|call: &Arc<Call>| Id::from(&*call.key.id));
        let rule = Rule::new(first, key)
            .limit_by(names.cloned(), move |request| chosen(request, measure))
            .only_if(move |request: &Parts| chosen(request, measure).is_some());
        Some(match measure {
            Measure::Requests | Measure::Calls => rule,
            Measure::Tokens | Measure::Month => rule.cost_by(reserved).settle_by(used),
        })
    }
}

fn chosen(request: &Parts, measure: Measure) -> Option<&str> {
    let call = request.extensions.get::<Arc<Call>>()?;
    call.limits.0[measure as usize].as_deref()
}

fn reserved(request: &Parts) -> u32 {
    let call = request.extensions.get::<Arc<Call>>();
    call.map_or(1, |call| call.reserved)
}

/// What a call has used, however it has ended.
fn used(ending: &RequestEnd<'_>) -> Option<u32> {
    ending.request_extensions().get::<Arc<Call>>()?.meter.used()
}
