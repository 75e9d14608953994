//! Assumptions of rules about the limits, for as long as their layers live.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    backend_support::left_by_leases,
    limiter_error::LimiterError,
    recorder::logged,
    reload_error::{ReloadError, off_entry},
};
use crate::{
    algorithm::{Asked, Purpose},
    backend::Backend,
    limit::{Limit, Limits, NamedLimit},
    spelling::did_you_mean,
    transaction::Mode,
};

/// The assumptions of a rule: its limit exists, and its cost can pass.
pub(crate) struct RuleUse {
    limit: Arc<str>,
    cost: u32,
    mode: Mode,
    /// Whether the charge can be corrected later, which tiers do not support.
    corrects: bool,
    /// Whether the rule can find secret ids.
    has_secrets: bool,
    meets: Box<Meets>,
}

/// Returns whether a rule can meet the client with a canonical id.
type Meets = dyn Fn(&str) -> bool + Send + Sync;

impl RuleUse {
    pub(crate) fn new(limit: Arc<str>, cost: u32, mode: Mode, meets: Box<Meets>) -> Self {
        Self {
            limit,
            cost,
            mode,
            corrects: false,
            has_secrets: false,
            meets,
        }
    }

    pub(crate) fn with_corrections(mut self) -> Self {
        self.corrects = true;
        self
    }

    pub(crate) fn with_secrets_if(mut self, has_secrets: bool) -> Self {
        self.has_secrets = has_secrets;
        self
    }

    /// Returns whether the rule can find secret ids for a limit.
    pub(super) fn has_secrets_of(&self, limit: &str) -> bool {
        self.has_secrets && *self.limit == *limit
    }

    pub(super) fn check(&self, limits: &Limits, backend: &dyn Backend) -> Result<(), LimiterError> {
        let Some(named) = limits.get(&self.limit) else {
            return Err(LimiterError::unknown_limit(&self.limit, limits));
        };
        let defaults = named.limit.iter().map(|limit| (None, limit));
        let overrides = named.overrides().map(|own| (Some(own.id), own.limit));
        let mut all = defaults.chain(overrides);
        all.try_for_each(|(id, limit)| self.check_limit(named, id, limit, backend))
    }

    fn check_limit(
        &self,
        named: &NamedLimit,
        id: Option<&str>,
        limit: &Limit,
        backend: &dyn Backend,
    ) -> Result<(), LimiterError> {
        let Some(algorithm) = limit.algorithm() else {
            return Ok(());
        };
        let (name, cost, is_debit) = (&*self.limit, self.cost, self.mode == Mode::Debit);
        let refund = (self.corrects && !is_debit).then_some(Purpose::GiveBack);
        for purpose in refund.into_iter().chain([Purpose::Take]) {
            let permitted = algorithm.permits(Asked {
                purpose,
                is_debit,
                cost,
                min_cost: None,
            });
            permitted.map_err(|reason| LimiterError::not_permitted(name, cost, reason))?;
        }
        let left = left_by_leases(backend, algorithm, named.name.leased());
        let most = left.as_ref().unwrap_or(algorithm).max_cost();
        match !is_debit && cost > most {
            true => Err(LimiterError::too_costly(named, id, cost, limit, most)),
            false => Ok(()),
        }
    }

    /// Rejects limits whose files no longer contain the name.
    pub(super) fn check_presence(
        &self,
        before: &Limits,
        limits: &Limits,
    ) -> Result<(), ReloadError> {
        let was = before.get(&self.limit);
        let file = was.and_then(|was| Some((was, was.file()?)));
        match (limits.get(&self.limit), file) {
            (None, Some((was, file))) => Err(ReloadError::Removed {
                limit: self.limit.to_string(),
                file: file.into(),
                off: off_entry(&was.name),
                hint: did_you_mean(&self.limit, &limits.names()),
            }),
            _ => Ok(()),
        }
    }

    /// Rejects limits without the default for this rule. To turn a limit off, its entry must be empty.
    pub(super) fn check_against(
        &self,
        before: &Limits,
        limits: &Limits,
    ) -> Result<(), ReloadError> {
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

    /// Logs overrides for clients that the rule never meets. Other rules may meet them.
    pub(super) fn warn(&self, limits: &Limits) {
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
                "the limit has no values, so its rule limits nobody: add values, or write `{limit}: {{}}`"
            );
        }
        let mut unmet = overrides.filter(|own| !(self.meets)(own.folded));
        if let Some(first) = unmet.next() {
            tracing::warn!(
                limit = &*self.limit,
                id = logged(limits, first.id).as_str(),
                more = unmet.count(),
                "an override is for an id that a rule of its limit cannot produce: write it as the \
                 rule's extractor does, an IPv6 client by the first address of its /64 unless it is exact"
            );
        }
    }
}

impl fmt::Debug for RuleUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleUse")
            .field("limit", &self.limit)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// The claims of all rules. Its lock also orders reloads.
#[derive(Default)]
pub(super) struct RuleUses(Mutex<Vec<Weak<RuleUse>>>);

impl RuleUses {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Weak<RuleUse>>> {
        self.0.lock()
    }
}
