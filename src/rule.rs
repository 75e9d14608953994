//! Which limits a request meets: rules, and what they make of one.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::request::Parts;
use smallvec::SmallVec;
use thiserror::Error;

use crate::{
    id::{Id, IdFormat},
    key::{Extracted, KeyExtractor, Missing},
    limiter::{Claim, Limiter, LimiterError},
    transaction::{Mode, Transaction},
};

/// One limit that requests meet: its name, who is asking, and what it costs.
///
/// ```
/// use tollgate::{ClientIp, Rule, key::HeaderId, rule::OnMissing};
///
/// let per_ip = Rule::new("requests", ClientIp::peer());
/// let per_account = Rule::new("NewOrdersPerAccount", HeaderId::new("x-account-id"))
///     .cost(5)
///     .on_missing(OnMissing::Skip);
/// # let _ = (per_ip, per_account);
/// ```
#[derive(Clone)]
#[must_use = "a rule does nothing until it is given to a layer"]
pub struct Rule {
    limit: Arc<str>,
    extractor: Arc<dyn KeyExtractor>,
    cost: u32,
    mode: Mode,
    on_missing: OnMissing,
    logged: Arc<AtomicBool>,
}

/// What happens to a request that should have an id and has none, or none in the limit's format. If
/// that is the server's fault, it is logged once with what to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnMissing {
    /// It is refused: with 400 if the client left the id out, with 500 if the server is not set up
    /// to know it.
    #[default]
    Refuse,
    /// The rule is skipped. Whoever leaves the id out escapes the limit.
    Skip,
    /// All such requests share one bucket.
    Shared,
}

impl Rule {
    /// A rule that charges 1 to the limit `limit` for each request, in the bucket of the id that
    /// `extractor` finds.
    pub fn new(limit: impl Into<Arc<str>>, extractor: impl KeyExtractor) -> Self {
        Self {
            limit: limit.into(),
            extractor: Arc::new(extractor),
            cost: 1,
            mode: Mode::default(),
            on_missing: OnMissing::default(),
            logged: Arc::default(),
        }
    }

    /// Sets what a request costs, in tokens.
    pub fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Sets how the rule takes part in the request's batch.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what happens to a request without an id.
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    fn claim(&self, cost: u32) -> Claim {
        let extractor = Arc::clone(&self.extractor);
        let meets = move |folded: &str| folded == Id::MISSING || extractor.can_find(folded);
        Claim::new(Arc::clone(&self.limit), cost, self.mode, Box::new(meets))
    }

    fn id(&self, parts: &Parts, format: IdFormat) -> Result<Option<Id>, Missing> {
        let missing = match self.extractor.extract(parts) {
            Extracted::Skip => return Ok(None),
            Extracted::Missing(missing) => missing,
            Extracted::Id(id) => match format.fold(id.as_str()) {
                Ok(_) => return Ok(Some(id)),
                Err(error) => self.extractor.invalid(&error),
            },
        };
        self.log_once(&missing);
        match self.on_missing {
            OnMissing::Refuse => Err(missing),
            OnMissing::Skip => Ok(None),
            OnMissing::Shared => Ok(Some(Id::MISSING.into())),
        }
    }

    fn log_once(&self, missing: &Missing) {
        if missing.is_servers_fault() && !self.logged.swap(true, Ordering::Relaxed) {
            let (limit, reason) = (&*self.limit, missing.reason());
            let consequence = match self.on_missing {
                OnMissing::Refuse => "are refused",
                OnMissing::Skip => "are not limited",
                OnMissing::Shared => "share one bucket",
            };
            tracing::error!(limit, "requests {consequence} for want of an id: {reason}");
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("limit", &self.limit)
            .field("cost", &self.cost)
            .field("mode", &self.mode)
            .field("on_missing", &self.on_missing)
            .finish_non_exhaustive()
    }
}

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
pub(crate) struct Rules(Vec<Held>);

#[derive(Clone, Debug)]
struct Held {
    rule: Rule,
    /// How ids of its limit look, which no reload changes.
    format: IdFormat,
    _claim: Arc<Claim>,
}

impl Rules {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, rule: Rule, limiter: &Limiter) -> Result<(), RuleError> {
        let limits = limiter.limits();
        let fits = rule.claim(rule.cost).check(&limits);
        fits.map_err(RuleError::Limiter)?;
        let named = limits.get(&rule.limit);
        let format = named.map_or_else(IdFormat::default, |named| named.name.format());
        if !rule.extractor.fits(format) {
            let limit = rule.limit.to_string();
            return Err(RuleError::Format { limit, format });
        }
        let others = || self.iter().filter(|other| other.limit == rule.limit);
        if let Some(other) = others().find(|other| other.mode != rule.mode) {
            let (limit, modes) = (rule.limit.to_string(), [other.mode, rule.mode]);
            return Err(RuleError::MixedModes { limit, modes });
        }
        // They may all meet in one bucket.
        let sum = others().fold(rule.cost, |sum, other| sum.saturating_add(other.cost));
        let claim = limiter.claim(rule.claim(sum)).map_err(RuleError::Sum)?;
        self.0.push(Held {
            rule,
            format,
            _claim: claim,
        });
        Ok(())
    }

    /// Finds what a request is to be charged. Rules that meet in one bucket are one charge.
    pub(crate) fn charge(&self, parts: &Parts, charges: &mut Charges) -> Result<(), Missing> {
        for (i, Held { rule, format, .. }) in self.0.iter().enumerate() {
            let Some(id) = rule.id(parts, *format)? else {
                continue;
            };
            let meets = |charge: &&mut Charge| {
                self.rule(charge).limit == rule.limit && is_same(*format, &charge.id, &id)
            };
            match charges.iter_mut().find(meets) {
                Some(charge) => charge.cost = charge.cost.saturating_add(rule.cost),
                None => charges.push(Charge {
                    rule: i,
                    id,
                    cost: rule.cost,
                }),
            }
        }
        Ok(())
    }

    /// The name of the limit that is charged.
    pub(crate) fn limit(&self, charge: &Charge) -> &Arc<str> {
        &self.rule(charge).limit
    }

    /// How it is charged.
    pub(crate) fn mode(&self, charge: &Charge) -> Mode {
        self.rule(charge).mode
    }

    /// The transaction of a charge.
    pub(crate) fn transaction<'a>(&'a self, charge: &'a Charge) -> Transaction<'a> {
        let Rule { limit, mode, .. } = self.rule(charge);
        charged(limit, &charge.id).cost(charge.cost).mode(*mode)
    }

    /// The transactions of a request's charges.
    pub(crate) fn transactions<'a>(
        &'a self,
        charges: &'a [Charge],
    ) -> SmallVec<[Transaction<'a>; 4]> {
        charges
            .iter()
            .map(|charge| self.transaction(charge))
            .collect()
    }

    fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().map(|held| &held.rule)
    }

    fn rule(&self, charge: &Charge) -> &Rule {
        &self.0[charge.rule].rule
    }
}

/// The transaction of an id that a rule has found.
pub(crate) fn charged<'a>(limit: &'a str, id: &'a Id) -> Transaction<'a> {
    match id.as_str() {
        Id::MISSING => Transaction::missing(limit),
        id => Transaction::new(limit, id),
    }
}

/// Whether two ids are of one client.
fn is_same(format: IdFormat, a: &Id, b: &Id) -> bool {
    let folded = |id| IdFormat::fold(format, Id::as_str(id)).ok();
    a == b || folded(a).is_some_and(|a| folded(b) == Some(a))
}

pub(crate) type Charges = SmallVec<[Charge; 4]>;

/// What one request is charged in one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    /// The first rule that met there.
    pub(crate) rule: usize,
    pub(crate) id: Id,
    pub(crate) cost: u32,
}
