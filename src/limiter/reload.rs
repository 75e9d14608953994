//! Other limits while requests run.

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use thiserror::Error;

use super::{Limiter, LimiterError, limiter_error::measure, recorder::shown};
use crate::{
    backend::{Backend, NotAdmitted},
    limit::{Limit, LimitName, Limits, NamedLimit, did_you_mean},
    metrics,
    transaction::{Algorithm, Mode},
};

impl Limiter {
    /// Replaces the limits, for all clones of this limiter. The new limits take effect completely or not at all.
    ///
    /// Each decision uses either the old limits or the new ones. Buckets are kept: what clients have spent counts
    /// under the new limits. Names can be added, and names that no rule uses can be removed. A
    /// bucket whose limit changes to another [algorithm](crate::transaction::Algorithm) starts fresh.
    ///
    /// [`Reloader`](crate::reload::Reloader) calls this when files change.
    ///
    /// # Errors
    ///
    /// If a rule uses a name that has been removed or has lost its values, or has a cost that could never pass; if
    /// the number or the id format of a name has changed, because its buckets would be lost; or if the backend cannot
    /// keep the buckets of a limit ([`Backend::admits`]). The old limits then stay in force.
    pub fn reload(&self, limits: Limits) -> Result<(), ReloadError> {
        let reloaded = self.put_in_force(limits);
        metrics::reloaded(match reloaded {
            Ok(()) => "applied",
            Err(_) => "refused",
        });
        reloaded
    }

    fn put_in_force(&self, limits: Limits) -> Result<(), ReloadError> {
        let limits = fitted(limits, &*self.shared.backend)?;
        let claims = self.shared.claims.lock();
        let before = self.shared.limits.load();
        for claim in claims.iter().filter_map(Weak::upgrade) {
            claim.check_presence(&before, &limits)?;
            claim.check(&limits).map_err(ReloadError::Rule)?;
            claim.check_against(&before, &limits)?;
            claim.warn(&limits);
        }
        keeps_buckets(&before, &limits)?;
        limits.begin_counters();
        self.shared.limits.store(Arc::new(limits));
        Ok(())
    }

    /// Holds the limits to what a rule takes for granted, for as long as the claim is kept.
    pub(crate) fn claim(
        &self,
        claim: RuleRequirement,
    ) -> Result<Arc<RuleRequirement>, LimiterError> {
        let mut claims = self.shared.claims.lock();
        let limits = self.shared.limits.load();
        claim.check(&limits)?;
        claim.warn(&limits);
        // Whenever there is no more room, those of dropped layers make some.
        if claims.len() == claims.capacity() {
            claims.retain(|claim| claim.strong_count() > 0);
        }
        let claim = Arc::new(claim);
        claims.push(Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// What a rule takes for granted: that there is a limit of this name, and that this cost can pass.
pub(crate) struct RuleRequirement {
    limit: Arc<str>,
    cost: u32,
    mode: Mode,
    /// Whether what is charged may be corrected later, which tiers cannot do.
    corrects: bool,
    meets: Box<Meets>,
}

/// Says whether a rule can meet the client with a folded id.
type Meets = dyn Fn(&str) -> bool + Send + Sync;

impl RuleRequirement {
    pub(crate) fn new(limit: Arc<str>, cost: u32, mode: Mode, meets: Box<Meets>) -> Self {
        Self {
            limit,
            cost,
            mode,
            corrects: false,
            meets,
        }
    }

    pub(crate) fn with_corrections(mut self) -> Self {
        self.corrects = true;
        self
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<(), LimiterError> {
        let Some(named) = limits.get(&self.limit) else {
            return Err(LimiterError::unknown_limit(&self.limit, limits));
        };
        let defaults = named.limit.iter().map(|limit| (None, limit));
        let overrides = named.overrides().map(|own| (Some(own.id), own.limit));
        let mut all = defaults.chain(overrides);
        all.try_for_each(|(id, limit)| self.check_limit(id, limit))
    }

    fn check_limit(&self, id: Option<&str>, limit: &Limit) -> Result<(), LimiterError> {
        let (name, cost) = (self.limit.to_string(), self.cost);
        let Some((algorithm, max_cost)) = limit.algorithm().zip(limit.max_cost()) else {
            return Ok(());
        };
        let has_tiers = matches!(algorithm, Algorithm::Tiers(_));
        match self.mode {
            Mode::Debit if has_tiers => Err(LimiterError::not_with_tiers(&name, "debited")),
            _ if self.corrects && has_tiers => Err(LimiterError::not_with_tiers(&name, "refunded")),
            _ if cost == 0 && has_tiers => Err(LimiterError::NoSuchGroup {
                limit: name,
                cost,
                least: cost,
            }),
            Mode::Debit => Ok(()),
            _ if cost > max_cost => Err(LimiterError::CostAboveBurst {
                limit: name,
                id: id.map(Into::into),
                cost,
                burst: max_cost,
                measure: measure(limit),
            }),
            _ => Ok(()),
        }
    }

    /// Refuses limits from whose files the name was removed.
    fn check_presence(&self, before: &Limits, limits: &Limits) -> Result<(), ReloadError> {
        let file = before.get(&self.limit).and_then(NamedLimit::file);
        match (limits.get(&self.limit), file) {
            (None, Some(file)) => Err(ReloadError::Removed {
                limit: self.limit.to_string(),
                file: file.into(),
                hint: did_you_mean(&self.limit, &limits.names()),
            }),
            _ => Ok(()),
        }
    }

    /// Refuses limits in which the default has vanished. One that is to be off says so.
    fn check_against(&self, before: &Limits, limits: &Limits) -> Result<(), ReloadError> {
        let had_limit = before
            .get(&self.limit)
            .is_some_and(|named| named.limit.is_some());
        let is_silent = |named: &NamedLimit| named.limit.is_none() && !named.is_defined();
        match limits.get(&self.limit).is_some_and(is_silent) {
            true if had_limit => Err(ReloadError::Vanished {
                limit: self.limit.to_string(),
                file: before
                    .get(&self.limit)
                    .and_then(NamedLimit::file)
                    .map(Into::into),
            }),
            _ => Ok(()),
        }
    }

    /// Tells of overrides for clients that the rule never meets. Others may.
    fn warn(&self, limits: &Limits) {
        let overrides = limits
            .get(&self.limit)
            .into_iter()
            .flat_map(NamedLimit::overrides);
        if let Some(named) = limits.get(&self.limit)
            && named.limit.is_none()
            && !named.is_defined()
            && named.overrides().len() == 0
        {
            let limit = &*self.limit;
            tracing::warn!(
                limit,
                "the limit has no values, so its rule limits nobody: give it some, or write `{limit}: {{}}`"
            );
        }
        let mut unmet = overrides.filter(|own| !(self.meets)(own.folded));
        if let Some(first) = unmet.next() {
            tracing::warn!(
                limit = &*self.limit,
                id = shown(limits, first.id).as_str(),
                more = unmet.count(),
                "an override is for an id that a rule of its limit cannot produce: write it as the \
                 rule's extractor does, an IPv6 client by the first address of its /64 unless it is exact"
            );
        }
    }
}

impl fmt::Debug for RuleRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleRequirement")
            .field("limit", &self.limit)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// Refuses limits by which what is kept under a name or a number would be lost, or read wrongly.
fn keeps_buckets(before: &Limits, limits: &Limits) -> Result<(), ReloadError> {
    let by_key: HashMap<_, _> = limits
        .iter()
        .map(|named| (named.name.key(), &named.name))
        .collect();
    for was in before.iter().map(|named| &named.name) {
        let same_name = limits.get(was.as_str()).map(|named| &named.name);
        let same_key = by_key.get(&was.key()).copied();
        let keeps = |is: &LimitName| is.key() == was.key() && is.format() == was.format();
        if let Some(is) = same_name.into_iter().chain(same_key).find(|is| !keeps(is)) {
            return Err(ReloadError::OtherKey {
                was: was.clone(),
                is: is.clone(),
            });
        }
    }
    Ok(())
}

/// Splits the bursts of limits with leases as the backend says, and refuses limits with buckets that it cannot keep.
pub(super) fn fitted(mut limits: Limits, backend: &dyn Backend) -> Result<Limits, ReloadError> {
    let split = limits.replace_leased(|name, id, share, limit| {
        let Some(algorithm) = limit.algorithm() else {
            return Ok(limit.clone());
        };
        match backend.lease(algorithm, share) {
            Ok(Some(terms)) => Ok(limit.leased(terms.units, terms.burst)),
            Ok(None) => {
                warn_of_no_leases(name, id);
                Ok(limit.clone())
            }
            Err(source) => Err((name.to_string(), id.map(str::to_owned), source)),
        }
    });
    if let Err((limit, id, source)) = split {
        let id = id.map(|id| shown(&limits, &id).as_str().to_owned());
        return Err(ReloadError::Backend { limit, id, source });
    }
    admitted(&limits, backend)?;
    Ok(limits)
}

/// Warns of a default, and not of each override.
fn warn_of_no_leases(name: &LimitName, id: Option<&str>) {
    if id.is_none() {
        tracing::warn!(
            limit = name.as_str(),
            "a limit asks for leases, and the backend has none: put a `Lease` around the store, or leave `lease` out"
        );
    }
}

/// Refuses limits with buckets that the backend cannot keep.
fn admitted(limits: &Limits, backend: &dyn Backend) -> Result<(), ReloadError> {
    for named in limits.iter() {
        let default = named.limit.iter().map(|limit| (None, limit));
        let overrides = named.overrides().map(|own| (Some(own.id), own.limit));
        for (id, limit) in default.chain(overrides) {
            if let Some(algorithm) = limit.algorithm() {
                backend
                    .admits(algorithm)
                    .map_err(|source| ReloadError::Backend {
                        limit: named.name.to_string(),
                        id: id.map(|id| shown(limits, id).as_str().to_owned()),
                        source,
                    })?;
            }
        }
    }
    Ok(())
}

/// The claims of all rules that there are. Its lock also orders reloads.
#[derive(Default)]
pub(super) struct Claims(Mutex<Vec<Weak<RuleRequirement>>>);

impl Claims {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<RuleRequirement>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why new limits were rejected. Returned by [`Limiter::reload`](crate::Limiter::reload).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A rule uses a name that has been removed, or has a cost above a burst.
    #[error("a rule does not fit the new limits: {0}")]
    Rule(#[source] LimiterError),
    /// A limit that a rule uses was removed from the file that defined it.
    #[error(
        "limit `{limit}`, which a rule uses, is not in {file} any more: put it back, or write `{limit}: {{}}` to turn it off \
           ({hint})", file = .file.display()
    )]
    Removed {
        /// The limit.
        limit: String,
        /// The file that defined it.
        file: PathBuf,
        /// What it may be called now.
        hint: String,
    },
    /// A limit that a rule uses no longer has values.
    #[error(
        "limit `{limit}` has no values any more{}, and a rule uses it: give it some, or write \
         `{limit}: {{}}` to turn it off",
        In(file)
    )]
    Vanished {
        /// The limit.
        limit: String,
        /// The file that had its values, if one had.
        file: Option<PathBuf>,
    },
    /// A name has another number or id format, or a number has another id format.
    #[error(
        "limit `{was}` is {}, and `{is}` would be {}, so its buckets would be lost: keep it, \
         or restart",
        Key(was),
        Key(is)
    )]
    OtherKey {
        /// The current name.
        was: LimitName,
        /// The new name.
        is: LimitName,
    },
    /// The backend cannot keep the buckets of a limit.
    #[error("limit `{limit}`{} does not fit the backend: {source}", Of(id))]
    Backend {
        /// The limit.
        limit: String,
        /// The id of the override, if it is one.
        id: Option<String>,
        /// The reason.
        source: NotAdmitted,
    },
}

/// Says whose override it is.
struct Of<'a>(&'a Option<String>);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, " of id `{id}`"),
            None => Ok(()),
        }
    }
}

/// Says which file it is about.
struct In<'a>(&'a Option<PathBuf>);

impl fmt::Display for In<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(file) => write!(f, " in {}", file.display()),
            None => Ok(()),
        }
    }
}

/// Says what buckets are kept under.
struct Key<'a>(&'a LimitName);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.number() {
            Some(number) => write!(f, "number {number}")?,
            None => f.write_str("unnumbered")?,
        }
        write!(f, " with ids in the format {}", self.0.format())
    }
}
