//! What a request is charged by the rules of a layer.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::request::Parts;

use super::Rule;
use crate::{
    id::{Id, IdFormat, MISSING, shortened},
    key::{IdSource, MissingId},
    limit::{Limit, Limits, NamedLimit},
    limiter::Transaction,
    message::did_you_mean,
    transaction::Mode,
};

/// What a request is charged by a rule, or by several that meet in one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    /// The client in the canonical form of the limit's ids; `None` if requests without an id share a bucket.
    pub(crate) id: Option<Id>,
    pub(crate) cost: u32,
    /// The place of the limit among those in force.
    pub(crate) limit: u32,
    /// The place of the rule in its layer.
    pub(crate) rule: u32,
    /// The limit that the request has brought.
    pub(crate) values: Option<Box<Limit>>,
}

impl Charge {
    /// The place of a charge.
    pub(crate) const NONE: Self = Self {
        id: None,
        cost: 0,
        limit: 0,
        rule: 0,
        values: None,
    };
}

/// The rules of a layer. Of those that are joined by [`Rule::or_else`], at most one charges a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(Arc<[BoundRule]>);

/// A rule of a layer, with what does not depend on the request.
#[derive(Clone, Debug)]
pub(crate) struct BoundRule {
    pub(crate) rule: Rule,
    /// Whether it is for requests that the rule before it leaves.
    is_alternative: bool,
    /// Whether the rule after it is for requests that this one leaves.
    has_alternative: bool,
    /// Whether a mistake of the server was logged for which requests try the next rule.
    falls_back: Arc<AtomicBool>,
    /// The format of the limit's ids, which no reload changes.
    format: IdFormat,
    pub(crate) mode: Mode,
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

/// What a rule does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applied {
    Charges,
    /// It charges nothing, and no alternative is tried.
    ChargesNothing,
    /// It leaves the request to the next alternative.
    LeavesIt,
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

impl Charge {
    /// Returns the client as its bucket names it.
    #[inline]
    pub(crate) fn client(&self) -> &str {
        self.id.as_ref().map_or(MISSING, Id::as_str)
    }

    /// Returns whether both are charged to one bucket.
    #[inline]
    fn meets(&self, other: &Self) -> bool {
        self.limit == other.limit && self.id == other.id
    }
}

impl Rules {
    /// Adds a rule and its alternatives.
    pub(crate) fn with(&self, mut rule: Rule, limits: &Limits) -> Self {
        let others = std::mem::take(&mut rule.others);
        let last = others.len();
        let mut rules = self.0.to_vec();
        for (i, rule) in iter::once(rule).chain(others).enumerate() {
            rules.push(BoundRule {
                is_alternative: i > 0,
                has_alternative: i < last,
                ..BoundRule::new(rule, limits)
            });
        }
        Self(rules.into())
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &BoundRule> {
        self.0.iter()
    }

    /// Returns the rules that exclude each other.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &[BoundRule]> {
        self.0.chunk_by(|_, next| next.is_alternative)
    }

    #[inline]
    pub(crate) fn at(&self, place: u32) -> &BoundRule {
        &self.0[place as usize]
    }

    /// Writes the charges of a request, one for each bucket, and returns their number. If a rule finds no id and refuses the
    /// request for that, `missing` becomes the reason. `own` are the places of the rules' own limits, and there is a place for the
    /// charge of each rule.
    #[inline]
    pub(crate) fn charge(
        &self,
        request: &Parts,
        limits: &Limits,
        own: &[u32],
        charges: &mut [Charge],
        missing: &mut Option<MissingId>,
    ) -> usize {
        let (mut len, mut applied) = (0, Applied::LeavesIt);
        for ((place, bound), own) in (0..).zip(&*self.0).zip(own) {
            if bound.is_alternative && applied != Applied::LeavesIt {
                continue;
            }
            let (others, rest) = charges.split_at_mut(len);
            let charge = &mut rest[0];
            applied = bound
                .charge(request, limits, *own, charge)
                .unwrap_or_else(|reason| {
                    missing.get_or_insert(reason);
                    Applied::ChargesNothing
                });
            if applied == Applied::Charges {
                charge.rule = place;
                match others.iter_mut().find(|other| other.meets(charge)) {
                    Some(other) => other.cost = other.cost.saturating_add(charge.cost),
                    None => len += 1,
                }
            }
        }
        len
    }
}

impl BoundRule {
    fn new(mut rule: Rule, limits: &Limits) -> Self {
        let outcome = rule.by_outcome.as_ref();
        let mut mode = outcome.map_or(Mode::CheckAndSpend, |outcome| outcome.mode);
        let named = limits.get(&rule.limit);
        if named.is_some_and(NamedLimit::is_block) && rule.cost == 1 {
            // A list of blocked clients is looked at, and not charged.
            (rule.cost, mode) = (0, Mode::CheckOnly);
        }
        Self {
            format: named.map_or_else(IdFormat::default, NamedLimit::format),
            is_alternative: false,
            has_alternative: false,
            falls_back: Arc::default(),
            mode,
            rule,
        }
    }

    /// Writes what a request is charged. The error refuses the request.
    #[inline]
    fn charge(
        &self,
        request: &Parts,
        limits: &Limits,
        own: u32,
        charge: &mut Charge,
    ) -> Result<Applied, MissingId> {
        let rule = &self.rule;
        if rule.skips.hold(request) {
            return Ok(Applied::LeavesIt);
        }
        let (limit, format) = self.limit_for(request, limits, own)?;
        charge.values = None;
        if let Some(values) = &rule.values {
            charge.values = values(request).map(Box::new);
            let misfit = charge.values.as_deref().and_then(|own| self.misfit(own));
            misfit.map_or(Ok(()), Err)?;
        }
        let found = rule.extractor.extract_as(request, format);
        if self.has_alternative && !matches!(found, Ok(Some(_))) {
            if let Err(missing) = found {
                missing.log_once(Some(&rule.limit), "try another rule", &self.falls_back);
            }
            return Ok(Applied::LeavesIt);
        }
        let cost = match &rule.cost_by {
            None => rule.cost,
            Some(cost) => match cost(request) {
                0 => return Ok(Applied::ChargesNothing),
                cost => cost,
            },
        };
        charge.id = match found {
            Ok(Some(id)) => Some(id),
            Ok(None) => return Ok(Applied::ChargesNothing),
            Err(missing) => {
                let consequence = rule.on_missing.consequence();
                missing.log_once(Some(&rule.limit), consequence, &rule.logged);
                match rule.on_missing {
                    OnMissing::Shared => None,
                    OnMissing::Refuse if !limits.at(limit).is_shadow() => return Err(missing),
                    _ => return Ok(Applied::ChargesNothing),
                }
            }
        };
        (charge.limit, charge.cost) = (limit, cost);
        Ok(Applied::Charges)
    }

    /// Returns the place of the limit for a request, and the format of its ids.
    #[inline]
    fn limit_for(
        &self,
        request: &Parts,
        limits: &Limits,
        own: u32,
    ) -> Result<(u32, IdFormat), MissingId> {
        let choice = self.rule.choice.as_ref();
        let Some(name) = choice.and_then(|choice| (choice.choose)(request)) else {
            return Ok((own, self.format));
        };
        // A list of blocked clients cannot be chosen: it is not charged.
        let place = limits.place_of(name);
        match place.filter(|place| !limits.at(*place).is_block()) {
            Some(place) => Ok((place, limits.at(place).format())),
            None => Err(self.unknown(name, limits)),
        }
    }

    #[cold]
    fn unknown(&self, limit: &str, limits: &Limits) -> MissingId {
        self.log_once(|| {
            let (limit, hint) = (shortened(limit), did_you_mean(limit, &limits.names()));
            format!("their rule has chosen the limit `{limit}`, which is not known: {hint}")
        });
        MissingId::limit("the server has chosen a limit that it does not have")
    }

    /// Says why the limit that a request has brought does not fit the rule, if it does not.
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
            let (limit, why) = (&*self.rule.limit, why());
            tracing::error!(limit, "requests are refused, because {why}");
        }
    }

    /// Returns the transaction of a charge by this rule. It declines to wait in line if the rule does or if the request cannot.
    #[inline]
    pub(crate) fn transaction<'a>(
        &'a self,
        charge: &'a Charge,
        limits: &'a Limits,
        can_wait: bool,
    ) -> Transaction<'a> {
        Transaction {
            place: Some(charge.limit),
            id: charge.id.as_ref().map(Id::as_str),
            cost: charge.cost,
            mode: self.mode,
            on_failure: self.rule.on_failure,
            no_wait: self.rule.no_wait || !can_wait,
            values: charge.values.as_deref(),
            is_canonical: true,
            is_secret: charge.id.as_ref().is_some_and(Id::is_secret),
            ..Transaction::new(limits.at(charge.limit).name(), "")
        }
    }

    /// Returns whether a request may have to wait in line, as far as the rule is concerned.
    pub(crate) fn waits(&self) -> bool {
        !self.rule.no_wait && self.mode == Mode::CheckAndSpend
    }

    pub(crate) fn source(&self) -> IdSource {
        self.rule.extractor.source()
    }
}
