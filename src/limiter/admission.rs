//! Checks whether a backend can keep the buckets of limits, and splits limits with leases.

use super::{recorder::shown, reload_error::ReloadError};
use crate::{
    backend::Backend,
    limit::{LimitName, Limits},
};

/// Splits limits with leases by the backend's terms, and rejects limits whose buckets it cannot keep.
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

/// Logs a warning for a default, but not for each override.
fn warn_of_no_leases(name: &LimitName, id: Option<&str>) {
    if id.is_none() {
        tracing::warn!(
            limit = name.as_str(),
            "a limit asks for leases, and the backend has none: put a `Lease` around the store, or leave `lease` out"
        );
    }
}

/// Rejects limits whose buckets the backend cannot keep.
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
