//! Prepares what the rules of a layer charge a request.

use std::{
    iter::{self, zip},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::request::Parts;

use super::Rule;
use crate::{
    algorithm::{Ask, Verb},
    batch::{Member, MemberRole},
    id::{Id, MISSING, client_hash, shortened},
    key::{IdSource, MissingId},
    limit::{Limit, Limits, NamedLimit},
    limiter::Members,
    message::did_you_mean,
    transaction::{Mode, Operation},
};

/// The client that a rule has found in a request.
#[derive(Debug, Default)]
pub(crate) struct FoundClient {
    /// The client in the canonical form of the limit's ids.
    id: Option<Id>,
    /// The values of the limit, if they have come with the request.
    values: Option<Box<Limit>>,
}

impl FoundClient {
    pub(crate) const NOTHING: Self = Self {
        id: None,
        values: None,
    };
}

/// The rules of a layer. At most one of several rules that are joined by [`Rule::or_else`] charges a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(Arc<[LayerRule]>);

/// A rule of a layer, with its position in a chain and its mode.
#[derive(Clone, Debug)]
pub(crate) struct LayerRule {
    pub(crate) rule: Rule,
    /// Whether the rule is for requests that the rule before it passes on.
    is_alternative: bool,
    /// Whether the rule after it is for requests that this one passes on.
    has_alternative: bool,
    /// Whether it was logged that a mistake of the server makes requests try the next rule.
    falls_back: Arc<AtomicBool>,
    mode: Mode,
}

/// The treatment of a request without a valid id. If the server is at fault, the remedy is logged once.
/// [`Proxies`](crate::key::Proxies) and the [guide](crate::guide::proxies#requests-without-a-client-address) have
/// examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnMissing {
    /// It is refused: with 400 if the client did not send an id, with 500 if the server is not configured to find it.
    /// The layer's other rules still charge it.
    #[default]
    Refuse,
    /// The rule is skipped. Clients can then avoid the limit by leaving the id out, or by sending an invalid one. To
    /// count such requests in another way, use [`Rule::or_else`].
    Skip,
    /// All such requests share one bucket.
    Shared,
}

/// The effect of a rule on a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleEffect {
    /// It has charged the request or decided not to. No alternative is tried.
    Done,
    /// It passes the request on to the next alternative.
    PassedOn,
}

impl OnMissing {
    fn consequence(self) -> &'static str {
        match self {
            Self::Refuse => "are refused",
            Self::Skip => "are not limited",
            Self::Shared => "share one bucket",
        }
    }
}

impl Rules {
    /// Adds a rule and its alternatives.
    pub(crate) fn with(&self, mut rule: Rule, limits: &Limits) -> Self {
        let others = std::mem::take(&mut rule.others);
        let last = others.len();
        let mut rules = self.0.to_vec();
        for (i, rule) in iter::once(rule).chain(others).enumerate() {
            rules.push(LayerRule {
                is_alternative: i > 0,
                has_alternative: i < last,
                ..LayerRule::new(rule, limits)
            });
        }
        Self(rules.into())
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &LayerRule> {
        self.0.iter()
    }

    /// Returns the chains of rules, of which at most one rule charges a request.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &[LayerRule]> {
        self.0.chunk_by(|_, next| next.is_alternative)
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &LayerRule {
        &self.0[index as usize]
    }

    /// Prepares the members that a request is charged to, one for each bucket. If a rule finds no id and refuses the request for
    /// that, `missing` becomes the reason. `own` has the index of each rule's own limit, and `found` has an element for the client
    /// of each rule.
    #[inline]
    pub(crate) fn charge<'a>(
        &self,
        request: &Parts,
        limits: &'a Limits,
        own: &[u32],
        found: &'a mut [FoundClient],
        members: &mut Members<'a>,
        missing: &mut Option<MissingId>,
    ) {
        let mut effect = RuleEffect::PassedOn;
        let rules = (0..).zip(&*self.0);
        for ((index, bound), (own, found)) in rules.zip(zip(own, found)) {
            if bound.is_alternative && effect != RuleEffect::PassedOn {
                continue;
            }
            let limit = limits.at(*own);
            effect = bound
                .charge(request, limits, limit, index, found, members)
                .unwrap_or_else(|reason| {
                    missing.get_or_insert(reason);
                    RuleEffect::Done
                });
        }
    }
}

impl LayerRule {
    fn new(mut rule: Rule, limits: &Limits) -> Self {
        let outcome = rule.by_outcome.as_ref();
        let mut mode = outcome.map_or(Mode::CheckAndSpend, |outcome| outcome.mode);
        let named = limits.get(&rule.limit);
        if named.is_some_and(NamedLimit::is_block) && rule.cost == 1 {
            // A list of blocked clients is only read, not charged.
            rule.cost = 0;
            mode = Mode::CheckOnly;
        }
        Self {
            is_alternative: false,
            has_alternative: false,
            falls_back: Arc::default(),
            mode,
            rule,
        }
    }

    /// Prepares the charge of the rule. An error refuses the request.
    #[inline]
    fn charge<'a>(
        &self,
        request: &Parts,
        limits: &'a Limits,
        own: &'a NamedLimit,
        index: u32,
        found: &'a mut FoundClient,
        members: &mut Members<'a>,
    ) -> Result<RuleEffect, MissingId> {
        let rule = &self.rule;
        if rule.skips.hold(request) {
            return Ok(RuleEffect::PassedOn);
        }
        let limit = self.limit_for(request, limits, own)?;
        if let Some(values) = &rule.values {
            found.values = values(request).map(Box::new);
            let misfit = found.values.as_deref().and_then(|own| self.misfit(own));
            misfit.map_or(Ok(()), Err)?;
        }
        let id = rule.extractor.extract_as(request, limit.format());
        if self.has_alternative && !matches!(id, Ok(Some(_))) {
            if let Err(missing) = id {
                missing.log_once(Some(&rule.limit), "try another rule", &self.falls_back);
            }
            return Ok(RuleEffect::PassedOn);
        }
        let cost = match &rule.cost_by {
            None => rule.cost,
            Some(cost) => match cost(request) {
                0 => return Ok(RuleEffect::Done),
                cost => cost,
            },
        };
        found.id = match id {
            Ok(Some(id)) => Some(id),
            Ok(None) => return Ok(RuleEffect::Done),
            Err(missing) => {
                let consequence = rule.on_missing.consequence();
                missing.log_once(Some(&rule.limit), consequence, &rule.logged);
                match rule.on_missing {
                    OnMissing::Shared => None,
                    OnMissing::Refuse if !limit.is_shadow() => return Err(missing),
                    _ => return Ok(RuleEffect::Done),
                }
            }
        };
        self.add(limit, cost, index, found, members);
        Ok(RuleEffect::Done)
    }

    /// Adds a member, or adds the cost to a member of an earlier rule that has the same bucket.
    #[inline]
    fn add<'a>(
        &self,
        limit: &'a NamedLimit,
        cost: u32,
        index: u32,
        found: &'a FoundClient,
        members: &mut Members<'a>,
    ) {
        let is_secret = found.id.as_ref().is_some_and(Id::is_secret);
        let id = match &found.id {
            Some(id) => (id.as_str(), id.client_hash()),
            None => (MISSING, client_hash(MISSING)),
        };
        let meets = |other: &&mut Member<'_>| other.limit.is(limit) && other.id == id.0;
        if let Some(other) = members.iter_mut().find(meets) {
            return other.add_cost(cost);
        }
        let ask = Ask {
            waits: !self.rule.no_wait,
            ..Ask::new(Verb::Spend, cost)
        };
        let role = MemberRole {
            mode: self.mode,
            on_failure: self.rule.on_failure,
            is_secret,
            rule: index,
            ..MemberRole::default()
        };
        let values = found.values.as_deref();
        members.push(Member::prepared(
            Operation::Spend,
            limit,
            id,
            values,
            ask,
            role,
        ));
    }

    /// Returns the limit for a request.
    #[inline]
    fn limit_for<'a>(
        &self,
        request: &Parts,
        limits: &'a Limits,
        own: &'a NamedLimit,
    ) -> Result<&'a NamedLimit, MissingId> {
        let choice = self.rule.choice.as_ref();
        let Some(name) = choice.and_then(|choice| (choice.choose)(request)) else {
            return Ok(own);
        };
        // A list of blocked clients cannot be chosen, because it is not charged.
        let limit = limits.get(name).filter(|limit| !limit.is_block());
        limit.ok_or_else(|| self.unknown(name, limits))
    }

    #[cold]
    fn unknown(&self, limit: &str, limits: &Limits) -> MissingId {
        self.log_once(|| {
            let hint = did_you_mean(limit, &limits.names());
            let limit = shortened(limit);
            format!("their rule has chosen the limit `{limit}`, which is not known: {hint}")
        });
        MissingId::limit("the server has chosen a limit that it does not have")
    }

    /// Returns the error if the limit that has come with a request does not fit the rule.
    fn misfit(&self, limit: &Limit) -> Option<MissingId> {
        let reason = self.rule.refuses(limit)?;
        self.log_once(|| format!("they bring the limit `{limit}`: {reason}"));
        Some(MissingId::limit(
            "the limit that the server has for this client does not fit its rule",
        ))
    }

    /// Logs a mistake of the server.
    #[cold]
    fn log_once(&self, why: impl FnOnce() -> String) {
        if !self.rule.logged.swap(true, Ordering::Relaxed) {
            let limit = &*self.rule.limit;
            let why = why();
            tracing::error!(limit, "requests are refused, because {why}");
        }
    }

    /// Returns whether the rule allows its requests to wait in line.
    pub(super) fn waits(&self) -> bool {
        !self.rule.no_wait && self.mode == Mode::CheckAndSpend
    }

    pub(crate) fn source(&self) -> IdSource {
        self.rule.extractor.source()
    }
}
