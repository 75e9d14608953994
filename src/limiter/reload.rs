//! Replaces the limits while requests run.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use super::Limiter;
use crate::{
    backend::Backend,
    batch::Member,
    limit::{Limit, Limits, LimitsError, NamedLimit},
    metrics,
    transaction::Mode,
};

/// A user of limits, such as a layer with its rules.
pub(crate) trait LimitsUser: Send + Sync {
    /// Checks that the limits fit this user. `before` are the limits in force, if there are any yet.
    fn check(&self, before: Option<&Limits>, limits: &Limits) -> Result<(), LimitsError>;

    /// Uses these limits from now on.
    fn adopt(&self, limits: &Arc<Limits>);
}

impl Limiter {
    /// Replaces the limits, for all clones of this limiter. The new limits take effect completely or not at all.
    ///
    /// Each decision uses either the old limits or the new ones. Buckets are kept: what clients have spent counts
    /// under the new limits. Names can be added, and names that no rule uses can be removed. A
    /// bucket whose limit changes to another algorithm starts fresh.
    ///
    /// [`Reloader`](crate::reload::Reloader) calls this when files change.
    ///
    /// # Errors
    ///
    /// If a rule uses a name that has been removed or has lost its values, or has a cost that could never pass; if the
    /// number or the id format of a name has changed, because its buckets would be lost; or if the backend cannot keep
    /// the buckets of a limit ([`Backend::admits`]). The old limits then stay in
    /// force.
    pub fn reload(&self, limits: Limits) -> Result<(), LimitsError> {
        let reloaded = self.put_in_force(&self.shared.users.lock(), limits);
        metrics::reloaded(match reloaded {
            Ok(()) => "applied",
            Err(_) => "refused",
        });
        reloaded
    }

    /// Sets the override of one client, or of a range of addresses, from now on. With `None`, removes it. A reload replaces it by
    /// the override in the files.
    ///
    /// It copies and checks only a few of the other overrides, so it takes less than a millisecond with a million of them.
    ///
    /// # Errors
    ///
    /// If the limit is not known, the id is not in its format, or the new limits could not be [reloaded](Self::reload).
    pub fn set_override(
        &self,
        limit: &str,
        id: &str,
        values: Option<Limit>,
    ) -> Result<(), LimitsError> {
        let users = self.shared.users.lock();
        let limits = self.limits().with_override(limit, id, values)?;
        self.put_in_force(&users, limits)
    }

    fn put_in_force(
        &self,
        users: &[Weak<dyn LimitsUser>],
        limits: Limits,
    ) -> Result<(), LimitsError> {
        let before = self.limits();
        admit(Some(&before), &limits, &*self.shared.backend)?;
        let limits = Arc::new(limits);
        let users: Vec<_> = users.iter().filter_map(Weak::upgrade).collect();
        for user in &users {
            user.check(Some(&before), &limits)?;
        }
        keeps_buckets(&before, &limits)?;
        limits.begin_counters();
        self.shared.limits.store(Arc::clone(&limits));
        users.iter().for_each(|user| user.adopt(&limits));
        self.shared.permits.renew_soon();
        Ok(())
    }

    /// Creates a user of the limits in force. As long as it exists, it gets all new limits.
    pub(crate) fn register<U: LimitsUser + 'static>(
        &self,
        new: impl FnOnce(&Arc<Limits>) -> U,
    ) -> Result<Arc<U>, LimitsError> {
        let mut users = self.shared.users.lock();
        let limits = self.limits();
        let user = Arc::new(new(&limits));
        user.check(None, &limits)?;
        users.retain(|user| user.strong_count() > 0);
        let weak: Weak<U> = Arc::downgrade(&user);
        users.push(weak);
        Ok(user)
    }
}

/// Rejects limits whose buckets the backend cannot keep. Limits that have not changed since `before` are not checked again.
pub(super) fn admit(
    before: Option<&Limits>,
    limits: &Limits,
    backend: &dyn Backend,
) -> Result<(), LimitsError> {
    for named in limits.iter() {
        let before = before.and_then(|before| before.get(named.name()));
        for (id, limit) in named.unchecked(before) {
            if limit.algorithm().is_none() {
                continue;
            }
            let member = Member::new(named, "", 1, Mode::default()).by(limit);
            backend.admits(&member).map_err(|reason| {
                let message = format!("it does not fit the backend: {reason}");
                LimitsError::of_limit(named.name(), message).of_id(id)
            })?;
        }
    }
    Ok(())
}

/// Rejects limits under which the buckets of a name or a number would be lost, or would be read as those of another limit.
fn keeps_buckets(before: &Limits, limits: &Limits) -> Result<(), LimitsError> {
    let by_key: HashMap<_, _> = limits.iter().map(|named| (named.key(), named)).collect();
    for was in before.iter() {
        let same_name = limits.get(was.name());
        let same_key = by_key.get(&was.key()).copied();
        let keeps = |is: &NamedLimit| is.key() == was.key() && is.format() == was.format();
        if let Some(is) = same_name.into_iter().chain(same_key).find(|is| !keeps(is)) {
            let message = format!(
                "it has the key `{}` and ids in the format {}, and `{}` would have the key `{}` and the format {}, so its \
                 buckets would be lost: keep it, or restart",
                was.key(),
                was.format(),
                is.name(),
                is.key(),
                is.format()
            );
            return Err(LimitsError::of_limit(was.name(), message));
        }
    }
    Ok(())
}
