//! Checks whether a backend can keep the buckets of limits and lease those that ask for it.

use super::{backend_dispatch::BackendDispatch, recorder::logged, reload_error::ReloadError};
use crate::{
    algorithm::Algorithm,
    backend::{Backend, LeaseShare, LeasedLimits, LimiterId, UnsupportedLimit, leasing},
    limit::{Limit, LimitName, Limits, NamedLimit},
};

/// Rejects limits whose buckets the backend cannot keep or cannot lease.
pub(super) fn admit(limits: &Limits, backend: &BackendDispatch) -> Result<(), ReloadError> {
    warn_of_unused_leases(limits, &**backend);
    for named in limits.iter() {
        let default = named.limit.iter().map(|limit| (None, limit));
        let overrides = named.overrides().map(|own| (Some(own.id), own.limit));
        for (id, limit) in default.chain(overrides) {
            let Some(algorithm) = limit.algorithm() else {
                continue;
            };
            let leased = admit_lease(&named.name, id, algorithm, &**backend);
            let admitted = leased.and_then(|()| admits(backend, algorithm));
            admitted.map_err(|source| ReloadError::Backend {
                limit: named.name.to_string(),
                id: id.map(|id| logged(limits, id).as_str().to_owned()),
                source,
            })?;
        }
    }
    Ok(())
}

/// Logs a warning if the backend charges ahead, and no limit asks for it.
fn warn_of_unused_leases(limits: &Limits, backend: &dyn Backend) {
    let has_values = |named: &NamedLimit| named.limit.as_ref().and_then(Limit::algorithm).is_some();
    let asks = limits.iter().any(|named| named.name.leased().is_some());
    if !asks && limits.iter().any(has_values) && leasing(backend).is_some() {
        tracing::warn!(
            "the backend has a `Lease`, and no limit asks for one: give a limit a `lease`, or remove the wrapper"
        );
    }
}

/// Rejects a limit that asks for leases and cannot be leased. A backend without leases is probably a mistake, which is
/// logged for a default, but not for each override.
fn admit_lease(
    name: &LimitName,
    id: Option<&str>,
    algorithm: &Algorithm,
    backend: &dyn Backend,
) -> Result<(), UnsupportedLimit> {
    let Some(share) = name.leased() else {
        return Ok(());
    };
    match leasing(backend) {
        Some(leasing) => leasing.part_with(algorithm, share).map(drop),
        None if id.is_some() => Ok(()),
        None => {
            tracing::warn!(
                limit = name.as_str(),
                "the limit sets `lease`, but the backend cannot lease: put a `Lease` around the store, or leave `lease` out"
            );
            Ok(())
        }
    }
}

/// Tells the backend which limits are leased, if it leases any. Decisions that begin after this use these shares.
pub(super) fn lease(limits: &Limits, limiter: &LimiterId, backend: &dyn Backend) {
    let Some(leasing) = leasing(backend) else {
        return;
    };
    let mut leased = LeasedLimits::default();
    for named in limits.iter() {
        if let Some(share) = named.name.leased() {
            let overrides = named.overrides().map(|own| own.limit);
            let all = named.limit.iter().chain(overrides);
            leased.add(named.name.key(), share, all.filter_map(Limit::algorithm));
        }
    }
    leasing.lease(limiter, leased);
}

/// Returns the part of a limit with this share that leases leave for single costs; `None` if there are no leases.
pub(super) fn left_by_leases(
    backend: &dyn Backend,
    algorithm: &Algorithm,
    share: Option<LeaseShare>,
) -> Option<Algorithm> {
    leasing(backend)?.part_with(algorithm, share?).ok()
}

/// Permits that come back are handed out in order of arrival only where all of them come back: in this process.
fn admits(backend: &BackendDispatch, algorithm: &Algorithm) -> Result<(), UnsupportedLimit> {
    let waits = !algorithm.permit_wait().is_zero();
    if waits && !matches!(backend, BackendDispatch::Memory(_)) {
        return Err(UnsupportedLimit::new(
            "its requests would wait for permits, and only a MemoryBackend learns when a permit comes back: remove the \
             max_wait, or keep the buckets in memory",
        ));
    }
    backend.admits(algorithm)
}
